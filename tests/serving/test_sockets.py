"""The service on a real port: bodies of unknown length, slow ones, connections that say nothing."""

import json
import socket
from urllib.parse import urlsplit

from unihssl.serving.limits import Limits

CHUNKED = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
SIZED = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"


def connect(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=120)


def answer(connection: socket.socket) -> tuple[int, str]:
    """The status and the detail; the service closes the connection."""
    content = b""
    while part := connection.recv(65536):
        content += part
    head, _, body = content.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)["detail"]


def test_bytes_are_counted_while_they_arrive(running):
    with running(Limits(body_bytes=60_000)) as address:
        with connect(address) as connection:  # a chunked body that never ends
            connection.sendall(CHUNKED)
            for _ in range(7):
                connection.sendall(b"2710\r\n" + bytes(10_000) + b"\r\n")
            assert answer(connection) == (413, "the request is too large: at most 0.06 MB are read")
        with connect(address) as connection:  # an announced size, of which no byte is sent
            connection.sendall(SIZED % 60_001)
            assert answer(connection)[0] == 413
        with connect(address) as connection:
            connection.sendall(SIZED % 10 + b"0123456789")
            connection.shutdown(socket.SHUT_WR)
            assert answer(connection)[0] == 415
        with connect(address) as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            assert b"unihssl_body_bytes 0.0" in b"".join(iter(lambda: connection.recv(65536), b""))


def test_who_is_too_slow_is_hung_up_on(running):
    with running(Limits(seconds=1)) as address:
        for begun in (b"", b"GET /health HTT"):
            with connect(address) as connection:
                connection.sendall(begun)
                assert connection.recv(100) == b""
        with connect(address) as connection:
            connection.sendall(SIZED % 100 + b"half")
            assert answer(connection) == (408, "the request did not arrive within 1 seconds")
