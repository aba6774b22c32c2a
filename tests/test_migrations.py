"""Migrations on a file in use: every row and law is kept, or nothing is changed."""
import re
import shutil
import sqlite3
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT
from tests.test_schema import BROKEN, FIRST, HISTORY, HISTORY_OF_ACCOUNTS, HISTORY_OF_QUOTAS, WITHOUT, contents, laws, run
from webapp import db, jobs, ledger
from webapp.errors import SettingsError

SCHEMA = ROOT / "schema.sql"


@pytest.fixture
def migrations(tmp_path):
    """A folder of migrations, and a function that adds a file to it."""
    folder = tmp_path / "migrations"
    folder.mkdir()

    def add(name, text):
        (folder / name).write_text(text)
        return folder
    add.folder = folder
    return add


@pytest.fixture
def file(tmp_path):
    """A file, called version 1, in which something of everything has happened."""
    return populated(tmp_path, SCHEMA, *HISTORY_OF_ACCOUNTS, *HISTORY_OF_QUOTAS)


def populated(tmp_path, schema, *more):
    path = tmp_path / "data" / "ainori.db"
    path.parent.mkdir()
    none(tmp_path).mkdir()
    db.prepare(path, schema, none(tmp_path))
    connection = sqlite3.connect(path)
    run(connection, *HISTORY, *more)
    connection.close()
    return path


def none(tmp_path):
    """The folder of a code that knows no migration."""
    return tmp_path / "none"


@pytest.fixture(autouse=True)
def signals_as_at_a_start():
    jobs.signals.__init__()


def whole(path):
    """Rows, schema and version."""
    connection = sqlite3.connect(path)
    try:
        return (contents(path), connection.execute("SELECT type, name, sql FROM sqlite_master ORDER BY name").fetchall(),
                connection.execute("PRAGMA user_version").fetchone()[0])
    finally:
        connection.close()


def rebuild_jobs(path):
    """SQL that makes the table with the most children anew, with a column more, as SQLite's documentation says."""
    connection = sqlite3.connect(path)
    (table,) = connection.execute("SELECT sql FROM sqlite_master WHERE name = 'jobs'").fetchone()
    others = connection.execute("SELECT sql FROM sqlite_master WHERE tbl_name = 'jobs' AND type IN ('index', 'trigger') "
                                "AND sql IS NOT NULL").fetchall()
    columns = ", ".join(row[1] for row in connection.execute("PRAGMA table_info(jobs)"))
    connection.close()
    table = re.sub(r"CREATE TABLE \"?jobs\"?", "CREATE TABLE jobs_new", table)
    table = table.replace("  CONSTRAINT jobs_status", "  priority INTEGER NOT NULL DEFAULT 5,\n  CONSTRAINT jobs_status", 1)
    return ("PRAGMA legacy_alter_table = on;  -- views and triggers of other tables name jobs meanwhile\n"
            f"{table};\nINSERT INTO jobs_new ({columns}) SELECT {columns} FROM jobs;\nDROP TABLE jobs;\n"
            "ALTER TABLE jobs_new RENAME TO jobs;\n" + ";\n".join(row[0] for row in others) + ";\n")


def test_a_rebuild_with_a_new_column_keeps_every_row(file, migrations):
    before = contents(file)
    db.prepare(file, SCHEMA, migrations("0002_priority.sql", rebuild_jobs(file)))
    after = contents(file)
    at = [column[1] for column in columns(file, "jobs")].index("priority")
    assert {row[at] for row in after["jobs"]} == {5}
    after["jobs"] = [row[:at] + row[at + 1:] for row in after["jobs"]]
    assert after == before
    assert whole(file)[2] == 2


def columns(path, table):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"PRAGMA table_info({table})").fetchall()
    finally:
        connection.close()


def test_a_rebuild_keeps_every_law(file, migrations):
    connection = sqlite3.connect(file)
    before = laws(connection)
    connection.close()
    db.prepare(file, SCHEMA, migrations("0002_priority.sql", rebuild_jobs(file)))
    connection = sqlite3.connect(file, isolation_level=None)
    assert laws(connection) == before
    assert not connection.execute("PRAGMA foreign_key_check").fetchall()
    for law, statements in BROKEN.items():
        for statement in statements:
            connection.execute("BEGIN")
            for first in (*(f"DROP TRIGGER {trigger}" for trigger in WITHOUT.get(law, ())), *FIRST.get(law, ())):
                connection.execute(first)
            with pytest.raises(sqlite3.IntegrityError, match=re.escape(before[law])):
                connection.execute(statement)
            connection.execute("ROLLBACK")
    connection.close()


def test_the_app_goes_on_with_a_migrated_file(file, migrations):
    db.open_store(file, schema=SCHEMA, migrations=migrations("0002_priority.sql", rebuild_jobs(file)))
    assert jobs.settle("due") == "settled"
    assert ledger.balance(1) == 4
    assert ledger.grant(1, 1, "after") == 5
    assert {row["id"] for row in jobs.claim("w", ["k"], 9)} == {"pending", "shared", "other"}
    assert ledger.audit() == []


def test_several_migrations_run_in_order_and_once(file, migrations):
    migrations("0002_one.sql", "CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT) STRICT;\n"
                               "CREATE TRIGGER notes_kept BEFORE DELETE ON notes\n"
                               "BEGIN SELECT RAISE(ABORT, 'notes_kept: they stay'); END;\n")
    migrations("0003_two.sql", "INSERT INTO notes (text) VALUES ('once; only'); -- a remark; with a semicolon\n")
    for _ in range(2):
        db.prepare(file, SCHEMA, migrations.folder)
    assert contents(file)["notes"] == [(1, "once; only")]
    assert whole(file)[2] == 3


@pytest.mark.parametrize("text, why", [
    ("CREATE TABLE extra (x TEXT) STRICT;\nDELETE FROM job_events;\nINSERT INTO nowhere VALUES (1);", "nowhere"),
    ("CREATE TABLE extra (x TEXT) STRICT;\nDELETE FROM ledger_entries;", "ledger_entries_append_only"),
    ("CREATE TABLE extra (x TEXT) STRICT;\nDELETE FROM jobs WHERE id = 'done';", "refer to nothing"),
    ("CREATE TABLE extra (x TEXT) STRICT;\nCREATE TABLE unfinished (x TEXT", "ends within a statement"),
])
def test_a_failing_migration_changes_nothing(file, migrations, tmp_path, text, why):
    before = whole(file)
    with pytest.raises(SettingsError) as refused:
        db.prepare(file, SCHEMA, migrations("0002_bad.sql", text))
    assert why in str(refused.value) and "\n" not in str(refused.value)
    assert whole(file) == before
    db.prepare(file, SCHEMA, none(tmp_path))  # the code before it still opens the file


def test_a_file_that_failed_is_migrated_when_its_migration_is_mended(file, migrations):
    with pytest.raises(SettingsError):
        db.prepare(file, SCHEMA, migrations("0002_x.sql", "CREATE TABLE extra (x TEXT) STRICT;\nSELECT * FROM nowhere;"))
    db.prepare(file, SCHEMA, migrations("0002_x.sql", "CREATE TABLE extra (x TEXT) STRICT;"))
    assert contents(file)["extra"] == []


# ---------------------------------------------------------------------------- our own migrations

def shape(path):
    """Columns, laws, indexes, triggers and views: all that the text of a table says, however it is laid out."""
    connection = sqlite3.connect(path)
    try:
        tables = [row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name")]
        return ({table: connection.execute(f"PRAGMA table_xinfo({table})").fetchall() for table in tables},
                laws(connection), connection.execute("SELECT name, sql FROM sqlite_master WHERE type <> 'table' "
                                                     "ORDER BY name").fetchall())
    finally:
        connection.close()


@pytest.mark.parametrize("version", [1, 2, 3])
def test_a_file_of_an_older_version_becomes_what_a_new_file_is_and_keeps_every_row(tmp_path, version):
    path = populated(tmp_path, ROOT / "tests" / "data" / f"schema-version-{version}.sql",
                     *(HISTORY_OF_ACCOUNTS if version > 2 else ()))
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {version}")
    connection.close()
    before = contents(path)
    db.prepare(path, SCHEMA, ROOT / "migrations")
    after = contents(path)
    added = {"jobs": (1,)} if version > 2 else {"users": (None, None, None, None), "jobs": (None, 1)} | ({} if version > 1 else {
        "incidents": (None, 1),    # nobody was told of it, and it came once
        "workers": (None, None)})  # its clock is not known
    for table, rows in before.items():
        assert after[table] == [row + added.get(table, ()) for row in rows], table
    assert not any(after[table] for table in after.keys() - before.keys())
    new = tmp_path / "new.db"
    db.prepare(new, SCHEMA, ROOT / "migrations")
    assert shape(path) == shape(new)
    assert whole(path)[2] == whole(new)[2]
    db.open_store(path, schema=SCHEMA, migrations=ROOT / "migrations")
    assert jobs.settle("due") == "settled" and ledger.audit() == []


# ------------------------------------------------------------------------------------- the copy

def copy_of(file):
    return file.with_name(f"{file.name}.version-1.backup")


def test_a_whole_copy_of_the_file_before_is_kept(file, migrations):
    before = whole(file)
    db.prepare(file, SCHEMA, migrations("0002_x.sql", "CREATE TABLE extra (x TEXT) STRICT;"))
    assert whole(copy_of(file)) == before
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name, copy_of(file).name]


def test_the_copy_is_of_now_not_of_a_migration_that_failed_long_ago(file, migrations):
    with pytest.raises(SettingsError):
        db.prepare(file, SCHEMA, migrations("0002_x.sql", "SELECT * FROM nowhere;"))
    connection = sqlite3.connect(file)
    run(connection, "INSERT INTO ledger_entries (user_id, kind, points, balance_after) VALUES (2, 'grant', 1, 2)")
    connection.close()
    before = whole(file)
    db.prepare(file, SCHEMA, migrations("0002_x.sql", "CREATE TABLE extra (x TEXT) STRICT;"))
    assert whole(copy_of(file)) == before


def test_the_copy_can_be_put_back(file, migrations, tmp_path):
    db.prepare(file, SCHEMA, migrations("0002_x.sql", "CREATE TABLE extra (x TEXT) STRICT;"))
    shutil.copy(copy_of(file), file)
    db.open_store(file, schema=SCHEMA, migrations=none(tmp_path))
    assert ledger.balance(1) == 3
    assert db.value("PRAGMA journal_mode") == "wal"


# ------------------------------------------------------------------------------------- refusals

@pytest.mark.parametrize("names", [["0003_late.sql"], ["0002_a.sql", "0004_b.sql"], ["0001_a.sql"]])
def test_gaps_are_refused(file, migrations, names):
    before = whole(file)
    for name in names:
        migrations(name, "CREATE TABLE extra (x TEXT) STRICT;")
    with pytest.raises(SettingsError, match="without gaps"):
        db.prepare(file, SCHEMA, migrations.folder)
    assert whole(file) == before


def test_a_newer_file_is_refused_in_one_line(file, migrations):
    connection = sqlite3.connect(file)
    connection.execute("PRAGMA user_version = 7")
    connection.close()
    before = whole(file)
    with pytest.raises(SettingsError) as refused:
        db.prepare(file, SCHEMA, ROOT / "migrations")
    assert "version 7" in str(refused.value) and "\n" not in str(refused.value)
    assert whole(file) == before


def test_another_programs_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    run(connection, "CREATE TABLE theirs (x)", "INSERT INTO theirs VALUES (1)")
    connection.close()
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="another program"):
        db.prepare(path, SCHEMA, ROOT / "migrations")
    assert path.read_bytes() == before


def test_what_is_no_database_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("these are my notes, not a database\n" * 100)
    before = path.read_bytes()
    with pytest.raises(SettingsError, match="not a database"):
        db.prepare(path, SCHEMA, ROOT / "migrations")
    assert path.read_bytes() == before


def test_a_missing_file_is_not_made_where_it_may_not_be(tmp_path):
    with pytest.raises(SettingsError, match="ALLOW_NEW_DATABASE"):
        db.prepare(tmp_path / "gone.db", SCHEMA, ROOT / "migrations", may_create=False)
    assert list(tmp_path.iterdir()) == []


def test_an_empty_file_is_filled(tmp_path):
    path = tmp_path / "empty.db"
    path.touch()
    db.prepare(path, SCHEMA, ROOT / "migrations")
    assert whole(path)[1]


def test_a_new_file_is_of_the_newest_version_and_runs_no_migration(tmp_path, migrations):
    path = tmp_path / "new.db"
    db.prepare(path, SCHEMA, migrations("0002_x.sql", "SELECT * FROM nowhere;"))
    assert whole(path)[2] == 2


def test_the_schema_says_the_version_of_the_newest_migration():
    newest = max(db._migration_files(ROOT / "migrations"), default=1)
    assert f"PRAGMA user_version = {newest};" in SCHEMA.read_text()


# ---------------------------------------------------------------------------- several processes

PREPARE = """
import sys, time
from pathlib import Path
from webapp import db
schema, migrations, starts, *paths = sys.argv[1:]
print("ready", flush=True)
starts = float(sys.stdin.readline())
for n, path in enumerate(paths):
    time.sleep(max(0, starts + n * 0.06 - time.time()))
    db.prepare(Path(path), Path(schema), Path(migrations))
"""


def all_at_once(processes, migrations, paths):
    """So many processes prepare the same files at the same moments."""
    started = [subprocess.Popen([sys.executable, "-c", PREPARE, SCHEMA, migrations, "-", *paths], cwd=ROOT, text=True,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
               for _ in range(processes)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    starts = time.time() + 0.1
    said = []
    for process in started:
        process.stdin.write(f"{starts}\n")
        process.stdin.flush()
    for process in started:
        said.append(process.communicate(timeout=60)[1])
        assert process.returncode == 0, said[-1]
    return said


def test_processes_that_create_a_file_at_once_make_one(tmp_path):
    paths = [tmp_path / f"{n}.db" for n in range(25)]
    all_at_once(4, ROOT / "migrations", paths)
    one = tmp_path / "one.db"
    db.prepare(one, SCHEMA, ROOT / "migrations")
    for path in paths:
        assert whole(path) == whole(one)


def test_processes_that_migrate_a_file_at_once_do_it_once(file, migrations, tmp_path):
    migrations("0002_priority.sql", rebuild_jobs(file))
    migrations("0003_grant.sql", "INSERT INTO ledger_entries (user_id, kind, points, balance_after) VALUES (2, 'grant', 1, 2);")
    before = whole(file)
    paths = [shutil.copy(file, tmp_path / f"{n}.db") for n in range(15)]
    all_at_once(4, migrations.folder, paths)
    db.prepare(file, SCHEMA, migrations.folder)
    at = [column[1] for column in columns(file, "ledger_entries")].index("created_at")
    for path in paths:
        now, alone = contents(path), contents(file)
        for found in (now, alone):
            found["ledger_entries"] = [row[:at] for row in found["ledger_entries"]]
        assert now == alone
        assert whole(copy_of(path)) == before
