"""A few journeys in real Chromium, against real servers."""
import json
import time

import pytest
from selenium.webdriver.common.by import By

from tests.chromium import browser, fits, needs_chromium, no_complaints, sign_in, text, wait  # noqa: F401

pytestmark = needs_chromium
UNREACHABLE = "Cannot reach the server. Trying again; you may close this page."


@pytest.mark.parametrize("width", [320, 1280])
def test_a_stranger_tries_the_sample_and_reads_the_report(server, browser, width):
    running = server(KINDS="comments", EXTRA_KINDS="")
    driver = browser(width)
    driver.get(running.url)
    fits(driver)
    driver.find_element(By.CSS_SELECTOR, "button[name=sample]").click()
    wait(driver, lambda d: "/jobs/" in d.current_url)
    wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".report svg, .report figure"))
    fits(driver)
    assert "300" in text(driver)
    assert driver.title.startswith("Done")
    no_complaints(driver)
    driver.get(f"{running.url}/history")
    fits(driver)
    assert "Done" in text(driver)


def test_with_scripts_off_the_same_journey_works(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="")
    driver = browser(390, scripts=False)
    driver.get(f"{running.url}/kinds/comments")
    driver.find_element(By.CSS_SELECTOR, "button[name=sample]").click()
    wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".report figure"))
    assert "300" in text(driver)
    driver.find_element(By.CSS_SELECTOR, "a[href$='/rows']").click()
    assert len(driver.find_elements(By.CSS_SELECTOR, ".reading > li")) == 50
    driver.find_element(By.LINK_TEXT, "Next").click()
    assert "Page 2 of 6." in text(driver)
    driver.find_element(By.ID, "q").send_keys("GAME\n")
    wait(driver, lambda d: "of 300 match." in text(d))
    assert {mark.text for mark in driver.find_elements(By.TAG_NAME, "mark")} == {"game"}
    fits(driver)


def test_a_bad_form_says_what_to_do_and_keeps_what_was_typed(server, browser, tmp_path):
    running = server(KINDS="comments", EXTRA_KINDS="")
    workbook = tmp_path / "comments.xlsx"
    workbook.write_bytes(b"PK\x03\x04" + b"\0" * 200)
    driver = browser(390)
    driver.get(f"{running.url}/kinds/comments")
    driver.find_element(By.CSS_SELECTOR, "details.options summary").click()
    driver.find_element(By.ID, "f-max_comments").send_keys("77")
    driver.find_element(By.ID, "f-file").send_keys(str(workbook))
    driver.find_element(By.CSS_SELECTOR, "#form button").click()
    wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".error-summary"))
    assert "CSV" in driver.find_element(By.CSS_SELECTOR, ".error-summary").text
    assert driver.find_element(By.ID, "f-max_comments").get_attribute("value") == "77"
    assert running.rows("SELECT count(*) FROM jobs")[0][0] == 0
    assert list((running.folder / "uploads").iterdir()) == []
    fits(driver)


def test_killed_while_the_page_is_open_the_user_reads_the_truth(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    driver = browser(390)
    sign_in(driver, running, "p@example.org", made["password"])
    driver.get(f"{running.url}/kinds/sample")
    field = driver.find_element(By.ID, "f-seconds")
    field.clear()
    field.send_keys("30")
    driver.find_element(By.CSS_SELECTOR, "#form button").click()
    wait(driver, lambda d: "/jobs/" in d.current_url)
    job_id = driver.current_url.rpartition("/")[2]
    wait(driver, lambda d: running.rows("SELECT 1 FROM ledger_entries WHERE job_id = ? AND kind = 'consume'", job_id))
    running.kill()
    wait(driver, lambda d: UNREACHABLE in text(d))
    told = text(driver).lower()
    assert "no points" not in told and "returned" not in told  # nothing is claimed while nothing is known
    running.start()
    wait(driver, lambda d: "The 1 point it had used has been returned (balance 3)." in text(d))
    assert UNREACHABLE not in text(driver)
    fits(driver)


def test_an_interruption_while_away_is_told_on_the_next_page_until_seen(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    job_id = running.post("/api/kinds/sample/jobs", {"seconds": 30}, token=made["token"]).json["job"]["id"]
    while not running.rows("SELECT 1 FROM jobs WHERE id = ? AND status = 'running'", job_id):
        time.sleep(0.01)
    running.kill()
    running.start()
    driver = browser(390)
    sign_in(driver, running, "p@example.org", made["password"])
    driver.get(running.url)
    assert "While you were away" in text(driver) and "No points were used" in text(driver)
    driver.get(f"{running.url}/jobs/{job_id}")
    driver.get(running.url)
    assert "While you were away" not in text(driver)
    driver.get(f"{running.url}/points")
    fits(driver)


def test_a_double_click_is_one_and_an_edited_form_is_another(server, browser):
    running = server()
    driver = browser()
    driver.get(f"{running.url}/kinds/free")
    driver.execute_script("""
        const form = document.getElementById('form');
        const send = () => fetch(form.action, {method: 'POST', body: new FormData(form)});
        return Promise.all([send(), send(), send()]).then(
            () => { document.getElementById('f-text').value = 'edited'; return send(); });""")
    assert running.rows("SELECT count(*) FROM jobs")[0][0] == 2


def test_japanese_is_chosen_by_the_browser_and_can_be_changed(server, browser):
    running = server(KINDS="comments", EXTRA_KINDS="")
    driver = browser(390, lang="ja")
    driver.get(running.url)
    assert "コメント" in text(driver)
    assert driver.find_element(By.TAG_NAME, "html").get_attribute("lang") == "ja"
    fits(driver)
    driver.find_element(By.CSS_SELECTOR, ".language button").click()
    wait(driver, lambda d: d.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en")
