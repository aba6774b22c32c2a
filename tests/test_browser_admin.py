"""The operator at work in real Chromium, with scripts off. (How all pages look: test_browser_looks.py.)"""
import json

from selenium.webdriver.common.by import By

from tests.chromium import browser, needs_chromium, sign_in, text, wait  # noqa: F401

pytestmark = needs_chromium


def test_an_operator_pauses_a_kind_and_checks_the_books_without_scripts(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="", SUPPORT_CONTACT="help@example.org")
    made = json.loads(running.flask("users", "add", "op@example.org", "--admin", "--json").stdout)
    driver = browser(390, scripts=False)
    sign_in(driver, running, "op@example.org", made["password"])
    driver.find_element(By.CSS_SELECTOR, ".menu summary").click()
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
