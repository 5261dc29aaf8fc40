"""A fault at every point where a command changes a file: `make faults`. Nothing may be lost, half-written or wrong.

    python tests/faults/faults.py --seconds 840 --seed 0

Each command is run undisturbed, which counts its points. Then it is run again for each point and fault: killed there,
killed after half of a write, the disk full, access denied. Afterwards all files under final names must be whole, an
error must be one line, and the same command, repeated, must give the undisturbed result. Damaged files, signals and
other disturbances follow. `--only run:17:kill` repeats one fault.
"""

import argparse
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from checks import differences, half_written, result
from damage import KINDS, Damage
from injector import ACTIONS, SIGNALS, Fault, Faulty
from scenarios import SCENARIOS, Scenario, prepare
from situations import RESUMED, SITUATIONS
from warm_cli import Finished, Started

BAD = ("lost", "half-written", "wrong after resume", "unclear")
SIGNALLED = "run"  # stops gracefully


@dataclass(frozen=True)
class Case:
    """A fault of a scenario; the number of a damage, a random kill or a situation."""

    kind: str
    number: int
    action: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.number}:{self.action}"


@dataclass
class Reference:
    """An undisturbed run of a scenario."""

    points: list[str]
    result: dict[str, Any]
    stdout: str
    seconds: float


@dataclass
class Bench:
    """A folder to disturb commands in. All benches have paths of one length, as some files are wrapped by it."""

    root: Path
    references: dict[str, Reference] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.template, self.log = self.root.with_name("template"), self.root.with_name("points")
        prepare(self.root)
        shutil.copytree(self.root, self.template)
        self._damage: Damage | None = None

    def restore(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.template, self.root)

    def start(self, scenario: Scenario, fault: Fault) -> Started:
        main = Faulty(str(self.root), fault, str(self.log), scenario.main)
        return Started(*scenario.args, folder=self.root, main=main)

    def reference(self, name: str) -> Reference:
        if name not in self.references:
            self.restore()
            begun = time.monotonic()
            done = self.start(SCENARIOS[name], Fault()).finish()
            assert done.code == 0, f"{name}: {done.stderr}"
            points = self.log.read_text().splitlines()
            self.references[name] = Reference(points, result(self.root), done.stdout, time.monotonic() - begun)
        return self.references[name]

    def cases(self, name: str) -> list[Case]:
        own = re.compile(SCENARIOS[name].own)
        points = [(n, point) for n, point in enumerate(self.reference(name).points, 1) if own.search(point)]
        cases = [Case(name, n, action) for n, point in points for action in ACTIONS if _applies(action, point)]
        return cases + [Case(name, n, action) for n, _ in points for action in SIGNALS if name == SIGNALLED]

    def check(self, case: Case, seed: int) -> list[str]:
        """What is wrong after a fault: names of BAD, with what they are about."""
        if case.kind == "damage":
            self._damage = self._damage or Damage(self.template)
            answer = self._damage.check(case.action, np.random.default_rng([seed, case.number]))
            return [] if answer in ("refused", "same") else [f"wrong after resume: {answer}"]
        if case.kind == "situation":
            return self._check_situation(case.action)
        expected, scenario = self.reference(case.kind), SCENARIOS[case.kind]
        self.restore()
        if case.action == "random kill":
            started = self.start(scenario, Fault())
            time.sleep(np.random.default_rng([seed, case.number]).uniform(0, expected.seconds))
            done = started.kill()
        else:
            done = self.start(scenario, Fault(case.number, case.action)).finish()
        return [*self._lost(expected, scenario.grows), *self._unclear(done, case), *self._repeat(case.kind)]

    def _lost(self, expected: Reference, grows: str) -> list[str]:
        """Files that were there before are there, as they were or as they were to become."""
        before, now = result(self.template, self.root), result(self.root)
        gone = [name for name in before if now.get(name) not in (before[name], expected.result.get(name))]
        gone = [name for name in gone if name != grows or name not in now]
        bad = half_written(self.root)
        return [f"lost: {name}" for name in gone if name not in bad] + [f"half-written: {name}" for name in bad]

    def _unclear(self, done: Finished, case: Case) -> list[str]:
        """A process that was not killed says in one line what is wrong, unless it could do without."""
        if "Traceback" in done.stderr:
            return [f"unclear: {done.stderr[-2000:]}"]
        if done.code in (0, -signal.SIGKILL) or (case.action in SIGNALS and done.code in (130, -signal.SIGTERM)):
            return []
        return [] if done.stderr and _is_one_line(done.stderr) else [f"unclear: {done.stderr}"]

    def _repeat(self, name: str) -> list[str]:
        """What is wrong once the command was repeated. One that had come to its end may refuse that in one line."""
        scenario, expected = SCENARIOS[name], self.reference(name)
        done = Started(*scenario.args, folder=self.root, main=scenario.main).finish()
        different = differences(result(self.root), expected.result, scenario.cache)
        if done.code and (different or not _is_one_line(done.stderr)):
            return [f"wrong after resume: exit code {done.code}: {done.stderr[-2000:]}"]
        different += ["pixels"] if name == "cache" and done.stdout != expected.stdout else []
        return [f"wrong after resume: {file}" for file in different]

    def _check_situation(self, name: str) -> list[str]:
        self.reference("run")  # before, as it takes place in the same folder
        self.restore()
        problem = SITUATIONS[name](self.root)
        return [f"unclear: {problem}"] if problem else self._repeat("run") if SITUATIONS[name] in RESUMED else []


def _applies(action: str, point: str) -> bool:
    return action != "half" or point.startswith("write ")


def _is_one_line(text: str) -> bool:
    lines = text.splitlines()
    return [line for line in lines if line.startswith("error:")] == lines[-1:]


def all_cases(bench: Bench, names: list[str], others: int, seed: int) -> list[Case]:
    """Every point with every fault, and so many damages and random kills; in random order, the situations first."""
    cases = [case for name in names for case in bench.cases(name)]
    cases += [Case("damage", number, list(KINDS)[number % len(KINDS)]) for number in range(others)]
    cases += [Case("events", number, "random kill") for number in range(others // 4) if "events" in names]
    order = np.random.default_rng(seed).permutation(len(cases))
    return [*(Case("situation", 0, name) for name in SITUATIONS if others), *(cases[i] for i in order)]


def disturb(benches: list[Bench], cases: list[Case], seconds: float, seed: int) -> tuple[Counter[str], list[str]]:
    """Run the cases on all benches at once; how many were run of each kind, and all that is wrong."""
    end, waiting, tally, wrong = time.monotonic() + seconds, list(reversed(cases)), Counter[str](), list[str]()
    lock = threading.Lock()

    def work(bench: Bench) -> None:
        while time.monotonic() < end:
            with lock:
                if not waiting:
                    return
                case = waiting.pop()
            problems = bench.check(case, seed)
            with lock:
                tally[case.kind] += 1
                for problem in problems:
                    wrong.append(f"{case} {problem}")
                    print(wrong[-1], file=sys.stderr, flush=True)

    with ThreadPoolExecutor(len(benches)) as pool:
        for future in [pool.submit(work, bench) for bench in benches]:
            future.result()
    return tally, wrong


def main() -> None:
    os.environ["UNIHSSL_COMMIT"] = "faults"  # of every run, whatever happens to the sources meanwhile
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=840)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--jobs", type=int, default=2)
    options.add_argument("--only", metavar="KIND:NUMBER:FAULT")
    given = options.parse_args()
    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        benches = [Bench(Path(folder) / str(i) / "work") for i in range(1 if given.only else given.jobs)]
        if given.only:
            kind, number, action = given.only.split(":")
            print(benches[0].check(Case(kind, int(number), action), given.seed))
            return
        cases = all_cases(benches[0], list(SCENARIOS), 200, given.seed)
        tally, wrong = disturb(benches, cases, given.seconds - (time.monotonic() - begun), given.seed)
        points = {name: len(reference.points) for name, reference in benches[0].references.items()}
    print("| what | points | faults |\n|---|---|---|")
    for kind in [*SCENARIOS, "damage", "situation"]:
        print(f"| {kind} | {points.get(kind, '')} | {tally[kind]} |")
    counts = [f"{name}: {sum(f' {name}: ' in line for line in wrong)}" for name in BAD]
    print(f"{sum(points.values())} points, {tally.total()} of {len(cases)} faults in {time.monotonic() - begun:.0f} s")
    print(", ".join(counts))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
