"""The state machine, from the outside: what is submitted, joined, refused, cancelled, tried again."""
import gevent

from webapp import db, jobs, ledger


def test_a_paid_job_lives_its_life(service, person):
    someone = person(points=3)
    answer = someone.submit("paid")
    assert answer.status_code == 202 and answer.headers["Location"] == f"/api/jobs/{answer.json['job']['id']}"
    job = someone.finished(answer.json["job"]["id"])
    assert (job["status"], job["money"], job["result"]) == ("succeeded", "consumed", {"done": True})
    assert someone.balance() == 2
    assert job["money_message"] == "1 point was used (balance 2)."
