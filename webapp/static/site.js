// On every page. Nothing here is needed to use the site: times become local, a form is sent once,
// and a summary of errors takes the focus.
(() => {
  "use strict";
  const pageLanguage = document.documentElement.lang || "en";
  const own = (navigator.languages || []).find((tag) => tag.toLowerCase().startsWith(pageLanguage));
  const locale = own || (pageLanguage === "en" ? "en-GB" : pageLanguage);

  function localise(element) {
    const date = new Date(element.dateTime);
    if (Number.isNaN(date.getTime())) return;
    const full = date.toLocaleString(locale, { dateStyle: "medium", timeStyle: "medium", hourCycle: "h23" });
    const day = new Date(element.dataset.day || "");
    let text = date.toLocaleString(locale, { dateStyle: "medium", timeStyle: "short", hourCycle: "h23" });
    if (element.dataset.local === "time") {
      text = date.toLocaleTimeString(locale, { timeStyle: "medium", hourCycle: "h23" });
      if (!Number.isNaN(day.getTime()) && day.toDateString() !== date.toDateString()) {
        text = date.toLocaleString(locale, { day: "numeric", month: "short" }) + " " + text;
      }
    }
    element.textContent = text;
    element.title = full;
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

  const summary = document.querySelector(".error-summary");
  if (summary) summary.focus();
})();
