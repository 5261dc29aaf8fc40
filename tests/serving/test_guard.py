"""The guard before the service, alone."""

import asyncio
import json
from collections.abc import Sequence
from typing import Any

from unihssl.serving.budget import Budget
from unihssl.serving.guard import Guard
from unihssl.serving.limits import Limits
from unihssl.serving.metrics import Metrics

SCOPE = {"type": "http", "path": "/predict", "headers": [(b"host", b"127.0.0.1")]}


async def ask(guard: Guard, chunks: Sequence[bytes]) -> tuple[int, str]:
    """The status and the detail that a client gets which sends these chunks."""
    messages = [{"type": "http.request", "body": chunk, "more_body": True} for chunk in chunks]
    messages[-1]["more_body"] = False
    sent: list[dict[str, Any]] = []

    async def receive() -> Any:
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    await guard(SCOPE, receive, send)
    body = b"".join(message.get("body", b"") for message in sent[1:])
    return sent[0]["status"], json.loads(body)["detail"] if body else ""


def test_requests_and_bytes_of_all_clients_are_limited():
    release = asyncio.Event()
    given: list[bytes] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        given.append((await receive())["body"])
        await release.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def talk() -> None:
        metrics = Metrics()
        guard = Guard(app, Limits(body_bytes=10, requests=2), metrics, Budget(15, metrics.held))
        first, second = (asyncio.create_task(ask(guard, [b"12", b"34", b"56"])) for _ in range(2))
        while len(given) < 2:
            await asyncio.sleep(0)
        assert await ask(guard, [b"1234"]) == (503, "too many bytes are on their way already: try again soon")
        assert await ask(guard, [b"123"]) == (503, "2 requests are worked on already: try again soon")
        assert await ask(guard, [b"123456789", b"12"]) == (
            503,
            "too many bytes are on their way already: try again soon",
        )
        release.set()
        assert await first == await second == (200, "")
        assert await ask(guard, [b"123456789", b"1"]) == (200, "")  # everything was given back
        assert (await ask(guard, [b"123456789", b"12"]))[0] == 413

    asyncio.run(talk())
    assert given == [b"123456", b"123456", b"1234567891"]
