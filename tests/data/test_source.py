"""Downloads against a real server on this machine: a whole, verified file appears, or none."""

import errno
import hashlib
import io
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from time import sleep  # before the fixture below takes it away from pooch

import pooch
import pytest

from nmtcourse.corpora import SOURCES
from nmtlib.data import corpora as module
from nmtlib.data.corpora import Source, cache_folder

BODY = bytes(range(256)) * 1200  # 300 KB: several blocks


class Server(ThreadingHTTPServer):
    """Serves `body` under any path; the other attributes make it misbehave."""

    daemon_threads = True

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.home = f"http://127.0.0.1:{self.server_port}"
        self.reset()

    def reset(self, body=BODY, *, statuses=(), break_after=None, breaks=0, delay=0.0):
        self.body, self.statuses, self.delay = body, list(statuses), delay
        # Cut the first `breaks` answers after so many bytes.
        self.break_after, self.breaks, self.asked = break_after, breaks, 0
        self.paths = []


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_GET(self):
        server = self.server
        server.asked += 1
        server.paths.append(self.path)
        if server.statuses:
            return self.send_error(server.statuses.pop(0))
        body = server.body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        sleep(server.delay)
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
    monkeypatch.setattr(pooch.core.time, "sleep", lambda seconds: None)  # before it tries again
    running.reset()
    return running


def one_file(server, body=BODY, **options):
    """A source of one file, whose published checksum is that of `body`."""
    options = {"files": {"file.gz": hashlib.sha256(body).hexdigest()}} | options
    about = {"name": "own-de-en", "licence": "none", "pairs": (1, 1, 1), "folder": "own"}
    about |= {"home": server.home} | options
    return Source(**about, reader=lambda folder: {})


def names(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_fresh_download_is_whole_and_alone_in_a_new_folder(server, tmp_path):
    assert one_file(server).fetch(tmp_path / "new") == tmp_path / "new" / "own"
    path = tmp_path / "new" / "own" / "file.gz"
    assert path.read_bytes() == BODY and names(path.parent) == ["file.gz"] and server.asked == 1
    assert sys.platform == "win32" or path.stat().st_mode & 0o444 == 0o444, "others may read it"


def test_a_connection_broken_half_way_is_tried_again(server, tmp_path):
    server.reset(break_after=100_000, breaks=2)
    one_file(server).fetch(tmp_path)
    assert (tmp_path / "own" / "file.gz").read_bytes() == BODY
    assert names(tmp_path / "own") == ["file.gz"] and server.asked == 3


def test_partial_content_is_never_kept(server, tmp_path):
    server.reset(break_after=1000, breaks=9)
    with pytest.raises(FileNotFoundError, match=r"1000 bytes read, 306200 more"):
        one_file(server).fetch(tmp_path)
    assert names(tmp_path / "own") == []


def test_wrong_bytes_are_not_kept_and_both_checksums_are_told(server, tmp_path):
    server.reset(b"<html>not found</html>")
    with pytest.raises(ValueError, match="not the expected file and was not kept") as caught:
        one_file(server).fetch(tmp_path)
    for body in (BODY, server.body):
        assert hashlib.sha256(body).hexdigest() in str(caught.value)
    assert f"{server.home}/file.gz" in str(caught.value) and names(tmp_path / "own") == []


def test_a_file_without_published_checksum_is_taken_as_it_is(server, tmp_path):
    source = one_file(server, files={"file.gz": "-"})
    assert (source.fetch(tmp_path) / "file.gz").read_bytes() == BODY
    assert source.fetch(tmp_path) == tmp_path / "own" and server.asked == 1


def test_a_busy_server_is_asked_again(server, tmp_path):
    server.reset(statuses=[503, 429])
    one_file(server).fetch(tmp_path)
    assert server.asked == 3


def test_a_file_that_the_server_lacks_is_told(server, tmp_path):
    server.reset(statuses=[404] * 9)
    with pytest.raises(FileNotFoundError, match="file.gz is missing.*404 Client Error"):
        one_file(server).fetch(tmp_path)
    assert names(tmp_path / "own") == []


@pytest.fixture
def closed():
    """The address of a server that has gone."""
    with Server() as gone:
        return gone.home


def test_the_second_address_is_asked_when_the_first_fails(server, tmp_path, closed):
    source = one_file(server, home=closed, mirror=f"{server.home}/mirror")
    assert (source.fetch(tmp_path) / "file.gz").read_bytes() == BODY
    assert server.paths == ["/mirror/file.gz"] and names(tmp_path / "own") == ["file.gz"]
    one_file(server, mirror=closed).fetch(tmp_path / "other")  # not asked where the first answers
    assert server.paths == ["/mirror/file.gz", "/file.gz"]


def test_where_both_addresses_fail_both_are_named_and_what_to_do(
    server, tmp_path, closed, monkeypatch
):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    monkeypatch.setattr(module, "RETRIES", 0)
    server.reset(delay=0.6)
    with pytest.raises(FileNotFoundError, match="[Tt]imed out.*refused") as caught:
        one_file(server, mirror=f"{closed}/mirror").fetch(tmp_path)
    path = tmp_path / "own" / "file.gz"
    addresses = f"Get {server.home}/file.gz or {closed}/mirror/file.gz"
    assert f"{addresses} and save it as {path}" in str(caught.value)
    assert "NMTLIB_DATA to a folder that holds own/file.gz" in str(caught.value)
    assert names(tmp_path / "own") == []


def test_a_wrong_file_at_the_second_address_is_not_kept(server, tmp_path, closed):
    server.reset(b"something else")
    with pytest.raises(FileNotFoundError, match=hashlib.sha256(b"something else").hexdigest()):
        one_file(server, home=closed, mirror=server.home).fetch(tmp_path)
    assert names(tmp_path / "own") == []


def test_without_a_published_checksum_no_second_address_is_trusted(server, tmp_path, closed):
    source = one_file(server, home=closed, mirror=server.home, files={"file.gz": "-"})
    with pytest.raises(FileNotFoundError, match="refused"):
        source.fetch(tmp_path)
    assert server.asked == 0


def test_the_second_address_of_a_corpus_is_the_same_commit_elsewhere():
    for source in SOURCES:
        if source.home.startswith("https://raw.githubusercontent.com/"):
            owner, name, commit, folder = source.home.split("/", 6)[3:]
            place = f"https://cdn.jsdelivr.net/gh/{owner}/{name}@{commit}/{folder}"
            assert source.mirror == place and len(commit) == 40


def test_what_cannot_be_written_is_told_apart_from_a_broken_connection(server, tmp_path):
    (tmp_path / "own").write_bytes(b"a file where a folder should be")
    with pytest.raises(OSError, match="could not write .*file.gz .*set NMTLIB_DATA") as caught:
        one_file(server).fetch(tmp_path)
    assert not isinstance(caught.value, FileNotFoundError) and server.asked == 0


def test_a_full_disk_is_named_and_leaves_nothing(server, tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pooch.core.shutil, "move", full)
    with pytest.raises(OSError, match="No space left on device.*make room") as caught:
        one_file(server).fetch(tmp_path)
    assert caught.value.errno == errno.ENOSPC and names(tmp_path / "own") == []
    assert server.asked == 1, "asking again makes no room"


def test_runs_at_the_same_time_do_not_disturb_each_other(server, tmp_path):
    server.reset(delay=0.05)
    with ThreadPoolExecutor(4) as pool:
        done = [pool.submit(one_file(server).fetch, tmp_path) for _ in range(4)]
        assert all(future.result() == tmp_path / "own" for future in done)
    assert (tmp_path / "own" / "file.gz").read_bytes() == BODY
    assert names(tmp_path / "own") == ["file.gz"]


def test_a_download_is_silent_except_for_a_bar_on_a_terminal(server, tmp_path, capsys, monkeypatch):
    logger, logged = pooch.get_logger(), io.StringIO()
    logger.setLevel("INFO")  # as it is at first
    monkeypatch.setattr(logger.handlers[0], "stream", logged)
    for terminal in (True, False):
        monkeypatch.setattr(sys.stderr, "isatty", lambda terminal=terminal: terminal)
        one_file(server).fetch(tmp_path / str(terminal))
        shown = capsys.readouterr()
        assert ("307k" in shown.err) is terminal and not shown.out and not logged.getvalue()
        assert terminal or not shown.err


def test_the_environment_variable_names_the_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("NMTLIB_DATA", str(tmp_path / "mine"))
    assert cache_folder() == tmp_path / "mine" and names(tmp_path) == []
    monkeypatch.setenv("NMTLIB_DATA", "~/mine")
    assert cache_folder() == Path.home() / "mine"
    monkeypatch.setenv("NMTLIB_DATA", "~nobody-of-this-name/mine")
    with pytest.raises(ValueError, match="no such home folder; set .* NMTLIB_DATA"):
        cache_folder()


@pytest.mark.parametrize("unset", [None, ""])
def test_otherwise_the_cache_is_that_of_the_user(monkeypatch, tmp_path, unset):
    monkeypatch.delenv("NMTLIB_DATA", raising=False)
    if unset is not None:
        monkeypatch.setenv("NMTLIB_DATA", unset)
    assert cache_folder() == Path(pooch.os_cache("nmtlib")).expanduser()
    if sys.platform == "linux":
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
        assert cache_folder() == tmp_path / "nmtlib" and names(tmp_path) == []
