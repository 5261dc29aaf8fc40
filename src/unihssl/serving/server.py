"""The service on a port of this machine."""

import asyncio
import ipaddress
import socket
import warnings

import uvicorn
from fastapi import FastAPI
from uvicorn.protocols.http.h11_impl import H11Protocol

from unihssl.errors import Setting, UserError
from unihssl.serving.limits import Limits


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


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
        """uvicorn waits for the header of a first request without end; this does not."""

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(transport)
            self.loop.call_later(limits.seconds, self._hang_up)

        def _hang_up(self) -> None:
            if self.cycle is None:
                self.transport.close()

    warnings.simplefilter("ignore")  # of decoders, on files that are not to the letter of a standard
    config = uvicorn.Config(
        app,
        http=Protocol,
        ws="none",
        log_level="error",
        access_log=False,
        server_header=False,
        limit_concurrency=limits.connections,
        timeout_graceful_shutdown=5,
    )
    return uvicorn.Server(config)
