"""`unihssl serve` as a user calls it."""

import json
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from warm_cli import unihssl

from unihssl.cli import serve
from unihssl.errors import UserError

RUN = Path(__file__).parents[1] / "fixtures" / "run-0.1.0-finished"
pytest.importorskip("fastapi", reason="fastapi is not installed")


def test_serve_a_run_until_it_is_stopped():
    command = [sys.executable, "-m", "unihssl", "serve", str(RUN), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        url = re.search(r"http://127\.0\.0\.1:\d+/", process.stdout.readline()).group()
        with urllib.request.urlopen(f"{url}model", timeout=300) as answer:
            assert json.load(answer)["classes"] == [str(digit) for digit in range(10)]
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.communicate()


def test_bad_calls_are_one_line(tmp_path):
    (tmp_path / "bad.onnx").write_bytes(b"no model")
    for args, message in (
        ((tmp_path, "--host", "0.0.0.0"), "--host 0.0.0.0: other machines reach it, so that a --token is needed"),
        ((tmp_path / "no.onnx",), "no.onnx: no such file; write it with: unihssl export RUN"),
        ((tmp_path / "bad.onnx",), "bad.onnx: not a readable ONNX file"),
        ((tmp_path / "no-run",), "no such run directory"),
        ((tmp_path, "--host", "192.0.2.1", "--token", "x"), "192.0.2.1 port 0 cannot be used"),
    ):
        assert message in unihssl("serve", *args, "--port", "0").error


def test_missing_packages_are_named(monkeypatch, tmp_path):
    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"not installed \(fastapi\): pip install 'unihssl\[serve\]'"):
        serve.serve(tmp_path)
