"""Bad input at random, bounded in time: `make fuzz`. Every case must end in a result or in one line that names it.

    python tests/fuzz/fuzz.py --seconds 600 --seed 0

Prints a tally; a case that failed is named by kind and number, and `--only KIND:NUMBER` runs it again.
"""

import argparse
import os
import resource
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import numpy as np
from cases import KINDS

from unihssl.errors import UserError

MOST_SECONDS, MOST_MEMORY = 30, 2 * 2**20  # of one case; KiB above what all began with


def check(kind: str, number: int, seed: int) -> str:
    """Run one case: `result`, `one line`, or what is wrong."""
    case, random = KINDS[kind][0], np.random.default_rng([seed, list(KINDS).index(kind), number])
    with tempfile.TemporaryDirectory() as name, _within(Path(name)) as folder:
        try:
            case(random, folder)
            answer = "result"
        except UserError as error:
            message = str(error)
            answer = "one line" if "\n" not in message and "\x1b" not in message else f"message: {message!r}"
        except Exception as error:  # what the user would see as a traceback
            answer = f"{type(error).__name__}: {str(error)[:200]}"
        outside = [path for path in Path(name).iterdir() if path != folder]
    return f"wrote outside: {outside}" if outside else answer


@contextmanager
def _within(parent: Path) -> Iterator[Path]:
    """An empty folder to work in, and a limit on the time."""
    folder, before = parent / "in", Path.cwd()
    folder.mkdir()
    os.chdir(folder)
    previous = signal.signal(signal.SIGALRM, _late)
    signal.alarm(MOST_SECONDS)
    try:
        yield folder
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)
        os.chdir(before)


def _late(number: int, frame: FrameType | None) -> None:
    raise TimeoutError(f"not done after {MOST_SECONDS} s")


def fuzz(seconds: float, seed: int, most: int = 10**9) -> tuple[Counter[tuple[str, str]], list[str]]:
    """How many cases of which kind ended how, and those that failed."""
    warnings.simplefilter("ignore")
    tally: Counter[tuple[str, str]] = Counter()
    failed, end, start = [], time.monotonic() + seconds, _memory()
    order = np.random.default_rng(seed)
    numbers = Counter[str]()
    shares = [share for _, share in KINDS.values()]
    while time.monotonic() < end and tally.total() < most:
        kind = str(order.choice(list(KINDS), p=shares))
        number = numbers[kind]
        numbers[kind] += 1
        answer = check(kind, number, seed)
        if _memory() - start > MOST_MEMORY:
            answer = "more than 2 GiB"
        good = answer in ("result", "one line")
        tally[kind, answer if good else "failed"] += 1
        if not good:
            failed.append(f"{kind}:{number} {answer}")
            start = max(start, _memory() - MOST_MEMORY)
    return tally, failed


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=600)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--cases", type=int, default=20_000)
    options.add_argument("--only", metavar="KIND:NUMBER")
    given = options.parse_args()
    if given.only:
        kind, _, number = given.only.partition(":")
        print(check(kind, int(number), given.seed))
        return
    tally, failed = fuzz(given.seconds, given.seed, given.cases)
    print("| kind | cases | result | one line | failed |\n|---|---|---|---|---|")
    for kind in KINDS:
        ends = [tally[kind, end] for end in ("result", "one line", "failed")]
        print(f"| {kind} | {sum(ends)} | {' | '.join(map(str, ends))} |")
    print("\n".join(failed))
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
