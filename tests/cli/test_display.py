"""What a person sees of a run, however narrow the terminal."""

import io
import re

import pytest
from rich.console import Console

from unihssl.cli.display import TerminalDisplay

READINGS = {"loss": 2.261, "labeled": 1.59, "pseudo": 0.017, "confusion": 0.664, "prototype": 0.0, "mixup": 0.3}


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_how_far_it_is_comes_first_and_losses_take_what_room_is_left(width):
    display = TerminalDisplay(quiet=True)
    display.start("adapt", 500)
    display.values(213, READINGS)
    file = io.StringIO()
    Console(file=file, width=width).print(display._progress.get_renderable())
    (line,) = file.getvalue().splitlines()
    assert line.startswith("adapt ") and " 213/500 " in line and "loss " in line and len(line) <= width
    assert ("mixup 0.300" in line) == (width == 200)


def test_outside_a_terminal_lines_say_how_long_it_will_take(capsys):
    display = TerminalDisplay()
    display.start("adapt", 500)
    for done in range(1, 4):
        display.step(done)
    display.values(4, READINGS)
    assert re.match(r"adapt 4/500  \d:\d\d:\d\d left  loss 2.261  labeled", capsys.readouterr().err)
