# make demo: see it work, a kill -9 included    make run: serve    make test: the whole test suite
# All share one virtual environment, made from the pinned requirements and renewed when those change.

.PHONY: help demo run test messages
.DEFAULT_GOAL := help

BIN := .venv/bin
SERVER := .venv/.requirements
DEV := .venv/.requirements-dev

help:
	@echo "make demo                see it work: a report, and a paid job whose server is killed"
	@echo "make demo SAMPLE=file    the same, with your file of comments"
	@echo "make run                 serve on http://localhost:8000 (PORT=9000 for another port)"
	@echo "make test                the whole test suite, in a real browser too"
	@echo "make messages            the texts of code and templates into the catalogues, and those compiled"

demo: $(SERVER)
	@$(BIN)/python -m webapp.demo $${SAMPLE:+"$$SAMPLE"}

run: $(SERVER)
	@exec $(BIN)/python -m gunicorn wsgi:app

# New texts come without a translation: write it into messages.po, then run this again.
messages: $(SERVER)
	@template=$$(mktemp) && trap 'rm -f "$$template"' EXIT && \
	$(BIN)/pybabel --quiet extract --mapping-file=babel.cfg --add-location=file --no-wrap --output-file="$$template" . && \
	$(BIN)/pybabel --quiet update --input-file="$$template" --output-dir=webapp/translations --no-wrap \
		--no-fuzzy-matching --ignore-obsolete --ignore-pot-creation-date && \
	$(BIN)/pybabel compile --directory=webapp/translations --statistics

# ------------------------------------------------------------------------------------------- set-up

$(SERVER): requirements.txt
	@$(venv)
	@echo "Installing requirements.txt (once)"
	@$(install) -r requirements.txt
	@touch $@

$(DEV): requirements.txt requirements-dev.txt
	@$(venv)
	@echo "Installing requirements-dev.txt (once)"
	@$(install) -r requirements-dev.txt
	@touch $(SERVER) $@

install = $(BIN)/python -m pip install --quiet --disable-pip-version-check

# A virtual environment that was moved, or whose Python is gone, is made again.
define venv
if ! $(BIN)/python -c 'import pip' 2>/dev/null; then \
	for python in python3.13 python3.12 python3.11 python3 none; do \
		$$python -c 'import sys, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && break; \
	done; \
	if [ $$python = none ]; then \
		echo "Python 3.11 or newer is needed, with its venv module, and none was found." >&2; \
		echo "On Debian and Ubuntu: apt-get install python3 python3-venv. Elsewhere: https://www.python.org/downloads/" >&2; \
		exit 1; \
	fi; \
	echo "Making .venv with $$($$python --version)"; \
	$$python -m venv --clear .venv; \
fi
endef

# ------------------------------------------------------------------------------------------- tests

# Browser tests need Chromium and its driver. AINORI_CHROMIUM tells them where it is; empty: there is none.
# Where packages may be installed (root, or sudo without a password) it is installed.
# The whole suite, which waits as much as it computes, is run by three processes; ARGS="tests/test_jobs.py" by one.
test: $(DEV)
	@$(chromium); \
	export AINORI_CHROMIUM="$$browser"; \
	$(BIN)/python -m pytest -v -rs $(or $(ARGS),-p tests.lanes --lanes 3); status=$$?; \
	if [ -z "$$browser" ]; then \
		echo; \
		echo "!!! THE BROWSER TESTS DID NOT RUN: $$why."; \
		echo "!!! Everything else did. Install chromium and chromium-driver, then run make test again."; \
		if [ "$$CI" = true ]; then echo "!!! With CI=true that is a failure."; status=1; fi; \
	fi; \
	exit $$status

define chromium
find_browser() { \
	browser=""; \
	for name in "$$AINORI_CHROMIUM" chromium chromium-browser google-chrome google-chrome-stable chrome \
		"/Applications/Google Chrome.app/Contents/MacOS/Google Chrome" \
		/Applications/Chromium.app/Contents/MacOS/Chromium; do \
		[ -n "$$name" ] && browser=$$(command -v "$$name") && break; \
	done; \
	[ -n "$$browser" ] && { command -v chromedriver >/dev/null || [ "$$(uname)" = Darwin ]; } || browser=""; \
}; \
as_root=""; [ "$$(id -u)" = 0 ] || as_root="sudo -n"; \
why="there is no Chromium with chromedriver"; \
find_browser; \
if [ -z "$$browser" ]; then \
	if [ -n "$$as_root" ] && ! sudo -n true 2>/dev/null; then \
		why="$$why, and installing it needs root"; \
	elif command -v apt-get >/dev/null; then \
		echo "Installing chromium and chromium-driver for the browser tests"; \
		{ $$as_root apt-get update && \
		  $$as_root env DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
			chromium chromium-driver; } >.venv/chromium.log 2>&1 || why="$$why, and installing it failed (.venv/chromium.log)"; \
	elif command -v dnf >/dev/null; then \
		echo "Installing chromium and chromedriver for the browser tests"; \
		$$as_root dnf install --assumeyes chromium chromedriver >.venv/chromium.log 2>&1 || \
			why="$$why, and installing it failed (.venv/chromium.log)"; \
	else \
		why="$$why, and no package manager known here"; \
	fi; \
	find_browser; \
fi
endef
