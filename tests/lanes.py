"""Several processes share the tests; the first one reports what all of them found.

    python -m pytest -p tests.lanes --lanes 3

Each lane is a whole pytest that collects everything and runs those tests that it is the first to claim. (pytest-xdist
ends with an internal error where gevent has patched the process.)
"""
import hashlib
import json
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

# The files with the longest tests first, so that none is left at the end.
FIRST = ("test_browser_looks", "test_storage", "test_model", "test_browser_live", "test_crashtest", "test_recovery")


def pytest_addoption(parser):
    parser.addoption("--lanes", type=int, default=1, help="how many processes share the tests")
    parser.addoption("--lane", metavar="FOLDER/NAME", help="be one of them: claim in this folder, report in this file")


def pytest_configure(config):
    if report := config.getoption("--lane"):
        config.pluginmanager.register(Lane(config, Path(report)))
    elif config.getoption("--lanes") > 1:
        config.pluginmanager.register(FirstLane(config, config.getoption("--lanes") - 1))


def _place(item):
    name = item.path.stem
    return FIRST.index(name) if name in FIRST else len(FIRST)


class Claims:
    """Runs of what was collected only what nobody else has claimed."""

    def __init__(self, folder):
        self.folder = folder

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items):
        items.sort(key=_place)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        """As pytest's own, which would tear down for the next test of all, not for the next of this lane."""
        if session.testsfailed and not session.config.option.continue_on_collection_errors:
            raise session.Interrupted(f"{session.testsfailed} errors during collection")
        if not session.config.option.collectonly:
            mine = filter(self._claim, session.items)
            item = next(mine, None)
            while item is not None:
                following = next(mine, None)
                item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    raise session.Interrupted(session.shouldfail or session.shouldstop)
                item = following
        return True

    def _claim(self, item):
        name = hashlib.sha1(item.nodeid.encode("utf-8", "replace")).hexdigest()
        try:
            (self.folder / f"{name}.claim").touch(exist_ok=False)
        except FileExistsError:
            return False
        return True


class Lane(Claims):
    """Writes its reports down, one JSON value a line."""

    def __init__(self, config, path):
        super().__init__(path.parent)
        self._config, self._file = config, path.open("w", encoding="utf-8")

    def pytest_runtest_logreport(self, report):
        value = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._file.write(json.dumps(value) + "\n")
        self._file.flush()


class FirstLane(Claims):
    """Starts the others, and passes on what they report as if it had been here."""

    def __init__(self, config, others):
        self._held = tempfile.TemporaryDirectory(prefix="lanes-")
        super().__init__(Path(self._held.name))
        self._config = config
        self._lanes = [self._start(self.folder / f"lane-{n + 2}") for n in range(others)]

    def _start(self, path):
        path.touch()
        with path.with_suffix(".log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *self._config.invocation_params.args, f"--lane={path}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
        return process, path, path.open(encoding="utf-8")

    def pytest_runtest_logfinish(self):
        self._pass_on()

    def _pass_on(self):
        hook = self._config.hook
        for _, _, reports in self._lanes:
            place = reports.tell()
            while (line := reports.readline()).endswith("\n"):
                place = reports.tell()
                hook.pytest_runtest_logreport(
                    report=hook.pytest_report_from_serializable(config=self._config, data=json.loads(line)))
            reports.seek(place)     # to the beginning of a line that is not written to its end

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session):
        try:
            done = super().pytest_runtestloop(session)
            broken = [path for process, path, _ in self._lanes if process.wait() not in (
                pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED)]
            self._pass_on()
        finally:
            for process, _, reports in self._lanes:
                process.kill()
                process.wait()
                reports.close()
        if broken:
            print(*(path.with_suffix(".log").read_text("utf-8", "replace") for path in broken))
            raise session.Failed(f"{broken[0].name} broke off: what it claimed may not have been run")
        return done

    def pytest_unconfigure(self):
        self._held.cleanup()
