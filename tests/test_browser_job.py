"""The page of one piece of work in real Chromium: what it says of a stop is what a stop then does."""
import json

from selenium.webdriver.common.by import By

from tests.chromium import browser, fits, needs_chromium, no_complaints, sign_in, text, wait  # noqa: F401

pytestmark = needs_chromium


def _told(driver):
    found = driver.find_elements(By.CSS_SELECTOR, ".if-stopped")
    return found[0].text if found else ""


def test_with_scripts_off_the_page_says_what_a_stop_would_do_and_then_it_does(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    driver = browser(320, scripts=False)
    sign_in(driver, running, "p@example.org", made["password"])
    for n in range(3):
        running.finished(running.post("/api/kinds/slow/jobs", {"text": str(n)}, token=made["token"]).json["job"]["id"],
                         made["token"])
    running.flask("points", "grant", "p@example.org", "3", "--note", "for more")
    job_id = running.post("/api/kinds/slow/jobs", {"seconds": 60}, token=made["token"]).json["job"]["id"]
    driver.get(f"{running.url}/jobs/{job_id}")
    wait(driver, lambda d: "it would end, and the 1 point it has used would be returned." in _told(d))
    wait(driver, lambda d: "This is taking longer than usual. It is still being worked on." in text(d))
    assert "about 1 second" in text(driver)
    fits(driver)
    running.kill()
    running.start()
    driver.get(f"{running.url}/points")
    assert "While you were away" in text(driver) and "The server stopped while this was being worked on." in text(driver)
    assert driver.find_element(By.CSS_SELECTOR, ".balance .big").text.startswith("3")
    fits(driver)
    driver.get(f"{running.url}/history")
    assert "Interrupted" in text(driver)
    fits(driver)


def test_a_receipt_on_paper_is_whole_and_in_the_readers_time_zone(server, browser):
    running = server()
    made = json.loads(running.flask("users", "add", "p@example.org", "--points", "3", "--json").stdout)
    job_id = running.post("/api/kinds/paid/jobs", token=made["token"]).json["job"]["id"]
    number = running.finished(job_id, made["token"])["number"]
    driver = browser(390)
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "Asia/Tokyo"})
    sign_in(driver, running, "p@example.org", made["password"])
    driver.get(f"{running.url}/jobs/{job_id}")
    wait(driver, lambda d: d.find_element(By.CSS_SELECTOR, ".ticket dl time").get_attribute("data-zone") == "GMT+9")
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    paper = text(driver)
    assert all(said in paper for said in ("Ainori", number, "Sent", "Started", "Ended", "Used", "1 point was used"))
    assert "Sign out" not in paper and "Start a new one" not in paper
    fits(driver)
    no_complaints(driver)


def test_a_number_that_is_not_shown_leads_to_signing_in_and_fits(server, browser):
    running = server(SUPPORT_CONTACT="help@example.org")
    driver = browser(320)
    driver.get(f"{running.url}/jobs/01k0000000000000000000000z")
    assert "01k0000000000000000000000z" in text(driver) and "help@example.org" in text(driver)
    fits(driver)
    driver.find_element(By.CSS_SELECTOR, ".lost .btn").click()
    wait(driver, lambda d: d.current_url.endswith("/login?next=/jobs/01k0000000000000000000000z"))
