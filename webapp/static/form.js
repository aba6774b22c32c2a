// A form with a file: it can be dropped, is said to be too large before it travels, and is sent with its progress
// shown and a way to stop it. Without scripts it is a plain form.
(() => {
  "use strict";
  const lang = document.documentElement.lang || "en";

  function size(bytes) {
    const unit = bytes < 1e6 ? [1e3, "KB"] : [1e6, "MB"];
    return (bytes / unit[0]).toLocaleString(lang, { maximumFractionDigits: 1 }) + " " + unit[1];
  }
  const carriesFiles = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");

  // ------------------------------------------------------------------------------------ choosing
  function ready(zone) {
    const input = zone.querySelector("input[type=file]");
    const chosen = zone.querySelector("[data-chosen]");
    const limit = Number(zone.dataset.maxBytes) || Infinity;
    zone.classList.add("ready");

    const show = () => {
      const file = input.files[0];
      const tooLarge = file && file.size > limit;
      input.setCustomValidity(tooLarge ? zone.dataset.tooLarge : "");
      zone.classList.toggle("chosen", Boolean(file) && !tooLarge);
      chosen.textContent = file ? file.name + " · " + size(file.size) + (tooLarge ? " · " + zone.dataset.tooLarge : "") : "";
      const again = zone.parentElement.querySelector("[data-choose-again]");
      if (again) again.hidden = Boolean(file);
    };
    input.addEventListener("change", show);

    for (const name of ["dragenter", "dragover"]) {
      zone.addEventListener(name, (event) => {
        if (!carriesFiles(event)) return;
        event.preventDefault();
        event.dataTransfer.dropEffect = "copy";
        zone.classList.add("over");
      });
    }
    zone.addEventListener("dragleave", (event) => {
      if (!zone.contains(event.relatedTarget)) zone.classList.remove("over");
    });
    zone.addEventListener("drop", (event) => {
      if (!carriesFiles(event)) return;
      event.preventDefault();
      zone.classList.remove("over");
      const one = new DataTransfer();
      if (event.dataTransfer.files[0]) one.items.add(event.dataTransfer.files[0]);
      input.files = one.files;
      input.dispatchEvent(new Event("change", { bubbles: true }));
    });
    if (input.files.length) show();
  }
  document.querySelectorAll("[data-drop]").forEach(ready);

  // A file that misses the zone must not replace the page, and with it the half-filled form.
  if (document.querySelector("[data-drop]")) {
    for (const name of ["dragover", "drop"]) {
      addEventListener(name, (event) => {
        if (carriesFiles(event) && !event.defaultPrevented) {
          event.preventDefault();
          event.dataTransfer.dropEffect = "none";
        }
      });
    }
  }

  // ------------------------------------------------------------------------------------- sending
  const files = (form) => [...form.querySelectorAll("[data-drop] input[type=file]")];

  document.addEventListener("submit", (event) => {
    const form = event.target;
    const view = form.querySelector("[data-sending]");
    if (!view || event.defaultPrevented) return;
    if (event.submitter && event.submitter.name === "sample") {  // in place of the file: that stays at home
      const held = files(form).filter((input) => !input.disabled);
      held.forEach((input) => { input.disabled = true; });
      setTimeout(() => held.forEach((input) => { input.disabled = false; }));
      return;
    }
    if (!files(form).some((input) => input.files.length)) return;
    event.preventDefault();
    send(form, view, event.submitter);
  });

  function send(form, view, pressed) {
    const part = (name) => form.querySelector("[data-sending" + name + "]");
    const bar = view.querySelector("progress");
    const stop = view.querySelector("[data-stop]");
    const request = new XMLHttpRequest();
    let quarters = 0;
    let arrived = false;

    const say = (text) => { part("-said").textContent = text; };
    const over = (text, wrong) => {
      view.hidden = true;
      form.dispatchEvent(new Event("unsent", { bubbles: true }));
      say("");
      part("-end").className = "banner " + (wrong ? "bad" : "info");
      part("-end").textContent = text;
    };
    const whole = () => {  // from here on it may be started: there is nothing left to stop
      arrived = true;
      bar.removeAttribute("value");
      part("-text").textContent = view.dataset.arrived;
      part("-percent").textContent = "";
      stop.hidden = true;
      say(view.dataset.arrived);
    };
    const progress = (event) => {
      if (arrived || !event.lengthComputable) return;
      if (event.loaded >= event.total) return whole();
      const share = event.loaded / event.total;
      const all = files(form).flatMap((input) => [...input.files]).reduce((sum, file) => sum + file.size, 0);
      const percent = new Intl.NumberFormat(lang, { style: "percent" }).format(share);
      bar.value = share;
      part("-percent").textContent = percent;
      part("-text").textContent = view.dataset.sent.replace("{sent}", size(share * all)).replace("{total}", size(all));
      if (Math.floor(share * 4) > quarters) {  // heard, not chattered
        quarters = Math.floor(share * 4);
        say(part("-text").textContent + " (" + percent + ")");
      }
    };
    request.upload.addEventListener("loadstart", progress);
    request.upload.addEventListener("progress", progress);
    request.upload.addEventListener("load", whole);
    request.addEventListener("error", () => over(view.dataset.lost, true));
    request.addEventListener("abort", () => {
      over(view.dataset.stopped, false);
      if (pressed) pressed.focus();
    });
    request.addEventListener("load", () => answered(form, request, over, view));
    stop.onclick = () => { if (!arrived) request.abort(); };

    stop.hidden = false;
    bar.value = 0;
    view.hidden = false;
    part("-end").textContent = "";
    addEventListener("pageshow", (event) => { if (event.persisted) over("", false); }, { once: true });
    const here = form.getAttribute("action");  // form.action may be a field of that name
    request.open("POST", here);
    request.send(new FormData(form));
  }

  // What the server said: a page to go to, or the form with its errors. Anything else is not from it: a proxy's own
  // page, or that of a network which wants a sign-in first.
  function answered(form, request, over, view) {
    const here = new URL(form.getAttribute("action"), document.baseURI);
    const led = new URL(request.responseURL || here, document.baseURI);
    if (led.pathname.startsWith(view.dataset.jobs) || led.pathname === view.dataset.signIn) {
      location.assign(led);
      return;
    }
    const page = new DOMParser().parseFromString(request.responseText, "text/html");
    const found = [...page.querySelectorAll("#form[action]:has([name=form_key])")].find(
      (one) => new URL(one.getAttribute("action"), document.baseURI).href === here.href);
    if (!found) {
      over(request.status === 413 ? view.dataset.tooLarge : view.dataset.failed, true);
      return;
    }
    const fresh = document.adoptNode(found);
    const kept = request.status === 413 ? [] : files(form);
    for (const input of kept) {  // what the person chose is still there: nobody need choose it again
      const same = fresh.querySelector("#" + CSS.escape(input.id));
      if (same && input.files.length) same.files = input.files;
    }
    const options = form.querySelector("details[open]") && fresh.querySelector("details");
    if (options) options.open = true;
    form.replaceWith(fresh);
    fresh.querySelectorAll("[data-drop]").forEach(ready);
    if (page.title) document.title = page.title;
    const summary = fresh.querySelector(".error-summary");
    (summary || fresh.querySelector("input:not([type=hidden])")).focus();
  }
})();
