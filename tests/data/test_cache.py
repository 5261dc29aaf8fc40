"""Decoded once: warm, moved and touched starts see what a cold one saw, whatever happens to the cache."""

import dataclasses
import errno
import io
import json
import multiprocessing
import os
import shutil
import signal
import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from unihssl.config import Settings
from unihssl.data import decode
from unihssl.data.cache import Cache, cache_folder, files_signature
from unihssl.data.domain import labeled_domain, unlabeled_domain
from unihssl.data.pair import DomainPair, Part, load_pair, read_domains
from unihssl.data.rendering import Rendering
from unihssl.data.sample_file import damaged_rows
from unihssl.data.split import Split
from unihssl.data.store import Store, fill_store
from unihssl.training.checkpoint import fingerprint

SIZE = (12, 10)
LIMIT = 120  # seconds to wait for what should come at once
FORK = multiprocessing.get_context("fork")  # the children only decode; importing PyTorch anew would take seconds


def save(path: Path, seed: int, side: int = 16) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)).save(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    for number in range(12):
        save(tmp_path / "images" / "ab"[number % 2] / f"{number}.png", number)
    return tmp_path / "images"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def work(monkeypatch) -> dict[str, int]:
    """Counts the files read and those decoded."""
    counts = {"read": 0, "decoded": 0}
    render, read = decode.render, decode._read

    def count_decoded(*args):
        counts["decoded"] += 1
        return render(*args)

    def count_read(path):
        counts["read"] += 1
        return read(path)

    monkeypatch.setattr(decode, "render", count_decoded)
    monkeypatch.setattr(decode, "_read", count_read)
    return counts


def fill(folder: Path, cache: Path | None, size=SIZE):
    return fill_store(labeled_domain(folder, Settings()), size, cache=cache)


def same(one, other) -> bool:
    """Equal domains (but for the root's name) and equal stores."""
    (a, x), (b, y) = one, other
    rest = (a.names, a.labels.tolist(), a.classes) == (b.names, b.labels.tolist(), b.classes)
    notes = [n.removeprefix(a.name) for n in a.notes] == [n.removeprefix(b.name) for n in b.notes]
    return rest and notes and x.key == y.key and torch.equal(x.samples, y.samples)


def stores(cache: Path) -> list[Path]:
    return sorted((cache / "stores").iterdir())


def under_way(cache: Path) -> list[Path]:
    return list((cache / "building").iterdir())


def damage(images: Path) -> None:
    (images / "a" / "0.png").write_bytes(b"")
    (images / "b" / "5.png").write_bytes(b"no image")
    content = (images / "b" / "11.png").read_bytes()
    (images / "b" / "11.png").write_bytes(content[: len(content) // 2])


@pytest.mark.parametrize("damaged", [False, True])
def test_cold_warm_and_uncached_are_the_same(images, cache, work, damaged):
    if damaged:
        damage(images)
    plain = fill(images, None)
    assert not cache.exists()
    work.update(read=0, decoded=0)
    cold = fill(images, cache)
    assert work["read"] == 12  # once each
    work.update(read=0, decoded=0)
    warm = fill(images, cache)
    assert work == {"read": 0, "decoded": 0}
    assert same(plain, cold) and same(cold, warm)
    assert len(cold[1]) == len(cold[0]) == len(cold[0].items) == (9 if damaged else 12)
    assert len(cold[0].notes) == damaged
    assert under_way(cache) == []
    on_disk = np.load(stores(cache)[0] / "samples.npy", mmap_mode="r")
    np.testing.assert_array_equal(on_disk, cold[1].samples)
    assert stores(cache)[0].name == cold[1].key


def test_samples_stay_on_disk_and_cannot_be_written(images, cache):
    """A mapping that could be written would count against the machine's memory in full."""
    fill(images, cache)
    store = fill(images, cache)[1]
    assert store.on_disk
    mapped = [line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("samples.npy")]
    assert mapped and all(line.split()[1] == "r--s" for line in mapped)


@pytest.mark.parametrize("how", ["touched", "moved", "copied", "linked"])
def test_the_same_contents_are_read_but_not_decoded_again(images, cache, work, how):
    damage(images)
    cold = fill(images, cache)
    other = images.with_name("other")
    if how == "touched":
        other = images
        os.utime(images / "a" / "2.png", ns=(1, 1))
    elif how == "moved":
        images.rename(other)
    elif how == "copied":
        shutil.copytree(images, other)
    else:
        for path in images.rglob("*.png"):
            link = other / path.relative_to(images)
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
    work.update(read=0, decoded=0)
    assert same(cold, fill(other, cache))
    read = 0 if how == "linked" else 12
    assert work == {"read": read, "decoded": 0}
    assert same(cold, fill(other, cache))
    assert work == {"read": read, "decoded": 0}  # the new place is remembered
    assert len(stores(cache)) == 1


def test_changed_contents_are_decoded_anew(images, cache):
    cold = fill(images, cache)
    save(images / "a" / "0.png", 99)
    warm = fill(images, cache)
    assert warm[1].key != cold[1].key
    assert same(warm, fill(images, None))
    assert len(stores(cache)) == 2


def test_a_change_that_leaves_size_and_time_as_they_were_goes_unnoticed(tmp_path, cache):
    """The price of not reading the files: documented, and not to be found by accident."""
    for number in range(2):
        save(tmp_path / "images" / f"{number}.bmp", number)
    domain = unlabeled_domain(tmp_path / "images", ("a", "b"), Settings())
    cold = fill_store(domain, SIZE, cache=cache)
    path = tmp_path / "images" / "0.bmp"
    before = path.stat()
    path.write_bytes(path.read_bytes()[:-1] + b"\0")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert same(cold, fill_store(domain, SIZE, cache=cache))


def test_key_is_of_contents_their_order_and_the_size(images, cache):
    domain = labeled_domain(images, Settings())
    keys = {fill_store(domain, size, cache=cache)[1].key for size in ((12, 10), (10, 12), (8, 8))}
    turned = fill_store(domain.keep(np.arange(12)[::-1]), SIZE, cache=cache)
    keys.add(turned[1].key)
    assert len(keys) == 4
    assert torch.equal(turned[1].samples.flip(0), fill(images, cache)[1].samples)


def test_key_of_arrays():
    array = np.arange(48, dtype=np.uint8).reshape(4, 2, 2, 3)
    stored = [
        fill_store(unlabeled_domain(x, (0, 1), Settings()), size)[1].key
        for x, size in [
            (array, (2, 2)),
            (array.copy(), (2, 2)),
            (array[::-1], (2, 2)),
            (array.reshape(4, 1, 4, 3), (1, 4)),
            (array.reshape(4, 12).astype(np.float32), (0, 0)),
        ]
    ]
    assert stored[0] == stored[1] and len(set(stored)) == 4


def test_arrays_are_never_cached(cache):
    fill_store(unlabeled_domain(np.zeros((4, 8, 8), np.uint8), (0, 1), Settings()), (8, 8), cache=cache)
    assert not cache.exists()


def cut(path: Path, by: int) -> None:
    path.write_bytes(path.read_bytes()[:-by])


def flip_bit(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGE = {
    "samples cut": lambda store: cut(store / "samples.npy", 1),
    "samples cut to the header": lambda store: cut(store / "samples.npy", 12 * 12 * 10 * 3),
    "samples too long": lambda store: (store / "samples.npy").write_bytes((store / "samples.npy").read_bytes() + b"0"),
    "samples empty": lambda store: (store / "samples.npy").write_bytes(b""),
    "samples garbled": lambda store: (store / "samples.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{'descr'"),
    "samples of another type": lambda store: np.save(store / "samples.npy", np.zeros((12, *SIZE, 3), np.float32)),
    "a bit of a sample changed": lambda store: flip_bit(store / "samples.npy", -1000),
    "a checksum changed": lambda store: flip_bit(store / "checksums.npy", -1),
    "checksums cut": lambda store: cut(store / "checksums.npy", 3),
    "checksums empty": lambda store: (store / "checksums.npy").write_bytes(b""),
    "samples gone": lambda store: (store / "samples.npy").unlink(),
    "json cut": lambda store: cut(store / "store.json", 4),
    "json of something else": lambda store: (store / "store.json").write_text("[1]"),
    "json binary": lambda store: (store / "store.json").write_bytes(b"\xff\xfe\x00"),
    "json wrong": lambda store: (store / "store.json").write_text(
        json.dumps({"files": 12, "size": SIZE, "unreadable": {"x": 1}})
    ),
    "json gone": lambda store: (store / "store.json").unlink(),
    "all gone": shutil.rmtree,
}


@pytest.mark.parametrize("how", DAMAGE)
def test_a_damaged_store_is_built_again(images, cache, work, how):
    cold = fill(images, cache)
    plain = (cold[0], Store(cold[1].samples.clone(), cold[1].key))
    DAMAGE[how](stores(cache)[0])
    work.update(read=0, decoded=0)
    assert same(plain, fill(images, cache))
    assert work["decoded"] == 12
    assert same(plain, fill(images, cache))
    assert work["decoded"] == 12


def test_a_store_of_an_early_version_has_no_checksums(images, cache, work):
    cold = fill(images, cache)
    (stores(cache)[0] / "checksums.npy").unlink()
    work.update(read=0, decoded=0)
    assert same(cold, fill(images, cache)) and work["decoded"] == 0


def test_of_a_large_store_some_rows_are_looked_at():
    samples = np.arange(100, dtype=np.uint8).reshape(20, 5)
    checksums = np.array([zlib.crc32(row) for row in samples], dtype=np.uint32)
    assert not damaged_rows(samples, checksums)
    changed = samples ^ (np.arange(20) == 7)[:, None].astype(np.uint8)
    assert damaged_rows(changed, checksums) and not damaged_rows(changed, checksums, most_bytes=20)
    assert damaged_rows(samples ^ np.uint8(1), checksums, most_bytes=20) and damaged_rows(samples[1:], checksums)


@pytest.mark.parametrize("entry", [b"", b"..", b"\xff", b"0" * 64, b"/"])
def test_a_damaged_index_is_passed_over(images, cache, work, entry):
    cold = fill(images, cache)
    for path in (cache / "index").iterdir():
        path.write_bytes(entry)
    work.update(decoded=0)
    assert same(cold, fill(images, cache))
    assert work["decoded"] == 0
    assert len(stores(cache)) == 1


def test_a_file_that_could_not_be_read_is_tried_again(images, cache, work, monkeypatch):
    domain = labeled_domain(images, Settings())
    hidden = images / "a" / "0.png"
    hidden.rename(images / "hidden")
    without, _ = fill_store(domain, SIZE, cache=cache)
    assert "skipped 1 of 12 images as unreadable (a/0.png: No such file or directory)" in without.notes[0]
    assert fill_store(domain, SIZE, cache=cache)[0].notes == without.notes
    (images / "hidden").rename(hidden)
    assert same(fill_store(domain, SIZE, cache=cache), fill(images, None))


def test_a_file_changed_while_it_is_decoded(images, cache, monkeypatch):
    """The store is of the bytes that were decoded, and the old signature is not made to point at it."""
    domain = labeled_domain(images, Settings())
    signature = files_signature(domain.items, Rendering(SIZE))
    render = decode.render

    def change(file, *size):
        save(images / "b" / "11.png", 77, side=20)
        return render(file, *size)

    monkeypatch.setattr(decode, "render", change)
    fill_store(domain, SIZE, cache=cache)
    monkeypatch.undo()
    assert not (cache / "index" / signature).exists()
    assert same(fill(images, cache), fill(images, None))


def slow_build(images: Path, cache: Path, log: Path, pause: Callable[[], object]) -> None:
    """What a child does: decode, with a pause and a line in the log for each image."""
    render = decode.render

    def slow(file: io.BytesIO, *size: int) -> np.ndarray:
        with log.open("a") as lines:
            lines.write(f"{os.getpid()}\n")
        pause()
        return render(file, *size)

    decode.render = slow
    found = Cache(cache).decoded(labeled_domain(images, Settings()).items, Rendering(SIZE))
    (log.parent / f"{os.getpid()}.key").write_text(f"{found.key} {int(found.pixels.sum())}")


def start(*args) -> multiprocessing.Process:
    child = FORK.Process(target=slow_build, args=args, daemon=True)
    child.start()
    return child


def wait_for(condition) -> None:
    end = time.monotonic() + LIMIT
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.mark.parametrize("locks", [True, False])
def test_two_processes_build_at_once(images, cache, tmp_path, monkeypatch, locks):
    log = tmp_path / "log"

    def pause() -> None:
        time.sleep(0.05)
        if not locks:  # none is done before all have begun
            wait_for(lambda: len(set(log.read_text().splitlines())) == 3)

    if not locks:  # as on a network disk that knows none: all decode, and the first one's store serves

        def refuse(*_: object) -> None:
            raise OSError(errno.ENOLCK, "No locks available")

        monkeypatch.setattr("fcntl.flock", refuse)
    children = [start(images, cache, log, pause) for _ in range(3)]
    for child in children:
        child.join(LIMIT)
        assert child.exitcode == 0
    _, store = fill(images, None)
    for child in children:
        assert (tmp_path / f"{child.pid}.key").read_text() == f"{store.key} {int(store.samples.sum())}"
    assert len(log.read_text().splitlines()) == (12 if locks else 36)
    assert len(stores(cache)) == 1 and under_way(cache) == []


def test_what_a_killed_build_leaves_is_removed_and_a_live_one_is_not(images, cache, tmp_path):
    for name in ("killed", "alive"):
        save(tmp_path / name / "a" / "0.png", 1)
        save(tmp_path / name / "b" / "1.png", 2)
    save(tmp_path / "alive" / "b" / "2.png", 3)
    resume = tmp_path / "resume"
    killed = start(tmp_path / "killed", cache, tmp_path / "k", lambda: wait_for(resume.exists))
    wait_for(lambda: (tmp_path / "k").exists())
    alive = start(tmp_path / "alive", cache, tmp_path / "l", lambda: wait_for(resume.exists))
    wait_for(lambda: (tmp_path / "l").exists())
    assert len(under_way(cache)) == 2
    os.kill(killed.pid, signal.SIGKILL)
    killed.join(LIMIT)
    fill(images, cache)
    assert len(under_way(cache)) == 1
    resume.touch()
    alive.join(LIMIT)
    assert alive.exitcode == 0 and under_way(cache) == []
    assert same(fill(tmp_path / "alive", cache), fill(tmp_path / "alive", None))
    assert same(fill(tmp_path / "killed", cache), fill(tmp_path / "killed", None))


def test_ctrl_c_leaves_nothing_under_way(images, cache, monkeypatch):
    def press(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(decode, "render", press)
    with pytest.raises(KeyboardInterrupt):
        fill(images, cache)
    assert stores(cache) == under_way(cache) == []


def test_to_wait_for_another_process_is_told(images, cache, tmp_path, monkeypatch):
    monkeypatch.setattr("unihssl.files.PATIENCE_SECONDS", 0.05)
    resume, told = tmp_path / "resume", []

    def waiting(*numbers: int) -> None:
        told.append(numbers)
        resume.touch()

    child = start(images, cache, tmp_path / "log", lambda: wait_for(resume.exists))
    wait_for((tmp_path / "log").exists)
    domain = labeled_domain(images, Settings())
    fill_store(domain, SIZE, lambda *_: pytest.fail("decoded twice"), cache, waiting)
    child.join(LIMIT)
    assert child.exitcode == 0 and told == [(0, 12)]


def test_ctrl_c_ends_the_wait_for_another_process(images, cache, tmp_path, monkeypatch):
    """Whether it comes before the wait is announced or after."""
    resume = tmp_path / "resume"
    child = start(images, cache, tmp_path / "log", lambda: wait_for(resume.exists))
    wait_for((tmp_path / "log").exists)
    for patience in (LIMIT, 0):
        monkeypatch.setattr("unihssl.files.PATIENCE_SECONDS", patience)
        timer = threading.Timer(0.3, signal.raise_signal, [signal.SIGINT])
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            fill(images, cache)
        timer.join()
    resume.touch()
    child.join(LIMIT)
    assert child.exitcode == 0 and len(stores(cache)) == 1 and under_way(cache) == []


def uncached_note(images: Path, cache: Path) -> str:
    """The note of a fill that fell back to memory, once it is found right in all else."""
    plain, (domain, store) = fill(images, None), fill(images, cache)
    *notes, printed = sorted(domain.notes, key=lambda note: "not cached" in note)
    assert same(plain, (dataclasses.replace(domain, notes=tuple(notes)), store))
    return printed


@pytest.mark.parametrize("damaged", [False, True])
def test_a_folder_that_cannot_be_written(images, tmp_path, damaged):
    if damaged:
        damage(images)
    (tmp_path / "file").write_text("own")
    printed = uncached_note(images, tmp_path / "file" / "cache")
    assert f"{images}: decoded images are not cached: {tmp_path}/file/cache: Not a directory (" in printed
    assert (tmp_path / "file").read_text() == "own"
    assert "set cache to another folder" in uncached_note(images, Path("/proc/none"))


@pytest.mark.parametrize("when", ["posix_fallocate", "pwrite", "fsync"])
def test_a_full_disk(images, cache, monkeypatch, when):
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, when, full)
    assert "decoded images are not cached" in (printed := uncached_note(images, cache))
    assert "No space left on device" in printed
    assert stores(cache) == under_way(cache) == []


def test_a_cache_that_may_only_be_read_still_serves(images, cache, work, monkeypatch):
    cold = fill(images, cache)

    def closed(*_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    for name in ("mkdir", "replace", "rename"):
        monkeypatch.setattr(Path, name, closed)
    work.update(decoded=0)
    assert same(cold, fill(images, cache))
    os.utime(images / "a" / "0.png", ns=(1, 1))
    assert same(cold, fill(images, cache))
    assert work["decoded"] == 0


def anonymous_bytes() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("RssAnon:")[2].split()[0]) * 1024


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="memory is asked of Linux")
def test_building_needs_little_memory(tmp_path, cache):
    save(tmp_path / "images" / "0.png", 0)
    for number in range(1, 3000):
        os.link(tmp_path / "images" / "0.png", tmp_path / "images" / f"{number}.png")
    domain = unlabeled_domain(tmp_path / "images", ("a", "b"), Settings())
    before, peak = anonymous_bytes(), []
    for _ in range(2):
        _, store = fill_store(domain, (128, 128), lambda *_: peak.append(anonymous_bytes()), cache)
        peak.append(anonymous_bytes())
    assert store.samples.numel() == 3000 * 128 * 128 * 3
    assert len(peak) > 100 and max(peak) - before < store.samples.numel() / 5


def test_rows_are_handed_out_in_ranges():
    told: list[tuple[int, int]] = []
    parts = decode.spread(lambda rows: list(rows), 100_000, lambda *done: told.append(done))
    assert [row for part in parts for row in part] == list(range(100_000))
    assert 300 < len(parts) < 2000
    assert told[-1] == (100_000, 100_000) and [d for d, _ in told] == sorted(d for d, _ in told)


def test_where_the_cache_is(monkeypatch, tmp_path):
    monkeypatch.setenv("UNIHSSL_CACHE", "/elsewhere")
    assert cache_folder("") == Path("/elsewhere")
    assert cache_folder("/here") == Path("/here")
    assert cache_folder("none") is None
    monkeypatch.setenv("UNIHSSL_CACHE", "none")
    assert cache_folder("") is None
    monkeypatch.delenv("UNIHSSL_CACHE")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_folder("") == tmp_path / ".cache" / "unihssl"
    assert cache_folder("~/own") == tmp_path / "own"
    monkeypatch.setenv("XDG_CACHE_HOME", "/xdg")
    assert cache_folder("") == Path("/xdg/unihssl")


@pytest.mark.parametrize("requested", ["cache", "none"])
def test_training_data_go_through_the_cache_that_was_asked_for(own_folders, tmp_path, monkeypatch, requested):
    folders = own_folders()
    monkeypatch.setenv("UNIHSSL_CACHE", str(tmp_path / "default"))
    settings = Settings(cache="none" if requested == "none" else str(tmp_path / "chosen"))
    pair = load_pair(*read_domains(*folders, settings), settings, None, lambda name: lambda done, total: None)
    assert pair.labeled.store.key != pair.unlabeled.store.key
    assert not (tmp_path / "default").exists()
    assert (tmp_path / "chosen").exists() == (requested == "cache")
    if requested == "cache":
        assert len(stores(tmp_path / "chosen")) == 2


def test_the_fingerprint_reads_keys_and_no_samples(images):
    domain = labeled_domain(images, Settings())
    unreachable = torch.empty((12, *SIZE, 3), dtype=torch.uint8, device="meta")

    def mark(key: str, cache: str = "") -> str:
        part = Part(domain, Store(unreachable, key), Split(np.arange(10), np.arange(10, 12)))
        return fingerprint(Settings(cache=cache), Settings(), DomainPair(part, part, SIZE))

    assert mark("one") == mark("one", cache="none") != mark("two")
