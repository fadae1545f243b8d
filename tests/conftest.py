"""What several test files share: markers, no network, one thread, real corpora if at hand."""

import ipaddress
import os
import shutil
import socket
from collections import Counter
from importlib.util import find_spec

import pytest
import torch
from hypothesis import HealthCheck, settings

from nmtcourse.doctor.known import check
from nmtlib.data.corpora import load_corpus

# A fault of ours ends a test with its traceback; a command tells it in a line.
os.environ["NMTLIB_DEBUG"] = "faults"
# A text of the course that has no Chinese stops a test that asks for Chinese.
os.environ["NMTLIB_STRICT_WORDS"] = "1"
# Set before any parallel work: two busy threads on two busy cores wait more than they work.
torch.set_num_threads(1)
# The same examples in every run, and no limit by the clock: a shared machine may pause at any time.
settings.register_profile(
    "calm", deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("calm")

# No test reaches a network: this process refuses to connect, the processes and kernels that it
# starts find a proxy that does not answer.
NOWHERE = "http://127.0.0.1:9"
os.environ |= dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
os.environ |= dict.fromkeys(("no_proxy", "NO_PROXY"), "127.0.0.1,localhost")
_connect = socket.socket.connect


def connect_to_this_machine(self, address):
    """`socket.connect`, but to this machine alone."""
    host = address[0] if self.family in (socket.AF_INET, socket.AF_INET6) else "127.0.0.1"
    if host != "localhost" and not ipaddress.ip_address(host).is_loopback:
        raise ConnectionRefusedError(f"a test may not use the network: {address}")
    return _connect(self, address)


socket.socket.connect = connect_to_this_machine

MISSING_EXTRA = "extras: "  # how the reason begins when a test marked `extras` is skipped


def pytest_collection_modifyitems(items):
    """Skip `extras` tests by the name they lack."""
    for item in items:
        packages = [name for mark in item.iter_markers("extras") for name in mark.args]
        if missing := [name for name in packages if find_spec(name) is None]:
            reason = f"{MISSING_EXTRA}{', '.join(missing)} not installed; install with: make extras"
            item.add_marker(pytest.mark.skip(reason=reason))


def unexpected_skips(reports):
    """`test: reason` of each skipped test whose reason is not a missing extra."""
    found = ((report.nodeid, report.longrepr[2].removeprefix("Skipped: ")) for report in reports)
    return [f"{test}: {why}" for test, why in found if not why.startswith(MISSING_EXTRA)]


def pytest_terminal_summary(terminalreporter):
    """Say where the time of a long run went: the seconds of its slowest files."""
    seconds = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            seconds[getattr(report, "nodeid", "").partition("::")[0]] += getattr(
                report, "duration", 0
            )
    if seconds.total() > 60:
        terminalreporter.section(f"{seconds.total():.0f} seconds of all processes went to")
        for file, spent in seconds.most_common(20):
            terminalreporter.write_line(f"{spent:6.1f} s  {file}")


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    """With NMTLIB_SKIPS=extras, fail when a test was skipped for another reason."""
    terminal = session.config.pluginmanager.get_plugin("terminalreporter")
    if os.environ.get("NMTLIB_SKIPS") != "extras" or not terminal:
        return
    if unexpected := unexpected_skips(terminal.stats.get("skipped", [])):
        terminal.write_line("\nskipped for another reason than a missing extra:", red=True)
        terminal.write_line("\n".join(unexpected))
        session.exitstatus = exitstatus or pytest.ExitCode.TESTS_FAILED


@pytest.fixture(scope="session")
def browser():
    """A Chromium without a window; a process can drive one only."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        pytest.skip("Chromium is not installed")
    from playwright import sync_api

    flags = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
    flags += ["--disable-background-networking"]
    with sync_api.sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=found, args=flags)
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def multi30k():
    """The corpus, where its files are in the cache (see NMTLIB_DATA)."""
    name = "multi30k-de-en"
    if not check(name).ok:
        pytest.skip(f"{name} is not in the cache; fetch it with: nmtlib data fetch {name}")
    return load_corpus(name)
