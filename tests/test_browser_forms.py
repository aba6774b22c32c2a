"""Forms with a file in real Chromium: what the person sees while it travels, and that nothing is lost or started twice."""
import socket
from contextlib import suppress
from functools import partial

import gevent
import pytest
from gevent.pool import Pool
from gevent.server import StreamServer
from gevent.socket import create_connection
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.chromium import browser, fits, needs_chromium, no_complaints, text, wait  # noqa: F401

pytestmark = needs_chromium
START = "#form .actions .btn"


@pytest.fixture
def opened(server, browser):  # noqa: F811
    """A server, and a browser on the form of the kind ``sending``."""
    running, driver = server(EXTRA_KINDS="tests.kinds_of_forms", MAX_UPLOAD_MB=2), browser(390)
    driver.get(f"{running.url}/kinds/sending")
    return running, driver


@pytest.fixture
def file(tmp_path):
    def make(size_bytes, name="sent.txt"):
        path = tmp_path / name
        path.write_bytes(b"x" * size_bytes)
        return str(path)
    return make


class Front:
    """A server in front, which passes everything on. ``does_with_uploads``: ``pass``, ``cut`` (hang up when half has
    come), ``refuse`` (413, having read the head only), ``swallow`` (the answer); or what it answers itself, as bytes."""

    def __init__(self, running):
        self._running, self.does_with_uploads = running, "pass"
        self._server = StreamServer(("127.0.0.1", 0), self._serve, spawn=Pool())
        self._server.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.stop = partial(self._server.stop, timeout=0)   # the browser, which is kept, holds its connections

    def _serve(self, client, _address):
        with create_connection(("127.0.0.1", self._running.port)) as upstream:
            back = gevent.spawn(self._answers, upstream, client)
            try:
                self._requests(client, upstream)
            except OSError:
                pass  # either side hung up
            finally:
                back.kill()

    def _requests(self, client, upstream):
        left = None  # bytes of an upload that are still let through
        while data := client.recv(65536):
            own = b"HTTP/1.1 413 Too Large\r\nContent-Length: 5\r\n\r\nlarge" if self.does_with_uploads == "refuse" \
                else self.does_with_uploads
            if data.startswith(b"POST") and isinstance(own, bytes):
                client.sendall(own.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass  # what still comes is thrown away, as servers do
                return
            if data.startswith(b"POST"):
                left = 700_000 if self.does_with_uploads == "cut" else None
            if left is not None and (left := left - len(data)) < 0:
                return
            upstream.sendall(data)

    def _answers(self, upstream, client):
        """Until the server hangs up, as it does soon on who asks no more: then so does this."""
        with suppress(OSError):
            while data := upstream.recv(65536):
                if data.startswith(b"HTTP/1.1 303") and self.does_with_uploads == "swallow":
                    break
                client.sendall(data)
        with suppress(OSError):
            client.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def front(opened):
    one = Front(opened[0])
    yield one
    one.stop(timeout=2)


def network(driver, bytes_a_second=-1, offline=False):
    driver.execute_cdp_cmd("Network.enable", {})
    driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
        "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": bytes_a_second})


def find(driver, selector):
    return driver.find_element(By.CSS_SELECTOR, selector)


def share(driver):
    """How far the bar is, or 0 where it is not shown."""
    return driver.execute_script("const bar = document.querySelector('[data-sending] progress');"
                                 "return bar.checkVisibility() ? bar.value : 0")


def count(running):
    return running.rows("SELECT count(*) FROM jobs")[0][0]


def arrived(running, driver):
    """The job's page is open; its id."""
    wait(driver, lambda d: "/jobs/" in d.current_url)
    assert count(running) == 1
    return driver.current_url.rpartition("/")[2]


def test_a_slow_upload_is_seen_moving_and_a_double_click_is_one(opened, file):
    running, driver = opened
    driver.execute_script("""
        sessionStorage.clear(); sessionStorage.sends = "";
        const send = XMLHttpRequest.prototype.send;
        XMLHttpRequest.prototype.send = function (body) { sessionStorage.sends += "one "; send.call(this, body); };
        new MutationObserver(() => sessionStorage.said = (sessionStorage.said || '') +
            document.querySelector('[data-sending-said]').textContent + '|'
        ).observe(document.getElementById('form'), {subtree: true, childList: true, characterData: true})""")
    find(driver, "#f-file").send_keys(file(1_500_000))
    network(driver, 500_000)
    before = driver.execute_script("return history.length")
    ActionChains(driver).double_click(find(driver, START)).perform()
    seen = []
    while len(seen) < 3:
        wait(driver, lambda d: (now := share(d)) > (seen[-1] if seen else 0) and (seen.append(now) or True))
    assert seen == sorted(seen) and seen[-1] < 1 and "of 1.5 MB sent" in text(driver)
    assert f"{round(share(driver) * 100)}"[:1] in find(driver, "[data-sending-percent]").text
    assert find(driver, START).get_attribute("aria-disabled") == "true"
    fits(driver)
    wait(driver, lambda d: share(d) > 0.3)
    network(driver)
    job_id = arrived(running, driver)
    assert driver.execute_script("return history.length") == before + 1
    assert driver.execute_script("return sessionStorage.sends") == "one "  # the second press sent nothing
    said = set(driver.execute_script("return sessionStorage.said").split("|"))
    assert any("%" in one for one in said) and len(said) <= 6  # told, not chattered
    assert running.finished(job_id, headers={"Cookie": "; ".join(
        f"{one['name']}={one['value']}" for one in driver.get_cookies())})["result"]["bytes"] == 1_500_000
    no_complaints(driver)


def test_stopped_or_cut_off_on_the_way_nothing_starts_and_nothing_is_lost(opened, front, file):
    running, driver = opened
    driver.get(f"{front.url}/kinds/sending")
    find(driver, "#f-title").send_keys("typed")
    find(driver, "#f-file").send_keys(file(1_500_000))
    network(driver, 100_000)
    find(driver, START).click()
    wait(driver, lambda d: share(d) > 0)
    find(driver, "[data-stop]").click()
    wait(driver, lambda d: "Stopped: nothing was started." in text(d))
    assert driver.switch_to.active_element == find(driver, START) and share(driver) == 0
    assert find(driver, START).get_attribute("aria-disabled") is None
    network(driver)

    front.does_with_uploads = "cut"
    find(driver, START).click()
    wait(driver, lambda d: "The connection was lost" in text(d))
    assert find(driver, "#f-title").get_attribute("value") == "typed" and "sent.txt · 1.5 MB" in text(driver)
    assert find(driver, START).text == "Start: Sending" and share(driver) == 0
    network(driver, offline=True)
    find(driver, START).click()
    wait(driver, lambda d: "The connection was lost" in text(d) and share(d) == 0)
    network(driver)
    front.does_with_uploads = "pass"
    assert count(running) == 0
    find(driver, START).click()
    arrived(running, driver)


def test_an_answer_that_was_lost_is_asked_for_again_not_started_again(opened, front, file):
    """The file had arrived whole: pressing again leads to what it started."""
    running, driver = opened
    front.does_with_uploads = "swallow"
    driver.get(f"{front.url}/kinds/sending")
    find(driver, "#f-file").send_keys(file(1000))
    find(driver, START).click()
    wait(driver, lambda d: "The connection was lost" in text(d))
    assert count(running) == 1 and "/kinds/" in driver.current_url
    front.does_with_uploads = "pass"
    find(driver, START).click()
    arrived(running, driver)


def test_mistakes_are_shown_in_place_and_the_keyboard_leads_through_them(opened, file):
    running, driver = opened
    keys = lambda *pressed: ActionChains(driver).send_keys(*pressed).perform()  # noqa: E731
    find(driver, "#f-file").send_keys(file(1000))
    before = driver.execute_script("return history.length")
    find(driver, "#f-title").click()
    keys("typed", Keys.TAB, "a", Keys.ENTER, "b", Keys.ENTER, "c", Keys.TAB, Keys.SPACE, Keys.ENTER)  # of a box: sends
    wait(driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".error-summary"))
    assert "error-summary" in driver.switch_to.active_element.get_attribute("class")
    assert driver.title.startswith("Error:") and driver.execute_script("return history.length") == before
    assert driver.current_url == f"{running.url}/kinds/sending"
    assert find(driver, "#f-title").get_attribute("value") == "typed" and find(driver, "#f-topics").is_selected()
    assert "sent.txt" in text(driver) and "choose the file again" not in text(driver)  # it is still chosen
    fits(driver)
    keys(Keys.TAB)
    assert driver.switch_to.active_element.text == "Tags"
    keys(Keys.ENTER)
    wait(driver, lambda d: d.switch_to.active_element.get_attribute("id") == "f-tags")
    ActionChains(driver).key_down(Keys.CONTROL).send_keys("a").key_up(Keys.CONTROL).send_keys("one").perform()
    while driver.switch_to.active_element.text != "Start: Sending":
        keys(Keys.TAB)
    keys(Keys.ENTER)
    job_id = arrived(running, driver)
    assert '"tags":["one"]' in running.rows("SELECT params FROM jobs WHERE id = ?", job_id)[0][0].replace(" ", "")
    driver.back()
    wait(driver, lambda d: d.find_elements(By.ID, "form"))


def test_a_file_is_dropped_and_one_that_is_too_large_does_not_travel(opened, file):
    running, driver = opened
    zone = find(driver, "#f-file").find_element(By.XPATH, "..")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", zone)

    def drop(path):
        place = driver.execute_script("const r = arguments[0].getBoundingClientRect(); return [r.x + 20, r.y + 20]", zone)
        for event in ("dragEnter", "dragOver", "drop"):
            driver.execute_cdp_cmd("Input.dispatchDragEvent", {
                "type": event, "x": place[0], "y": place[1],
                "data": {"items": [], "files": [path], "dragOperationsMask": 1}})
    drop(file(3_000_000, "large.txt"))
    wait(driver, lambda d: "This file is larger than 2 MB." in text(d))
    find(driver, START).click()
    assert driver.execute_script("return document.activeElement.id") == "f-file"  # the browser points at it
    drop(file(1000, "small.txt"))
    wait(driver, lambda d: "small.txt · 1 KB" in text(d))
    assert count(running) == 0
    find(driver, START).click()
    arrived(running, driver)


def test_a_server_in_front_that_takes_no_such_file_is_understood(opened, front, file):
    running, driver = opened
    front.does_with_uploads = "refuse"
    driver.get(f"{front.url}/kinds/sending")
    find(driver, "#f-title").send_keys("typed")
    find(driver, "#f-file").send_keys(file(1_500_000))
    find(driver, START).click()
    wait(driver, lambda d: "The file is too large for this server. Nothing was started." in text(d))
    assert find(driver, "#f-title").get_attribute("value") == "typed" and count(running) == 0


PORTAL = b"<title>Network</title><h1>Please sign in to this network</h1><form id=form action=/portal><input name=user></form>"


@pytest.mark.parametrize("said", [
    b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: %d\r\n\r\n%s" % (len(PORTAL), PORTAL),
    b"HTTP/1.1 303 See Other\r\nLocation: /status\r\nContent-Length: 0\r\n\r\n"], ids=["a page", "somewhere else"])
def test_what_a_network_says_in_place_of_the_server_is_not_followed(opened, front, file, said):
    running, driver = opened
    front.does_with_uploads = said
    driver.get(f"{front.url}/kinds/sending")
    find(driver, "#f-title").send_keys("typed")
    find(driver, "#f-file").send_keys(file(1000))
    find(driver, START).click()
    wait(driver, lambda d: "The server could not answer." in text(d))
    assert driver.current_url.endswith("/kinds/sending") and "network" not in text(driver)
    assert find(driver, "#f-title").get_attribute("value") == "typed" and "sent.txt · 1 KB" in text(driver)
    front.does_with_uploads = "pass"
    find(driver, START).click()
    arrived(running, driver)


def test_a_file_is_chosen_in_the_pages_language_and_its_size_is_one_number(opened, browser, file):  # noqa: F811
    running, _ = opened
    driver = browser(390)
    driver.get(f"{running.url}/kinds/sending")
    find(driver, "form.language button").click()
    own, native = (find(driver, f".drop {part}") for part in (".choose", "input"))
    wait(driver, lambda d: own.text == "ファイルを選ぶ")
    assert float(native.value_of_css_property("opacity")) == 0
    driver.execute_script("""
        const native = arguments[0];
        native.addEventListener('click', (event) => { event.preventDefault(); native.dataset.pressed = 'yes'; })""", native)
    own.click()
    assert native.get_attribute("data-pressed") == "yes"
    find(driver, "#f-title").click()
    while driver.switch_to.active_element != native:
        ActionChains(driver).send_keys(Keys.TAB).perform()
    assert own.value_of_css_property("outline-style") == "solid"
    native.send_keys(file(300_000))
    assert find(driver, ".drop").text.count("sent.txt") == 1 and "sent.txt · 300 KB" in text(driver)
    network(driver, 50_000)
    find(driver, START).click()
    wait(driver, lambda d: "300 KB" in find(d, "[data-sending-text]").text)
    fits(driver)
    network(driver)
    arrived(running, driver)
