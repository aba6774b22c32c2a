// Files can be dropped onto the plain file input's zone, and one that is too large is said to be so
// before it travels. Without scripts the input works as it is.
(() => {
  "use strict";
  function size(bytes) {
    const lang = document.documentElement.lang || "en";
    const unit = bytes < 1e6 ? [1e3, "KB"] : [1e6, "MB"];
    return (bytes / unit[0]).toLocaleString(lang, { maximumFractionDigits: 1 }) + " " + unit[1];
  }

  for (const zone of document.querySelectorAll("[data-drop]")) {
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
    };
    input.addEventListener("change", show);

    const carriesFiles = (event) => event.dataTransfer && [...event.dataTransfer.types].includes("Files");
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

  // A file that misses the zone must not replace the page, and with it the half-filled form.
  if (document.querySelector("[data-drop]")) {
    for (const name of ["dragover", "drop"]) {
      addEventListener(name, (event) => {
        if (event.dataTransfer && [...event.dataTransfer.types].includes("Files") && !event.defaultPrevented) {
          event.preventDefault();
          event.dataTransfer.dropEffect = "none";
        }
      });
    }
  }
})();
