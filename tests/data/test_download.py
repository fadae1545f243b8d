"""Downloads against a real server on this machine: a whole, verified file appears, or none."""

import errno
import hashlib
import os
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from nmtlib.data import download as module
from nmtlib.data.download import cache_folder, download, verify_sha256

BODY = bytes(range(256)) * 1200  # 300 KB: several blocks


class Server(ThreadingHTTPServer):
    """Serves `body` under any path; the other attributes make it misbehave."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}/file.gz"
        self.reset()

    def reset(self, body=BODY, *, statuses=(), break_after=None, breaks=0, delay=0.0):
        self.body, self.statuses, self.delay = body, list(statuses), delay
        # Cut the first `breaks` answers after so many bytes.
        self.break_after, self.breaks, self.asked = break_after, breaks, 0


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.asked += 1
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        body = server.body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        time.sleep(server.delay)
        if server.breaks:
            server.breaks -= 1
            body = body[: server.break_after]
        self.wfile.write(body)


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
    get(server, path)
    assert path.read_bytes() == BODY and names(path.parent) == ["file.gz"]
    assert server.asked == 1


def test_a_connection_broken_half_way_is_tried_again(server, tmp_path):
    server.reset(break_after=100_000, breaks=2)
    get(server, tmp_path / "file.gz")
    assert (tmp_path / "file.gz").read_bytes() == BODY and names(tmp_path) == ["file.gz"]
    assert server.asked == 3


def test_partial_content_is_never_kept(server, tmp_path):
    server.reset(break_after=1000, breaks=3)
    with pytest.raises(FileNotFoundError, match=r"attempt 3: .*1000 bytes read, 306200 more"):
        get(server, tmp_path / "file.gz", attempts=3)
    assert names(tmp_path) == []


def test_nothing_has_the_final_name_while_the_file_is_verified(server, tmp_path):
    seen = []

    def verify(data, where):
        seen.append((data == BODY, where == server.url, names(tmp_path)))

    get(server, tmp_path / "file.gz", verify)
    assert seen == [(True, True, [])]


def test_wrong_bytes_are_not_kept_and_both_checksums_are_told(server, tmp_path):
    server.reset(b"<html>not found</html>")
    with pytest.raises(ValueError, match="not the expected file") as caught:
        get(server, tmp_path / "file.gz", is_body(BODY))
    for text in (
        server.url,
        hashlib.sha256(server.body).hexdigest(),
        hashlib.sha256(BODY).hexdigest(),
    ):
        assert text in str(caught.value)
    assert names(tmp_path) == [] and server.asked == 1


def test_a_failed_download_leaves_an_older_file_alone(server, tmp_path):
    (tmp_path / "file.gz").write_bytes(b"older")
    server.reset(b"wrong")
    with pytest.raises(ValueError):
        get(server, tmp_path / "file.gz", is_body(BODY))
    assert (tmp_path / "file.gz").read_bytes() == b"older"


def test_a_busy_server_is_asked_again_and_a_missing_file_is_not(server, tmp_path):
    server.reset(statuses=[503, 500, 429])
    get(server, tmp_path / "file.gz")
    assert server.asked == 4
    server.reset(statuses=[404])
    with pytest.raises(FileNotFoundError, match="other.gz is missing.*HTTP Error 404"):
        get(server, tmp_path / "other.gz")
    assert server.asked == 1 and names(tmp_path) == ["file.gz"]


def test_pauses_double(server, tmp_path, monkeypatch):
    pauses = []
    monkeypatch.setattr(module.time, "sleep", pauses.append)
    server.reset(statuses=[503] * 9)
    with pytest.raises(FileNotFoundError, match="attempt 5: HTTP Error 503"):
        download(server.url, tmp_path / "file.gz", is_body(), attempts=5, pause=0.5)
    pauses = [pause for pause in pauses if pause]  # the server thread sleeps for 0 seconds
    assert pauses == [0.5, 1.0, 2.0, 4.0]


def test_a_silent_server_is_given_up_and_asked_again(server, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    server.reset(delay=0.6)
    with pytest.raises(FileNotFoundError, match="attempt 2: .*timed out"):
        get(server, tmp_path / "file.gz", attempts=2)
    assert server.asked == 2 and not (tmp_path / "file.gz").exists()


def test_without_a_server_nothing_is_written_and_the_error_says_what_to_do(server, tmp_path):
    with Server() as closed:
        url = closed.url  # its port is free again once it is closed
    path = tmp_path / "new" / "file.gz"
    with pytest.raises(FileNotFoundError, match="attempt 2: .*refused") as caught:
        download(url, path, is_body(), attempts=2, pause=0.0)
    assert f"Get {url} and save it as {path}" in str(caught.value) and names(tmp_path) == []


def test_a_full_disk_is_told_apart_from_a_broken_connection(server, tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device.*make room") as caught:
        get(server, tmp_path / "file.gz")
    assert caught.value.errno == errno.ENOSPC
    assert names(tmp_path) == [] and server.asked == 1  # asking again makes no room


def test_runs_at_the_same_time_do_not_disturb_each_other(server, tmp_path):
    server.reset(delay=0.05)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(get, server, tmp_path / "file.gz") for _ in range(4)]
        assert all(future.result() is None for future in done)
    assert (tmp_path / "file.gz").read_bytes() == BODY and names(tmp_path) == ["file.gz"]


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_is_drawn_on_a_terminal_only(server, tmp_path, capsys, monkeypatch, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    get(server, tmp_path / "file.gz")
    assert ("file.gz" in capsys.readouterr().err) is terminal


def test_the_environment_variable_names_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NMTLIB_DATA", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" and names(tmp_path) == []
    monkeypatch.setenv("NMTLIB_DATA", "~/mine")
    assert cache_folder() == Path.home() / "mine"
    monkeypatch.setenv("NMTLIB_DATA", "~nobody-of-this-name/mine")
    with pytest.raises(ValueError, match="NMTLIB_DATA"):
        cache_folder()


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
def test_who_has_no_home_is_told_to_name_a_folder(monkeypatch, platform):
    def nowhere():
        raise RuntimeError("Could not determine home directory.")

    for name in ("NMTLIB_DATA", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(module.sys, "platform", platform)
    monkeypatch.setattr(Path, "home", nowhere)
    with pytest.raises(ValueError, match="HOME is not set.*set .* NMTLIB_DATA"):
        cache_folder()


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
