"""What happens to a run from outside: its folder removed, company, a full memory, a clock that stands still."""

import shutil
import time
from collections.abc import Callable
from pathlib import Path

from scenarios import SCENARIOS, as_command
from scenarios import cache as build_cache
from warm_cli import Finished, Started

TRAIN = SCENARIOS["run"].args
Disturb = Callable[[Path], str]  # in a folder of its own; empty, or what is wrong


def one_line(done: Finished, *parts: str) -> str:
    """Empty if it ended with one clear line that has all parts."""
    try:
        line = done.error
    except AssertionError as problem:
        return f"no single line: {problem}"
    return "" if all(part in line for part in parts) else f"unclear: {line}"


def removed_folder(root: Path) -> str:
    """The run's folder is removed before its second report, and made again by somebody else."""
    return one_line(Started(*TRAIN, folder=root, main=remove_at_second_row).finish(), "new: was removed")


def remove_at_second_row() -> None:
    from unihssl import cli
    from unihssl.run_folder import RunFolder

    real, rows = RunFolder.append_metrics, []

    def append(self: RunFolder, row: dict) -> None:
        rows.append(row)
        if len(rows) == 2:
            shutil.rmtree(self.path)
            self.path.mkdir()
        real(self, row)

    RunFolder.append_metrics = append  # type: ignore[method-assign]
    cli.main()


def removed_at_the_end(root: Path) -> str:
    """All but the lock is removed before the model is written."""
    done = Started(*TRAIN, folder=root, main=remove_before_the_model).finish()
    return one_line(done, "new: was removed") or ("a result" if (root / "new" / "result.json").exists() else "")


def remove_before_the_model() -> None:
    from unihssl import cli
    from unihssl.run_folder import RunFolder

    real = RunFolder.write_model

    def write(self: RunFolder, *args: object) -> None:
        for path in self.path.glob("[!.]*"):
            path.unlink()
        real(self, *args)  # type: ignore[arg-type]

    RunFolder.write_model = write  # type: ignore[method-assign]
    cli.main()


def two_runs(root: Path) -> str:
    """Two processes train in one folder at the same time: one does, the other is refused or finds it finished."""
    started = [Started(*TRAIN, folder=root) for _ in range(2)]
    done = sorted((each.finish() for each in started), key=lambda finished: finished.code)
    second = done[1]
    problem = one_line(second, "another process") if second.code else ""
    return problem if done[0].code == 0 else f"none finished: {done[0].stderr}"


def four_caches(root: Path) -> str:
    """Four processes decode the same images into one cache at once."""
    started = [Started(folder=root, main=build_cache) for _ in range(4)]
    printed = {each.finish()[:2] for each in started}
    left = list((root / "cache" / "building").iterdir())
    return "" if len(printed) == 1 and {code for code, _ in printed} == {0} and not left else f"{printed} {left}"


def cut_store(root: Path) -> str:
    """A cached store is cut while it is mapped: an error, no SIGBUS. Then it is decoded anew."""
    first = Started(folder=root, main=read_a_cut_store).finish()
    again = Started(folder=root, main=build_cache).finish()
    return one_line(first, "was cut", "run it again") or ("" if again.code == 0 else again.stderr)


def read_a_cut_store() -> None:
    import os

    import torch

    from unihssl.config import Settings
    from unihssl.data.domain import unlabeled_domain
    from unihssl.data.store import fill_store

    with as_command():
        domain = unlabeled_domain("images_b", ("blue", "green", "red"), Settings())
        store = fill_store(domain, (16, 16), cache=Path("cache"))[1]
        (file,) = Path("cache/stores").glob("*/samples.npy")
        os.truncate(file, 200)
        store.take(torch.tensor([len(store) - 1]))


def still_clock(root: Path) -> str:
    done = Started(*TRAIN, folder=root, main=stop_the_clock).finish()
    return "" if done.code == 0 else done.stderr


def stop_the_clock() -> None:
    from unihssl import cli

    moment, monotonic = time.time(), time.monotonic()
    time.time, time.monotonic, time.perf_counter = lambda: moment, lambda: monotonic, lambda: monotonic
    cli.main()


def full_gpu(root: Path) -> str:
    done = Started(*TRAIN, folder=root, main=run_out_of_gpu_memory).finish()
    return one_line(done, "GPU's memory is full", "batch_size=4", "placement=host")


def run_out_of_gpu_memory() -> None:
    import torch

    _fail_at_third_step(torch.cuda.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.\nMore."))


def full_memory(root: Path) -> str:
    done = Started(*TRAIN, folder=root, main=run_out_of_memory).finish()
    return one_line(done, "machine's memory is full", "batch_size=4", "placement=disk")


def run_out_of_memory() -> None:
    _fail_at_third_step(RuntimeError("[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"))


def full_memory_in_predict(root: Path) -> str:
    done = Started(*SCENARIOS["predict"].args, folder=root, main=fail_in_predict).finish()
    return one_line(done, "machine's memory is full", "fewer or smaller")


def fail_in_predict() -> None:
    from unihssl import cli
    from unihssl.evaluation.model import Model

    Model.predict_store = _failing(MemoryError())  # type: ignore[method-assign]
    cli.main()


def _fail_at_third_step(error: Exception) -> None:
    from unihssl import cli
    from unihssl.training.step import Step

    real, steps, fail = Step.__call__, [], _failing(error)

    def call(self: Step) -> None:
        steps.append(1)
        (fail if len(steps) == 3 else real)(self)

    Step.__call__ = call  # type: ignore[method-assign]
    cli.main()


def _failing(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


# After these the run is resumed, and compared with an undisturbed one.
RESUMED = (removed_folder, removed_at_the_end, two_runs, still_clock, full_gpu, full_memory)
SITUATIONS: dict[str, Disturb] = {
    function.__name__: function for function in (*RESUMED, four_caches, cut_store, full_memory_in_predict)
}
