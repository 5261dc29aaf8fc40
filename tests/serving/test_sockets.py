"""The service on a real port: bodies of unknown length, slow ones, connections that say nothing."""

import gc
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from urllib.parse import urlsplit

from uvicorn.protocols.http.h11_impl import H11Protocol

from unihssl.serving.limits import Limits

CHUNKED = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
SIZED = b"POST /predict HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n"


def connect(address: str) -> socket.socket:
    url = urlsplit(address)
    return socket.create_connection((url.hostname, url.port), timeout=120)


def metrics(address: str) -> bytes:
    with connect(address) as connection:
        connection.sendall(GET % b"metrics" + b"Connection: close\r\n\r\n")
        return b"".join(iter(lambda: connection.recv(65536), b""))


def wait_for(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@contextmanager
def stalled(address: str) -> Iterator[threading.Thread]:
    """A client that asks and asks and takes no answer; the thread ends when it is hung up on."""
    with connect(address) as connection:

        def ask() -> None:
            with suppress(ConnectionError):
                while True:
                    connection.sendall(1000 * (GET % b"" + b"\r\n"))

        thread = threading.Thread(target=ask)
        thread.start()
        yield thread
    thread.join()


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
        assert b"unihssl_held_bytes 0.0" in metrics(address)


def test_who_is_too_slow_is_hung_up_on(running):
    with running(Limits(seconds=1)) as address:
        for begun in (b"", b"GET /health HTT"):
            with connect(address) as connection:
                connection.sendall(begun)
                assert connection.recv(100) == b""
        with connect(address) as connection:
            connection.sendall(SIZED % 100 + b"half")
            assert answer(connection) == (408, "the request did not arrive within 1 seconds")


def test_a_second_header_has_as_much_time_as_the_first(running):
    with running(Limits(seconds=3)) as address, connect(address) as connection:
        for _ in range(2):
            connection.sendall(GET % b"health" + b"\r\n")
            content = b""
            while not content.endswith(b'{"status":"ok"}'):
                content += connection.recv(10_000)
        connection.sendall(b"GET /hea")
        assert connection.recv(100) == b""


def test_who_takes_no_answer_is_hung_up_on(running):
    with running(Limits(seconds=1)) as address, stalled(address) as client:
        client.join(60)
        assert not client.is_alive()


def test_nothing_is_kept_of_closed_connections(running):
    def kept() -> int:
        gc.collect()
        return sum(issubclass(type(each), H11Protocol) for each in gc.get_objects())

    with running(Limits(seconds=3600)) as address:
        for _ in range(3):
            metrics(address)
        wait_for(lambda: not kept())


def test_the_end_cuts_off_requests_without_a_word(running, capfd):
    with ExitStack() as clients, running(Limits(seconds=3600)) as address:
        clients.enter_context(stalled(address))
        half = clients.enter_context(connect(address))
        half.sendall(SIZED % 100 + b"half")
        wait_for(lambda: b"unihssl_held_bytes 4.0" in metrics(address))
    assert capfd.readouterr().err == ""
