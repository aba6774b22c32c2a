"""Cancelling in real Chromium: a page pressed late costs nothing that it had not said; the operator's stop shows at once."""
import json

from selenium.webdriver.common.by import By

from tests.chromium import browser, fits, needs_chromium, no_complaints, sign_in, text, wait  # noqa: F401

pytestmark = needs_chromium


def _account(running, email):
    return json.loads(running.flask("users", "add", email, "--points", "3", "--json").stdout)


def _press(driver):
    driver.find_element(By.CSS_SELECTOR, "form.cancel button").click()


def test_a_page_that_heard_of_no_charge_cancels_nothing_that_costs(server, browser):
    running = server(MAX_RUNNING_JOBS=1)
    made, other = _account(running, "p@example.org"), _account(running, "q@example.org")
    driver = browser(320)
    sign_in(driver, running, "p@example.org", made["password"])
    before = running.post("/api/kinds/slow/jobs", {"seconds": 60}, token=other["token"]).json["job"]["id"]
    job_id = running.post("/api/kinds/slow/jobs", {"seconds": 60}, token=made["token"]).json["job"]["id"]
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": ["*/job.js*"]})  # it hears of nothing, as on a phone that sleeps
    driver.get(f"{running.url}/jobs/{job_id}")
    assert "Nothing has been used: if you cancel now, no points are used." in text(driver)
    running.post(f"/api/jobs/{before}/cancellation", token=other["token"])
    wait(driver, lambda d: running.get(f"/api/jobs/{job_id}", token=made["token"]).json["money"] == "consumed")
    assert "Nothing has been used: if you cancel now, no points are used." in text(driver)
    _press(driver)
    wait(driver, lambda d: "1 point has been used meanwhile: if you cancel now it is not returned." in text(d))
    assert running.get(f"/api/jobs/{job_id}", token=made["token"]).json["cancel_requested_at"] is None
    fits(driver)
    driver.execute_cdp_cmd("Network.setBlockedURLs", {"urls": []})
    _press(driver)
    wait(driver, lambda d: "You cancelled after 1 point had been used: it is kept (balance 2)." in text(d))


def test_the_operators_stop_reaches_the_page_and_the_points_come_back(server, browser):
    running = server()
    made = _account(running, "p@example.org")
    driver = browser(390)
    sign_in(driver, running, "p@example.org", made["password"])
    job = running.post("/api/kinds/slow/jobs", {"seconds": 60}, token=made["token"]).json["job"]
    driver.get(f"{running.url}/jobs/{job['id']}")
    wait(driver, lambda d: "if you cancel now they are not returned" in text(d))
    running.flask("jobs", "cancel", job["number"])
    wait(driver, lambda d: "The operator stopped this." in text(d))
    assert "The 1 point it had used has been returned (balance 3)." in text(driver) and "You cancelled" not in text(driver)
    fits(driver)
    no_complaints(driver)


def test_who_has_left_is_offered_no_cancel_and_the_last_one_ends_it(server, browser):
    running = server()
    one, two = _account(running, "p@example.org"), _account(running, "q@example.org")
    driver = browser(320, scripts=False)
    sign_in(driver, running, "p@example.org", one["password"])
    for made in (one, two):
        job_id = running.post("/api/kinds/shared/jobs", {"seconds": 60}, token=made["token"]).json["job"]["id"]
    driver.get(f"{running.url}/jobs/{job_id}")
    _press(driver)
    wait(driver, lambda d: "You have left this. It goes on for the others" in text(d))
    assert not driver.find_element(By.CSS_SELECTOR, "form.cancel button").is_displayed()
    fits(driver)
    running.post(f"/api/jobs/{job_id}/cancellation", token=two["token"])
    wait(driver, lambda d: "You had left this; the last person who waited for it cancelled it." in text(d))
    fits(driver)
