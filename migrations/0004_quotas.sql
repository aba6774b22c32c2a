-- Daily allowances of metered services, and results that no later asker is given.
ALTER TABLE jobs ADD COLUMN reusable INTEGER NOT NULL DEFAULT 1 CONSTRAINT jobs_reusable CHECK (reusable IN (0, 1));

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
