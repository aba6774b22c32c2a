"""The columns of schema.sql for the query builder. schema.sql makes the tables; rows have no behaviour."""
from peewee import AutoField, CompositeKey, FloatField, IntegerField, Model, TextField


class User(Model):
    id = AutoField()
    email = TextField(null=True)
    password_hash = TextField(null=True)
    token_hash = TextField(null=True)
    guest_key = TextField(null=True)
    is_admin = IntegerField()
    lang = TextField(null=True)
    created_at = TextField()
    reset_hash = TextField(null=True)
    reset_expires_at = TextField(null=True)
    merged_into = IntegerField(null=True)
    deleted_at = TextField(null=True)

    class Meta:
        table_name = "users"


class Session(Model):
    id = TextField(primary_key=True)
    user_id = IntegerField()
    created_at = TextField()

    class Meta:
        table_name = "sessions"


class Job(Model):
    id = TextField(primary_key=True)
    number = TextField()
    kind = TextField()
    user_id = IntegerField()
    status = TextField()
    stage = TextField(null=True)
    progress = FloatField()
    progress_note = TextField(null=True)
    attempt = IntegerField()
    attempts_spent = IntegerField()
    max_attempts = IntegerField()
    releases = IntegerField()
    on_interrupt = TextField()
    timeout_seconds = IntegerField()
    cost = IntegerField()
    share_key = TextField(null=True)
    exclusive_key = TextField(null=True)
    worker_id = TextField(null=True)
    deadline_at = TextField(null=True)
    cancel_requested_at = TextField(null=True)
    settlement = TextField()
    error_code = TextField(null=True)
    error_facts = TextField(null=True)
    kept_by = TextField(null=True)
    kept_note = TextField(null=True)
    retry_of = TextField(null=True)
    lang = TextField()
    params = TextField()
    params_hash = TextField()
    result = TextField(null=True)
    rows_count = IntegerField(null=True)
    created_at = TextField()
    started_at = TextField(null=True)
    finished_at = TextField(null=True)
    expired_at = TextField(null=True)
    stopped_by = TextField(null=True)
    reusable = IntegerField()

    class Meta:
        table_name = "jobs"


class JobEvent(Model):
    job_id = TextField()
    seq = IntegerField()
    at = TextField()
    event = TextField()
    attempt = IntegerField()
    data = TextField(null=True)

    class Meta:
        table_name = "job_events"
        primary_key = CompositeKey("job_id", "seq")


class JobStep(Model):
    job_id = TextField()
    name = TextField()
    output = TextField()
    attempt = IntegerField()
    created_at = TextField()

    class Meta:
        table_name = "job_steps"
        primary_key = CompositeKey("job_id", "name")


class JobWatcher(Model):
    id = AutoField()
    job_id = TextField()
    user_id = IntegerField()
    idempotency_key = TextField(null=True)
    request_hash = TextField()
    seen_at = TextField(null=True)
    left_at = TextField(null=True)
    created_at = TextField()

    class Meta:
        table_name = "job_watchers"


class JobFile(Model):
    job_id = TextField()
    name = TextField()
    media_type = TextField()
    size_bytes = IntegerField()

    class Meta:
        table_name = "job_files"
        primary_key = CompositeKey("job_id", "name")


class LedgerEntry(Model):
    id = AutoField()
    user_id = IntegerField()
    job_id = TextField(null=True)
    kind = TextField()
    points = IntegerField()
    balance_after = IntegerField()
    note = TextField(null=True)
    created_at = TextField()

    class Meta:
        table_name = "ledger_entries"


class Worker(Model):
    id = TextField(primary_key=True)
    role = TextField()
    host = TextField()
    pid = IntegerField()
    started_at = TextField()
    heartbeat_at = TextField()
    stopped_at = TextField(null=True)
    clock = FloatField(null=True)
    boot_id = TextField(null=True)

    class Meta:
        table_name = "workers"


class Incident(Model):
    id = AutoField()
    at = TextField()
    severity = TextField()
    scope = TextField()
    code = TextField()
    job_id = TextField(null=True)
    user_id = IntegerField(null=True)
    detail = TextField()
    resolved_at = TextField(null=True)
    acknowledged_at = TextField(null=True)
    alerted_at = TextField(null=True)
    times = IntegerField()

    class Meta:
        table_name = "incidents"


class QuotaDay(Model):
    quota = TextField()
    day = TextField()
    spent = IntegerField()
    spent_by_guests = IntegerField()
    exhausted_at = TextField(null=True)

    class Meta:
        table_name = "quota_days"
        primary_key = CompositeKey("quota", "day")


class KindPause(Model):
    kind = TextField(primary_key=True)
    paused_by = TextField()
    note = TextField(null=True)
    created_at = TextField()

    class Meta:
        table_name = "kind_pauses"
