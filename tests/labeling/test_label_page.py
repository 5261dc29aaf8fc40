"""The labeling page in a real browser."""

import shutil
from collections.abc import Iterator
from typing import Any

import pytest
from label_files import CLASSES, labels

sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
CHROMIUM = shutil.which("chromium")
EXPECTED = ("422", "ERR_CONNECTION_")  # the image that is missing; refused, reset or closed: the server has ended
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


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
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda r: None if r.url.startswith(("http://127.0.0.1:", "data:")) else problems.append(r.url))
    yield page
    assert [text for text in problems if not any(status in text for status in EXPECTED)] == []
    page.close()


def shows(page: Any, text: str) -> None:
    """Wait until the image with this caption is on the screen."""
    sync_api.expect(page.locator("#name")).to_have_text(text)
    sync_api.expect(page.locator("#stage")).to_have_attribute("aria-busy", "false")


def test_label_undo_skip_reload(page, todo, serve):
    with serve(todo) as server:
        page.goto(server.url)
        shows(page, "Image 1 of 5 · a.png")
        assert page.locator("#classes button span").all_inner_texts() == CLASSES  # names are text, not markup
        page.keyboard.press("2")
        shows(page, "Image 2 of 5 · b.tif")
        assert labels(todo) == ["dog", "", "", "", ""]
        page.keyboard.press("3")
        shows(page, "Image 3 of 5 · c.jpg")
        assert labels(todo) == ["dog", "<b>bird</b>", "", "", ""]
        page.keyboard.press("9")  # no such class
        page.keyboard.press("ArrowLeft")
        shows(page, "Image 2 of 5 · b.tif")
        assert labels(todo) == ["dog", "", "", "", ""]
        page.keyboard.press("1")
        shows(page, "Image 3 of 5 · c.jpg")
        assert labels(todo) == ["dog", "cat", "", "", ""]
        page.reload()
        shows(page, "Image 3 of 5 · c.jpg")
        page.click("#skip")
        shows(page, "Image 4 of 5 · gone.png")
        assert page.inner_text("#missing").endswith("gone.png: no such file. Skip it to go on.")
        page.keyboard.press("1")  # nobody can have seen it
        page.keyboard.press("ArrowRight")
        shows(page, "Image 5 of 5 · e.png")
        assert page.inner_text("#count") == "2 of 5 labeled · 2 skipped"
        page.click("text=cat")
        sync_api.expect(page.locator("#done")).to_have_text("3 of 5 images are labeled")
        assert labels(todo) == ["dog", "cat", "", "", "cat"]
        page.click("#revisit")
        shows(page, "Image 3 of 5 · c.jpg")
    with serve(todo) as server:  # later, on another address
        page.goto(server.url)
        shows(page, "Image 3 of 5 · c.jpg")


def test_the_guess_is_hidden_until_asked_for(page, todo, serve):
    with serve(todo, lambda item: {"class": "dog", "confidence": 0.751}) as server:
        page.goto(server.url)
        shows(page, "Image 1 of 5 · a.png")
        assert "75" not in page.inner_text("body")
        page.keyboard.press("?")
        sync_api.expect(page.locator("#guessed")).to_have_text("Model's guess: dog (75%)")
        page.keyboard.press("1")
        shows(page, "Image 2 of 5 · b.tif")
        assert page.inner_text("#guessed") == "Show the model's guess" and labels(todo)[0] == "cat"


def test_keys_of_many_classes(page, todo, serve):
    digits, more = [str(digit) for digit in range(10)], [f"kind {i}" for i in range(40)]
    with serve(todo, classes=[*more, *digits]) as server:
        page.goto(server.url)
        shows(page, "Image 1 of 5 · a.png")
        page.keyboard.press("7")  # the class of that name
        shows(page, "Image 2 of 5 · b.tif")
        page.keyboard.press("b")  # 1 to 9 are taken, a is the first
        shows(page, "Image 3 of 5 · c.jpg")
        page.fill("#filter", "KIND 39")
        page.keyboard.press("Enter")
        shows(page, "Image 4 of 5 · gone.png")
        assert labels(todo)[:3] == ["7", "kind 1", "kind 39"] and page.input_value("#filter") == ""


def test_a_stopped_command_is_told_and_buttons_have_names(page, todo, serve):
    with serve(todo) as server:
        page.goto(server.url)
        shows(page, "Image 1 of 5 · a.png")
        named = page.get_by_role("group", name="Which class is it?").get_by_role("button", name="dog", exact=True)
        assert named.get_attribute("aria-keyshortcuts") == "2"
        assert page.get_by_role("img", name="Image 1 of 5: a.png").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") == 390  # nothing sticks out of a phone
    before = todo.read_bytes()
    named.click()
    sync_api.expect(page.locator("#alert")).to_contain_text("All answers so far are in the file")
    assert todo.read_bytes() == before
