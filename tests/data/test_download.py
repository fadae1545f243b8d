"""Downloads against a real server on this machine: a whole, verified file appears, or none."""

import errno
import hashlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nmtlib.data import download as module
from nmtlib.data.download import ChecksumError, cache_folder, download, verify_sha256

BODY = bytes(range(256)) * 1200  # 300 KB: several blocks


class Server(ThreadingHTTPServer):
    """Serves `body` under any path; the other attributes make it misbehave."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/file.gz"
        self.reset()

    def reset(
        self, body=BODY, *, ranges=True, statuses=(), break_after=None, breaks=0, delay=0.0, shift=0
    ):
        self.body, self.ranges, self.statuses, self.delay, self.shift = (
            body,
            ranges,
            list(statuses),
            delay,
            shift,
        )
        self.break_after, self.breaks = (
            break_after,
            breaks,
        )  # cut the first `breaks` answers after so many bytes
        self.asked, self.sent = [], 0  # Range headers received, bytes sent


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        wanted = self.headers.get("Range")
        server.asked.append(wanted)
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        start = (
            int(wanted.removeprefix("bytes=").removesuffix("-")) if wanted and server.ranges else 0
        )
        if start >= len(server.body) > 0 and wanted and server.ranges:
            return self.send_error(416)
        body = server.body[start + server.shift if start else 0 :]
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(body)))
        if start:
            first = start + server.shift
            self.send_header(
                "Content-Range", f"bytes {first}-{len(server.body) - 1}/{len(server.body)}"
            )
        self.end_headers()
        time.sleep(server.delay)
        if server.breaks:
            server.breaks -= 1
            body = body[: server.break_after]
        server.sent += self.wfile.write(body) if body else 0


@pytest.fixture(scope="module")
def running():
    server = Server()
    thread = threading.Thread(target=partial(server.serve_forever, poll_interval=0.02), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def server(running, monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    running.reset()
    return running


def is_body(body=BODY):
    return partial(verify_sha256, expected=hashlib.sha256(body).hexdigest())


def get(server, path, verify=None, **options):
    return download(server.url, path, verify or is_body(server.body), pause=0.0, **options)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_fresh_download_is_whole_and_alone_in_a_new_folder(server, tmp_path):
    path = tmp_path / "multi30k" / "file.gz"
    assert get(server, path) == path
    assert path.read_bytes() == BODY and names(path.parent) == ["file.gz"]
    assert server.asked == [None]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=40
)
@given(body=st.binary(min_size=1, max_size=200), data=st.data(), ranges=st.booleans())
def test_a_left_over_part_is_completed_with_or_without_ranges(server, tmp_path, body, data, ranges):
    have = data.draw(st.integers(0, len(body)))
    server.reset(body, ranges=ranges)
    path = tmp_path / "file.gz"
    path.with_name("file.gz.part").write_bytes(body[:have])
    get(server, path)
    assert path.read_bytes() == body and names(tmp_path) == ["file.gz"]
    assert server.asked[0] == (f"bytes={have}-" if have else None)
    if ranges and have < len(body):
        assert server.sent == len(body) - have  # only what was missing


@pytest.mark.parametrize("ranges", [True, False])
def test_a_connection_broken_half_way_is_taken_up_again(server, tmp_path, ranges):
    server.reset(ranges=ranges, break_after=100_000, breaks=2)
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == BODY and names(tmp_path) == ["file.gz"]
    assert server.asked == [None, "bytes=100000-", "bytes=200000-" if ranges else "bytes=100000-"]


def test_partial_content_never_takes_the_final_name_and_a_later_run_resumes(server, tmp_path):
    server.reset(break_after=1000, breaks=3)
    with pytest.raises(
        ConnectionError, match=r"file\.gz: gave up after 3 attempts: .*3000 of 307200 bytes"
    ):
        get(server, tmp_path / "file.gz", attempts=3)
    assert names(tmp_path) == ["file.gz.part"]
    assert (tmp_path / "file.gz.part").read_bytes() == BODY[:3000]
    get(server, tmp_path / "file.gz")
    assert server.asked[-1] == "bytes=3000-" and names(tmp_path) == ["file.gz"]


def test_nothing_has_the_final_name_while_the_file_is_verified(server, tmp_path):
    seen = []

    def verify(part):
        seen.append((part.read_bytes() == BODY, (tmp_path / "file.gz").exists()))

    get(server, tmp_path / "file.gz", verify)
    assert seen == [(True, False)]


def test_wrong_bytes_are_deleted_and_both_checksums_are_told(server, tmp_path):
    server.reset(b"<html>not found</html>")
    with pytest.raises(ChecksumError) as caught:
        get(server, tmp_path / "file.gz", is_body(BODY))
    for text in (
        server.url,
        hashlib.sha256(server.body).hexdigest(),
        hashlib.sha256(BODY).hexdigest(),
    ):
        assert text in str(caught.value)
    assert names(tmp_path) == [] and len(server.asked) == 1


def test_a_failed_download_leaves_an_older_file_alone(server, tmp_path):
    (tmp_path / "file.gz").write_bytes(b"older")
    server.reset(b"wrong")
    with pytest.raises(ChecksumError):
        get(server, tmp_path / "file.gz", is_body(BODY))
    assert (tmp_path / "file.gz").read_bytes() == b"older"


def test_a_left_over_of_another_file_is_found_out_and_then_gone(server, tmp_path):
    (tmp_path / "file.gz.part").write_bytes(b"other" * 100)
    with pytest.raises(ChecksumError):
        get(server, tmp_path / "file.gz")
    get(server, tmp_path / "file.gz")
    assert server.asked == ["bytes=500-", None] and names(tmp_path) == ["file.gz"]


def test_a_left_over_longer_than_the_file_is_thrown_away(server, tmp_path):
    (tmp_path / "file.gz.part").write_bytes(BODY + b"more")
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == BODY and server.asked[-1] is None


def test_a_range_that_starts_elsewhere_is_not_glued_on(server, tmp_path):
    server.reset(shift=7)
    (tmp_path / "file.gz.part").write_bytes(BODY[:500])
    get(server, tmp_path / "file.gz", attempts=2)
    assert (tmp_path / "file.gz").read_bytes() == BODY and server.asked == ["bytes=500-", None]


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(server, tmp_path):
    server.reset(statuses=[503, 500, 429])
    get(server, tmp_path / "file.gz")
    assert len(server.asked) == 4
    server.reset(statuses=[404])
    with pytest.raises(ConnectionError, match="file.gz: the server answered HTTP 404"):
        get(server, tmp_path / "other.gz")
    assert len(server.asked) == 1 and names(tmp_path) == ["file.gz"]


def test_pauses_double(server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    server.reset(statuses=[503] * 9)
    with pytest.raises(ConnectionError, match="5 attempts: HTTP 503"):
        download(server.url, tmp_path / "file.gz", is_body(), attempts=5, pause=0.5)
    pauses = [pause for pause in pauses if pause]  # the server thread sleeps for 0 seconds
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_a_silent_server_is_given_up_and_asked_again(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    server.reset(delay=0.6)
    with pytest.raises(ConnectionError, match="2 attempts: .*timed out"):
        get(server, tmp_path / "file.gz", attempts=2)
    assert len(server.asked) == 2 and not (tmp_path / "file.gz").exists()


def test_without_a_server_nothing_at_all_is_written(server, tmp_path):
    with Server() as closed:
        url = closed.url  # its port is free again once it is closed
    with pytest.raises(ConnectionError, match="gave up after 2 attempts"):
        download(url, tmp_path / "new" / "file.gz", is_body(), attempts=2, pause=0.0)
    assert names(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="limits of a process exist on POSIX only")
def test_a_file_that_cannot_grow_raises_and_leaves_no_part(server, tmp_path):
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, hard))
    try:
        with pytest.raises(OSError) as caught:
            get(server, tmp_path / "file.gz")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert caught.value.errno == errno.EFBIG and "NMTLIB_DATA" in str(caught.value)
    assert str(tmp_path / "file.gz") in str(caught.value)
    assert names(tmp_path) == [] and len(server.asked) == 1  # asking again makes no room


def test_a_full_disk_is_told_apart_from_a_broken_connection(server, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(module.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device .*make room") as caught:
        get(server, tmp_path / "file.gz")
    assert caught.value.errno == errno.ENOSPC and not isinstance(caught.value, ConnectionError)
    assert names(tmp_path) == [] and len(server.asked) == 1


def test_an_interrupted_run_keeps_what_it_has_for_the_next(server, tmp_path):
    def interrupt(part):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        get(server, tmp_path / "file.gz", interrupt)
    assert names(tmp_path) == ["file.gz.part"]


def test_runs_at_the_same_time_do_not_disturb_each_other(server, tmp_path):
    server.reset(delay=0.05)
    (tmp_path / "file.gz.part").write_bytes(BODY[:1000])  # only one of them may take this up
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(get, server, tmp_path / "file.gz") for _ in range(4)]
        assert all(future.result().read_bytes() == BODY for future in done)
    assert names(tmp_path) == ["file.gz"] and server.asked.count("bytes=1000-") <= 1


@pytest.mark.parametrize(
    ("terminal", "progress", "shown"), [(1, True, True), (1, False, False), (0, True, False)]
)
def test_progress_is_drawn_on_a_terminal_only(
    server, tmp_path, capsys, monkeypatch, terminal, progress, shown
):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: bool(terminal))
    get(server, tmp_path / "file.gz", progress=progress)
    assert ("file.gz" in capsys.readouterr().err) is shown


def test_the_environment_variable_names_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NMTLIB_DATA", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" and names(tmp_path) == []
    monkeypatch.setenv("NMTLIB_DATA", "~/mine")
    assert cache_folder() == Path.home() / "mine"


@pytest.mark.parametrize("unset", [None, ""])
@pytest.mark.parametrize(
    ("platform", "variables", "expected"),
    [
        ("linux", {}, "home/.cache/nmtlib"),
        ("linux", {"XDG_CACHE_HOME": "{tmp}/xdg"}, "xdg/nmtlib"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "home/.cache/nmtlib"),
        ("darwin", {"XDG_CACHE_HOME": "{tmp}/xdg"}, "home/Library/Caches/nmtlib"),
        ("win32", {"LOCALAPPDATA": "{tmp}/local"}, "local/nmtlib"),
        ("win32", {}, "home/AppData/Local/nmtlib"),
    ],
)
def test_each_system_has_its_own_cache(monkeypatch, tmp_path, unset, platform, variables, expected):
    for name in ("NMTLIB_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    if unset is not None:
        monkeypatch.setenv("NMTLIB_DATA", unset)
    for name, value in variables.items():
        monkeypatch.setenv(name, value.format(tmp=tmp_path))
    monkeypatch.setattr(module.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", lambda: tmp_path / "home")
    assert cache_folder() == tmp_path / expected
