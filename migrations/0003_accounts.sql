-- Accounts by themselves: sessions that can be ended, links that set a new password, accounts that are deleted.
ALTER TABLE users ADD COLUMN reset_hash TEXT;
ALTER TABLE users ADD COLUMN reset_expires_at TEXT;
ALTER TABLE users ADD COLUMN merged_into INTEGER REFERENCES users (id);
ALTER TABLE users ADD COLUMN deleted_at TEXT CONSTRAINT users_deleted_is_nobody CHECK (deleted_at IS NULL OR (email IS NULL
  AND password_hash IS NULL AND token_hash IS NULL AND guest_key IS NULL AND reset_hash IS NULL AND is_admin = 0));
CREATE INDEX users_reset ON users (reset_hash) WHERE reset_hash IS NOT NULL;
CREATE INDEX users_deleted ON users (id) WHERE deleted_at IS NOT NULL;
-- Somebody who has left stays gone: the row only keeps their ledger entries together.
CREATE TRIGGER users_deleted_stays BEFORE UPDATE ON users
WHEN OLD.deleted_at IS NOT NULL AND NEW.deleted_at IS NOT OLD.deleted_at
BEGIN SELECT RAISE(ABORT, 'users_deleted_stays: a deleted account does not come back'); END;

CREATE TRIGGER jobs_of_nobody_gone BEFORE INSERT ON jobs
WHEN EXISTS (SELECT 1 FROM users WHERE id = NEW.user_id AND deleted_at IS NOT NULL)
BEGIN SELECT RAISE(ABORT, 'jobs_of_nobody_gone: this account is deleted'); END;
-- An operator who ended a piece of work: not who asked for it, so its points return.
ALTER TABLE jobs ADD COLUMN stopped_by TEXT CONSTRAINT jobs_stopped_is_asked
  CHECK (stopped_by IS NULL OR cancel_requested_at IS NOT NULL);

-- A browser that is signed in: its signed cookie says the id. Without the row the cookie is worth nothing.
CREATE TABLE sessions (
  id          TEXT PRIMARY KEY NOT NULL,
  user_id     INTEGER NOT NULL REFERENCES users (id),
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;
CREATE INDEX sessions_of_user ON sessions (user_id, created_at);

-- A kind that takes nothing new for now, and who said so. What is in flight goes on.
CREATE TABLE kind_pauses (
  kind        TEXT PRIMARY KEY NOT NULL,
  paused_by   TEXT NOT NULL,
  note        TEXT,
  created_at  TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now'))
) STRICT;

-- All that the figures of the last days ask for: rows with large inputs and results are not read.
CREATE INDEX jobs_ended ON jobs (finished_at, kind, status, error_code, attempt, attempts_spent, releases, started_at)
  WHERE finished_at IS NOT NULL;

DROP VIEW v_in_flight;
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

DROP VIEW v_statement;
CREATE VIEW v_statement AS
SELECT coalesce(u.email, CASE WHEN u.deleted_at IS NULL THEN 'guest ' ELSE 'deleted account ' END || u.id) AS user,
       l.id, l.created_at, l.kind, l.points, l.balance_after, j.number, j.kind AS for_kind, l.note, l.user_id
FROM ledger_entries l JOIN users u ON u.id = l.user_id LEFT JOIN jobs j ON j.id = l.job_id
ORDER BY l.user_id, l.id;
