"""What is in two domains before anything is trained: classes, sizes, depth, grey levels, copies and leaks."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from unihssl.config import Settings
from unihssl.data.cache import cache_folder
from unihssl.data.copies import contents, in_both
from unihssl.data.decode import Progress, spread
from unihssl.data.grey_levels import grey_range, level_counts
from unihssl.data.images import size_if_readable
from unihssl.data.intensity import GREYS, saved_windows
from unihssl.data.near_copies import Looks, looks, near_copies
from unihssl.data.pair import DomainPair, Part
from unihssl.data.source import counted
from unihssl.data.survey import survey
from unihssl.errors import Setting

EXAMPLES = 5


def pair_report(pair: DomainPair, settings: Settings, progress: Progress | None = None) -> dict[str, Any]:
    """A report on both domains, as plain data: see docs/your-data.md for what is in it.

    >>> pair_report(load_pair(*read_domains("a", "b", settings), settings, 224, silent), settings)["warnings"]
    """
    parts = list(pair.parts.values())
    found = [looks(part.store) for part in parts]
    content = contents([part.domain for part in parts])
    near = near_copies(found, progress).numpy()
    everything = [digest for domain in content for digest in domain]
    near = near[[everything[i] != everything[j] for i, j in near]]  # exact copies are counted apart
    first = len(parts[0].domain)
    report: dict[str, Any] = {
        role: _domain_report(part, look, digests, settings)
        for (role, part), look, digests in zip(pair.parts.items(), found, content, strict=True)
    }
    for role, inside in (("labeled", near[:, 1] < first), ("unlabeled", near[:, 0] >= first)):
        report[role]["near_copies"] = len(np.unique(near[inside]))
    across = near[(near[:, 0] < first) & (near[:, 1] >= first)]
    report["across"] = {"copies": in_both(*content), "near_copies": len(np.unique(across[:, 1]))}
    report["leaks"] = _leaks(parts, near)
    report["warnings"] = _warnings(report)
    return report


def _domain_report(part: Part, look: Looks, digests: Sequence[bytes], settings: Settings) -> dict[str, Any]:
    domain = part.domain
    levels = level_counts(part.store, np.arange(len(domain)))
    low, high = grey_range(levels)
    counts = {
        str(name): {which: int((domain.labels[getattr(part.split, which)] == c).sum()) for which in ("train", "test")}
        for c, name in enumerate(domain.classes)
    }
    return {
        "name": domain.name,
        "images": len(domain),
        "sources": {} if domain.sources is None else dict(Counter(domain.sources.tolist())),
        "classes": counts,
        "unknown": int((~domain.known).sum()),
        "target_labels": _target_labels(part),
        "sizes": _sizes(domain.items),
        "stored": _stored(part, settings),
        "windows": saved_windows(part.windows),
        "grey": {"low": low, "high": high, "mean": float(levels @ np.arange(GREYS) / levels.sum())},
        "flat": int(look.flat.sum()),
        "copies": len(digests) - len(set(digests)),
        "notes": list(domain.notes),
    }


def _target_labels(part: Part) -> dict[str, int]:
    """How many training samples of each class have target labels; empty where none were given."""
    domain = part.domain
    if domain.target_labels is None:
        return {}
    labels = domain.target_labels[part.split.train]
    return {str(name): int((labels == c).sum()) for c, name in enumerate(domain.classes)}


def _sizes(items: Sequence[Path] | np.ndarray) -> dict[str, Any]:
    """Smallest, median and largest (height, width), by area, and how many different ones there are."""
    if isinstance(items, np.ndarray):
        found = [items.shape[1:3]] * len(items)
    else:
        sizes = spread(lambda rows: [size_if_readable(items[r]) for r in rows], len(items))
        found = [size for part in sizes for size in part if size]
    ordered = sorted(found, key=lambda size: (size[0] * size[1], size))
    if not ordered:
        return {"different": 0}
    picked = {"smallest": ordered[0], "median": ordered[len(ordered) // 2], "largest": ordered[-1]}
    return {name: list(size) for name, size in picked.items()} | {"different": len(set(found))}


def _stored(part: Part, settings: Settings) -> dict[str, int]:
    """How many images are stored in which way; those of more than 8 bits by their kind."""
    found = survey(part.domain, settings.channels, cache_folder(settings.cache), intensity=settings.intensity)
    kinds = Counter(found.measured.kinds.tolist())
    plain = len(part.domain) - kinds.total()
    return ({"8 bits": plain} if plain else {}) | dict(sorted(kinds.items()))


def _leaks(parts: Sequence[Part], near: np.ndarray) -> dict[str, Any]:
    """Test images of which copies train: exact ones, which are never used, and those that only look alike."""
    names = [
        f"{role} {name}"
        for role, part in zip(("labeled", "unlabeled"), parts, strict=True)
        for name in part.domain.names
    ]
    starts = np.cumsum([0, *(len(part.domain) for part in parts)])
    train = np.concatenate([part.split.train + start for part, start in zip(parts, starts, strict=False)])
    test = np.concatenate([part.split.test + start for part, start in zip(parts, starts, strict=False)])
    both = np.concatenate([near, near[:, ::-1]])
    leaking = both[np.isin(both[:, 0], test) & np.isin(both[:, 1], train)]
    _, once = np.unique(leaking[:, 0], return_index=True)
    examples = [[names[i], names[j]] for i, j in leaking[once[:EXAMPLES]]]
    return {"exact": sum(len(part.split.copies) for part in parts), "near": len(once), "examples": examples}


def _level_warnings(domain: dict[str, Any]) -> list[str]:
    """That few grey levels are used: as a run notes it of training images, else by what all images use."""
    noted = [note.replace("warning: ", "", 1) for note in domain["notes"] if "almost all values share" in note]
    domain["notes"] = [note for note in domain["notes"] if "almost all values share" not in note]  # said once
    used = domain["grey"]["high"] - domain["grey"]["low"] + 1
    few = 2 * used < GREYS
    return noted or [f"{domain['name']}: almost all values share {used} of the {GREYS} grey levels"] * few


def _warnings(report: dict[str, Any]) -> list[str]:
    found, leaks = [], report["leaks"]
    for role in ("labeled", "unlabeled"):
        domain = report[role]
        found += _level_warnings(domain)
        if domain["flat"]:
            found.append(f"{domain['name']}: {counted(domain['flat'], 'image')} of one colour all over (black?)")
    if leaks["near"]:
        test, train = leaks["examples"][0]
        found.append(
            f"{counted(leaks['near'], 'test image')} almost like a training image (first: {test}, like {train}): the "
            f"test results may be too good; remove such copies, or keep groups together with {Setting('group_by')}"
        )
    return found
