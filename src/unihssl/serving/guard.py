"""What stands before the service: who may ask, and how much. Bodies are read here, and counted while they arrive."""

import asyncio
import hmac
import ipaddress
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from urllib.parse import urlsplit

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from unihssl.serving.budget import Budget
from unihssl.serving.limits import MEGA, Limits, RefusedError
from unihssl.serving.metrics import Metrics

logger = logging.getLogger("unihssl")
OPEN = {"/", "/health"}  # what needs no token
PREDICT = "/predict"
COUNTED = OPEN | {"/metrics", "/model", "/openapi.json", PREDICT}  # what is counted under its own name
LINGER = 2.0  # seconds for which the rest of a refused body is thrown away: a client that is cut off sees no answer
POLICY = (
    "default-src 'none'; img-src data: blob:; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SAFETY = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware. The application sees a request only when its body is whole and within the limits."""

    def __init__(
        self, app: ASGIApp, limits: Limits, metrics: Metrics, budget: Budget, token: str | None = None
    ) -> None:
        self._app, self._limits, self._metrics, self._budget, self._token = app, limits, metrics, budget, token
        self._active = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        answer, body = self._recorded(scope, send), Body(receive)
        try:
            self._check(scope, Headers(scope=scope))
            await self._read(body, scope["path"])
            if body.gone:
                return
            async with self._turn(scope["path"]):
                await self._app(scope, body.replay, answer)
        except RefusedError as refused:
            await self._refuse(refused, body, answer)
        except Exception:
            logger.exception("%s failed", scope["path"])
            await self._refuse(RefusedError(500, "the service failed: its log says why"), body, answer)
        finally:
            self._budget.give_back(len(body.content))

    @asynccontextmanager
    async def _turn(self, path: str) -> AsyncIterator[None]:
        """One of the predictions that may be worked on at once; all else always has its turn."""
        counts = path == PREDICT
        if counts and self._active >= self._limits.requests:
            raise RefusedError(503, f"{self._limits.requests} requests are worked on already: try again soon")
        self._active += counts
        self._metrics.active.set(self._active)
        try:
            yield
        finally:
            self._active -= counts
            self._metrics.active.set(self._active)

    def _check(self, scope: Scope, headers: Headers) -> None:
        """By the header alone: where the request comes from, the token, the announced size."""
        if self._token is None:
            if not _from_this_machine(headers.get("host", ""), headers.get("origin")):
                raise RefusedError(403, "only this machine's own pages and programs may ask: see --host and --token")
        elif scope["path"] not in OPEN:
            given = headers.get("authorization", "")
            if not hmac.compare_digest(given.encode(), f"Bearer {self._token}".encode()):
                raise RefusedError(401, "this service needs its token: send the header Authorization: Bearer TOKEN")
        size = headers.get("content-length", "0")
        if size.isdecimal() and int(size) > self._most(scope["path"]):
            raise self._too_large(scope["path"])

    async def _read(self, body: "Body", path: str) -> None:
        """Read all of the body, or raise `RefusedError` at the first byte too many."""
        try:
            async with asyncio.timeout(self._limits.seconds):
                while not (body.whole or body.gone):
                    chunk = await body.chunk()
                    if len(body.content) + len(chunk) > self._most(path):
                        raise self._too_large(path)
                    self._budget.take(len(chunk))
                    body.content += chunk
        except TimeoutError:
            raise RefusedError(408, f"the request did not arrive within {self._limits.seconds:g} seconds") from None

    def _most(self, path: str) -> int:
        """Bytes of a body: who has no token cannot use up what is there for /predict."""
        return self._limits.body_bytes if path == PREDICT else 0

    def _too_large(self, path: str) -> RefusedError:
        if path != PREDICT:
            return RefusedError(413, f"only {PREDICT} reads what is sent")
        return RefusedError(413, f"the request is too large: at most {self._limits.body_bytes / MEGA:g} MB are read")

    async def _refuse(self, refused: RefusedError, body: "Body", send: Send) -> None:
        """Answer, then let a client that is still sending finish, for a moment."""
        content = json.dumps({"detail": refused.detail}).encode()
        headers = {"content-type": "application/json", "content-length": str(len(content)), "connection": "close"}
        raw = [(name.encode(), value.encode()) for name, value in (headers | refused.headers).items()]
        await send({"type": "http.response.start", "status": refused.status, "headers": raw})
        await send({"type": "http.response.body", "body": content, "more_body": True})
        with suppress(TimeoutError):
            async with asyncio.timeout(LINGER):
                while not (body.whole or body.gone):
                    await body.chunk()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    def _recorded(self, scope: Scope, send: Send) -> Send:
        """Adds the headers that every answer has, and counts it."""

        async def recorded(message: Message) -> None:
            if message["type"] == "http.response.start":
                path = scope["path"] if scope["path"] in COUNTED else "other"
                self._metrics.requests.labels(path, message["status"]).inc()
                safety = [(name.lower().encode(), value.encode()) for name, value in SAFETY.items()]
                message = {**message, "headers": [*message.get("headers", []), *safety]}
            await send(message)

        return recorded


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _from_this_machine(host: str, origin: str | None) -> bool:
    """Whether the service was asked by a local name, and not by a page of another site."""
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return False
    return is_loopback(name) and (origin is None or origin == f"http://{host}")


class Body:
    """The body of a request as it arrives."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self.content = bytearray()
        self.whole = self.gone = False  # gone: the client has hung up
        self._given = False

    async def chunk(self) -> bytes:
        """The next bytes; they are not kept."""
        message = await self._receive()
        self.gone = message["type"] == "http.disconnect"
        self.whole = not self.gone and not message.get("more_body", False)
        return bytes(message.get("body", b""))

    async def replay(self) -> Message:
        """The whole body as one message, for the application."""
        if self._given:
            return await self._receive()
        self._given = True
        return {"type": "http.request", "body": bytes(self.content), "more_body": False}
