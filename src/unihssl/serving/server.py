"""The service on a port of this machine."""

import asyncio
import socket
from collections.abc import Callable

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from unihssl.errors import Setting, UserError
from unihssl.serving.limits import Limits


def bind(host: str, port: int) -> socket.socket:
    """A socket that listens; port 0 takes a free one."""
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        way_out = f"choose another {Setting('port')}, or 0 for a free one"
        raise UserError(f"{host} port {port} cannot be used ({error}); {way_out}") from None


def address(listening: socket.socket) -> str:
    host, port = listening.getsockname()[:2]
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"


def make_server(app: FastAPI, limits: Limits) -> uvicorn.Server:
    """`make_server(app, limits).run([bind(host, port)])` serves until Ctrl-C; requests on their way are answered."""

    class Protocol(H11Protocol):
        """Hangs up where uvicorn would wait without end: for the rest of a header, and for an answer to be taken."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            transport.set_write_buffer_limits(0)  # `pause_writing` as soon as the client takes less than it is sent
            self.timers: dict[str, asyncio.TimerHandle] = {}
            self.start("header", transport.close)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            if self.cycle and not self.cycle.response_complete:
                self.stop("header")
            else:  # the next request has begun
                self.start("header", self.transport.close)

        def pause_writing(self) -> None:
            super().pause_writing()
            self.start("answer", self.transport.abort)

        def resume_writing(self) -> None:
            super().resume_writing()
            self.stop("answer")

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self.stop("header")
            self.stop("answer")

        def start(self, name: str, hang_up: Callable[[], None]) -> None:
            if name not in self.timers:
                self.timers[name] = self.loop.call_later(limits.seconds, hang_up)

        def stop(self, name: str) -> None:
            if name in self.timers:
                self.timers.pop(name).cancel()

    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="critical",  # the guard logs what fails; all else are requests that an end cuts off
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)
