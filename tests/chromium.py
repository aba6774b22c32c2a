"""Real Chromium for the tests, and what they ask of it. Skipped where there is none (make test says so)."""
import os
import shutil
import subprocess
from collections import defaultdict

import pytest
from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

CHROMIUM = os.environ.get("AINORI_CHROMIUM", shutil.which("chromium") or "")
DRIVER = shutil.which("chromedriver")
needs_chromium = pytest.mark.skipif(not CHROMIUM or not DRIVER, reason="no Chromium with its driver here")

FLAGS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
         "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage")


@pytest.fixture
def browser(request, tmp_path_factory):
    """Open browsers; ``scripts=False`` turns JavaScript off, ``lang`` is what the browser prefers.

    A browser takes seconds to start: it is kept for the next test that wants one of its sort, emptied.
    """
    if not _kept:
        request.config.add_cleanup(_quit_all)
    opened = []

    def open_one(width=1280, scripts=True, lang="en"):
        sort = scripts, lang
        driver = _kept[sort].pop() if _kept[sort] else _started(tmp_path_factory.mktemp("profile"), scripts, lang)
        opened.append((sort, driver))
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
            "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})
        return driver
    yield open_one
    for sort, driver in opened:
        try:
            _empty(driver)
        except WebDriverException:
            driver.quit()
        else:
            _kept[sort].append(driver)


_kept = defaultdict(list)   # (scripts, lang) → drivers that no test has


def _started(profile, scripts, lang):
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which(CHROMIUM) or CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--lang={lang}"):
        options.add_argument(flag)
    preferences = {"intl.accept_languages": lang}
    if not scripts:
        preferences["profile.managed_default_content_settings.javascript"] = 2
    options.add_experimental_option("prefs", preferences)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER, log_output=subprocess.DEVNULL))


def _empty(driver):
    """As after a start: one new window, in which nothing is emulated; nothing stored, nothing said."""
    before = driver.window_handles
    driver.switch_to.new_window("tab")
    fresh = driver.current_window_handle
    for window in before:
        driver.switch_to.window(window)
        driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": driver.current_url, "storageTypes": "all"})
        driver.close()
    driver.switch_to.window(fresh)
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.get_log("browser")


def _quit_all():
    for drivers in _kept.values():
        while drivers:
            drivers.pop().quit()


def wait(driver, condition, seconds=30):
    return WebDriverWait(driver, seconds, poll_frequency=0.1, ignored_exceptions=(Exception,)).until(condition)


def text(driver):
    return driver.find_element(By.TAG_NAME, "body").text


def fits(driver):
    """Nothing hangs out sideways."""
    wide = driver.execute_script("return document.documentElement.scrollWidth - document.documentElement.clientWidth")
    assert wide <= 0, f"{driver.current_url} scrolls sideways by {wide} px"


def no_complaints(driver):
    """The console is silent: no broken script, no blocked or missing file."""
    complaints = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    assert not complaints, complaints


def sign_in(driver, server, email, password):
    driver.get(f"{server.url}/login")
    driver.find_element(By.ID, "email").send_keys(email)
    driver.find_element(By.ID, "password").send_keys(password)
    driver.find_element(By.CSS_SELECTOR, "main form button").click()
    wait(driver, lambda d: "/login" not in d.current_url)
