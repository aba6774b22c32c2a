"""Somebody who has never heard of jobs or ledgers, from registering to leaving, in real Chromium."""
from selenium.webdriver.common.by import By

from tests.chromium import browser, fits, needs_chromium, text, wait  # noqa: F401

pytestmark = needs_chromium


def _fill(driver, **fields):
    for id, value in fields.items():
        field = driver.find_element(By.ID, id.replace("__", "-"))
        field.clear()
        field.send_keys(value)


def _press(driver, selector="main form .btn"):
    driver.find_element(By.CSS_SELECTOR, selector).click()


def test_from_registering_to_leaving_in_japanese_on_a_phone(server, browser):  # noqa: F811
    running = server(KINDS="comments,sample", EXTRA_KINDS="")
    driver = browser(390, lang="ja")
    driver.get(f"{running.url}/kinds/sample")
    driver.find_element(By.PARTIAL_LINK_TEXT, "ログイン").click()
    wait(driver, lambda d: "/login" in d.current_url)
    driver.find_element(By.LINK_TEXT, "アカウントを作る").click()
    wait(driver, lambda d: "/register" in d.current_url)
    assert "3ポイント" in text(driver)
    fits(driver)
    _fill(driver, email="p@example.org", password="short")
    driver.execute_script("document.querySelector('main form').noValidate = true")
    _press(driver)
    wait(driver, lambda d: "8文字以上にしてください" in text(d))
    fits(driver)
    _fill(driver, password="a short sentence")
    _press(driver)
    wait(driver, lambda d: d.current_url.endswith("/kinds/sample") and "ようこそ" in text(d))
    _fill(driver, **{"f__seconds": "0"})
    _press(driver, "#form .btn")
    wait(driver, lambda d: "/jobs/" in d.current_url and "残高は2" in text(d))
    fits(driver)
    driver.get(f"{running.url}/points")
    assert "+3" in text(driver) and "−1" in text(driver)
    driver.get(f"{running.url}/account")
    fits(driver)
    _fill(driver, password__current="a short sentence", password__new="another sentence")
    _press(driver, "main form .btn")
    wait(driver, lambda d: "パスワードを変更しました" in text(d))
    _press(driver, "main form[action='/logout'] button")
    wait(driver, lambda d: "ログアウトしました" in text(d))
    driver.get(f"{running.url}/points")
    assert "/login" in driver.current_url
    assert [row[0] for row in running.rows("SELECT points FROM ledger_entries ORDER BY id")] == [3, -1]
