"""A few journeys in real Chromium, against real servers. Skipped where there is no Chromium (make test says so)."""
import json
import os
import shutil
import subprocess
import time

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = os.environ.get("AINORI_CHROMIUM", shutil.which("chromium") or "")
DRIVER = shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(not CHROMIUM or not DRIVER, reason="no Chromium with its driver here")

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage")
UNREACHABLE = "Cannot reach the server. Trying again; you may close this page."


@pytest.fixture
def browser(tmp_path):
    """Open browsers; ``scripts=False`` turns JavaScript off, ``lang`` is what the browser prefers."""
    opened = []

    def open_one(width=1280, scripts=True, lang="en"):
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which(CHROMIUM) or CHROMIUM
        for flag in (*FLAGS, f"--user-data-dir={tmp_path / f'profile-{len(opened)}'}", f"--lang={lang}"):
            options.add_argument(flag)
        preferences = {"intl.accept_languages": lang}
        if not scripts:
            preferences["profile.managed_default_content_settings.javascript"] = 2
        options.add_experimental_option("prefs", preferences)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(
            DRIVER, log_output=subprocess.DEVNULL))
        opened.append(driver)
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
        return driver
    yield open_one
    for driver in opened:
        driver.quit()


def _wait(driver, condition, seconds=30):
    return WebDriverWait(driver, seconds, poll_frequency=0.1, ignored_exceptions=(Exception,)).until(condition)


def _text(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def _fits(driver):
    """Nothing hangs out sideways."""
    wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{driver.current_url} scrolls sideways by {wide} px"


def _no_complaints(driver):
    """The console is silent: no broken script, no blocked or missing file."""
    complaints = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not complaints, complaints


def _sign_in(driver, server, email, password):
    driver.get(f"{server.url}/login")
    driver.find_element(By.ID, "email").send_keys(email)
    driver.find_element(By.ID, "password").send_keys(password)
    driver.find_element(By.CSS_SELECTOR, "main form button").click()
    _wait(driver, lambda d: "/login" not in d.current_url)


@pytest.mark.parametrize("width", [320, 1280])
def test_a_stranger_tries_the_sample_and_reads_the_report(server, browser, width):
    running = server(KINDS="comments", EXTRA_KINDS="")
    driver = browser(width)
    driver.get(running.url)
    _fits(driver)
    driver.find_element(By.CSS_SELECTOR, "button[name=sample]").click()
    _wait(driver, lambda d: "/jobs/" in d.current_url)
    _wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".report svg, .report figure"))
    _fits(driver)
    assert "300" in _text(driver)
    assert driver.title.startswith("Done")
    _no_complaints(driver)
    driver.get(f"{running.url}/history")
    _fits(driver)
    assert "Done" in _text(driver)


def test_with_scripts_off_the_same_journey_works(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="")
    driver = browser(390, scripts=False)
    driver.get(f"{running.url}/kinds/comments")
    driver.find_element(By.CSS_SELECTOR, "button[name=sample]").click()
    _wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".report figure"))
    assert "300" in _text(driver)


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
    _wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".error-summary"))
    assert "CSV" in driver.find_element(By.CSS_SELECTOR, ".error-summary").text
    assert driver.find_element(By.ID, "f-max_comments").get_attribute("value") == "77"
    assert running.rows("SELECT count(*) FROM jobs")[0][0] == 0
    assert list((running.folder / "uploads").iterdir()) == []
    _fits(driver)


def test_killed_while_the_page_is_open_the_user_reads_the_truth(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    driver = browser(390)
    _sign_in(driver, running, "p@example.org", made["password"])
    driver.get(f"{running.url}/kinds/sample")
    field = driver.find_element(By.ID, "f-seconds")
    field.clear()
    field.send_keys("30")
    driver.find_element(By.CSS_SELECTOR, "#form button").click()
    _wait(driver, lambda d: "/jobs/" in d.current_url)
    job_id = driver.current_url.rpartition("/")[2]
    _wait(driver, lambda d: running.rows("SELECT 1 FROM ledger_entries WHERE job_id = ? AND kind = 'consume'", job_id))
    running.kill()
    _wait(driver, lambda d: UNREACHABLE in _text(d))
    told = _text(driver).lower()
    assert "no points" not in told and "returned" not in told  # nothing is claimed while nothing is known
    running.start()
    _wait(driver, lambda d: "The 1 point it had used has been returned (balance 3)." in _text(d))
    assert UNREACHABLE not in _text(driver)
    _fits(driver)


def test_an_interruption_while_away_is_told_on_the_next_page_until_seen(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    job_id = running.post("/api/kinds/sample/jobs", {"seconds": 30}, token=made["token"]).json["job"]["id"]
    while not running.rows("SELECT 1 FROM jobs WHERE id = ? AND status = 'running'", job_id):
        time.sleep(0.01)
    running.kill()
    running.start()
    driver = browser(390)
    _sign_in(driver, running, "p@example.org", made["password"])
    driver.get(running.url)
    assert "While you were away" in _text(driver) and "No points were used" in _text(driver)
    driver.get(f"{running.url}/jobs/{job_id}")
    driver.get(running.url)
    assert "While you were away" not in _text(driver)
    driver.get(f"{running.url}/points")
    _fits(driver)


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
    assert "コメント" in _text(driver)
    assert driver.find_element(By.TAG_NAME, "html").get_attribute("lang") == "ja"
    _fits(driver)
    driver.find_element(By.CSS_SELECTOR, ".language button").click()
    _wait(driver, lambda d: d.find_element(By.TAG_NAME, "html").get_attribute("lang") == "en")
