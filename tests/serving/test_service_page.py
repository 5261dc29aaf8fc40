"""The page in a real browser."""

import base64
import json
import re
import shutil
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from served_images import encoded

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
EXPECTED = ("status of 401", "status of 415", "status of 503", "ERR_CONNECTION_REFUSED")  # what the tests provoke
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")

GIVE = """([kind, name, text]) => {
  const bytes = Uint8Array.from(atob(text), (sign) => sign.charCodeAt(0));
  const data = new DataTransfer();
  data.items.add(new File([bytes], name));
  const event = kind === "drop" ? new DragEvent("drop", {dataTransfer: data, bubbles: true, cancelable: true})
    : new ClipboardEvent("paste", {clipboardData: data, bubbles: true});
  document.body.dispatchEvent(event);
}"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def page(browser) -> Iterator[Any]:
    """A page that fails on console errors, and on requests to anywhere but its own server."""
    page = browser.new_page(viewport={"width": 390, "height": 800})
    page.set_default_timeout(120_000)
    sync_api.expect.set_options(timeout=120_000)
    problems: list[str] = []
    own = ("http://127.0.0.1:", "data:", "blob:http://127.0.0.1:")
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: None if request.url.startswith(own) else problems.append(request.url))
    yield page
    assert [text for text in problems if not any(status in text for status in EXPECTED)] == []
    page.close()


def give(page: Any, kind: str, name: str, content: bytes) -> None:
    page.evaluate(GIVE, [kind, name, base64.b64encode(content).decode()])


def card(page: Any, name: str) -> Any:
    found = page.locator("article", has=page.get_by_text(name, exact=True))
    sync_api.expect(found).to_have_attribute("aria-busy", "false")
    return found


def test_drop_paste_and_choose(page, running, model, images, pngs, tmp_path):
    (tmp_path / "c.png").write_bytes(pngs[2])
    found = model.predictions(images)
    sure = (~(model.probabilities(found).max(1) < model.audited["threshold"])).tolist()
    with running() as address:
        page.goto(address)
        sync_api.expect(page.locator("#about")).to_have_text(
            "unihssl on small_cnn, 3 classes: cat, dog, <b>bird</b>"  # names are text, not markup
        )
        give(page, "drop", "a.png", pngs[0])
        give(page, "paste", "b.png", pngs[1])
        page.set_input_files("#files", tmp_path / "c.png")
        for row, name in enumerate(("a.png", "b.png", "c.png")):
            shown = card(page, name)
            assert shown.locator("h3").inner_text() == (found.classes[row] if sure[row] else "No answer")
            assert shown.locator(".classes span").first.inner_text() == found.classes[row]
            facts = dict(zip(shown.locator("dt").all_inner_texts(), shown.locator("dd").all_inner_texts(), strict=True))
            assert facts.keys() == {"Confidence", "Domain", "Novelty"}
            how = (
                "for images like those of the audit, which this one is not"
                if found.novelty[row] >= 95
                else "by an audit"
            )
            assert facts["Confidence"] == f"{100 * model.calibrated(found)[row].max():.1f}%, calibrated {how}"
            assert shown.locator("img").count() == 2  # the image and its heat map
            assert "stored as" not in shown.inner_text()
        assert ".png: " in page.inner_text("#said")  # read out by screen readers
        assert page.evaluate("document.documentElement.scrollWidth") == 390
        page.get_by_label("Remove b.png").press("Enter")
        assert page.inner_text("#count") == "2 images"
        give(page, "drop", "deep.png", encoded(np.zeros((16, 16), np.uint16)))
        note = card(page, "deep.png").get_by_text("This image is stored as PNG uint16, of which no training image was")
        sync_api.expect(note).to_have_class("warn")
        give(page, "drop", "notes.txt", b"hello")
        refused = card(page, "notes.txt")
        assert "notes.txt: not an image of a known format" in refused.get_by_role("alert").inner_text()
    give(page, "drop", "late.png", pngs[3])  # the service has ended
    assert "The service cannot be reached" in card(page, "late.png").get_by_role("alert").inner_text()


def test_files_keep_their_order_and_a_page_without_answers_says_why(page, running, folder, pngs, tmp_path):
    audit = json.loads((folder / "audit.json").read_text())
    (tmp_path / "audit.json").write_text(json.dumps(audit | {"threshold": None}))
    files = [tmp_path / name for name in ("a.png", "b.png", "c.png")]
    for path, content in zip(files, pngs, strict=False):
        path.write_bytes(content)
    for path in folder.iterdir():
        if path.name != "audit.json":
            (tmp_path / path.name).write_bytes(path.read_bytes())
    with running(path=tmp_path) as address:
        page.goto(address)
        page.set_input_files("#files", files)
        assert [card(page, path.name).locator("h3").inner_text() for path in files] == 3 * ["No answer"]
        assert page.locator("article .name").all_inner_texts() == [path.name for path in files]
        assert "could not show that 5% of the answers" in page.inner_text("#unanswered")
        assert "not sure enough" not in page.inner_text("#results")


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_words_stand_beside_the_pictures_or_above_them(page, running, pngs, width, scheme):
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme=scheme)
    with running() as address:
        page.goto(address)
        give(page, "drop", "a.png", pngs[0])
        shown = card(page, "a.png")
        boxes = {name: shown.locator(name).first.bounding_box() for name in (".words", ".pictures")}
    words, pictures = boxes[".words"], boxes[".pictures"]
    if width == 390:
        assert words["y"] + words["height"] <= pictures["y"] and words["x"] == pictures["x"]
    else:
        assert pictures["x"] + pictures["width"] <= words["x"] and words["y"] == pictures["y"]
    assert page.evaluate("document.documentElement.scrollWidth") == width
    colours = page.evaluate("[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color]")
    page_brightness, text_brightness = (int(re.findall(r"\d+", colour)[0]) for colour in colours)
    assert (page_brightness < 60 and text_brightness > 200) == (scheme == "dark")


def test_the_page_asks_for_the_token(page, running, pngs):
    with running(token="secret") as address:
        page.goto(address)
        page.get_by_label("This service asks for its token").wait_for()
        give(page, "drop", "early.png", pngs[1])  # waits for the token
        page.get_by_label("This service asks for its token").fill("guess")
        page.keyboard.press("Enter")
        sync_api.expect(page.locator("#alert")).to_have_text("That is not the token of this service.")
        page.get_by_label("This service asks for its token").fill("secret")
        page.keyboard.press("Enter")
        sync_api.expect(page.locator("#about")).to_contain_text("3 classes")
        give(page, "drop", "a.png", pngs[0])
        for name in ("early.png", "a.png"):
            assert card(page, name).locator("dd").count() == 3


def test_images_wait_for_a_description_that_is_late(page, running, pngs):
    asked: list[Any] = []
    page.route("**/model", lambda route: asked.append(route))
    with running() as address:
        page.goto(address)
        for name in ("a.png", "b.png"):
            give(page, "drop", name, pngs[0])
        sync_api.expect(page.locator("h3")).to_have_text(2 * ["Classifying…"])
        while not asked:
            page.wait_for_timeout(50)
        (route,) = asked  # it is asked for once
        route.continue_()
        for name in ("a.png", "b.png"):
            assert card(page, name).locator("dd").count() == 3


def test_a_description_that_fails_is_asked_for_again_with_the_next_image(page, running, pngs):
    busy = {"status": 503, "json": {"detail": "try again soon"}}
    with running() as address:
        page.route("**/model", lambda route: route.fulfill(**busy))
        page.goto(address)
        sync_api.expect(page.locator("#alert")).to_have_text("try again soon")
        give(page, "drop", "a.png", pngs[0])
        failed = card(page, "a.png")
        assert failed.locator("h3").inner_text() == "Not classified"
        assert failed.get_by_role("alert").inner_text() == "try again soon"
        page.unroute("**/model")
        give(page, "drop", "b.png", pngs[1])
        assert card(page, "b.png").locator("dd").count() == 3
        sync_api.expect(page.locator("#alert")).to_be_hidden()
