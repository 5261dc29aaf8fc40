"""`unihssl data`"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unihssl.cli.catalog_output import describe, how_to_get, row, show, summary
from unihssl.cli.data_report import show_report
from unihssl.cli.options import JSON, SETTINGS, Command, as_options, print_json, split_setting

if TYPE_CHECKING:
    from unihssl.cli.display import TerminalDisplay
    from unihssl.data.catalog.check import DomainCheck
    from unihssl.data.catalog.dataset import CatalogDomain, Dataset

NAME = typer.Argument(metavar="NAME", help="Data set; `unihssl data list` names them.")
ROOT = typer.Option(Path("data"), help="Folder of the data set, or its parent, or an archive as downloaded.")
MODEL_SIDE = 224  # of most backbones: a report shares its decoded images with their runs
DOMAINS = typer.Option("", help="Only these domains, separated by commas.", show_default="all")


def register(app: typer.Typer) -> None:
    data = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    for command in (list_, check, prepare, download, report):
        data.command(command.__name__.rstrip("_"), cls=Command)(command)
    app.add_typer(data, name="data", help="Your data: report. The benchmark data sets: list, check, prepare, download.")


def list_(json: bool = JSON) -> None:
    """List the benchmark data sets: domains, classes, images, the paper's pairs, licence and source."""
    from unihssl.data.catalog import DATASETS

    rows = [summary(dataset) for dataset in DATASETS.values()]
    if json:
        print_json(rows)
    else:
        typer.echo("\n\n".join(map(describe, rows)))


def check(name: str = NAME, root: Path = ROOT, domains: str = DOMAINS, json: bool = JSON) -> None:
    """Compare what is under --root with the published data set, class by class.

    Understands the layouts in use: with or without `images/`, `Real World` or `RealWorld`, class folders or list
    files, one wrapping folder, and archives as downloaded, which are unpacked beside themselves. The exit code is 0
    only if every count matches. USPS may be absent from digits, unless --domains names it.
    """
    from unihssl.data.catalog.check import where
    from unihssl.data.source import counted
    from unihssl.errors import UserError

    dataset, wanted = _chosen(name, domains)
    results = _checked(dataset, root, wanted, json)
    required = results if domains else [r for r in results if not r.may_be_absent]
    problems = [problem for result in required for problem in result.problems]
    if json:
        counts = {r.domain.name: row(r) for r in results}
        print_json({"name": dataset.name, "domains": counts, "problems": problems})
    else:
        show(dataset, root, results)
    if problems:
        nothing = all(r.found is None for r in results)
        differences = "nothing found" if nothing else counted(len(problems), "difference")
        raise UserError(f"{dataset.name}: {differences} {where(root)}; first: {problems[0]}")


def prepare(
    name: str = NAME,
    root: Path = ROOT,
    domains: str = DOMAINS,
    image_size: int = typer.Option(256, min=8, max=2048, help="Side of the stored images; 256 suits a model of 224."),
    cache: str = typer.Option("", help="Folder for decoded images.", show_default="~/.cache/unihssl"),
    json: bool = JSON,
) -> None:
    """Check a data set, then decode its images into the cache, so that training starts at once.

    If interrupted, rerun it: finished domains are kept. An image takes 3 bytes per pixel: 192 KiB at 256.
    """
    from unihssl.cli.display import TerminalDisplay
    from unihssl.data.cache import cache_folder
    from unihssl.data.catalog.check import where
    from unihssl.errors import UserError

    folder = cache_folder(cache)
    if folder is None:
        raise UserError("the cache is switched off (none): there is nowhere to keep decoded images; pass --cache DIR")
    dataset, wanted = _chosen(name, domains)
    results = [r for r in _checked(dataset, root, wanted, json) if domains or not r.may_be_absent]
    missing = [result for result in results if result.unusable]
    if missing:
        if not json:
            show(dataset, root, results)
        raise UserError(f"{dataset.name}: {missing[0].problems[0]}, {where(root)}; nothing was decoded")
    with TerminalDisplay(quiet=json) as display:
        rows = {result.domain.name: _decode(result, image_size, folder, display, json) for result in results}
    if json:
        print_json({"name": dataset.name, "cache": str(folder), "domains": rows})


def download(name: str = NAME, root: Path = ROOT, json: bool = JSON) -> None:
    """Download a data set, where host and licence allow it, and check it; for others, say where to get them.

    If interrupted, rerun it: the download is resumed.
    """
    from unihssl.cli.display import TerminalDisplay
    from unihssl.data.catalog.archives import stem
    from unihssl.data.catalog.download import fetch
    from unihssl.errors import UserError

    dataset, domains = _chosen(name, "")
    if not dataset.downloads:
        typer.echo(how_to_get(dataset), err=json)
        raise UserError(f"{dataset.name}: cannot be downloaded by a command; {dataset.get}: {dataset.source}")
    if not any(result.problems for result in _checked(dataset, root, domains, json)):
        return check(name, root, "", json)
    typer.echo(f"{dataset.title}: licence: {dataset.licence}; see {dataset.source}", err=True)
    with TerminalDisplay(quiet=json) as display:
        for remote in dataset.downloads:
            folder = root / (stem(Path(remote.file)) or remote.file)
            if folder.is_dir():
                note = f"{folder}: {remote.file} was unpacked before; delete the folder to download it again"
            else:
                path = fetch(remote, root, display.counter(f"downloading {remote.file}"))
                how = "" if remote.md5 else " (no published checksum: checked by length and class counts)"
                note = f"{path}: {path.stat().st_size:,} bytes{how}"
            typer.echo(note, err=True)
    check(name, root, "", json)


def report(
    labeled: str = typer.Option("", help="Labeled domain, as for `unihssl train`."),
    unlabeled: list[str] = typer.Option([], help="Unlabeled domain; several sources are one domain."),
    settings: list[str] = SETTINGS,
    json: bool = JSON,
) -> None:
    """Look at two domains before training: classes, sizes, bit depth, grey levels, copies, and leaks into the test.

    Copies are byte-identical files, and images that look almost the same. The split is that of a run with the same
    settings (`--set seed=1`).
    """
    from unihssl.cli.display import TerminalDisplay
    from unihssl.config import Settings, parse
    from unihssl.data.pair import load_pair, read_domains, vector_size
    from unihssl.data.report import pair_report
    from unihssl.errors import UserError, worded

    (values,) = parse(dict(map(split_setting, settings)), (Settings,))
    source, target = read_domains(labeled, unlabeled if len(unlabeled) > 1 else "".join(unlabeled), values)
    if vector_size(source):
        raise UserError("the report is on images, and these are feature vectors")
    with TerminalDisplay(quiet=json) as display:
        pair = load_pair(source, target, values, MODEL_SIDE, display.counter)
        found = pair_report(pair, values, display.counter("comparing images"))
        for domain in (found["labeled"], found["unlabeled"]):
            domain["notes"] = [worded(note, as_options) for note in domain["notes"]]
        found["warnings"] = [worded(warning, as_options) for warning in found["warnings"]]
    if json:
        return print_json(found)
    show_report(found)
    for text in (*found["labeled"]["notes"], *found["unlabeled"]["notes"]):
        typer.echo(f"note: {text}", err=True)
    for text in found["warnings"]:
        typer.echo(f"warning: {text}", err=True)


def _chosen(name: str, domains: str) -> "tuple[Dataset, list[CatalogDomain]]":
    """The data set and its domains by name."""
    from unihssl.data import catalog

    dataset = catalog.get(name)
    return dataset, [dataset.domain(d.strip()) for d in domains.split(",")] if domains else list(dataset.domains)


def _decode(result: "DomainCheck", side: int, cache: Path, display: "TerminalDisplay", quiet: bool) -> dict[str, Any]:
    """Decode a domain into the cache, if it is made of image files, and report it."""
    import time

    import numpy as np

    from unihssl.data.cache import Cache
    from unihssl.data.rendering import Rendering
    from unihssl.data.source import counted
    from unihssl.errors import RunInterruptedError, UserError

    name, source = result.domain.name, result.found
    assert source is not None
    for problem in result.problems:
        typer.echo(f"warning: {problem}", err=True)
    images, new, unreadable, begin = len(source), False, {}, time.monotonic()
    if not isinstance(source.items, np.ndarray):
        waiting = display.counter(f"waiting for another process that decodes {name}")
        try:
            decoded = Cache(cache).decoded(
                source.items, Rendering((side, side)), display.counter(f"decoding {name}"), waiting
            )
        except KeyboardInterrupt:
            raise RunInterruptedError("stopped; rerun to continue") from None
        except OSError as error:
            room = f"{cache}: cannot keep {name} ({images * side * side * 3:,} bytes)"
            raise UserError(f"{room}: {error.strerror or error}; pass another --cache DIR") from None
        images, new = len(decoded.pixels), not decoded.found
        unreadable = {source.names[row]: why for row, why in decoded.unreadable.items()}
    if not quiet:
        how = f"decoded in {time.monotonic() - begin:.1f} s" if new else "ready before"
        skipped = f", {len(unreadable)} unreadable" if unreadable else ""
        typer.echo(f"{name}: {counted(images, 'image')}{skipped}, {how}")
    return {"images": images, "unreadable": unreadable, "new": new}


def _checked(
    dataset: "Dataset", root: Path, domains: "Sequence[CatalogDomain]", quiet: bool
) -> "tuple[DomainCheck, ...]":
    """Check the domains, with progress bars for archives that are unpacked."""
    from unihssl.cli.display import TerminalDisplay
    from unihssl.data.catalog.check import check as compare

    with TerminalDisplay(quiet=quiet) as display:
        results = compare(dataset, root, domains, display.counter)
    missing = any(result.found is None for result in results)  # some domains come with the package
    if missing and not root.exists() and not quiet:
        typer.echo(f"{root}: there is no such folder or archive; pass --root", err=True)
    return results
