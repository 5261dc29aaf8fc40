"""What the service answers, through FastAPI's test client."""

import base64
import struct
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest
from served_images import encoded

from unihssl.cli.serve import serve
from unihssl.errors import UserError
from unihssl.serving.limits import Limits, RefusedError


def files(*contents: bytes) -> list:
    return [("files", (f"{i}.png", content)) for i, content in enumerate(contents)]


def test_a_form_gives_what_predict_gives(client, model, images, pngs):
    service = client()
    answers = service.post("/predict", files=files(*pngs)).json()["predictions"]
    found = model.predictions(images)
    assert [answer["name"] for answer in answers] == [f"{i}.png" for i in range(6)]
    assert [answer["class"] for answer in answers] == found.classes.tolist()
    probabilities = [[answer["probabilities"][str(name)] for name in model.classes_] for answer in answers]
    np.testing.assert_allclose(probabilities, model.calibrated(found), atol=2e-6)
    np.testing.assert_allclose([a["unlabeled_domain"] for a in answers], found.unlabeled_domain, atol=2e-6)
    np.testing.assert_allclose([a["novelty"] for a in answers], found.novelty, atol=2.1)  # steps of 2: one of 50
    assert [a["abstain"] for a in answers] == (model.probabilities(found).max(1) < model.audited["threshold"]).tolist()
    assert {a["abstain"] for a in answers} == {True, False}
    assert all(a["calibrated"] and a["heat"] is None for a in answers)


def test_base64_gives_what_a_form_gives_and_heat_maps_on_request(client, pngs):
    service = client()
    of_form = service.post("/predict?heat=true", files=files(*pngs[:2])).json()["predictions"]
    texts = [base64.b64encode(pngs[0]).decode(), "data:image/png;base64," + base64.b64encode(pngs[1]).decode()]
    of_json = service.post("/predict?heat=true", json={"images": texts}).json()["predictions"]
    for a, b in zip(of_form, of_json, strict=True):
        assert a.pop("heat").startswith("data:image/jpeg;base64,") and b.pop("heat")
        assert a.pop("name") != b.pop("name")
    assert of_form == of_json


def test_an_exported_file_alone_gives_the_same_without_novelty_and_heat(client, model, pngs, tmp_path):
    model.export(tmp_path / "model.onnx")
    exported = client(path=tmp_path / "model.onnx")
    answers = exported.post("/predict?heat=true", files=files(*pngs)).json()["predictions"]
    expected = client().post("/predict", files=files(*pngs)).json()["predictions"]
    for found, wanted in zip(answers, expected, strict=True):
        assert found["novelty"] is None and found["heat"] is None
        assert (found["class"], found["abstain"]) == (wanted["class"], wanted["abstain"])
        assert found["probabilities"] == pytest.approx(wanted["probabilities"], abs=1e-4)
    without_torch = f"""
import sys
sys.modules["torch"] = None  # importing it fails
from pathlib import Path
import numpy as np
from unihssl.serving.app import create_app
from unihssl.serving.predictor import open_predictor
predictor = open_predictor(Path({str(tmp_path / "model.onnx")!r}))
create_app(predictor)
print(predictor.run(np.zeros((2, 16, 16, 3), np.uint8))["probabilities"].shape)
"""
    ended = subprocess.run([sys.executable, "-c", without_torch], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "(2, 3)\n"), ended.stderr


def test_an_image_stored_as_no_training_image_was_gets_predicts_note(client, model, pngs, tmp_path):
    (tmp_path / "1.png").write_bytes(encoded(np.arange(0, 4096, 16, dtype=np.uint16).reshape(16, 16)))
    model.export(tmp_path / "model.onnx")
    for service in (client(), client(path=tmp_path / "model.onnx")):
        sent = files(pngs[0], (tmp_path / "1.png").read_bytes())
        plain, deep = service.post("/predict", files=sent).json()["predictions"]
        assert plain["notes"] == []
        (note,) = deep["notes"]
        assert note.startswith("stored as PNG uint16, of which no training image was: its grey levels are those of")
    (said,) = model.predictions([tmp_path / "1.png"]).notes
    assert "stored as PNG uint16, of which no training image was" in said


def test_health_model_metrics_and_openapi(client, pngs):
    service = client()
    assert service.get("/health").json() == {"status": "ok"}
    about = service.get("/model").json()
    assert about["classes"] == ["cat", "dog", "<b>bird</b>"] and about["heat"] and about["limits"]["files"] == 32
    service.post("/predict", files=files(*pngs[:3]))
    service.post("/predict", content=b"x")
    assert service.post("/predict?heat=maybe", files=files(pngs[0])).json()["detail"].startswith("heat: ")
    text = service.get("/metrics").text
    assert "unihssl_images_total 3.0" in text and "unihssl_held_bytes 0.0" in text
    assert 'unihssl_requests_total{path="/predict",status="415"} 1.0' in text
    described = service.get("/openapi.json").json()["paths"]["/predict"]["post"]
    assert {"multipart/form-data", "application/json"} == described["requestBody"]["content"].keys()
    assert {"200", "401", "403", "408", "413", "415", "422", "500", "503"} <= described["responses"].keys()
    assert service.get("/docs").status_code == 404  # FastAPI's would load scripts from elsewhere


def multipart(contents: list[bytes]) -> dict:
    return form(*(HEAD + content + b"\r\n" for content in contents), b"--b--")


def form(*parts: bytes) -> dict:
    return {"content": b"".join(parts), "headers": {"content-type": "multipart/form-data; boundary=b"}}


HEAD = b'--b\r\nContent-Disposition: form-data; name="files"; filename="a.png"\r\n\r\n'
MANY = files(*(b"x" for _ in range(4)))
NOISE = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
BLANK = encoded(np.zeros((100, 100), np.uint8))
BMP = encoded(NOISE[:2, :2], "BMP")
BAD = {  # what is sent, the status, what the answer says
    "no image": ({"json": {"images": []}}, 422, "no image"),
    "not json": ({"content": b"{", "headers": {"content-type": "application/json"}}, 422, "not JSON"),
    "deep json": ({"content": b"[" * 9, "headers": {"content-type": "application/json"}}, 413, "too many"),
    "other json": ({"json": {"images": [1]}}, 422, "should be"),
    "a path": ({"json": {"images": ["/etc/passwd"]}}, 422, "not base64"),
    "a path in the name": ({"files": [("files", ("/etc/hostname", b""))]}, 415, "/etc/hostname: not an image"),
    "a path as a field": ({"data": {"files": "/etc/hostname"}}, 415, "urlencoded"),
    "other type": ({"content": b"x", "headers": {"content-type": "image/png"}}, 415, "image/png"),
    "no type": ({"content": b"x"}, 415, "a body without a content type is not read"),
    "nothing": ({}, 422, "nothing was sent"),
    "not an image": ({"files": files(b"hello")}, 415, "0.png: not an image of a known format"),
    "an unnamed format": ({"files": files(encoded(NOISE, "GIF"))}, 415, "not an image of a known format"),
    "postscript": ({"files": files(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n")}, 415, "not an image"),
    "cut short": ({"files": files(encoded(NOISE)[:900])}, 422, "0.png: cannot be decoded"),
    "one of two": ({"files": files(encoded(NOISE[:5, :5]), b"hello")}, 415, "1.png"),
    "too many files": ({"files": MANY}, 413, "at most 3"),
    "too many pixels": ({"files": files(encoded(np.zeros((101, 100), np.uint8)))}, 413, "at most 0.01 megapixels"),
    "too many pixels in all": ({"files": files(*3 * [BLANK])}, 413, "at most 0.025 megapixels in all images"),
    "a pixel bomb": ({"files": files(BMP[:18] + struct.pack("<ii", 65536, 65536) + BMP[26:])}, 413, "too many pixels"),
    "too many bytes": ({"content": bytes(60_001)}, 413, "at most 0.06 MB"),
    "no boundary": ({"content": b"x", "headers": {"content-type": "multipart/form-data"}}, 422, "multipart"),
    "no end": (form(HEAD, encoded(NOISE[:9, :9])), 422, "no image"),
    "a bad header": (form(b"--b\r\n\0\0\0:\r\n\r\nx\r\n--b--"), 422, "multipart"),
}
TIGHT = Limits(body_bytes=60_000, pixels=10_000, request_pixels=25_000, files=3)


@pytest.mark.parametrize("case", BAD)
def test_bad_requests_are_refused_by_their_kind(case, client):
    given, status, words = BAD[case]
    answer = client(TIGHT).post("/predict", **given)
    assert answer.status_code == status, answer.text
    assert words in answer.json()["detail"]


def test_the_header_of_an_image_refuses_it_before_a_pixel_is_decoded(client, monkeypatch):
    from unihssl.serving import uploads

    monkeypatch.setattr(uploads, "render", lambda *_: pytest.fail("decoded"))
    bomb = encoded(np.zeros((2000, 2000), np.uint8))
    assert len(bomb) < TIGHT.body_bytes
    assert client(TIGHT).post("/predict", files=files(bomb)).status_code == 413


def test_a_refused_request_is_not_decoded_further(client, monkeypatch):
    from unihssl.serving import app

    refused, begun = threading.Event(), []

    def decode(upload, *_):
        begun.append(upload.name)
        if upload.name == "0.png":
            raise RefusedError(422, "damaged")
        assert refused.wait(60)

    monkeypatch.setattr(app, "cpus", lambda: 2)  # threads that decode
    monkeypatch.setattr(app, "decode", decode)
    service = client()
    assert service.post("/predict", files=files(*30 * [BLANK])).status_code == 422
    refused.set()
    monkeypatch.undo()
    assert service.post("/predict", files=files(BLANK)).status_code == 200  # after all that was waiting
    assert len(begun) < 5


def test_what_fails_is_logged_counted_and_answered_in_one_line(client, monkeypatch, caplog, pngs):
    from unihssl.serving import app

    def fails(*_):
        raise RuntimeError("out of memory")

    monkeypatch.setattr(app, "answer", fails)
    service = client()
    failed = service.post("/predict", files=files(pngs[0]))
    assert failed.status_code == 500 and failed.json() == {"detail": "the service failed: its log says why"}
    assert failed.headers["x-content-type-options"] == "nosniff"
    assert "/predict failed" in caplog.text and "RuntimeError: out of memory" in caplog.text
    text = service.get("/metrics").text
    assert 'unihssl_requests_total{path="/predict",status="500"} 1.0' in text
    assert "unihssl_held_bytes 0.0" in text and "unihssl_active_requests 0.0" in text


def test_decoded_images_count_towards_the_bytes_that_are_held(client, monkeypatch):
    from unihssl.serving import app

    body = multipart(2 * [encoded(NOISE[:2, :2])])
    size, decoded = len(body["content"]), 2 * 16 * 16 * 3
    service, real = client(Limits(body_bytes=3 * size, total_bytes=0, files=2)), app.answer  # one request fits

    def answer(*given):  # while the first request is worked on
        assert f"unihssl_held_bytes {size + decoded}.0" in service.get("/metrics").text
        second = service.post("/predict", **body)
        assert second.status_code == 503 and second.headers["retry-after"] == "1"
        return real(*given)

    monkeypatch.setattr(app, "answer", answer)
    assert service.post("/predict", **body).status_code == 200
    assert "unihssl_held_bytes 0.0" in service.get("/metrics").text


def test_nothing_is_read_where_no_token_is_needed(client):
    service = client(token="secret")
    for path in ("/", "/health", "/elsewhere"):
        for sent in (b"x", iter([b"x"])):  # of an announced length, and chunked
            refused = service.post(path, content=sent, headers={"Authorization": "Bearer secret"})
            assert (refused.status_code, refused.json()["detail"]) == (413, "only /predict reads what is sent")


@pytest.mark.parametrize("token", ["two words", "end ", "geh\xe9im", "line\n"])
def test_a_token_that_no_header_carries_is_refused_at_the_start(token):
    with pytest.raises(UserError, match="--token: only letters"):
        serve(Path("run"), token=token)


def test_a_token_is_asked_for(client, pngs):
    service = client(token="secret")
    assert service.get("/health").status_code == service.get("/").status_code == 200
    for given in (b"", b"Bearer other", b"secret", b"Bearer \xe9"):
        refused = service.post("/predict", files=files(pngs[0]), headers={"Authorization": given})
        assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer"
    for path in ("/metrics", "/model", "/openapi.json"):
        assert service.get(path).status_code == 401
    allowed = {"Authorization": "Bearer secret", "Host": "scans.example.org"}
    assert service.post("/predict", files=files(pngs[0]), headers=allowed).status_code == 200


def test_without_a_token_other_sites_are_refused(client):
    service = client()
    for headers in ({"Host": "evil.example"}, {"Origin": "http://evil.example"}, {"Origin": "null"}, {"Host": "[::1"}):
        assert service.get("/model", headers=headers).status_code == 403
    for headers in (
        {"Host": "localhost:8000"},
        {"Host": "[::1]:8000"},
        {"Host": "127.0.0.2:8000"},
        {"Origin": "http://127.0.0.1:8000"},
    ):
        assert service.get("/model", headers=headers).status_code == 200


def test_nothing_is_written_to_the_disk(client, monkeypatch):
    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", lambda _: pytest.fail("written"))
    large = encoded(np.random.default_rng(0).integers(0, 256, (800, 800, 3), dtype=np.uint8), "BMP")
    assert len(large) > 1_900_000
    assert client().post("/predict", files=files(large, large)).status_code == 200
