"""A page that follows work live, in real Chromium, against real servers and what can stand between them."""
import contextlib
import json
import re

import gevent
import pytest
from gevent import socket
from gevent.event import Event
from gevent.server import StreamServer
from selenium.webdriver.common.by import By

from tests.chromium import browser, needs_chromium, no_complaints, sign_in, text, wait  # noqa: F401
from tests.server import Server

pytestmark = needs_chromium
UNREACHABLE = "Cannot reach the server. Trying again; you may close this page."
STREAMS_MOST = 4  # of one browser: job.js


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    server = Server(tmp_path_factory.mktemp("live")).start()
    server.admin = json.loads(server.flask("users", "add", "admin@example.org", "--admin", "--json").stdout)["token"]
    yield server
    server.stop()


@pytest.fixture
def between(running):
    found = Between(running)
    yield found
    found.close()


class Between:
    """Something on the way to a server: what it does with a request is ``act(connection, head, path)``, where
    returning true means to pass it on."""

    def __init__(self, server):
        self._server, self.act, self.held = server, None, lambda path: False
        self.speaks = Event()  # cleared: nothing comes back any more, and nothing is closed
        self.speaks.set()
        self._open = set()
        self._listener = StreamServer(("127.0.0.1", 0), self._serve)
        self._listener.start()
        self.url = f"http://127.0.0.1:{self._listener.server_port}"

    def answers(self, act):
        """From now on; what is under way is cut off."""
        self.act = act
        for connection in list(self._open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def close(self):
        self.speaks.set()
        self.answers(None)
        self._listener.stop(timeout=1)

    def _serve(self, client, _address):
        with client, contextlib.suppress(OSError):
            head = b""
            while b"\r\n\r\n" not in head:
                if not (data := client.recv(65536)):
                    return
                head += data
            path = head.split(b" ")[1].decode()
            if self.act is not None and not self.act(client, path):
                return
            self._pass_on(client, re.sub(rb"(?i)\r\nconnection: [^\r]*", b"", head)
                          .replace(b"\r\n", b"\r\nConnection: close\r\n", 1), path)

    def _pass_on(self, client, head, path):
        with socket.create_connection(("127.0.0.1", self._server.port)) as server:
            self._open |= {client, server}
            server.sendall(head)
            rest = gevent.spawn(_pump, client, server)
            try:
                first = server.recv(65536)
                if self.held(path):
                    client.sendall(first[:first.index(b"\r\n\r\n") + 4])
                    while server.recv(65536):  # and not a word more
                        pass
                else:
                    _pump(server, client, first, self)
                    self.speaks.wait()
            finally:
                rest.kill()
                self._open -= {client, server}


def _pump(source, sink, data=b"", between=None):
    with contextlib.suppress(OSError):
        while data or (data := source.recv(65536)):
            if between is None or between.speaks.is_set():
                sink.sendall(data)
            data = b""


def answer(connection, status, content_type, body):
    connection.sendall(f"HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
                       f"Connection: close\r\n\r\n{body}".encode())


def bad_gateway(connection, _path):
    answer(connection, "502 Bad Gateway", "text/html", "<h1>502 Bad Gateway</h1>")


def captive_portal(connection, _path):
    answer(connection, "200 OK", "text/html", "<h1>Please sign in to this network. No points were used.</h1>")


# ------------------------------------------------------------------------------------- small pieces

def begin(driver, url, kind="free", **fields):
    """Fill in and send the form; the id of what was started, its page open."""
    driver.get(f"{url}/kinds/{kind}")
    for name, value in fields.items():
        driver.execute_script("document.getElementById('f-' + arguments[0]).value = arguments[1]", name, str(value))
    driver.find_element(By.CSS_SELECTOR, "#form button").click()
    wait(driver, lambda d: "/jobs/" in d.current_url)
    # All that is shown from now on, in the order it came.
    driver.execute_script("""
        window.seen = [];
        const percent = document.querySelector('[data-percent]');
        new MutationObserver(() => seen.push(percent.textContent)).observe(percent, {childList: true});""")
    return driver.current_url.rpartition("/")[2]


def seen(driver):
    return driver.execute_script("return window.seen")


def polls(driver, job_id):
    """How often the page asked for the job itself since it was opened."""
    return driver.execute_script(
        "return performance.getEntriesByType('resource').filter(e => e.name.endsWith('/api/jobs/' + arguments[0])).length",
        job_id)


def streams(server):
    return int(re.search(r"^ainori_streams_open (\d+)", server.get("/metrics", token=server.admin).text, re.MULTILINE)[1])


def end(driver, job_id):
    """Cancel it from the page, beside what the page itself does."""
    driver.execute_script("""return fetch('/api/jobs/' + arguments[0] + '/cancellation', {method: 'POST', headers: {
        'X-CSRF-Token': document.querySelector('[name=csrf_token]').value}}).then(answer => answer.status)""", job_id)


def how_opened(driver):
    """``navigate``, or ``reload``."""
    return driver.execute_script("return performance.getEntriesByType('navigation')[0].type")


# ----------------------------------------------------------------------------------------- journeys

def test_progress_comes_by_the_stream_and_the_report_follows(running, browser):
    driver = browser(390)
    job_id = begin(driver, running.url, seconds=4)
    wait(driver, lambda d: len(set(seen(d))) >= 7)
    assert polls(driver, job_id) <= 2, "it is told, it need not ask"
    shown = [int(percent.strip("%")) for percent in seen(driver)]
    assert shown == sorted(shown)
    wait(driver, lambda d: d.title.startswith("Done") and how_opened(d) == "reload")
    no_complaints(driver)
    wait(driver, lambda d: streams(running) == 0)


@pytest.mark.parametrize("trouble", [bad_gateway, captive_portal])
def test_what_is_not_our_servers_says_nothing_about_the_work(running, between, browser, trouble):
    driver = browser(390)
    job_id = begin(driver, between.url, seconds=40)
    wait(driver, lambda d: seen(d))
    between.answers(trouble)
    wait(driver, lambda d: UNREACHABLE in text(d))
    told = driver.find_element(By.TAG_NAME, "main").text
    assert "oint" not in told and "%" not in told and "In progress" not in told
    between.answers(None)
    wait(driver, lambda d: UNREACHABLE not in text(d))
    before = len(seen(driver))
    wait(driver, lambda d: len(seen(d)) > before)
    wait(driver, lambda d: streams(running) == 1)
    end(driver, job_id)
    wait(driver, lambda d: "Cancelled" in text(d))


def test_where_a_stream_is_held_back_the_page_still_moves(between, browser):
    between.held = lambda path: "/events" in path
    driver = browser(390)
    job_id = begin(driver, between.url, seconds=60)
    wait(driver, lambda d: len(set(seen(d))) >= 4)
    assert UNREACHABLE not in text(driver) and polls(driver, job_id) >= 3
    end(driver, job_id)


def test_where_no_stream_may_be_had_the_page_asks(server, browser):
    full = server(MAX_STREAMS=1)
    job_id = full.post("/api/kinds/free/jobs", {"seconds": 60}, token=(token := full.add_user())).json["job"]["id"]
    with socket.create_connection(("127.0.0.1", full.port)) as other:
        other.sendall(f"GET /api/jobs/{job_id}/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n\r\n".encode())
        assert b" 200 " in other.recv(100)
        driver = browser(390)
        begin(driver, full.url, seconds=4)
        wait(driver, lambda d: len(set(seen(d))) >= 2)
        assert UNREACHABLE not in text(driver)
        wait(driver, lambda d: d.title.startswith("Done"))


def test_seven_windows_all_hear_the_end_and_leave_room_for_pages(running, browser):
    driver = browser(390)
    driver.get(f"{running.url}/kinds/free")
    pages = driver.execute_script("""
        const form = document.getElementById('form');
        return Promise.all([...Array(7).keys()].map((n) => {
            const data = new FormData(form);
            data.set('text', 'number ' + n);
            data.set('seconds', 100);
            return fetch(form.action, {method: 'POST', body: data}).then((answer) => answer.url);
        }));""")
    assert len(set(pages)) == 7
    windows = {}
    for page in pages:
        driver.switch_to.new_window("window")
        driver.get(page)
        windows[driver.current_window_handle] = page
        assert not driver.execute_script("return document.hidden")
    wait(driver, lambda d: streams(running) == STREAMS_MOST)
    driver.switch_to.new_window("window")
    driver.get(running.url)  # there is a connection left for it
    driver.get(pages[0])
    for page in pages:
        end(driver, page.rpartition("/")[2])
    for window in windows:
        driver.switch_to.window(window)
        wait(driver, lambda d: "Cancelled" in text(d))
    wait(driver, lambda d: streams(running) == 0)


def test_without_a_network_it_says_so_and_comes_back_by_itself(running, browser):
    driver = browser(390)
    job_id = begin(driver, running.url, seconds=60)
    wait(driver, lambda d: seen(d))

    driver.execute_cdp_cmd("Network.enable", {})

    def network(offline):
        driver.execute_cdp_cmd("Network.emulateNetworkConditions", {
            "offline": offline, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1})
    network(offline=True)
    wait(driver, lambda d: UNREACHABLE in text(d), seconds=15)  # sooner than silence alone would tell
    network(offline=False)
    wait(driver, lambda d: UNREACHABLE not in text(d))
    before = len(seen(driver))
    wait(driver, lambda d: len(seen(d)) > before and streams(running) == 1)
    end(driver, job_id)


def test_a_hidden_page_holds_no_stream_and_comes_back_right(running, browser):
    driver = browser(390)
    job_id = begin(driver, running.url, seconds=100)
    page = driver.current_window_handle
    wait(driver, lambda d: streams(running) == 1)

    def elsewhere():
        driver.switch_to.new_window("tab")
        wait(driver, lambda d: streams(running) == 0)
        return driver.current_window_handle

    def back():
        driver.switch_to.window(page)
        driver.execute_cdp_cmd("Page.bringToFront", {})
    elsewhere()
    back()
    wait(driver, lambda d: streams(running) == 1)
    before = len(seen(driver))
    wait(driver, lambda d: len(seen(d)) > before)
    elsewhere()
    driver.get(f"{running.url}/jobs/{job_id}")
    end(driver, job_id)
    wait(driver, lambda d: "Cancelled" in text(d))
    back()
    wait(driver, lambda d: "Cancelled" in text(d))


def account(running, email):
    return json.loads(running.flask("users", "add", email, "--points", "3", "--json").stdout)


def signed_in(running, driver, url, email):
    made = account(running, email)
    sign_in(driver, type("At", (), {"url": url}), made["email"], made["password"])
    return made


def test_what_a_cancel_means_is_never_told_wrong(running, between, browser):
    """When points are used the sentences change, all at one moment; they come with the news itself."""
    driver = browser(390)
    signed_in(running, driver, between.url, "p@example.org")
    begin(driver, between.url, "paced", before=3, after=60)
    between.act = lambda connection, path: not path.startswith("/jobs/") or bad_gateway(connection, path)
    driver.execute_script("""
        const told = () => ['[data-money]', '.if-stopped', '#cancel-note'].map(
            (part) => document.querySelector(part).checkVisibility() && document.querySelector(part).textContent);
        window.told = new Set([JSON.stringify(told())]);
        new MutationObserver(() => window.told.add(JSON.stringify(told()))).observe(
            document.querySelector('[data-live]'), {subtree: true, childList: true, characterData: true, attributes: true});
        document.querySelector('.cancel button').focus()""")
    wait(driver, lambda d: "1 point was used" in text(d))
    *waiting, before, after = map(json.loads, driver.execute_script("return [...window.told]"))
    assert all(money == before[0] for money, *_ in waiting), "until its turn came"
    assert before == ["No points have been used yet.",
                      "If the server stopped now: it would end, and no points would be used.",
                      "Nothing has been used: if you cancel now, no points are used."]
    assert after == ["1 point was used (balance 2).",
                     "If the server stopped now: it would end, and the 1 point it has used would be returned.",
                     "The points have been used already: if you cancel now they are not returned."]
    button = driver.find_element(By.CSS_SELECTOR, "form.cancel button")
    assert driver.switch_to.active_element == button and how_opened(driver) != "reload"
    between.act = None
    button.click()
    wait(driver, lambda d: "Cancelled" in text(d))


def test_a_cancellation_that_stands_is_told_to_other_tabs_and_asked_for_once(server, browser):
    """The command is another process: the worker hears of it at its next heartbeat."""
    running = server(HEARTBEAT_SECONDS=60, WORKER_STALE_SECONDS=200)
    driver = browser(390)
    made = signed_in(running, driver, running.url, "q@example.org")
    job_id = begin(driver, running.url, "deaf", seconds=100)
    wait(driver, lambda d: "1 point was used" in text(d))
    driver.execute_script("document.querySelector('.cancel button').focus()")
    plain = browser(390, scripts=False)
    sign_in(plain, running, made["email"], made["password"])
    running.flask("jobs", "cancel", job_id)
    plain.get(driver.current_url)
    assert "The operator is stopping this." in text(plain)
    assert "This page renews itself every few seconds." in text(plain) and "renews itself" not in text(driver)
    assert not plain.find_element(By.CSS_SELECTOR, ".cancel button").is_displayed()
    wait(driver, lambda d: "The operator is stopping this." in text(d))
    assert not driver.find_element(By.CSS_SELECTOR, ".cancel button").is_displayed()
    assert not any(said in text(driver) for said in ("if you cancel now", "The work goes on"))
    assert driver.switch_to.active_element.tag_name == "h1"
    assert driver.find_element(By.CSS_SELECTOR, "[data-spoken]").get_attribute("textContent").startswith("The operator is stopping")
    running.post(f"/api/jobs/{job_id}/cancellation", token=made["token"])  # this process, and so at once
    wait(driver, lambda d: how_opened(d) == "reload")


@pytest.mark.parametrize("trouble", [bad_gateway, captive_portal, lambda connection, path: None])
def test_the_end_is_shown_once_its_page_has_come(between, browser, trouble):
    """What stands in the way at that moment does not take the place of the page, which waits."""
    driver = browser(390)
    begin(driver, between.url, seconds=3)
    between.act = lambda connection, path: not path.startswith("/jobs/") or trouble(connection, path)
    wait(driver, lambda d: UNREACHABLE in text(d))
    assert how_opened(driver) == "navigate" and not driver.title.startswith("Done")
    assert "busy" in driver.find_element(By.CSS_SELECTOR, "link[rel=icon]").get_attribute("href")
    between.act = None
    wait(driver, lambda d: d.title.startswith("Done") and how_opened(d) == "reload")
    wait(driver, lambda d: d.switch_to.active_element.tag_name == "h1")
    state = driver.find_element(By.ID, driver.switch_to.active_element.get_attribute("aria-describedby"))
    assert state.text == "Done"


def test_whoever_may_see_it_no_longer_is_told_so(running, between, browser):
    driver = browser(390)
    begin(driver, between.url, seconds=4)
    driver.delete_all_cookies()
    wait(driver, lambda d: "We cannot show you this" in text(d))


def test_an_outage_takes_neither_the_focus_nor_the_voice(running, between, browser):
    driver = browser(390)
    job_id = begin(driver, between.url, seconds=400)
    wait(driver, lambda d: seen(d))
    button = driver.find_element(By.CSS_SELECTOR, ".cancel button")
    driver.execute_script("arguments[0].focus()", button)
    notice, spoken = (driver.find_element(By.CSS_SELECTOR, part) for part in ("[role=status]:has([data-notice])", "[data-spoken]"))
    shown = lambda element: driver.execute_script("return arguments[0].checkVisibility()", element)  # noqa: E731
    assert shown(notice) and notice.text == ""  # what is not there yet is not heard when it comes
    between.answers(bad_gateway)
    wait(driver, lambda d: notice.text == UNREACHABLE)
    assert spoken.get_attribute("textContent") == ""
    between.answers(None)
    wait(driver, lambda d: notice.text == "" and shown(notice))
    assert driver.switch_to.active_element == button
    wait(driver, lambda d: "%" in spoken.get_attribute("textContent"))
    bar = driver.find_element(By.TAG_NAME, "progress").get_attribute("aria-valuetext")
    assert re.fullmatch(r"\d+% \S.*", bar), bar
    end(driver, job_id)


def test_a_server_that_hangs_is_noticed(running, between, browser):
    driver = browser(390)
    job_id = begin(driver, between.url, seconds=100)
    wait(driver, lambda d: len(set(seen(d))) >= 2)  # by the stream
    between.speaks.clear()
    wait(driver, lambda d: UNREACHABLE in text(d), seconds=20)
    between.speaks.set()
    wait(driver, lambda d: UNREACHABLE not in text(d))
    end(driver, job_id)


def test_a_stream_that_says_it_lives_need_not_be_checked(running, browser):
    driver = browser(390)
    signed_in(running, driver, running.url, "r@example.org")
    job_id = begin(driver, running.url, "deaf", seconds=35)
    wait(driver, lambda d: how_opened(d) == "navigate" and "1 point was used" in text(d))
    driver.execute_script("""
        const path = '/api/jobs/' + arguments[0];
        addEventListener('pagehide', () => sessionStorage.asked =
            performance.getEntriesByType('resource').filter((entry) => entry.name.endsWith(path)).length)""", job_id)
    wait(driver, lambda d: how_opened(d) == "reload", seconds=60)
    assert int(driver.execute_script("return sessionStorage.asked")) <= 3
