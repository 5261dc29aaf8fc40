"""Downloads from a server on this machine: whole, broken off, resumed, changed, gone."""

import hashlib
import io
import socket
import threading
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest

from unihssl.cli.data import download as command
from unihssl.data.catalog import DATASETS, download
from unihssl.data.catalog.dataset import Remote
from unihssl.data.catalog.download import fetch
from unihssl.errors import UserError

CONTENT = bytes(range(256)) * 4096  # a megabyte


class Handler(BaseHTTPRequestHandler):
    """Serves one file, with ranges; the server's attributes say how badly."""

    served = "/file.bin"

    def do_GET(self):
        server = self.server
        server.asked.append(self.headers.get("Range"))
        if self.path != self.served:
            return self.send_error(404)
        start = 0
        if server.ranges and self.headers.get("Range") and self.headers.get("If-Range") == server.tag:
            start = int(self.headers["Range"].removeprefix("bytes=").removesuffix("-"))
            if start >= len(server.content):
                self.send_response(416)
                self.send_header("Content-Range", f"bytes */{len(server.content)}")
                self.send_header("Content-Length", "0")
                return self.end_headers()
        self.send_response(206 if start else 200)
        self.send_header("Content-Length", str(len(server.content) - start))
        self.send_header("ETag", server.tag)
        self.end_headers()
        most = server.breaks.pop(0) if server.breaks else len(server.content)
        self.wfile.write(server.content[start : start + most])

    def log_message(self, *_):
        pass


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setattr(download, "WAIT_SECONDS", 0)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content, server.tag, server.ranges, server.breaks, server.asked = CONTENT, '"one"', True, [], []
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def remote(server, md5="", path="file.bin"):
    return Remote(f"http://127.0.0.1:{server.server_port}/{path}", md5)


def test_whole(server, tmp_path):
    told = []
    path = fetch(remote(server), tmp_path / "new", lambda *numbers: told.append(numbers))
    assert path == tmp_path / "new" / "file.bin"
    assert path.read_bytes() == CONTENT
    assert told[-1] == (len(CONTENT), len(CONTENT))
    assert sorted(p.name for p in path.parent.iterdir()) == ["file.bin", "file.bin.sha256"]
    fetch(remote(server), tmp_path / "new")
    assert server.asked == [None]  # what is there is not fetched again


def test_broken_off_it_goes_on_by_itself(server, tmp_path):
    server.breaks = [300_000, 100_000]
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.asked == [None, "bytes=300000-", "bytes=400000-"]


def interrupted(server, folder, after):
    """A download stopped by Ctrl-C."""

    def stop(done, total):
        if done >= after:
            raise KeyboardInterrupt

    server.breaks = [after]
    with pytest.raises(KeyboardInterrupt):
        fetch(remote(server), folder, stop)
    server.breaks, server.asked = [], []
    assert not (folder / "file.bin").exists()


def test_interrupted_it_goes_on_when_called_again(server, tmp_path):
    interrupted(server, tmp_path, 300_000)
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.asked == ["bytes=300000-"]


def test_a_file_that_changed_meanwhile_is_begun_again(server, tmp_path):
    interrupted(server, tmp_path, 300_000)
    server.content, server.tag = CONTENT[::-1], '"two"'
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT[::-1]


def test_a_server_without_ranges_is_asked_for_all(server, tmp_path):
    interrupted(server, tmp_path, 300_000)
    server.ranges = False
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT


def test_all_had_come_but_its_name(server, tmp_path):
    (tmp_path / ".file.bin.part").write_bytes(CONTENT)
    (tmp_path / ".file.bin.part.tag").write_text('"one"')
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    assert server.asked == [f"bytes={len(CONTENT)}-"]


def test_wrong_size(server, tmp_path):
    """A server that promises more than it ever sends."""
    server.ranges, server.breaks = False, [1000] * 99
    with pytest.raises(UserError, match=r"file.bin: the connection broke \(.*\); rerun to resume"):
        fetch(remote(server), tmp_path)
    assert not (tmp_path / "file.bin").exists()


def test_checksum(server, tmp_path):
    good = hashlib.md5(CONTENT).hexdigest()
    assert fetch(remote(server, good), tmp_path / "good").exists()
    with pytest.raises(UserError, match=r"the file received is not the one expected \(its MD5 differs\)"):
        fetch(remote(server, "0" * 32), tmp_path / "bad")
    assert not list((tmp_path / "bad").iterdir())
    with pytest.raises(UserError, match="is not the file expected"):
        fetch(remote(server, "0" * 32), tmp_path / "good")


def test_a_file_without_a_published_checksum_is_compared_with_what_once_came(server, tmp_path):
    path = fetch(remote(server), tmp_path)
    noted = (tmp_path / "file.bin.sha256").read_text()
    assert noted == f"{hashlib.sha256(CONTENT).hexdigest()}  file.bin\n"
    path.write_bytes(CONTENT[:-1] + b"?")
    with pytest.raises(UserError, match=r"is not the file expected \(its SHA256 is not that of file.bin.sha256\)"):
        fetch(remote(server), tmp_path)
    path.unlink()
    assert fetch(remote(server), tmp_path).read_bytes() == CONTENT
    (tmp_path / "file.bin.sha256").unlink()  # as with a file the user has brought
    path.write_bytes(b"own")
    assert fetch(remote(server), tmp_path).read_bytes() == b"own"


def test_gone(server, tmp_path):
    with pytest.raises(UserError, match=r"gone.zip: the server answers 404 Not Found; has the file moved\?"):
        fetch(remote(server, path="gone.zip"), tmp_path)


def test_no_network(tmp_path):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/file.bin"
    with pytest.raises(UserError, match=r"cannot reach 127.0.0.1 \(.*\); is there a network\?"):
        fetch(Remote(url), tmp_path)


def test_no_room(server, tmp_path, monkeypatch):
    monkeypatch.setattr(download.shutil, "disk_usage", lambda path: type("Usage", (), {"free": 5})())
    with pytest.raises(UserError, match="the download needs 1,048,576 bytes more, and 5 are free"):
        fetch(remote(server), tmp_path)


def test_a_place_that_cannot_be_written(server, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(UserError, match="could not be written"):
        fetch(remote(server), tmp_path / "file")


class TestCommand:
    """The command in this process, so that the catalog can be pointed at the server."""

    def test_fetches_then_checks(self, server, tmp_path, monkeypatch, capsys):
        buffer = io.BytesIO()
        labels = np.repeat(np.arange(10), list(DATASETS["digits"].domain("usps").counts.values()))
        np.savez_compressed(buffer, x=np.zeros((len(labels), 256), dtype=np.uint8), y=labels)
        server.content = buffer.getvalue()
        target = Remote(f"http://127.0.0.1:{server.server_port}/usps.npz")
        monkeypatch.setitem(DATASETS, "digits", replace(DATASETS["digits"], downloads=(target,)))
        monkeypatch.setattr(Handler, "served", "/usps.npz")
        command("digits", tmp_path, json=False)
        printed = capsys.readouterr()
        assert "licence:" in printed.err and f"{tmp_path}/usps.npz: " in printed.err
        assert "(no published checksum: checked by length and class counts)" in printed.err
        assert "usps (U): 9,298 of 9,298 images, as published" in printed.out
        command("digits", tmp_path, json=False)
        assert len(server.asked) == 1  # all there: nothing to fetch

    def test_says_where_to_get_what_no_command_may_fetch(self, tmp_path, capsys):
        with pytest.raises(UserError, match="office-31: cannot be downloaded by a command; fetch it with a browser"):
            command("office-31", tmp_path, json=False)
        assert "domain_adaptation_images.tar.gz" in capsys.readouterr().out
