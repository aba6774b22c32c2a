"""Every page there is, in real Chromium: accessible, wide enough, in the right language, in light and dark."""
import json
import time

import pytest
from selenium.webdriver.common.by import By

from tests.chromium import browser, needs_chromium, sign_in, wait  # noqa: F401
from tests.conftest import ROOT

pytestmark = needs_chromium
AXE = next((ROOT / "tests" / "vendor").glob("axe-*.min.js"))
SITE_NAME = "Northern Prefecture Assessment Centre 北部地域診断センター"
SAMPLE = ROOT / "webapp" / "kinds" / "comments" / "sample.csv"
# These answer programs; whatever else a GET leads to, and is HTML, is a page.
NOT_PAGES = {"api", "metrics", "static", "openapi"}
# For each page whose address has a part to fill in: what a guest may see there, and what an account with work may.
EXAMPLES = {
    "pages.kind": lambda world: [{"kind": name} for name in ("comments", "sample")],
    "pages.job": lambda world: [{"job_id": job_id} for name, job_id in world.jobs.items() if name != "unseen"],
    "pages.report": lambda world: [{"job_id": world.jobs["report"]}, {"job_id": world.jobs["succeeded"]}],
}


class World:
    """A server, and an account that has work in every state; ``jobs``: their ids."""

    def __init__(self, start):
        self.server = start(KINDS="comments,sample", SITE_NAME=SITE_NAME, SUPPORT_CONTACT="help@example.org",
                            MAX_RUNNING_JOBS=2)
        self.account = json.loads(self.server.flask("users", "add", "p@example.org", "--points", "1200", "--json").stdout)
        self.token, self.jobs = self.account["token"], {}
        self._make_what_ends()
        self._interrupt("seen", "unseen")
        self._submit("running", "free", seconds=900)
        self._until("running")
        self._submit("also running", "free", seconds=900, text="another")
        self._submit("waiting", "paid")

    def _submit(self, name, kind, **params):
        answer = self.server.post(f"/api/kinds/{kind}/jobs", params, token=self.token)
        self.jobs[name] = answer.json["job"]["id"]

    def _until(self, name, condition="status = 'running'"):
        ends = time.monotonic() + 30
        while not self.server.rows(f"SELECT 1 FROM jobs WHERE id = ? AND {condition}", self.jobs[name]):
            assert time.monotonic() < ends, name
            time.sleep(0.02)

    def _make_what_ends(self):
        report = self.server.upload("comments", "sample.csv", SAMPLE.read_bytes(), token=self.token)
        self.jobs["report"] = report.json["job"]["id"]
        self._submit("succeeded", "paced", text="kept as a file")
        self._submit("paid", "paid")
        self._submit("failed", "refusing")
        self._submit("cancelled", "free", seconds=900)
        self._until("cancelled")
        self.server.post(f"/api/jobs/{self.jobs['cancelled']}/cancellation", token=self.token)
        for job_id in self.jobs.values():
            self.server.finished(job_id, self.token)

    def _interrupt(self, *names):
        for name, kind in zip(names, ("sample", "slow")):
            self._submit(name, kind, seconds=50)
            self._until(name)
        self.server.kill()
        self.server.start()
        for name in names:
            self.server.finished(self.jobs[name], self.token)

    def pages(self, app, cookie):
        """The path of every page, found from the routes: one that needs an example and has none fails."""
        adapter, found = app.url_map.bind("localhost"), []
        for rule in app.url_map.iter_rules():
            if "GET" not in rule.methods or rule.endpoint.partition(".")[0] in NOT_PAGES:
                continue
            assert not rule.arguments or rule.endpoint in EXAMPLES, \
                f"{rule.endpoint} is new: give example addresses for {rule.rule} in EXAMPLES of tests/test_browser_looks.py"
            for values in EXAMPLES[rule.endpoint](self) if rule.arguments else [{}]:
                path = adapter.build(rule.endpoint, values)
                answer = self.server.get(path, headers={"Cookie": cookie})
                if answer.headers["Content-Type"].startswith("text/html"):
                    found.append(path)
        assert len(found) > 5
        return sorted(set(found)) + ["/nowhere"]


FRAME = ("body > header", "body > header nav", "body > footer", "a.skip[href='#main']")


def problems_of(driver, lang):
    """What is wrong with the page that is shown: in light or dark, at 1280 or 320 px."""
    def count(selector):
        return len(driver.find_elements(By.CSS_SELECTOR, selector))
    said = [entry["message"] for entry in driver.get_log("browser") if entry["level"] == "SEVERE"]
    if not count(".lost"):  # an address that is not there is a complaint, as it should be
        yield from (f"console: {message}" for message in said)
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
        wide = driver.execute_script("const all = document.documentElement; return all.scrollWidth - all.clientWidth")
        if wide > 0:
            yield f"{width} px: scrolls sideways by {wide} px"
        for scheme in ("light", "dark"):
            driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [
                {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"}]})
            for finding in driver.execute_async_script(
                    "axe.run({resultTypes: ['violations']}).then(result => arguments[0](result.violations.map(one => "
                    "[one.impact, one.help, ...one.nodes.slice(0, 3).map(node => node.failureSummary + node.html)])))"):
                yield f"{width} px, {scheme}: {' | '.join(finding)}"


def resize(driver, width):
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", {
        "width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600})


def test_every_page_looks_right_to_everybody(server, browser, app):
    world, found = World(server), {}
    driver = browser()
    for who in ("guest", "account"):
        if who == "account":
            sign_in(driver, world.server, "p@example.org", world.account["password"])
        else:
            driver.get(f"{world.server.url}/login")
        cookie = "; ".join(f"{one['name']}={one['value']}" for one in driver.get_cookies())
        for lang in ("ja", "en"):
            driver.add_cookie({"name": "lang", "value": lang})
            for path in world.pages(app, cookie):
                driver.get(world.server.url + path)
                for problem in problems_of(driver, lang):
                    found.setdefault(problem, []).append(f"{who}, {lang}: {path}")
    assert not found, "\n".join(f"{problem}\n    at {'; '.join(where)}" for problem, where in found.items())
