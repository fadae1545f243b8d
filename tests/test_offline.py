"""The tests themselves reach no network, so what passes here passes without one."""

import socket
import subprocess
import sys

import pytest

ELSEWHERE = ("192.0.2.1", 80)  # an address that documentation may use, RFC 5737
ASK = "import urllib.request as r; r.urlopen('http://192.0.2.1/', timeout=20)"


def test_a_test_cannot_connect_to_another_machine():
    with pytest.raises(ConnectionRefusedError, match="may not use the network"):
        socket.create_connection(ELSEWHERE, timeout=5)


def test_a_process_that_a_test_starts_cannot_download():
    done = subprocess.run([sys.executable, "-c", ASK], capture_output=True, text=True)
    assert done.returncode == 1 and "Connection refused" in done.stderr
