-- Ainori's tables and laws. The database has the last word: Python asks politely.
--
-- Every law is named <table>_<law>; a test breaks each of them once, from a plain SQLite shell too
-- (where foreign keys and recursive triggers are off): the money laws rest on CHECKs, indexes and
-- triggers alone, and nothing here needs a function of ours. Needs SQLite 3.38 or newer.
-- Times are text in UTC, 2026-11-30T12:34:56.789Z: they sort, and a person can read them.
-- Points are whole numbers. JSON columns hold text.

PRAGMA application_id = 1095323215;  -- 'AINO'
PRAGMA user_version = 4;             -- newest file in migrations/, or 1

-- ------------------------------------------------------------------------------------------ people

-- A person with an account, or a guest (no e-mail) who is known by a cookie only.
CREATE TABLE users (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  email          TEXT COLLATE NOCASE,
  password_hash  TEXT,
  token_hash     TEXT,                          -- sha-256 of the API token: the token itself is shown once
  guest_key      TEXT,                          -- what a guest's cookie says: two clicks at once are one guest
  is_admin       INTEGER NOT NULL DEFAULT 0,
  lang           TEXT,
  created_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  reset_hash        TEXT,                       -- sha-256 of the one-time link that sets a new password
  reset_expires_at  TEXT,
  merged_into       INTEGER REFERENCES users (id),  -- a guest who has signed in: whose work it is from then on
  deleted_at        TEXT CONSTRAINT users_deleted_is_nobody CHECK (deleted_at IS NULL OR (email IS NULL
    AND password_hash IS NULL AND token_hash IS NULL AND guest_key IS NULL AND reset_hash IS NULL AND is_admin = 0)),
  CONSTRAINT users_admin_is_known CHECK (is_admin IN (0, 1) AND (is_admin = 0 OR email IS NOT NULL)),
  CONSTRAINT users_email_is_one_address CHECK (email IS NULL OR (email LIKE '%_@_%' AND email NOT LIKE '% %'))
) STRICT;
CREATE UNIQUE INDEX users_email ON users (email) WHERE email IS NOT NULL;
CREATE UNIQUE INDEX users_token ON users (token_hash) WHERE token_hash IS NOT NULL;
CREATE UNIQUE INDEX users_guest ON users (guest_key) WHERE guest_key IS NOT NULL;
CREATE INDEX users_reset ON users (reset_hash) WHERE reset_hash IS NOT NULL;
CREATE INDEX users_deleted ON users (id) WHERE deleted_at IS NOT NULL;

CREATE TRIGGER users_keep_ledger BEFORE DELETE ON users
WHEN EXISTS (SELECT 1 FROM ledger_entries WHERE user_id = OLD.id)
BEGIN SELECT RAISE(ABORT, 'users_keep_ledger: somebody with ledger entries stays'); END;
-- INSERT OR REPLACE and UPDATE OR REPLACE delete the row in their way without asking the trigger above.
CREATE TRIGGER users_never_replaced BEFORE INSERT ON users
WHEN EXISTS (SELECT 1 FROM users WHERE id = NEW.id OR email = NEW.email OR token_hash = NEW.token_hash
  OR guest_key = NEW.guest_key)
BEGIN SELECT RAISE(ABORT, 'users_never_replaced: this id, address or token is somebody''s'); END;
CREATE TRIGGER users_never_replaced_by_update BEFORE UPDATE ON users
WHEN NEW.id <> OLD.id
  OR EXISTS (SELECT 1 FROM users WHERE id <> OLD.id AND (email = NEW.email OR token_hash = NEW.token_hash
    OR guest_key = NEW.guest_key))
BEGIN SELECT RAISE(ABORT, 'users_never_replaced: ids are fixed, and this address or token is somebody''s'); END;
-- Somebody who has left stays gone: the row only keeps their ledger entries together.
CREATE TRIGGER users_deleted_stays BEFORE UPDATE ON users
WHEN OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NOT OLD.deleted_at
BEGIN SELECT RAISE(ABORT, 'users_deleted_stays: a deleted account does not come back'); END;

-- A browser that is signed in: its signed cookie says the id. Without the row the cookie is worth nothing.
CREATE TABLE sessions (
  id          TEXT PRIMARY KEY NOT NULL,
  user_id     INTEGER NOT NULL REFERENCES users (id),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX sessions_of_user ON sessions (user_id, created_at);

-- ------------------------------------------------------------------------------------------- work

-- status: who moves it on
--   pending    any worker with a free slot claims it (the table is the queue)
--   running    its worker finishes it; whoever sees the worker dead, or the deadline passed, reaps it
--   succeeded  final
--   failed     final; settlement says whether the points are settled:
--              due -> settled by whoever comes next; unknown -> tried again; none: nothing to settle
CREATE TABLE jobs (
  id                   TEXT PRIMARY KEY NOT NULL,
  number               TEXT NOT NULL UNIQUE,     -- what a person says to support: 7K3F-92QD
  kind                 TEXT NOT NULL,
  user_id              INTEGER NOT NULL REFERENCES users (id),
  status               TEXT NOT NULL DEFAULT 'pending',
  stage                TEXT,
  progress             REAL NOT NULL DEFAULT 0,  -- 0 to 1, of the stage
  progress_note        TEXT,                     -- JSON: {done, total, message}
  attempt              INTEGER NOT NULL DEFAULT 0,  -- claims so far; (id, attempt) is the fence
  attempts_spent       INTEGER NOT NULL DEFAULT 0,  -- attempts that died or timed out
  max_attempts         INTEGER NOT NULL DEFAULT 1,
  releases             INTEGER NOT NULL DEFAULT 0,  -- given back by a server that was shutting down
  on_interrupt         TEXT NOT NULL DEFAULT 'fail',
  timeout_seconds      INTEGER NOT NULL,
  cost                 INTEGER NOT NULL,         -- quoted at submit, and what is charged
  share_key            TEXT,
  exclusive_key        TEXT,
  worker_id            TEXT,
  deadline_at          TEXT,
  cancel_requested_at  TEXT,
  settlement           TEXT NOT NULL DEFAULT 'none',
  error_code           TEXT,
  error_facts          TEXT,                     -- JSON
  kept_by              TEXT,                     -- an operator who kept the charge, and why
  kept_note            TEXT,
  retry_of             TEXT REFERENCES jobs (id),
  lang                 TEXT NOT NULL DEFAULT 'en',
  params               TEXT NOT NULL,            -- JSON
  params_hash          TEXT NOT NULL,            -- of params and file content, for idempotency
  result               TEXT,                     -- JSON; gone after RETENTION_DAYS
  rows_count           INTEGER,                  -- rows for the exports, kept in files/<id>/
  created_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  started_at           TEXT,
  finished_at          TEXT,
  expired_at           TEXT,                     -- when result and files were deleted
  stopped_by           TEXT                      -- an operator who ended it, not who asked: its points return
    CONSTRAINT jobs_stopped_is_asked CHECK (stopped_by IS NULL OR cancel_requested_at IS NOT NULL),
  reusable             INTEGER NOT NULL DEFAULT 1  -- 0: a result that no later asker is given, such as a partial one
    CONSTRAINT jobs_reusable CHECK (reusable IN (0, 1)),
  CONSTRAINT jobs_status CHECK (status IN ('pending', 'running', 'succeeded', 'failed')),
  CONSTRAINT jobs_settlement CHECK (settlement IN ('none', 'due', 'settled', 'unknown')),
  CONSTRAINT jobs_failed_is_settled_or_due CHECK ((status = 'failed') = (settlement <> 'none')),
  CONSTRAINT jobs_finished_exactly_when_final
    CHECK ((finished_at IS NOT NULL) = (status IN ('succeeded', 'failed'))),
  CONSTRAINT jobs_worker_exactly_when_running CHECK ((worker_id IS NOT NULL) = (status = 'running')),
  CONSTRAINT jobs_deadline_exactly_when_running CHECK ((deadline_at IS NOT NULL) = (status = 'running')),
  CONSTRAINT jobs_failed_says_why CHECK ((error_code IS NOT NULL) = (status = 'failed')),
  CONSTRAINT jobs_result_only_when_succeeded CHECK (result IS NULL OR status = 'succeeded'),
  CONSTRAINT jobs_attempts CHECK (
    attempt >= 0 AND attempts_spent BETWEEN 0 AND attempt AND max_attempts >= 1
    AND attempts_spent <= max_attempts AND releases BETWEEN 0 AND attempt),
  CONSTRAINT jobs_on_interrupt CHECK (on_interrupt IN ('fail', 'retry')),
  CONSTRAINT jobs_limits CHECK (timeout_seconds >= 1 AND cost >= 0 AND progress BETWEEN 0 AND 1),
  CONSTRAINT jobs_paid_is_not_shared CHECK (cost = 0 OR share_key IS NULL),
  CONSTRAINT jobs_kept_by_somebody_for_a_reason CHECK ((kept_by IS NULL) = (kept_note IS NULL)),
  CONSTRAINT jobs_json CHECK (json_valid(params) AND (result IS NULL OR json_valid(result))
    AND (progress_note IS NULL OR json_valid(progress_note)) AND (error_facts IS NULL OR json_valid(error_facts)))
) STRICT;

-- Hole 4, and shared work: the indexes decide, not a look before the leap.
CREATE UNIQUE INDEX jobs_one_in_flight ON jobs (exclusive_key)
  WHERE status IN ('pending', 'running') AND exclusive_key IS NOT NULL;
CREATE UNIQUE INDEX jobs_one_shared_flight ON jobs (kind, share_key)
  WHERE status IN ('pending', 'running') AND share_key IS NOT NULL;
CREATE INDEX jobs_queue ON jobs (created_at, id) WHERE status = 'pending';
CREATE INDEX jobs_running ON jobs (worker_id) WHERE status = 'running';
CREATE INDEX jobs_to_settle ON jobs (id) WHERE settlement IN ('due', 'unknown');
CREATE INDEX jobs_fresh_results ON jobs (kind, share_key, finished_at)
  WHERE status = 'succeeded' AND share_key IS NOT NULL;
CREATE INDEX jobs_in_flight_of_user ON jobs (user_id) WHERE status IN ('pending', 'running');
-- All that the figures of the last days ask for: rows with large inputs and results are not read.
CREATE INDEX jobs_ended ON jobs (finished_at, kind, status, error_code, attempt, attempts_spent, releases, started_at)
  WHERE finished_at IS NOT NULL;
CREATE INDEX jobs_to_expire ON jobs (finished_at) WHERE finished_at IS NOT NULL AND expired_at IS NULL;

-- A job is born pending, and its row cannot be replaced (INSERT OR REPLACE deletes without asking).
CREATE TRIGGER jobs_born_pending BEFORE INSERT ON jobs
WHEN NEW.status <> 'pending' OR NEW.attempt <> 0
BEGIN SELECT RAISE(ABORT, 'jobs_born_pending: a job begins as pending, attempt 0'); END;
CREATE TRIGGER jobs_never_replaced BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM jobs WHERE id = NEW.id OR number = NEW.number OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'jobs_never_replaced: this id or number exists'); END;
CREATE TRIGGER jobs_one_in_flight_stays BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM jobs WHERE exclusive_key = NEW.exclusive_key AND status IN ('pending', 'running'))
BEGIN SELECT RAISE(ABORT, 'jobs_one_in_flight: one with this exclusive key is in flight'); END;
CREATE TRIGGER jobs_one_shared_flight_stays BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM jobs WHERE kind = NEW.kind AND share_key = NEW.share_key
  AND status IN ('pending', 'running'))
BEGIN SELECT RAISE(ABORT, 'jobs_one_shared_flight: one with this share key is in flight'); END;
CREATE TRIGGER jobs_never_deleted BEFORE DELETE ON jobs
WHEN OLD.status IN ('pending', 'running') OR OLD.settlement IN ('due', 'unknown')
  OR EXISTS (SELECT 1 FROM ledger_entries WHERE job_id = OLD.id)
BEGIN SELECT RAISE(ABORT, 'jobs_never_deleted: in flight, not settled, or in the ledger'); END;

CREATE TRIGGER jobs_of_nobody_gone BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM users WHERE id = NEW.user_id AND deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'jobs_of_nobody_gone: this account is deleted'); END;

-- Who asked for what at which price never changes. (Nor do the keys: UPDATE OR REPLACE would delete
-- the job in flight that has them.)
CREATE TRIGGER jobs_quote BEFORE UPDATE ON jobs
WHEN NEW.id IS NOT OLD.id OR NEW.number IS NOT OLD.number OR NEW.kind IS NOT OLD.kind
  OR NEW.user_id IS NOT OLD.user_id OR NEW.cost IS NOT OLD.cost OR NEW.created_at IS NOT OLD.created_at
  OR NEW.exclusive_key IS NOT OLD.exclusive_key OR NEW.share_key IS NOT OLD.share_key OR NEW.rowid <> OLD.rowid
BEGIN SELECT RAISE(ABORT, 'jobs_quote: id, number, kind, user, cost, keys and time of asking are fixed'); END;

CREATE TRIGGER jobs_moves BEFORE UPDATE ON jobs
WHEN NOT CASE
  WHEN OLD.status IN ('succeeded', 'failed') THEN
    NEW.status = OLD.status AND NEW.attempt = OLD.attempt AND NEW.finished_at IS OLD.finished_at
    AND NEW.error_code IS OLD.error_code AND NEW.cancel_requested_at IS OLD.cancel_requested_at
    AND (OLD.kept_by IS NULL OR NEW.kept_by IS OLD.kept_by)
    AND (NEW.settlement = OLD.settlement
         OR (OLD.settlement IN ('due', 'unknown') AND NEW.settlement IN ('settled', 'unknown')))
  WHEN OLD.status = 'pending' AND NEW.status = 'running' THEN NEW.attempt = OLD.attempt + 1
  WHEN OLD.status = 'pending' THEN NEW.attempt = OLD.attempt AND NEW.status IN ('pending', 'failed')
  ELSE NEW.attempt = OLD.attempt AND (NEW.status <> 'running' OR NEW.worker_id = OLD.worker_id)
END OR NEW.attempts_spent < OLD.attempts_spent OR NEW.releases < OLD.releases
  OR (OLD.cancel_requested_at IS NOT NULL AND NEW.cancel_requested_at IS NOT OLD.cancel_requested_at)
BEGIN SELECT RAISE(ABORT, 'jobs_moves: not a legal move'); END;

-- 'settled' is a statement about money: it must be true.
CREATE TRIGGER jobs_settled_truth BEFORE UPDATE ON jobs
WHEN NEW.settlement = 'settled' AND OLD.settlement <> 'settled'
  AND EXISTS (SELECT 1 FROM ledger_entries WHERE job_id = NEW.id AND kind = 'consume')
  AND NOT EXISTS (SELECT 1 FROM ledger_entries WHERE job_id = NEW.id AND kind = 'refund')
  AND NOT (NEW.error_code = 'CANCELLED' AND NEW.cancel_requested_at IS NOT NULL)
  AND NEW.kept_by IS NULL
BEGIN SELECT RAISE(ABORT, 'jobs_settled_truth: consumed, neither returned, cancelled nor kept'); END;

-- What happened, as it happened. The receipt and the live progress both read this.
CREATE TABLE job_events (
  job_id   TEXT NOT NULL REFERENCES jobs (id),
  seq      INTEGER NOT NULL,                    -- ascending for each job, never reused
  at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  event    TEXT NOT NULL,
  attempt  INTEGER NOT NULL,
  data     TEXT,                                -- JSON
  PRIMARY KEY (job_id, seq),
  CONSTRAINT job_events_json CHECK (data IS NULL OR json_valid(data))
) STRICT, WITHOUT ROWID;
CREATE TRIGGER job_events_never_changed BEFORE UPDATE ON job_events
BEGIN SELECT RAISE(ABORT, 'job_events_never_changed: what happened stays'); END;
CREATE TRIGGER job_events_never_replaced BEFORE INSERT ON job_events
WHEN EXISTS (SELECT 1 FROM job_events WHERE job_id = NEW.job_id AND seq = NEW.seq)
BEGIN SELECT RAISE(ABORT, 'job_events_never_changed: this event exists'); END;

-- Finished steps: a retry does not repeat them.
CREATE TABLE job_steps (
  job_id      TEXT NOT NULL REFERENCES jobs (id),
  name        TEXT NOT NULL,
  output      TEXT NOT NULL,                    -- JSON
  attempt     INTEGER NOT NULL,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  PRIMARY KEY (job_id, name),
  CONSTRAINT job_steps_json CHECK (json_valid(output))
) STRICT;

-- Everyone who asked for it: the owner and every joiner, one row for each request with a key.
CREATE TABLE job_watchers (
  id               INTEGER PRIMARY KEY,
  job_id           TEXT NOT NULL REFERENCES jobs (id),
  user_id          INTEGER NOT NULL REFERENCES users (id),
  idempotency_key  TEXT,
  request_hash     TEXT NOT NULL,
  seen_at          TEXT,                        -- when this person saw how it ended
  left_at          TEXT,                        -- a joiner's cancel only leaves
  created_at       TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE UNIQUE INDEX job_watchers_idempotency ON job_watchers (user_id, idempotency_key)
  WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX job_watchers_once ON job_watchers (job_id, user_id) WHERE idempotency_key IS NULL;
CREATE INDEX job_watchers_of_user ON job_watchers (user_id, job_id);
CREATE INDEX job_watchers_of_job ON job_watchers (job_id);

-- Files a job saved with its result, under files/<job_id>/<name>.
CREATE TABLE job_files (
  job_id      TEXT NOT NULL REFERENCES jobs (id),
  name        TEXT NOT NULL,
  media_type  TEXT NOT NULL,
  size_bytes  INTEGER NOT NULL,
  PRIMARY KEY (job_id, name)
) STRICT;

-- ------------------------------------------------------------------------------------------ money

-- Only ever added to. A wrong entry is corrected by another one.
CREATE TABLE ledger_entries (
  id             INTEGER PRIMARY KEY AUTOINCREMENT,
  user_id        INTEGER NOT NULL REFERENCES users (id),
  job_id         TEXT REFERENCES jobs (id),
  kind           TEXT NOT NULL,
  points         INTEGER NOT NULL,              -- grant and refund above 0, consume below
  balance_after  INTEGER NOT NULL,
  note           TEXT,
  created_at     TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  CONSTRAINT ledger_entries_kind CHECK (
    (kind = 'grant' AND points > 0 AND job_id IS NULL)
    OR (kind = 'consume' AND points < 0 AND job_id IS NOT NULL)
    OR (kind = 'refund' AND points > 0 AND job_id IS NOT NULL)),
  CONSTRAINT ledger_entries_ids_ascend CHECK (id > 0),
  CONSTRAINT ledger_entries_never_negative CHECK (balance_after >= 0)
) STRICT;
CREATE UNIQUE INDEX ledger_entries_once_per_job ON ledger_entries (job_id, kind) WHERE job_id IS NOT NULL;
CREATE INDEX ledger_entries_of_user ON ledger_entries (user_id, id);

CREATE TRIGGER ledger_entries_append_only_update BEFORE UPDATE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'ledger_entries_append_only: entries are never changed'); END;
CREATE TRIGGER ledger_entries_append_only_delete BEFORE DELETE ON ledger_entries
BEGIN SELECT RAISE(ABORT, 'ledger_entries_append_only: entries are never deleted'); END;
-- INSERT OR REPLACE deletes the row in its way without asking the trigger above, unless
-- recursive_triggers is on, which a foreign shell leaves off. So it is refused before it begins.
-- (An id that was not given reads -1 here; one that is given must be the next. A given -1 is refused
-- by ledger_entries_ids_ascend.)
CREATE TRIGGER ledger_entries_append_only_insert BEFORE INSERT ON ledger_entries
WHEN (NEW.id <> -1 AND NEW.id <> (SELECT coalesce(max(id), 0) + 1 FROM ledger_entries))
  OR EXISTS (SELECT 1 FROM ledger_entries WHERE job_id = NEW.job_id AND kind = NEW.kind)
BEGIN SELECT RAISE(ABORT, 'ledger_entries_append_only: this entry exists, or its id is not the next'); END;

CREATE TRIGGER ledger_entries_balance BEFORE INSERT ON ledger_entries
WHEN NEW.balance_after <> NEW.points + coalesce(
  (SELECT balance_after FROM ledger_entries WHERE user_id = NEW.user_id ORDER BY id DESC LIMIT 1), 0)
BEGIN SELECT RAISE(ABORT, 'ledger_entries_balance: not the balance before plus the points'); END;

CREATE TRIGGER ledger_entries_known_user BEFORE INSERT ON ledger_entries
WHEN NOT EXISTS (SELECT 1 FROM users WHERE id = NEW.user_id)
BEGIN SELECT RAISE(ABORT, 'ledger_entries_known_user: nobody has this id'); END;

CREATE TRIGGER ledger_entries_consume_lawful BEFORE INSERT ON ledger_entries
WHEN NEW.kind = 'consume' AND NOT EXISTS (
  SELECT 1 FROM jobs WHERE id = NEW.job_id AND user_id = NEW.user_id AND status = 'running'
    AND cost = -NEW.points AND cancel_requested_at IS NULL)
BEGIN SELECT RAISE(ABORT, 'ledger_entries_consume_lawful: only the quoted cost of a job now running, not cancelled'); END;

CREATE TRIGGER ledger_entries_refund_lawful BEFORE INSERT ON ledger_entries
WHEN NEW.kind = 'refund' AND NOT EXISTS (
  SELECT 1 FROM ledger_entries WHERE job_id = NEW.job_id AND kind = 'consume'
    AND user_id = NEW.user_id AND points = -NEW.points)
BEGIN SELECT RAISE(ABORT, 'ledger_entries_refund_lawful: only what this job consumed, to the same user'); END;

-- -------------------------------------------------------------------------------------- operation

-- Processes that run jobs. Whether one is alive is told by its lock file; the heartbeat stands in
-- where that cannot be asked, and is only written while it runs something.
CREATE TABLE workers (
  id            TEXT PRIMARY KEY NOT NULL,
  role          TEXT NOT NULL,
  host          TEXT NOT NULL,
  pid           INTEGER NOT NULL,
  started_at    TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  heartbeat_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  stopped_at    TEXT,
  clock         REAL,                            -- its wall clock less the monotonic one: what its deadlines go by
  boot_id       TEXT,                            -- of the machine: within one boot these can be compared
  CONSTRAINT workers_role CHECK (role IN ('server', 'command'))
) STRICT;

CREATE TABLE incidents (
  id               INTEGER PRIMARY KEY AUTOINCREMENT,
  at               TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')),
  severity         TEXT NOT NULL,
  scope            TEXT NOT NULL,                -- which part of the application
  code             TEXT NOT NULL,
  job_id           TEXT REFERENCES jobs (id),
  user_id          INTEGER REFERENCES users (id),
  detail           TEXT NOT NULL,
  resolved_at      TEXT,                         -- it has come right by itself
  acknowledged_at  TEXT,                         -- somebody has looked at it
  alerted_at       TEXT,                         -- when the operator was told
  times            INTEGER NOT NULL DEFAULT 1,   -- one about no job, if it comes again, is counted for an hour
  CONSTRAINT incidents_severity CHECK (severity IN ('info', 'warning', 'critical'))
) STRICT;
CREATE INDEX incidents_of_job ON incidents (job_id) WHERE job_id IS NOT NULL;
CREATE INDEX incidents_open ON incidents (severity) WHERE acknowledged_at IS NULL AND resolved_at IS NULL;

-- A kind that takes nothing new for now, and who said so. What is in flight goes on.
CREATE TABLE kind_pauses (
  kind        TEXT PRIMARY KEY NOT NULL,
  paused_by   TEXT NOT NULL,
  note        TEXT,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- What a day has spent of a metered service's allowance. A day is the service's own: it ends where that is said.
CREATE TABLE quota_days (
  quota            TEXT NOT NULL,                -- as its kind calls it: youtube
  day              TEXT NOT NULL,                -- 2026-11-30
  spent            INTEGER NOT NULL DEFAULT 0,   -- units, counted before the request is sent
  spent_by_guests  INTEGER NOT NULL DEFAULT 0,   -- of these
  exhausted_at     TEXT,                         -- when the service itself said that nothing is left
  PRIMARY KEY (quota, day),
  CONSTRAINT quota_days_guests_are_a_part CHECK (spent_by_guests BETWEEN 0 AND spent),
  CONSTRAINT quota_days_day CHECK (day IS date(day))
) STRICT;
CREATE TRIGGER quota_days_only_rise BEFORE UPDATE ON quota_days
WHEN NEW.quota IS NOT OLD.quota OR NEW.day IS NOT OLD.day OR NEW.spent < OLD.spent
  OR NEW.spent_by_guests < OLD.spent_by_guests OR NEW.rowid <> OLD.rowid
BEGIN SELECT RAISE(ABORT, 'quota_days_only_rise: what was spent is spent'); END;
CREATE TRIGGER quota_days_never_replaced BEFORE INSERT ON quota_days
WHEN EXISTS (SELECT 1 FROM quota_days WHERE quota = NEW.quota AND day = NEW.day OR rowid = NEW.rowid)
BEGIN SELECT RAISE(ABORT, 'quota_days_only_rise: this day is being counted'); END;

-- ------------------------------------------------------------------------------- views for people

CREATE VIEW v_in_flight AS
SELECT j.number, j.kind,
       coalesce(u.email, CASE WHEN u.deleted_at IS NULL THEN 'guest ' ELSE 'deleted account ' END || u.id) AS asked_by,
       j.status, j.stage,
       round(j.progress * 100) || ' %' AS progress, j.attempt, j.max_attempts, j.cost,
       EXISTS (SELECT 1 FROM ledger_entries l WHERE l.job_id = j.id AND l.kind = 'consume') AS charged,
       (SELECT count(DISTINCT w.user_id) FROM job_watchers w
         WHERE w.job_id = j.id AND w.left_at IS NULL) AS watchers,
       j.worker_id, j.created_at, j.started_at, j.deadline_at, j.cancel_requested_at, j.id AS job_id
FROM jobs j JOIN users u ON u.id = j.user_id
WHERE j.status IN ('pending', 'running') ORDER BY j.created_at, j.id;

CREATE VIEW v_job_timeline AS
SELECT j.number, e.at, 'event' AS source, e.event AS what, e.data AS detail, e.job_id
  FROM job_events e JOIN jobs j ON j.id = e.job_id
UNION ALL
SELECT j.number, l.created_at, 'ledger', l.kind || ' ' || l.points, 'balance ' || l.balance_after, l.job_id
  FROM ledger_entries l JOIN jobs j ON j.id = l.job_id
UNION ALL
SELECT j.number, i.at, 'incident', i.severity || ' ' || i.code, i.detail, i.job_id
  FROM incidents i JOIN jobs j ON j.id = i.job_id
ORDER BY 2;

CREATE VIEW v_statement AS
SELECT coalesce(u.email, CASE WHEN u.deleted_at IS NULL THEN 'guest ' ELSE 'deleted account ' END || u.id) AS user,
       l.id, l.created_at, l.kind, l.points, l.balance_after, j.number, j.kind AS for_kind, l.note, l.user_id
FROM ledger_entries l JOIN users u ON u.id = l.user_id LEFT JOIN jobs j ON j.id = l.job_id
ORDER BY l.user_id, l.id;

CREATE VIEW v_incidents_open AS
SELECT i.id, i.at, i.severity, i.scope, i.code, j.number, i.detail, i.times, i.alerted_at, i.job_id, i.user_id
FROM incidents i LEFT JOIN jobs j ON j.id = i.job_id
WHERE i.acknowledged_at IS NULL AND i.resolved_at IS NULL ORDER BY i.id;
