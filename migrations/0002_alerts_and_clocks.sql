-- When the operator was told of an incident, and how often one about no job came.
ALTER TABLE incidents ADD COLUMN alerted_at TEXT;
ALTER TABLE incidents ADD COLUMN times INTEGER NOT NULL DEFAULT 1;
CREATE INDEX incidents_open ON incidents (severity) WHERE acknowledged_at IS NULL AND resolved_at IS NULL;

DROP VIEW v_incidents_open;
CREATE VIEW v_incidents_open AS
SELECT i.id, i.at, i.severity, i.scope, i.code, j.number, i.detail, i.times, i.alerted_at, i.job_id, i.user_id
FROM incidents i LEFT JOIN jobs j ON j.id = i.job_id
WHERE i.acknowledged_at IS NULL AND i.resolved_at IS NULL ORDER BY i.id;

-- What a worker's clock was when it wrote its times: one that was set since makes nobody late or dead.
ALTER TABLE workers ADD COLUMN clock REAL;
ALTER TABLE workers ADD COLUMN boot_id TEXT;
