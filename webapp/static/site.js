// On every page. Nothing here is needed to use the site: times become local, a form is sent once,
// the menu closes by itself, and a summary of errors takes the focus.
(() => {
  "use strict";
  const pageLanguage = document.documentElement.lang || "en";
  const own = (navigator.languages || []).find((tag) => tag.toLowerCase().startsWith(pageLanguage));
  const locale = own || (pageLanguage === "en" ? "en-GB" : pageLanguage);
  const dateStyle = pageLanguage === "ja" ? "long" : "medium", hourCycle = "h23";

  const between = pageLanguage === "ja" ? " " : ", ";

  // The hour has two digits, as the server writes it.
  function clock(date, seconds) {
    return date.toLocaleTimeString(locale, { hour: "2-digit", minute: "2-digit", second: seconds, hourCycle });
  }

  function localise(element) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) return;
    const day = new Date(element.dataset.day || "");
    let text = date.toLocaleDateString(locale, { dateStyle }) + between + clock(date);
    if (element.dataset.local === "time") {
      text = clock(date, "2-digit");
      if (!Number.isNaN(day.getTime()) && day.toDateString() !== date.toDateString()) {
        text = date.toLocaleString(locale, { day: "numeric", month: "short" }) + " " + text;
      }
    }
    element.textContent = text;
    element.dataset.zone = date.toLocaleString(locale, { timeZoneName: "short" }).split(" ").at(-1);
    element.title = date.toLocaleDateString(locale, { dateStyle: "full" }) + between + clock(date, "2-digit") + " " + element.dataset.zone;
  }
  document.querySelectorAll("time[data-local]").forEach(localise);

  // A second press does nothing. The buttons are not disabled: their name and value must be sent. Heard on the
  // document, so that a form that comes later counts too.
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (!form.matches("form[data-once]")) return;
    if (form.dataset.sent) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    form.dataset.sent = "1";
    const pressed = event.submitter;
    setTimeout(() => {
      if (!form.dataset.sent) return;
      for (const button of form.querySelectorAll("button:not([type=button])")) button.setAttribute("aria-disabled", "true");
      if (pressed && form.dataset.once) {
        pressed.dataset.label = pressed.textContent;
        pressed.textContent = form.dataset.once;
      }
    });
  });
  function unsent(form) {
    delete form.dataset.sent;
    for (const button of form.querySelectorAll("button[aria-disabled]")) {
      button.removeAttribute("aria-disabled");
      if (button.dataset.label) button.textContent = button.dataset.label;
    }
  }
  document.addEventListener("unsent", (event) => unsent(event.target));
  addEventListener("pageshow", (event) => {
    if (event.persisted) document.querySelectorAll("form[data-sent]").forEach(unsent);
  });

  // The menu closes when attention goes elsewhere.
  const menu = document.querySelector("[data-menu]");
  if (menu) {
    document.addEventListener("click", (event) => { if (!menu.contains(event.target)) menu.open = false; });
    menu.addEventListener("focusout", (event) => { if (event.relatedTarget && !menu.contains(event.relatedTarget)) menu.open = false; });
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !menu.open) return;
      menu.open = false;
      menu.querySelector("summary").focus();
    });
  }

  const summary = document.querySelector(".error-summary");
  if (summary) summary.focus();
})();
