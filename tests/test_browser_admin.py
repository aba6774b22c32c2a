"""The operator's pages and the status in real Chromium: on a small phone, in both languages, by keyboard."""
import json

import pytest
from selenium.webdriver.common.by import By

from tests.chromium import browser, fits, needs_chromium, no_complaints, sign_in, text, wait  # noqa: F401

pytestmark = needs_chromium


@pytest.mark.parametrize("lang, width", [("en", 320), ("ja", 320), ("en", 1280)])
def test_nothing_hangs_out_and_nothing_is_blocked(server, browser, lang, width):
    running = server(KINDS="comments,sample", EXTRA_KINDS="", SUPPORT_CONTACT="help@example.org")
    made = json.loads(running.flask("users", "add", "op@example.org", "--admin", "--points", "3", "--json").stdout)
    job = running.post("/api/kinds/sample/jobs", {"seconds": 0}, token=made["token"]).json["job"]
    running.finished(job["id"], token=made["token"])
    running.flask("kinds", "pause", "comments", "--note", "Back at noon.")
    driver = browser(width, lang=lang)
    sign_in(driver, running, "op@example.org", made["password"])
    for path in ("/admin", "/admin/incidents", "/admin/users", "/admin/user/1", f"/admin/jobs/{job['id']}", "/admin/kinds",
                 "/admin/system", "/status", "/kinds/comments"):
        driver.get(running.url + path)
        fits(driver)
        assert len(driver.find_elements(By.TAG_NAME, "h1")) == 1, path
        no_complaints(driver)


def test_an_operator_pauses_a_kind_and_checks_the_books_without_scripts(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="", SUPPORT_CONTACT="help@example.org")
    made = json.loads(running.flask("users", "add", "op@example.org", "--admin", "--json").stdout)
    driver = browser(390, scripts=False)
    sign_in(driver, running, "op@example.org", made["password"])
    driver.find_element(By.LINK_TEXT, "Operator").click()
    assert "Nothing needs you." in text(driver)
    driver.find_element(By.LINK_TEXT, "On offer").click()
    driver.find_element(By.CSS_SELECTOR, "section[aria-labelledby=kind-sample] summary").click()
    driver.find_element(By.ID, "note-sample").send_keys("Back at noon\n")
    wait(driver, lambda d: "is paused" in text(d))
    driver.get(f"{running.url}/status")
    assert "Back at noon" in text(driver)
    assert [row["paused_by"] for row in running.rows("SELECT * FROM kind_pauses")] == ["op@example.org"]
    driver.get(f"{running.url}/admin/system")
    driver.find_element(By.XPATH, "//button[text()='Check the books now']").click()
    wait(driver, lambda d: "The books are right." in text(d))
