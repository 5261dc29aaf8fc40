"""The labeling server, asked directly."""

import http.client
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
from label_files import labels
from PIL import Image


def ask(server: Any, path: str, body: Any = None, host: str | None = None) -> tuple[int, bytes]:
    """Status and body of a request for a path after the token."""
    connection = http.client.HTTPConnection("127.0.0.1", server.server_address[1], timeout=30)
    given = None if body is None else json.dumps(body)
    try:
        connection.request("GET" if body is None else "POST", path, given, {"Host": host} if host else {})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def test_an_answer_is_in_the_file_before_the_reply(todo, serve):
    with serve(todo) as server:
        base = f"/{server.token}"
        status, page = ask(server, f"{base}/")
        assert status == 200 and b"<title>Labeling</title>" in page
        state = json.loads(ask(server, f"{base}/state")[1])
        assert state["row"] == 0 and state["next"] == 1 and state["total"] == 5 and state["last"] is None
        status, state = ask(server, f"{base}/answer", {"row": 0, "label": "dog"})
        assert status == 200 and labels(todo) == ["dog", "", "", "", ""]
        assert json.loads(state)["row"] == 1 and json.loads(state)["labeled"] == 1
        assert json.loads(ask(server, f"{base}/skip", {"row": 1})[1])["skipped"] == 1
        assert json.loads(ask(server, f"{base}/undo", {})[1])["row"] == 1
        assert json.loads(ask(server, f"{base}/undo", {})[1])["row"] == 0 and labels(todo) == [""] * 5


def test_refused_requests_change_nothing(todo, serve):
    with serve(todo) as server:
        base, before = f"/{server.token}", todo.read_bytes()
        good = {"row": 0, "label": "dog"}
        for path, body, host in (
            ("/wrong/answer", good, None),
            ("/answer", good, None),
            ("//answer", good, None),
            (f"{base}/answer", good, "evil.example"),
            (f"{base}/answer", good, "127.0.0.1.evil.example:80"),
            (f"{base}/answer", [1], None),
            (f"{base}/answer", {"row": "0", "label": "dog"}, None),
            (f"{base}/answer", {"row": 0, "label": "x" * 20_000}, None),
            (f"{base}/destroy", {}, None),
            ("/", None, None),
            (f"{base}/state", None, "evil.example"),
            (f"{base}/image/0", None, "evil.example"),
            (f"{base}/image/5", None, None),
            (f"{base}/image/-1", None, None),
            (f"{base}/image/" + "9" * 5000, None, None),
            (f"{base}/image/../../etc/passwd", None, None),
            (f"{base}/image//etc/passwd", None, None),
            (f"{base}/image/a.png", None, None),
            (f"{base}/guess/0", None, None),  # no run was named
        ):
            assert ask(server, path, body, host)[0] == 404, path
        for body in ({"row": 1, "label": "dog"}, {"row": 0, "label": "horse"}):
            status, answer = ask(server, f"{base}/answer", body)
            assert status == 409 and json.loads(answer)["error"] and json.loads(answer)["row"] == 0
        assert todo.read_bytes() == before
        assert ask(server, f"{base}/state", host="localhost:9999")[0] == 200  # a forwarded port


def test_any_readable_image_is_served_as_png(todo, serve):
    with serve(todo) as server:
        images = [ask(server, f"/{server.token}/image/{row}") for row in range(5)]
    assert [status for status, _ in images] == [200, 200, 200, 422, 200]
    assert json.loads(images[3][1])["error"].endswith("gone.png: no such file")
    for row in (0, 1, 2, 4):
        assert images[row][1].startswith(b"\x89PNG")
    sixteen = np.asarray(Image.open(io.BytesIO(images[1][1])))
    assert sixteen[..., 0].tolist() == [[0, 255], [1, 128]]
    (todo.parent / "a.png").write_bytes(b"no image")
    with serve(todo) as server:
        status, answer = ask(server, f"/{server.token}/image/0")
    assert status == 422 and "cannot be read as an image" in json.loads(answer)["error"]


def test_guesses_are_computed_only_when_asked_for(todo, serve):
    asked: list[Path] = []

    def guess(item: Path) -> dict[str, Any]:
        asked.append(item)
        return {"class": "dog", "confidence": 0.75}

    with serve(todo, guess) as server:
        base = f"/{server.token}"
        assert json.loads(ask(server, f"{base}/state")[1])["has_guesses"]
        ask(server, f"{base}/answer", {"row": 0, "label": "cat"})
        assert asked == []
        assert json.loads(ask(server, f"{base}/guess/1")[1]) == {"class": "dog", "confidence": 0.75}
        assert [item.name for item in asked] == ["b.tif"]


def test_a_write_that_fails_is_told_and_the_image_stays(todo, serve):
    with serve(todo) as server:
        blocked = todo.with_name(f".{todo.name}.tmp")
        blocked.mkdir()  # where the new file would be written
        status, answer = ask(server, f"/{server.token}/answer", {"row": 0, "label": "dog"})
        assert status == 409 and "could not be written" in json.loads(answer)["error"]
        assert json.loads(answer)["row"] == 0 and labels(todo) == [""] * 5
        blocked.rmdir()
        assert ask(server, f"/{server.token}/answer", {"row": 0, "label": "dog"})[0] == 200
        assert labels(todo)[0] == "dog"
