"""The HTTP server behind the labeling page: this machine only, and only who knows the token in the address.

GET  /TOKEN/            the page
GET  /TOKEN/state       where the labeling is
GET  /TOKEN/image/ROW   the image of a row, as PNG
GET  /TOKEN/guess/ROW   what the run's model takes it for
POST /TOKEN/answer      {"row": 3, "label": "cat"}; also skip {"row": 3}, undo, revisit. Each answers the new state
"""

import hmac
import json
import secrets
import sys
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any

from unihssl.errors import Setting, UserError
from unihssl.labeling.images import Item, as_png
from unihssl.labeling.sheet import LabelSheet

ADDRESS = "127.0.0.1"
HOSTS = {ADDRESS, "localhost"}  # another Host header is another site's name for this machine (DNS rebinding)
MOST_BYTES = 10_000  # of a request
POLICY = (
    "default-src 'none'; img-src 'self' data:; connect-src 'self'; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


class LabelServer(ThreadingHTTPServer):
    """Serves one sheet; requests that touch it wait for each other."""

    def __init__(
        self,
        sheet: LabelSheet,
        items: Sequence[Item],
        guess: Callable[[Item], dict[str, Any]] | None = None,
        port: int = 0,
    ) -> None:
        """`port` 0 takes a free one."""
        self.sheet, self.items, self.guess = sheet, items, guess
        self.token, self.lock = secrets.token_urlsafe(16), threading.Lock()
        self.page = files("unihssl.labeling").joinpath("page.html").read_bytes()
        try:
            super().__init__((ADDRESS, port), _Handler)
        except (OSError, OverflowError) as error:
            way_out = f"choose another {Setting('port')}, or 0 for a free one"
            raise UserError(f"port {port} cannot be used ({error}); {way_out}") from None

    @property
    def url(self) -> str:
        return f"http://{ADDRESS}:{self.server_address[1]}/{self.token}/"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser that hangs up is no error."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)

    def state(self) -> dict[str, Any]:
        """All that the page shows."""
        sheet, row = self.sheet, self.sheet.current
        return {
            "file": sheet.path.name,
            "classes": sheet.classes,
            "total": len(sheet.rows),
            "labeled": sheet.labeled,
            "skipped": len(sheet.skipped),
            "row": row,
            "name": None if row is None else Path(sheet.rows[row]["path"]).name,  # folders may tell the class
            "next": sheet.following,
            "last": sheet.last,
            "has_guesses": self.guess is not None,
        }

    def act(self, action: str, given: dict[str, Any]) -> None:
        """Change the sheet as a request asks."""
        match action, given:
            case "answer", {"row": int(row), "label": str(label)}:
                self.sheet.answer(row, label)
            case "skip", {"row": int(row)}:
                self.sheet.skip(row)
            case "undo", _:
                self.sheet.undo()
            case "revisit", _:
                self.sheet.revisit()
            case _:
                raise LookupError(action)


class _Handler(BaseHTTPRequestHandler):
    server: LabelServer
    server_version, sys_version = "unihssl", ""

    def do_GET(self) -> None:
        match self._path():
            case [""]:
                self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8")
            case ["state"]:
                with self.server.lock:
                    self._send_json(HTTPStatus.OK, self.server.state())
            case ["image", row] if item := self._item(row):
                self._try(lambda: self._send(HTTPStatus.OK, as_png(item[0]), "image/png", "private, max-age=3600"))
            case ["guess", row] if self.server.guess and (item := self._item(row)):
                guess = self.server.guess
                self._try(lambda: self._send_json(HTTPStatus.OK, guess(item[0])))
            case _:
                self._refuse()

    def do_POST(self) -> None:
        path = self._path()
        try:
            size = int(self.headers.get("Content-Length", ""))
            given = json.loads(self.rfile.read(size)) if 0 < size <= MOST_BYTES else None
        except ValueError:
            given = None
        if len(path) != 1 or not isinstance(given, dict):
            return self._refuse()
        with self.server.lock:
            try:
                self.server.act(path[0], given)
            except LookupError:
                return self._refuse()
            except UserError as error:
                return self._send_json(HTTPStatus.CONFLICT, {"error": str(error)} | self.server.state())
            self._send_json(HTTPStatus.OK, self.server.state())

    def _path(self) -> list[str]:
        """The parts of the path after the token; none if the host or the token is wrong."""
        host = self.headers.get("Host", "").rsplit(":", 1)[0]
        parts = self.path.split("/")
        known = len(parts) > 2 and hmac.compare_digest(parts[1].encode(), self.server.token.encode())
        return parts[2:] if known and host in HOSTS else []

    def _item(self, row: str) -> list[Item]:
        """The image of a row number that the file has; else none."""
        listed = row.isascii() and row.isdigit() and len(row) < 10 and int(row) < len(self.server.items)
        return [self.server.items[int(row)]] if listed else []

    def _try(self, send: Callable[[], None]) -> None:
        try:
            send()
        except UserError as error:
            self._send_json(HTTPStatus.UNPROCESSABLE_ENTITY, {"error": str(error)})

    def _refuse(self) -> None:
        self._send(HTTPStatus.NOT_FOUND, b"Not found: open the whole address that `unihssl label` printed.\n")

    def _send_json(self, status: HTTPStatus, content: dict[str, Any]) -> None:
        self._send(status, json.dumps(content).encode(), "application/json")

    def _send(
        self, status: HTTPStatus, body: bytes, kind: str = "text/plain; charset=utf-8", cache: str = "no-store"
    ) -> None:
        headers = {"Content-Type": kind, "Content-Length": str(len(body)), "Cache-Control": cache}
        headers |= {"Content-Security-Policy": POLICY, "X-Content-Type-Options": "nosniff"}
        headers |= {"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin"}
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing: the page shows what happens."""
