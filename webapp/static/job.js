// Keeps a page in flight up to date by asking the API. The one rule: say only what the server has
// said. While it cannot be reached, nothing about the work or the points is shown.
(() => {
  "use strict";
  const root = document.querySelector("[data-live]");
  if (!root) return;
  const { url, id } = root.dataset;
  const part = (name) => root.querySelector("[data-" + name + "]");
  const known = part("known");
  const notice = part("notice");
  const spoken = part("spoken");
  const bar = root.querySelector("progress");
  const GIVE_UP_MS = 10000, WAIT_MS = 1500, WAIT_LEAST_MS = 250, WAIT_MOST_MS = 30000, BACK_OFF_MOST_MS = 1500;

  let etag = null;      // of the last answer that was drawn
  let asking = null;    // the AbortController of the request under way
  let timer = null;
  let failures = 0;
  let ahead = 0;        // this computer's clock minus the server's, in ms
  let startedAt = Date.parse(root.dataset.since);
  let said = "";
  let leaving = false;

  const text = (element, value) => {
    if (element && element.textContent !== value) element.textContent = value;
  };

  // ------------------------------------------------------------ asking
  async function ask() {
    clearTimeout(timer);
    if (document.hidden) return;
    if (asking) asking.abort();
    const mine = asking = new AbortController();
    const giveUp = setTimeout(() => mine.abort(), GIVE_UP_MS);
    let wait;
    try {
      const headers = { Accept: "application/json" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(url, { headers, cache: "no-store", credentials: "same-origin", signal: mine.signal });
      wait = await take(answer);
      failures = 0;
    } catch {
      if (asking !== mine || leaving) return;   // a newer request took over, or the page is going
      wait = unreachable();
    } finally {
      clearTimeout(giveUp);
      if (asking === mine) asking = null;
    }
    if (wait !== null && !document.hidden) timer = setTimeout(ask, wait);
  }

  // Draws an answer and returns when to ask again; raises if it is not this API's.
  async function take(answer) {
    const wait = retryAfter(answer) ?? WAIT_MS;
    const served = Date.parse(answer.headers.get("Date"));
    if (answer.status === 304 && etag) {
      reachable();
      return wait;
    }
    const type = (answer.headers.get("Content-Type") || "").split(";")[0].trim();
    if (type === "application/problem+json") {
      const problem = await answer.json();
      if (typeof problem.code !== "string") throw new Error("not ours");
      if ([401, 403, 404, 410].includes(answer.status)) return reload("gone");   // the page says what to do
      return Math.max(wait, WAIT_MS);     // busy: what is shown stays as it was
    }
    if (answer.status !== 200 || type !== "application/json") throw new Error("not ours");
    const job = await answer.json();
    if (job === null || typeof job !== "object" || job.id !== id || typeof job.status !== "string") throw new Error("not ours");
    if (!Number.isNaN(served)) ahead = Date.now() - served;
    etag = answer.headers.get("ETag");
    reachable();
    draw(job);
    const final = job.status === "succeeded" || job.status === "failed";
    if (!final || job.money === "checking") return wait;
    finish(job);
    return reload(job.status + job.money);
  }

  function retryAfter(answer) {
    const value = answer.headers.get("Retry-After");
    if (!value) return null;
    const ms = /^[\d.]+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now() + ahead;
    return Number.isFinite(ms) ? Math.min(WAIT_MOST_MS, Math.max(WAIT_LEAST_MS, ms)) : null;
  }

  function unreachable() {
    failures += 1;
    known.hidden = true;
    root.classList.add("out-of-reach");
    notice.hidden = false;
    text(notice, root.dataset.unreachable);
    text(spoken, "");           // what was said last is not known to hold any more
    document.title = root.dataset.title;
    etag = null;
    const most = Math.min(BACK_OFF_MOST_MS, 1000 * 2 ** (failures - 1));
    return most * (0.75 + Math.random() * 0.5);
  }

  function reachable() {
    if (known.hidden) {
      known.hidden = false;
      root.classList.remove("out-of-reach");
      text(notice, "");
      notice.hidden = true;
    }
  }

  // A page that comes back unchanged (the two answers disagree for a moment) is not reloaded in a loop.
  function reload(why) {
    const key = "reloaded:" + id, now = Date.now();
    let before = {};
    try {
      before = JSON.parse(sessionStorage.getItem(key)) || {};
      if (before.why === why && now - before.at < 8000) {
        etag = null;                      // so that the next answer is whole, and comes here again
        return 5000;
      }
      sessionStorage.setItem(key, JSON.stringify({ why, at: now }));
    } catch { /* no storage: reload all the same */ }
    location.reload();
    return null;
  }

  // ------------------------------------------------------------ drawing
  function draw(job) {
    const checking = job.money === "checking";
    root.dataset.state = checking ? "checking" : job.status;
    const label = root.dataset["label" + (checking ? "Checking" : job.status[0].toUpperCase() + job.status.slice(1))];
    const badge = part("badge");
    if (label) text(badge, label);
    badge.className = "badge " + (checking ? "pending" : job.status);
    const share = typeof job.progress === "number" ? Math.min(1, Math.max(0, job.progress)) : null;
    const measured = share !== null && job.status !== "pending";
    const percent = measured ? Math.floor(share * 100) + "%" : "";
    if (measured) bar.value = share;
    else bar.removeAttribute("value");
    text(part("percent"), percent);
    const message = checking ? job.money_message : job.message || label || "";
    text(part("message"), message);
    text(part("money"), job.money_message || "");
    const last = (job.interruptions || []).at(-1);
    const again = part("again");
    again.hidden = !last || checking;
    text(again, last ? last.message : "");
    document.title = (percent && !checking ? percent + " · " : "") + root.dataset.title;
    startedAt = Date.parse(job.started_at || job.created_at) || startedAt;
    stages(job.status === "pending" ? null : job.stage);
    if (job.money !== root.dataset.points && !checking) renewCancelNote();
    say([job.status, checking, job.stage, measured ? Math.floor(share * 4) : 0].join(), message + (percent ? " " + percent : ""));
  }

  // What a cancel means changes when points are used. The sentence is the server's, so it is taken from
  // a fresh copy of this page; until then there is nothing to press.
  async function renewCancelNote() {
    const form = root.querySelector(".cancel");
    if (!form) return;
    form.hidden = true;
    try {
      const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin" });
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      const fresh = page.querySelector("[data-live]");
      if (!fresh || fresh.dataset.id !== id) throw new Error("not this page");
      root.dataset.points = fresh.dataset.points;
      const note = page.querySelector("#cancel-note");
      if (note) {
        text(form.querySelector("#cancel-note"), note.textContent);
        form.hidden = false;
      }
    } catch {
      etag = null;      // the next answer is drawn again, and comes here again
    }
  }

  function stages(current) {
    const list = part("stages");
    if (!list || !current) return;
    let items = [...list.children];
    let at = items.findIndex((item) => item.dataset.stage === current);
    if (at < 0) {
      const item = document.createElement("li");
      item.dataset.stage = current;
      item.append(Object.assign(document.createElement("span"), { textContent: current }),
        Object.assign(document.createElement("span"), { className: "visually-hidden" }));
      const next = items.findIndex((other) => other.classList.contains("todo"));
      list.insertBefore(item, next < 0 ? null : items[next]);
      items = [...list.children];
      at = items.indexOf(item);
    }
    items.forEach((item, index) => {
      const state = index < at ? "done" : index === at ? "now" : "todo";
      if (item.classList.contains(state)) return;
      item.className = state;
      if (state === "now") item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
      text(item.lastElementChild, " (" + list.dataset[state] + ")");
    });
    list.closest("[data-stages-card]").hidden = false;
  }

  // Screen readers hear a new stage and every quarter, not every percent.
  function say(key, sentence) {
    if (key === said) return;
    if (said) text(spoken, sentence);
    said = key;
  }

  function finish(job) {
    const done = job.status === "succeeded";
    document.title = (done ? root.dataset.titleDone : root.dataset.titleFailed) || root.dataset.title;
    const icon = document.querySelector("link[rel=icon]");
    if (icon) icon.href = done ? root.dataset.iconDone : root.dataset.iconFailed;
  }

  function tick() {
    if (document.hidden || Number.isNaN(startedAt)) return;
    const all = Math.max(0, Math.floor((Date.now() - ahead - startedAt) / 1000));
    const two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
    text(part("elapsed"), (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(all % 60));
  }

  // ------------------------------------------------------------ when
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) clearTimeout(timer);
    else { tick(); ask(); }
  });
  addEventListener("pagehide", () => { leaving = true; });
  addEventListener("pageshow", (event) => { leaving = false; if (event.persisted) ask(); });
  addEventListener("online", ask);
  setInterval(tick, 1000);
  tick();
  ask();
})();
