"""The crash test itself: a short round of it, and that it notices what is wrong."""
import copy
import json

import pytest

from webapp import crashtest, verdicts
from webapp.crashtest import BLOWS, BLOWS_OF_BREAK, CrashTest, Work
from webapp.verdicts import AFTER, PENDING, Rows

WORK = Work("sample", {"seconds": 0.4}, {"seconds": 0.4, "fail": True}, {"seconds": 0})


@pytest.fixture
def crash_test(tmp_path):
    """Make crash tests of ``sample``; a machine that runs tests is slow, so the truth may take longer here."""
    made = []

    def make(**options):
        made.append(CrashTest(tmp_path / str(len(made)), WORK, kinds="sample", seed=20261130, within_ms=5000, **options))
        made[-1].begin()
        return made[-1]
    yield make
    for test in made:
        test.close()


def test_every_blow_leaves_right_books_and_true_words(crash_test):
    test = crash_test()
    for blow in BLOWS:
        assert test.run(blow).breaches == []
    for _ in range(2):  # the ways of being paused differ: alone, beside another, taken for dead
        assert test.run("stop").breaches == []
    while not test.enough(10) and len(test.trials) < 20:
        assert test.next_trial().breaches == []
    test.finish()
    assert test.trials[-1].breaches == [], "the operator's own audit"
    assert not test.missed(), {state: test.hits(state) for state in test.wanted}
    assert all(trial.told_at_once == len(trial.jobs) for trial in test.killed), "the first answer is the truth"
    report = "\n".join(crashtest.report(test))
    assert "breaches: 0" in report and f"{len(test.trials)} trials" in report


def test_the_statements_of_a_life_and_of_recovery_are_known(crash_test):
    test = crash_test(blows=["statement"])
    for verb in ("_climb", "claim", "charge", "progress", "succeed", "fail", "settle"):
        assert any(name.startswith(f"{verb}: ") for name in test.statements), verb
    for verb in ("_register", "reap", "settle"):
        assert any(name.startswith(f"{verb}: ") for name in test.recovery_statements), verb
    assert "writer: COMMIT" in test.statements
    assert any(name.startswith("charge: INSERT INTO ledger_entries") for name in test.statements)


@pytest.mark.parametrize("broken", BLOWS_OF_BREAK)
def test_a_protection_that_is_taken_out_is_noticed(crash_test, broken):
    test = crash_test(blows=BLOWS_OF_BREAK[broken], broken=broken)
    for _ in range(4):
        if test.next_trial().breaches:
            return
    pytest.fail(f"{broken} was taken out, and nothing was noticed")


def test_a_kind_of_several_steps_that_may_be_repeated_is_in_the_right(app, tmp_path, monkeypatch):
    """Its steps stand until it has succeeded, and then are gone: neither is a breach. Its list is given entry by entry."""
    with app.app_context():
        texts = crashtest.name_and_value(None, None, ["items={n} a", "items=bb"])
        work = crashtest._work(app.kinds["counting"], texts, None)
    monkeypatch.setenv("EXTRA_KINDS", "tests.kinds")
    test = CrashTest(tmp_path, work, kinds="", seed=7, within_ms=5000, blows=["kill"])
    try:
        test.begin()
        for aim in (AFTER, AFTER, PENDING):
            assert test.run("kill", aim).breaches == []
        after = verdicts.read_live(test.server.database)
    finally:
        test.close()
    told = [event for story in after.events.values() for event in story]
    assert any(event["event"] == "step" and event["attempt"] == 1 for event in told)
    assert any(event["event"] == "step" and event["attempt"] == 2 for event in told), "some were interrupted"
    assert json.loads(next(iter(after.jobs.values()))["params"])["items"][1] == "bb"


# ---------------------------------------------------------------------- what the verdicts hold against

PAID = {"id": "j1", "number": "7K3F-92QD", "user_id": 1, "cost": 1, "attempt": 1, "attempts_spent": 1, "releases": 0,
        "max_attempts": 1, "on_interrupt": "fail", "status": "failed", "settlement": "settled",
        "error_code": "INTERRUPTED", "kept_by": None}
ENTRIES = [("grant", 3, 3, None), ("consume", -1, 2, "j1"), ("refund", 1, 3, "j1")]
STORY = [("submitted", 0, {}), ("claimed", 1, {}), ("charged", 1, {}), ("interrupted", 1, {}), ("failed", 1, {}),
         ("settled", 1, {"points": 1})]


def rows(entries=ENTRIES, story=STORY, **job):
    return Rows({"j1": {**PAID, **job}},
                {n: {"id": n, "user_id": 1, "kind": kind, "points": points, "balance_after": balance, "job_id": job_id}
                 for n, (kind, points, balance, job_id) in enumerate(entries, 1)}, {},
                {"j1": [{"event": event, "attempt": attempt, "data": json.dumps(data)}
                        for event, attempt, data in story]})


def test_what_is_right_is_not_held_against():
    assert [*verdicts.check_books(rows()), *verdicts.check_events(rows())] == []


@pytest.mark.parametrize("wrong, words", [
    (rows(entries=ENTRIES[:2]), "consumed 1 times, returned 0 times"),
    (rows(entries=[*ENTRIES, ("refund", 1, 4, "j1")]), "2 entries of refund"),
    (rows(entries=[ENTRIES[0], ("consume", -2, 1, "j1"), ("refund", 2, 3, "j1")]), "does not fit its job"),
    (rows(entries=[("grant", 3, 3, None), ("refund", 1, 4, "j1")]), "returned what was never consumed"),
    (rows(entries=[("grant", 3, 4, None)]), "says balance 4; the sum is 3"),
    (rows(story=[*STORY, ("progress", 1, {})]), "['progress'] after its end"),
    (rows(story=STORY[:4]), "its story ends []"),
    (rows(story=[*STORY[:5], ("failed", 1, {}), STORY[5]]), "its story ends ['failed', 'failed']"),
    (rows(story=[STORY[0], ("claimed", 2, {}), *STORY[2:]]), "wrote after a later one had begun"),
    (rows(story=[STORY[0], *STORY[2:]]), "0 events of 'claimed', it must be 1"),
    (rows(story=[*STORY[:2], *STORY[3:]]), "0 events of 'charged', it must be 1"),
    (rows(story=[*STORY[:5], ("settled", 1, {"points": 0})]), "its story says [0] returned"),
    (rows(story=[*STORY[:2], ("step", 1, {"name": "s0"}), ("step", 2, {"name": "s0"})]),
     "step 's0' was done by 2 attempts"),
])
def test_what_is_wrong_is_found(wrong, words):
    found = [*verdicts.check_books(wrong), *verdicts.check_events(wrong)]
    assert any(words in breach for breach in found), found


@pytest.mark.parametrize("status, steps, words", [
    ("running", {"s0": "1"}, None), ("running", {"s0": "1", "s1": "1"}, None), ("succeeded", {}, None),
    ("failed", {"s0": "1"}, None),
    ("running", {"s0": "2"}, "is not as it was"), ("failed", {}, "is not as it was"), ("succeeded", {"s0": "1"}, "is kept"),
])
def test_a_step_stands_until_its_job_has_succeeded(status, steps, words):
    before, after = rows(**RUNNING), rows(status=status)
    before.steps, after.steps = {("j1", "s0"): "1"}, {("j1", name): output for name, output in steps.items()}
    found = list(verdicts.check_steps(before, after))
    assert found == [] if words is None else [words in breach for breach in found] == [True], found


@pytest.mark.parametrize("bare_ms, most", [(50, 1000), (333, 1000), (500, 1500)])
def test_a_slow_machine_is_measured_by_its_own_bare_start(tmp_path, bare_ms, most):
    test = CrashTest(tmp_path, WORK, kinds="sample")
    test.bare_ms = bare_ms
    assert test.truth_ms_max == most
    test.close()


RUNNING = {"status": "running", "settlement": "none", "error_code": None, "attempts_spent": 0}


@pytest.mark.parametrize("after, gone, words", [
    (rows(), True, None),
    (rows(**RUNNING), False, None),
    (rows(**RUNNING), True, "was left running"),
    (rows(settlement="due"), True, "was left failed, due"),
    (rows(entries=ENTRIES[:2]), True, "its points were not returned"),
    (rows(attempts_spent=0), True, "attempts spent 0, then 0"),
    (rows(error_code="TIMED_OUT", attempts_spent=0), True, "ended TIMED_OUT"),
    (Rows({}, {}, {}, {}), True, "is lost"),
])
def test_what_a_drain_leaves(after, gone, words):
    found = list(verdicts.check_drained(rows(entries=ENTRIES[:2], **RUNNING), after, gone))
    assert found == [] if words is None else any(words in breach for breach in found), found


def test_a_drain_may_not_interrupt_what_may_be_repeated():
    before, after = (copy.deepcopy(rows(on_interrupt="retry", **changes)) for changes in (RUNNING, {}))
    assert any("may be repeated" in breach for breach in verdicts.check_drained(before, after, gone=True))


@pytest.mark.parametrize("answer, verdict", [
    ({}, "true"),
    ({"money": "checking"}, "not yet"),
    ({"status": "running", "error": None}, "not yet"),
    ({"money": "none", "money_message": "The work was interrupted. No points were used."}, "says failed"),
    ({"money_message": "The work was interrupted. No points were used."}, "lacks"),
    ({"money_message": "The work was interrupted. The 1 point it had used has been returned (balance 4)."}, "lacks"),
    ({"status": "succeeded", "error": None}, "says succeeded"),
    ({"error": {"code": "TIMED_OUT"}}, "says failed, TIMED_OUT"),
])
def test_what_a_user_may_be_told_after_a_kill(answer, verdict):
    at_the_kill = rows(entries=ENTRIES[:2], **RUNNING)
    told = {"status": "failed", "error": {"code": "INTERRUPTED"}, "money": "refunded",
            "money_message": "The work was interrupted. The 1 point it had used has been returned (balance 3).", **answer}
    judged = verdicts.judge(told, verdicts.expectation(at_the_kill, "j1"), at_the_kill.jobs["j1"], rows())
    assert verdict in judged and (verdict in ("true", "not yet")) == (judged == verdict)


@pytest.mark.parametrize("args, words", [
    (["nosuch"], "There is no kind 'nosuch' here. The kinds that are on: sample, "),
    (["no.such"], "There is no kind 'no.such' here."),
    (["sample", "--file", __file__], "The kind 'sample' takes no file."),
    (["--break", "fence", "--blow", "kill"], "--break fence is looked for with --blow stop"),
    (["--break", "reap", "--blow", "term", "--blow", "hup"], "--blow term, hup would not show it"),
])
def test_what_cannot_work_is_refused_in_one_line_before_anything_is_made(app, tmp_path, monkeypatch, args, words):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "none"))  # whoever makes something there fails
    with app.app_context():
        done = app.test_cli_runner().invoke(args=["crashtest", *args])
    assert done.exit_code == 2 and words in done.stderr, (done.output, done.exception)
    assert done.stderr.count("\n") == 1 and not done.stdout


@pytest.mark.parametrize("kind, kinds_on, blows, broken", [
    ("sample", {"comments": None}, (), None), ("mine", {"mine": None}, ("kill",), None),
    ("sample", {}, ("stop", "kill"), "fence"), ("sample", {}, (), "reap")])
def test_what_can_work_is_not_refused(kind, kinds_on, blows, broken):
    crashtest._refuse_what_cannot_work(kind, kinds_on, blows, broken)
