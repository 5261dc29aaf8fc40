"""Good, careless and hostile clients of `unihssl serve`."""

import base64
import http.client
import io
import json
import os
import socket
import struct
import zlib
from contextlib import suppress
from typing import Any

import numpy as np
from PIL import Image

MOST = 4_000_000  # bytes of a request
BOUNDARY = "boundary"


def jpeg(seed: int, width: int = 640, height: int = 480) -> bytes:
    """A smooth random photo."""
    small = np.random.default_rng(seed).integers(0, 256, (12, 16, 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(buffer, "JPEG", quality=90)
    return buffer.getvalue()


def form(*contents: bytes, name: str = "a.jpg") -> tuple[bytes, dict[str, str]]:
    head = f'--{BOUNDARY}\r\nContent-Disposition: form-data; name="files"; filename="{name}"\r\n\r\n'.encode()
    body = b"".join(head + content + b"\r\n" for content in contents) + f"--{BOUNDARY}--\r\n".encode()
    return body, {"Content-Type": f"multipart/form-data; boundary={BOUNDARY}"}


def bomb() -> bytes:
    """A PNG of 60,000 x 60,000 pixels in some kilobytes."""

    def part(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", 60_000, 60_000, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes(10_000_000), 9)
    return b"\x89PNG\r\n\x1a\n" + part(b"IHDR", header) + part(b"IDAT", rows) + part(b"IEND", b"")


class Client:
    """Requests to the service; each method returns the status of its answer."""

    def __init__(self, address: tuple[str, int], seed: int) -> None:
        self.address, self.photo = address, jpeg(seed)

    def send(self, body: Any, headers: dict[str, str], chunked: bool = False) -> int:
        connection = http.client.HTTPConnection(*self.address, timeout=120)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # refused before all was sent
                connection.request("POST", "/predict", body, headers, encode_chunked=chunked)
            answer = connection.getresponse()
            answer.read()
            return answer.status
        finally:
            connection.close()

    def send_json(self, content: bytes) -> int:
        return self.send(content, {"Content-Type": "application/json"})

    def good_file(self) -> int:
        return self.send(*form(self.photo))

    def good_batch(self) -> int:
        return self.send(*form(self.photo, self.photo, self.photo))

    def good_base64(self) -> int:
        return self.send_json(json.dumps({"images": [base64.b64encode(self.photo).decode()]}).encode())

    def good_chunked(self) -> int:
        body, headers = form(self.photo)
        return self.send(iter([body[:1000], body[1000:]]), headers | {"Transfer-Encoding": "chunked"}, chunked=True)

    def huge(self) -> int:
        return self.send(bytes(3 * MOST), form()[1])

    def huge_chunked(self) -> int:
        chunks = (bytes(100_000) for _ in range(10 * MOST // 100_000))
        return self.send(chunks, form()[1] | {"Transfer-Encoding": "chunked"}, chunked=True)

    def slow(self) -> int:
        """A byte now and then."""
        with socket.create_connection(self.address, timeout=120) as connection:
            head = (
                f"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary={BOUNDARY}"
            )
            connection.sendall(f"{head}\r\nContent-Length: 1000\r\n\r\n".encode())
            connection.settimeout(0.2)
            while True:
                with suppress(TimeoutError):
                    return int(connection.recv(1000).split()[1])
                connection.sendall(b"-")

    def cut_short(self) -> int:
        return self.send(*form(self.photo[: len(self.photo) // 2]))

    def garbage(self) -> int:
        return self.send(*form(os.urandom(10_000)))

    def pixel_bomb(self) -> int:
        return self.send(*form(BOMB))

    def a_path(self) -> int:
        return self.send(*form(b"", name="../../../../etc/passwd"))

    def many_parts(self) -> int:
        return self.send(*form(*[b"x"] * 5000))

    def nested_json(self) -> int:
        return self.send_json(b"[" * 1_000_000)

    def many_values(self) -> int:
        return self.send_json(b'{"images": [' + b"{}," * 1_000_000 + b"{}]}")

    def line_ends(self) -> int:
        """What once made parsers of multipart bodies slow."""
        return self.send(*form(b"\r" * 3_000_000))


BOMB = bomb()
GOOD = {"good_file": 200, "good_batch": 200, "good_base64": 200, "good_chunked": 200}
BAD = {"huge": 413, "huge_chunked": 413, "slow": 408, "cut_short": 422, "garbage": 415, "pixel_bomb": 413}
BAD |= {"a_path": 415, "many_parts": 413, "nested_json": 413, "many_values": 413, "line_ends": 415}
