// Keeps a page in flight up to date: by a stream of events, else by asking the API now and then. The one
// rule: say only what the server has said. While it cannot be reached, nothing about the work or the points
// is shown. The stream only brings news; whether the server is there is told by an answer of its API alone.
(() => {
  "use strict";
  const root = document.querySelector("[data-live]");
  if (!root) return arrived();
  const { url, events, id } = root.dataset;
  const part = (name) => root.querySelector("[data-" + name + "]");
  const known = part("known");
  const notice = part("notice");
  const spoken = part("spoken");
  const bar = root.querySelector("progress");
  const heading = root.querySelector("h1");
  const icon = document.querySelector("link[rel=icon]"), iconBusy = icon && icon.href;
  const ENDED = "ended";
  // An answer may wait BUSY_SECONDS for the file; the page of the end may be long.
  const GIVE_UP_MS = 6000, GIVE_UP_PAGE_MS = 20000;
  const WAIT_MS = 1500, WAIT_LEAST_MS = 250, WAIT_MOST_MS = 30000, BACK_OFF_MOST_MS = 1500;
  // A browser opens six connections to a host over HTTP/1.1: more streams would leave too few for pages.
  const STREAMS_MOST = 4;
  // A stream says every 5 s that it lives: after so long without a word, ask. Sooner where none has said anything
  // yet: something on the way may keep it back.
  const QUIET_MS = 9000, QUIET_AT_FIRST_MS = 3000;
  // One that ends sooner has failed; the next is tried after a pause that grows.
  const STREAM_LEAST_MS = 10000, PAUSE_MS = 2000, PAUSE_MOST_MS = 60000;

  let etag = null;      // of the last answer that was drawn
  let shown = null;     // what was drawn last, as text
  let asking = null;    // the AbortController of the request under way
  let timer = null;
  let failures = 0;
  let ahead = Date.now() - Date.parse(root.dataset.created) - root.dataset.age * 1000;  // this clock minus the server's
  let startedAt = Date.parse(root.dataset.since);
  let said = root.dataset.said;     // what it was about when something was spoken last, or the page was read
  let held = null;      // had the focus when the server went out of reach
  let leaving = false;

  let stream = null;            // the EventSource
  let begunAt = 0;              // when it was asked for
  let open = false;             // it has answered
  let giveBack = null;          // gives back this tab's place among those that stream
  let taking = false;           // such a place
  let after = root.dataset.after;   // the last event that was told
  let told = 0;                 // how many were
  let trusted = false;          // it brings what there is
  let streamFailures = 0;
  let streamFrom = 0;           // not before

  const text = (element, value) => {
    if (element && element.textContent !== value) element.textContent = value;
  };

  function later(wait) {
    clearTimeout(timer);
    if (wait !== null && !document.hidden && !leaving) timer = setTimeout(ask, wait);
  }

  // ------------------------------------------------------------ asking
  async function ask() {
    clearTimeout(timer);
    if (document.hidden) return;
    if (asking) asking.abort();
    const mine = asking = new AbortController(), before = told;
    let giveUp = setTimeout(() => mine.abort(), GIVE_UP_MS);
    let wait;
    try {
      const headers = { Accept: "application/json" };
      if (etag) headers["If-None-Match"] = etag;
      const answer = await fetch(url, { headers, cache: "no-store", credentials: "same-origin", signal: mine.signal });
      wait = await take(answer, before);
      if (wait === ENDED) {
        clearTimeout(giveUp);
        giveUp = setTimeout(() => mine.abort(), GIVE_UP_PAGE_MS);
        wait = await replace(mine.signal);
      }
      failures = 0;
    } catch {
      if (asking !== mine || leaving) return;   // a newer request took over, or the page is going
      hush();
      wait = unreachable();
    } finally {
      clearTimeout(giveUp);
      if (asking === mine) asking = null;
    }
    later(wait !== null && open ? quiet(wait) : wait);
  }

  // Draws an answer and returns when to ask again, or ENDED; raises if it is not this API's.
  async function take(answer, before) {
    const wait = retryAfter(answer) ?? WAIT_MS;
    const served = Date.parse(answer.headers.get("Date"));
    if (answer.status === 304 && etag) {
      reachable();
      listen();
      return wait;
    }
    const type = (answer.headers.get("Content-Type") || "").split(";")[0].trim();
    if (type === "application/problem+json") {
      const problem = await answer.json();
      if (typeof problem.code !== "string") throw new Error("not ours");
      if ([401, 403, 404, 410].includes(answer.status)) return ENDED;   // the page says what to do
      return Math.max(wait, WAIT_MS);     // busy: what is shown stays as it was
    }
    if (answer.status !== 200 || type !== "application/json") throw new Error("not ours");
    const job = ours(await answer.json());
    if (!Number.isNaN(served)) ahead = Date.now() - served;
    if (told !== before) return wait;   // the stream was faster, this may be older
    const silent = stream && Date.now() - begunAt >= QUIET_AT_FIRST_MS - 500;
    if (silent && shown !== null && shown !== asText(job)) failed();   // it should have told that
    etag = answer.headers.get("ETag");
    const next = show(job, wait);
    if (next === ENDED) finish(job);
    return next;
  }

  // The job, if it is one, and this page's; raises otherwise.
  function ours(job) {
    if (job === null || typeof job !== "object" || job.id !== id || typeof job.status !== "string") throw new Error("not ours");
    return job;
  }

  const asText = (job) => JSON.stringify({ ...job, result: null });

  // Draws the job and returns when to ask again, or ENDED.
  function show(job, wait) {
    failures = 0;
    shown = asText(job);
    reachable();
    draw(job);
    const final = job.status === "succeeded" || job.status === "failed";
    if (!final || job.money === "checking") {
      listen();
      return wait;
    }
    hush();
    return ENDED;
  }

  function retryAfter(answer) {
    const value = answer.headers.get("Retry-After");
    if (!value) return null;
    const ms = /^[\d.]+$/.test(value.trim()) ? Number(value) * 1000 : Date.parse(value) - Date.now() + ahead;
    return Number.isFinite(ms) ? Math.min(WAIT_MOST_MS, Math.max(WAIT_LEAST_MS, ms)) : null;
  }

  function unreachable() {
    failures += 1;
    if (!known.hidden) held = known.contains(document.activeElement) ? document.activeElement : null;
    known.hidden = true;
    root.classList.add("out-of-reach");
    notice.hidden = false;
    text(notice, root.dataset.unreachable);
    text(spoken, "");           // what was said last is not known to hold any more
    said = "";                  // and is said again
    document.title = root.dataset.title;
    if (icon) icon.href = iconBusy;
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
      if (held && document.activeElement === document.body) held.focus({ preventScroll: true });
      held = null;
    }
  }

  // ------------------------------------------------------------ listening
  // Opens the stream, if there is none and this tab may have one. Meanwhile, and otherwise, polling goes on.
  async function listen() {
    if (stream || taking || Date.now() < streamFrom || typeof EventSource === "undefined") return;
    taking = true;
    const place = await takePlace();
    taking = false;
    if (!place) return;
    if (document.hidden || leaving) return place();
    giveBack = place;
    const mine = stream = new EventSource(events + "?after=" + after);
    begunAt = Date.now();
    mine.onopen = () => {
      if (stream !== mine) return;
      open = true;
      if (!asking) later(quiet(WAIT_MS));
    };
    mine.onerror = () => {
      if (stream !== mine) return;
      if (open && Date.now() - begunAt >= STREAM_LEAST_MS) hush();   // the server ends every stream in time
      else failed();
      later(Math.random() * 500);     // how things are is told by an answer
    };
    const hear = (event) => {
      if (stream !== mine) return;
      let job;
      try {
        job = ours(JSON.parse(event.data));
      } catch {
        failed();
        return later(0);
      }
      after = event.lastEventId || after;
      told += 1;
      trusted = true;
      streamFailures = 0;
      etag = null;
      const wait = show(job, QUIET_MS);
      later(wait === ENDED ? 0 : wait);     // the end is told by an answer
    };
    mine.addEventListener("progress", hear);
    mine.addEventListener("done", hear);
    mine.addEventListener("alive", () => {
      // Of what waits for a place, answers alone say how many are before it.
      if (stream !== mine || root.dataset.state === "pending") return;
      trusted = true;
      streamFailures = 0;
      if (!asking) later(QUIET_MS);
    });
  }

  function quiet(wait) {
    if (trusted) return QUIET_MS;
    return streamFailures ? wait : Math.max(wait, QUIET_AT_FIRST_MS);
  }

  function hush() {
    if (stream) stream.close();
    if (giveBack) giveBack();
    stream = giveBack = null;
    open = false;
  }

  function failed() {
    hush();
    trusted = false;
    streamFrom = Date.now() + Math.min(PAUSE_MOST_MS, PAUSE_MS * 2 ** streamFailures) * (0.75 + Math.random() * 0.5);
    streamFailures += 1;
  }

  // A place among the tabs of this browser that stream: what gives it back, or null. (Locks go with their tab.)
  async function takePlace() {
    for (let n = 0; navigator.locks && n < STREAMS_MOST; n += 1) {
      const place = await new Promise((resolve) => {
        navigator.locks.request("ainori-stream-" + n, { ifAvailable: true },
          (lock) => lock ? new Promise((done) => resolve(done)) : resolve(null)).catch(() => resolve(null));
      });
      if (place) return place;
    }
    return null;
  }

  // The page of the end takes the place of this one only once it has come: what else would (a proxy's page, a
  // network's, the browser's own) does not wait for the server. Raises if it is not ours.
  async function replace(signal) {
    const answer = await fetch(location.href, { cache: "no-store", credentials: "same-origin", signal });
    const page = new DOMParser().parseFromString(await answer.text(), "text/html");
    const found = page.querySelector('[data-id="' + id + '"]');
    if (!found && !page.querySelector('[data-gone="' + id + '"]')) throw new Error("not ours");
    if (found && "live" in found.dataset) {   // the two answers disagree for a moment
      etag = null;                            // so that the next one is whole, and leads here again
      return 5000;
    }
    try {
      sessionStorage.setItem("ended", id);
    } catch { /* no storage: the focus stays at the top */ }
    location.reload();
    return null;
  }

  // On the page of the end: whoever was led here is told what it is about, and how it ended.
  function arrived() {
    const page = document.querySelector("[data-id]");
    try {
      if (sessionStorage.getItem("ended") !== page.dataset.id) return;
      sessionStorage.removeItem("ended");
    } catch { return; }
    page.querySelector("h1").focus({ preventScroll: true });
  }

  // ------------------------------------------------------------ drawing
  function draw(job) {
    const focused = document.activeElement;
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
    bar.setAttribute("aria-valuetext", (percent ? percent + " " : "") + message);
    text(part("money"), job.money_message || "");
    const last = (job.interruptions || []).at(-1);
    tell("again", !checking && last && last.message);
    tell("if-stopped", job.if_stopped);
    tell("others", job.others_message, part("together"));
    tell("cancel-note", job.cancel_note, part("cancel"));
    tell("stay", job.stay_note);
    const promised = root.querySelector("[data-cancel] [name=money]");
    if (promised) promised.value = job.money;   // what the sentence beside the button goes by
    if (root.contains(focused) && !focused.getClientRects().length) heading.focus({ preventScroll: true });
    document.title = (percent && !checking ? percent + " · " : "") + root.dataset.title;
    startedAt = Date.parse(job.started_at || job.created_at) || startedAt;
    stages(job.status === "pending" ? null : job.stage);
    const sentence = job.cancel_requested_at && job.stay_note || message + (percent ? " " + percent : "");
    say([job.status, checking, job.cancel_requested_at, job.stage, measured ? Math.floor(share * 4) : 0].join(), sentence);
  }

  // A sentence and what holds it are shown together, or not at all.
  function tell(name, sentence, holder = part(name)) {
    text(part(name), sentence || "");
    if (holder) holder.hidden = !sentence;
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
    text(spoken, sentence);
    said = key;
  }

  function finish(job) {
    const done = job.status === "succeeded";
    document.title = (done ? root.dataset.titleDone : root.dataset.titleFailed) || root.dataset.title;
    if (icon) icon.href = done ? root.dataset.iconDone : root.dataset.iconFailed;
  }

  function tick() {
    if (document.hidden || Number.isNaN(startedAt)) return;
    const all = Math.max(0, Math.floor((Date.now() - ahead - startedAt) / 1000));
    const two = (n) => String(n).padStart(2, "0");
    const hours = Math.floor(all / 3600), minutes = Math.floor(all / 60) % 60;
    text(part("elapsed"), (hours ? hours + ":" + two(minutes) : minutes) + ":" + two(all % 60));
    const late = part("late");
    if (late) late.hidden = root.dataset.state !== "running" || !(all > late.dataset.lateAfterSeconds);
  }

  // ------------------------------------------------------------ when
  const look = () => { tick(); ask(); };
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return look();
    clearTimeout(timer);
    hush();
  });
  addEventListener("pagehide", () => { leaving = true; clearTimeout(timer); hush(); });
  addEventListener("pageshow", (event) => { leaving = false; if (event.persisted) look(); });
  addEventListener("online", ask);
  addEventListener("offline", ask);   // fails at once, and says so
  setInterval(tick, 1000);
  tick();
  if (!document.hidden) {
    listen();           // from where this page was made: it need not ask first
    later(WAIT_MS);
  }
})();
