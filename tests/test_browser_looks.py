"""Every page there is, in real Chromium: accessible, wide enough, in the right language, in light and dark."""
import json
import time
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from tests.chromium import browser, needs_chromium, sign_in, wait  # noqa: F401
from tests.conftest import ROOT

pytestmark = needs_chromium
AXE = next((ROOT / "tests" / "vendor").glob("axe-*.min.js"))
SITE_NAME = "Northern Prefecture Assessment Centre 北部地域診断センター"
SAMPLE = ROOT / "webapp" / "kinds" / "comments" / "sample.csv"
# These answer programs; whatever else a GET leads to, and is HTML, is a page.
NOT_PAGES = {"api", "metrics", "static", "openapi"}
# Where the address of a page has a part to fill in: with what. Who may not see it is not shown it here.
EXAMPLES = {
    "pages.kind": lambda world: [{"kind": name} for name in ("comments", "sample")],
    "pages.job": lambda world: [{"job_id": job_id} for name, job_id in world.jobs.items() if name != "unseen"],
    "pages.rows": lambda world: [{"job_id": world.jobs["report"], **asked} for asked in (
        {}, {"q": "the", "order": "likes", "page": 2}, {"q": "no such words"})],
    "admin.work": lambda world: [{"job_id": world.jobs[name]} for name in ("report", "succeeded", "cancelled")],
    "admin.user": lambda world: [{"user_id": 1}, {"user_id": 2}],
    "pages.report": lambda world: [{"job_id": world.jobs["report"]}, {"job_id": world.jobs["succeeded"]}],
}


class World:
    """A server, and an account that has work in every state; ``jobs``: their ids."""

    def __init__(self, start):
        self.server = start(KINDS="comments,sample", SITE_NAME=SITE_NAME, SUPPORT_CONTACT="help@example.org",
                            MAX_RUNNING_JOBS=2)
        added = self.server.flask("users", "add", "p@example.org", "--points", "1200", "--admin", "--json")
        self.account = json.loads(added.stdout)
        self.token, self.jobs = self.account["token"], {}
        self._make_what_ends()
        self._interrupt("seen", "unseen")
        self._submit("running", "free", seconds=900)
        self._until_it_runs("running")
        self._submit("also running", "free", seconds=900, text="another")
        self._submit("waiting", "paid")
        self._until_it_runs("also running")

    def _submit(self, name, kind, **params):
        answer = self.server.post(f"/api/kinds/{kind}/jobs", params, token=self.token)
        self.jobs[name] = answer.json["job"]["id"]

    def _until_it_runs(self, name):
        ends = time.monotonic() + 30
        while not self.server.rows("SELECT 1 FROM jobs WHERE id = ? AND status = 'running'", self.jobs[name]):
            assert time.monotonic() < ends, name
            time.sleep(0.02)

    def _make_what_ends(self):
        report = self.server.upload("comments", "sample.csv", SAMPLE.read_bytes(), token=self.token)
        self.jobs["report"] = report.json["job"]["id"]
        self._submit("succeeded", "paced", text="kept as a file")
        self._submit("paid", "paid")
        self._submit("failed", "refusing")
        self._submit("cancelled", "free", seconds=900)
        self._until_it_runs("cancelled")
        self.server.post(f"/api/jobs/{self.jobs['cancelled']}/cancellation", token=self.token)
        for job_id in self.jobs.values():
            self.server.finished(job_id, self.token)

    def _interrupt(self, *names):
        for name, kind in zip(names, ("sample", "slow")):
            self._submit(name, kind, seconds=50)
            self._until_it_runs(name)
        self.server.kill()
        self.server.start()
        for name in names:
            self.server.finished(self.jobs[name], self.token)

    def pages(self, app, cookie):
        """The path of every page this visitor may see, found from the routes: one that needs an example and has
        none fails."""
        adapter, found = app.url_map.bind("localhost"), []
        for rule in app.url_map.iter_rules():
            if "GET" not in rule.methods or rule.endpoint.partition(".")[0] in NOT_PAGES:
                continue
            assert not rule.arguments or rule.endpoint in EXAMPLES, \
                f"{rule.endpoint} is new: give example addresses for {rule.rule} in EXAMPLES of tests/test_browser_looks.py"
            for values in EXAMPLES[rule.endpoint](self) if rule.arguments else [{}]:
                path = adapter.build(rule.endpoint, values)
                answer = self.server.get(path, headers={"Cookie": cookie})
                assert answer.status < 500, (path, answer.text)
                if answer.status == 200 and answer.headers["Content-Type"].startswith("text/html"):
                    found.append(path)
        return [*sorted(set(found)), "/nowhere"]


# What a thumb must hit, unless it stands in running text.
TARGETS = ".site-header :is(a, button, summary), .btn, main summary, .field :is(input:not([type=checkbox]), select, textarea)"
FRAME = ("body > header", "body > header nav", "body > footer", "a.skip[href='#main']")


def problems_of(driver, lang):
    """What is wrong with the page that is shown: in light or dark, at 1280 or 320 px."""
    def count(selector):
        return len(driver.find_elements(By.CSS_SELECTOR, selector))
    for entry in driver.get_log("browser"):
        if not entry["message"].startswith(driver.current_url + " - Failed to load"):  # what is refused is a complaint too
            yield f"console: {entry['message']}"
    alone = count("body.report-file")
    if driver.find_element(By.TAG_NAME, "html").get_attribute("lang") != lang:
        yield "lang"
    if count("h1") != 1 or count("main") != 1 or not alone and not all(count(one) == 1 for one in FRAME):
        yield "not one heading of the first level, or landmarks are missing"
    if not driver.title or driver.title == SITE_NAME or not alone and SITE_NAME not in driver.title:
        yield f"title: {driver.title}"
    driver.execute_script("for (const one of document.querySelectorAll('details')) one.open = true;" +
                          AXE.read_text(encoding="utf-8"))  # the debugger's door: the page's policy is not asked
    for width in (1280, 320):
        resize(driver, width)
        for text_size in ("200%", "") if width == 1280 else ("",):
            if (wide := sideways(driver, text_size)) > 0:
                yield f"{width} px, text at {text_size or '100%'}: scrolls sideways by {wide} px"
        if width == 320:
            yield from (f"lower than 44 px: {one}" for one in driver.execute_script("""
                return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility() &&
                    one.getBoundingClientRect().height < 43.5).map(one => one.outerHTML)""", TARGETS))
        # Colours do not depend on the language: one of the two is asked half as often.
        for scheme in ("light", "dark") if lang == "en" else ("light",) if width == 1280 else ("dark",):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
                {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]})
            for finding in driver.execute_async_script(
                    "axe.run({resultTypes: ['violations'], preload: false}).then(result => arguments[0](result.violations.map(one => "
                    "[one.impact, one.help, ...one.nodes.slice(0, 3).map(node => node.failureSummary + node.html)])))"):
                yield f"{width} px, {scheme}: {' | '.join(finding)}"


def sideways(driver, text_size=""):
    return driver.execute_script("""
        const all = document.documentElement;
        all.style.fontSize = arguments[0];
        return all.scrollWidth - all.clientWidth;""", text_size)


def resize(driver, width):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})


class Seen:
    """What was found on the pages, each with where."""

    def __init__(self, driver):
        self.driver, self.problems = driver, {}

    def look(self, lang, where):
        for problem in problems_of(self.driver, lang):
            self.problems.setdefault(problem, []).append(f"{lang}: {where}")

    def look_at_errors(self, server, path, form, lang):
        """The same form, sent with what it refuses."""
        self.driver.get(server.url + path)
        self.driver.execute_script("""
            for (const one of document.querySelectorAll(arguments[0] + " :is([type=email], [type=password], [type=number])"))
                one.value = "99";
            document.querySelector(arguments[0]).submit();""", form)
        wait(self.driver, lambda d: d.find_elements(By.CSS_SELECTOR, ".error-summary"))
        self.look(lang, f"{path} with errors")

    def nothing_is_wrong(self):
        assert not self.problems, "\n".join(f"{problem}\n    {'; '.join(at)}" for problem, at in self.problems.items())


@pytest.mark.parametrize("lang", ["ja", "en"])
@pytest.mark.parametrize("who", ["account", "guest"])
def test_every_page_looks_right_to_everybody(server, browser, app, who, lang):
    world, driver = World(server), browser()
    seen = Seen(driver)
    driver.get(f"{world.server.url}/login")
    if who == "account":
        sign_in(driver, world.server, "p@example.org", world.account["password"])
    cookie = "; ".join(f"{one['name']}={one['value']}" for one in driver.get_cookies())
    driver.add_cookie({"name": "lang", "value": lang})
    paths = world.pages(app, cookie)
    assert len(paths) > (15 if who == "account" else 5)
    for path in paths:
        driver.get(world.server.url + path)
        seen.look(lang, path)
    seen.look_at_errors(world.server, *(("/kinds/sample", "#form") if who == "account" else ("/login", "main form")), lang)
    driver.get(world.server.url)
    if who == "account":
        assert driver.find_element(By.CSS_SELECTOR, ".unseen").is_displayed()  # nobody looked at that one
    seen.nothing_is_wrong()


def test_a_keyboard_reaches_everything_in_order_and_shows_where_it_is(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="")
    made = json.loads(running.flask("users", "add", "p@example.org", "--json").stdout)
    driver = browser(390)
    sign_in(driver, running, "p@example.org", made["password"])
    driver.get(f"{running.url}/kinds/comments")
    stops = []
    while len(stops) < 60:
        press(driver, Keys.TAB)
        stop = driver.execute_script("""
            const one = document.activeElement, look = getComputedStyle(one), box = one.getBoundingClientRect();
            if (one === document.body) return null;
            const places = [...document.querySelectorAll("*")];
            return {what: one.id || one.name || one.textContent.trim().slice(0, 30), place: places.indexOf(one),
                    seen: box.width > 0 && box.bottom > 0 && box.top < innerHeight,
                    ring: look.outlineStyle !== "none" && parseFloat(look.outlineWidth) >= 2};""")
        if stop is None:
            break
        stops.append(stop)
    assert stops[0]["what"] == "Skip to the content" and {"Menu", "f-file"} < {stop["what"] for stop in stops}
    assert [stop for stop in stops if not stop["seen"] or not stop["ring"]] == []
    assert [stop["place"] for stop in stops] == sorted(stop["place"] for stop in stops)
    assert len(stops) > 10 and len(stops) < 60


def test_the_skip_link_and_the_menu_work_from_the_keyboard(server, browser):
    running = server(KINDS="comments,sample", EXTRA_KINDS="")
    made = json.loads(running.flask("users", "add", "p@example.org", "--json").stdout)
    driver = browser()
    sign_in(driver, running, "p@example.org", made["password"])
    driver.get(running.url)
    press(driver, Keys.TAB, Keys.ENTER)
    assert driver.switch_to.active_element.get_attribute("id") == "main"
    menu = driver.find_element(By.CSS_SELECTOR, ".menu")
    button = driver.find_element(By.CSS_SELECTOR, ".sign-out button")
    assert not button.is_displayed()
    menu.find_element(By.TAG_NAME, "summary").send_keys(Keys.ENTER)
    wait(driver, lambda d: button.is_displayed())
    press(driver, Keys.TAB, Keys.ESCAPE)
    wait(driver, lambda d: not button.is_displayed())
    assert driver.switch_to.active_element.tag_name == "summary"
    press(driver, Keys.ENTER)
    wait(driver, lambda d: button.is_displayed())
    driver.find_element(By.TAG_NAME, "h1").click()
    wait(driver, lambda d: not button.is_displayed())
    menu.find_element(By.TAG_NAME, "summary").click()
    button.click()
    wait(driver, lambda d: "Sign in" in d.find_element(By.CSS_SELECTOR, ".site-nav").text)


def press(driver, *keys):
    ActionChains(driver).send_keys(*keys).perform()


@pytest.fixture
def finished(server):
    """A server, an account signed in to it, and a report of theirs that is done."""
    running = server(KINDS="comments", EXTRA_KINDS="")
    made = json.loads(running.flask("users", "add", "p@example.org", "--json").stdout)
    answer = running.upload("comments", "sample.csv", SAMPLE.read_bytes(), token=made["token"])
    job = running.finished(answer.json["job"]["id"], made["token"])
    return running, made["password"], job


@pytest.mark.parametrize("lang, zone", [("en", "America/New_York"), ("ja", "Europe/Paris")])
def test_times_become_the_visitors_own_and_say_so(finished, browser, lang, zone):
    running, password, job = finished
    driver = browser(lang=lang)
    driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": zone})
    sign_in(driver, running, "p@example.org", password)
    driver.get(running.url + job["links"]["page"])
    shown = driver.find_element(By.CSS_SELECTOR, ".ticket dl time")
    at = datetime.fromisoformat(job["created_at"]).astimezone(ZoneInfo(zone))
    assert shown.get_attribute("datetime") == job["created_at"]
    assert f"{at:%H:%M}" in shown.text and str(at.day) in shown.text and "UTC" not in shown.text
    assert f"{at:%H:%M:%S}" in shown.get_attribute("title")
    assert shown.get_attribute("title").rpartition(f"{at:%S} ")[2] == shown.get_attribute("data-zone")
    driver.get(f"{running.url}{job['links']['page']}/report.html")  # without scripts: as the server says it
    label = {"en": "UTC", "ja": "JST"}[lang]
    assert driver.find_element(By.TAG_NAME, "time").text.endswith(label)


@pytest.mark.parametrize("lang", ["en", "ja"])
def test_on_paper_are_the_report_and_the_receipt_and_nothing_to_press(finished, browser, lang):
    running, password, job = finished
    driver = browser(718, lang=lang)  # A4 between its margins
    sign_in(driver, running, "p@example.org", password)
    driver.get(running.url + job["links"]["page"])
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    visible = "return [...document.querySelectorAll(arguments[0])].filter(one => one.checkVisibility()).length"
    to_press = driver.execute_script(visible, ".site-nav, .language, .site-footer, .skip, button, .btn, input, summary")
    assert to_press == 0
    for kept in (".wordmark", "h1", ".report-headline", ".chart-picture", ".ticket .number", ".ticket .money", ".trail"):
        assert driver.execute_script(visible, kept) > 0, kept
    assert sideways(driver) <= 0
    zone = driver.execute_script("return getComputedStyle(document.querySelector('.ticket dl time'), '::after').content")
    assert driver.find_element(By.CSS_SELECTOR, ".ticket dl time").get_attribute("data-zone") in zone
