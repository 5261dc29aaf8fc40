"""Ctrl-C at the worst moment."""

import signal
import subprocess
import sys

import pytest

from unihssl.interrupt import held_interrupts

# The first time the main thread takes a lock of the standard library, Ctrl-C comes before it can let go of it.
WORST = """
import signal, threading, time
from unihssl.data.decode import spread

enter, sent, main = threading.Condition.__enter__, [], threading.get_ident()

def interrupted(self):
    entered = enter(self)
    if {when} and threading.get_ident() == main and not sent:
        sent.append(signal.raise_signal(signal.SIGINT))
    return entered

threading.Condition.__enter__ = interrupted
done = []
try:
    spread(lambda rows: time.sleep(0.002) or done.append(rows), 500)
except KeyboardInterrupt:
    print("stopped before the end" if len(done) < 500 else "stopped at the end")
"""


@pytest.mark.parametrize("when", ["True", "len(done) > 10"])
def test_decoding_stops(when):
    done = subprocess.run(
        [sys.executable, "-c", WORST.format(when=when)], capture_output=True, text=True, timeout=300, check=False
    )
    assert (done.stdout, done.stderr) == ("stopped before the end\n", "")


def test_an_interrupt_is_never_lost():
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_an_interrupt_wins_over_another_error():
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        signal.raise_signal(signal.SIGINT)
        raise OSError("caught by someone who would go on")


def test_a_second_interrupt_comes_at_once():
    seen = []
    with pytest.raises(KeyboardInterrupt), held_interrupts():
        seen.append(signal.raise_signal(signal.SIGINT))
        seen.append(signal.raise_signal(signal.SIGINT))
    assert len(seen) == 1


def test_other_handlers_stay():
    seen = []
    before = signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    try:
        with held_interrupts():
            signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.SIGINT]
