"""`unihssl data`"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from unihssl.cli.data_report import describe, row, show
from unihssl.cli.options import JSON

if TYPE_CHECKING:
    from unihssl.data.catalog.check import DomainCheck
    from unihssl.data.catalog.dataset import CatalogDomain, Dataset
    from unihssl.data.catalog.prepare import Prepared
    from unihssl.training.display import Display

NAME = typer.Argument(metavar="NAME", help="Data set; `unihssl data list` names them.")
ROOT = typer.Option(Path("data"), help="Folder of the data set, or its parent, or an archive as downloaded.")
DOMAINS = typer.Option("", help="Only these domains, separated by commas.", show_default="all")


def register(app: typer.Typer) -> None:
    data = typer.Typer(no_args_is_help=True, rich_markup_mode="markdown")
    for command in (list_, check, prepare, download):
        data.command(command.__name__.rstrip("_"))(command)
    app.add_typer(data, name="data", help="The paper's data sets: list, check, prepare, download.")


def list_(json: bool = JSON) -> None:
    """List the benchmark data sets: domains, classes, images, the paper's pairs, licence and source."""
    import json as json_format

    from unihssl.data.catalog import DATASETS

    keys = ("name", "domains", "classes", "images", "pairs", "licence", "source")
    rows: list[dict[str, Any]] = []
    for d in DATASETS.values():
        parts = {x.name: {"short": x.short, "images": x.total} for x in d.domains}
        values = (d.name, parts, len(d.classes), d.total, list(d.pairs), d.licence, d.source)
        rows.append(dict(zip(keys, values, strict=True)) | {"download": bool(d.downloads)})
    if json:
        typer.echo(json_format.dumps(rows))
        return
    typer.echo("\n\n".join(map(describe, rows)))


def check(name: str = NAME, root: Path = ROOT, domains: str = DOMAINS, json: bool = JSON) -> None:
    """Compare what is under --root with the published data set, class by class.

    Understands the layouts in use: with or without `images/`, `Real World` or `RealWorld`, class folders or list
    files, one wrapping folder, and archives as downloaded, which are unpacked beside themselves. The exit code is 0
    only if every count matches.
    """
    import json as json_format

    from unihssl.data.catalog.check import where
    from unihssl.data.source import counted
    from unihssl.errors import UserError

    dataset, wanted = _chosen(name, domains)
    results = _checked(dataset, root, wanted, json)
    problems = [problem for result in results for problem in result.problems]
    if json:
        counts = {r.domain.name: row(r) for r in results}
        typer.echo(json_format.dumps({"name": dataset.name, "domains": counts, "problems": problems}))
    else:
        show(dataset, root, results)
    if problems:
        nothing = all(r.found is None for r in results)
        summary = "nothing found" if nothing else counted(len(problems), "difference")
        raise UserError(f"{dataset.name}: {summary} {where(root)}; first: {problems[0]}")


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
    import json as json_format
    import time

    from unihssl.data.cache import cache_folder
    from unihssl.data.catalog.check import where
    from unihssl.data.source import counted
    from unihssl.errors import RunInterruptedError, UserError
    from unihssl.training.display import Display

    folder = cache_folder(cache)
    if folder is None:
        raise UserError("the cache is switched off (none): there is nowhere to keep decoded images; pass --cache DIR")
    dataset, wanted = _chosen(name, domains)
    results = _checked(dataset, root, wanted, json)
    missing = [result for result in results if result.unusable]
    if missing:
        if not json:
            show(dataset, root, results)
        raise UserError(f"{dataset.name}: {missing[0].problems[0]}, {where(root)}; nothing was decoded")
    rows = {}
    with Display(quiet=json) as display:
        for result in results:
            for problem in result.problems:
                typer.echo(f"warning: {problem}", err=True)
            begin = time.monotonic()
            try:
                done = _decode(dataset, result, image_size, folder, display)
            except KeyboardInterrupt:
                raise RunInterruptedError("stopped; rerun to continue") from None
            rows[result.domain.name] = {"images": done.images, "unreadable": done.unreadable, "new": done.new}
            if not json:
                how = f"decoded in {time.monotonic() - begin:.1f} s" if done.new else "ready before"
                skipped = f", {len(done.unreadable)} unreadable" if done.unreadable else ""
                typer.echo(f"{result.domain.name}: {counted(done.images, 'image')}{skipped}, {how}")
    if json:
        typer.echo(json_format.dumps({"name": dataset.name, "cache": str(folder), "domains": rows}))


def download(name: str = NAME, root: Path = ROOT, json: bool = JSON) -> None:
    """Download a data set, where host and licence allow it, and check it; for others, say where to get them.

    If interrupted, rerun it: the download is resumed.
    """
    from unihssl.data.catalog.archives import stem
    from unihssl.data.catalog.check import how_to_get
    from unihssl.data.catalog.download import fetch
    from unihssl.errors import UserError
    from unihssl.training.display import Display

    dataset, domains = _chosen(name, "")
    if not dataset.downloads:
        typer.echo(how_to_get(dataset), err=json)
        raise UserError(f"{dataset.name}: cannot be downloaded by a command; {dataset.get}: {dataset.source}")
    if not any(result.problems for result in _checked(dataset, root, domains, json)):
        return check(name, root, "", json)
    typer.echo(f"{dataset.title}: licence: {dataset.licence}; see {dataset.source}", err=True)
    with Display(quiet=json) as display:
        for remote in dataset.downloads:
            folder = root / (stem(Path(remote.file)) or remote.file)
            if folder.is_dir():
                typer.echo(
                    f"{folder}: {remote.file} was unpacked before; delete the folder to download it again", err=True
                )
                continue
            path = fetch(remote, root, display.counter(f"downloading {remote.file}"))
            how = "" if remote.md5 else " (no published checksum: checked by length and class counts)"
            typer.echo(f"{path}: {path.stat().st_size:,} bytes{how}", err=True)
    check(name, root, "", json)


def _chosen(name: str, domains: str) -> "tuple[Dataset, list[CatalogDomain]]":
    """The data set and its domains by name."""
    from unihssl.data import catalog

    dataset = catalog.get(name)
    return dataset, [dataset.domain(d.strip()) for d in domains.split(",")] if domains else list(dataset.domains)


def _decode(dataset: "Dataset", result: "DomainCheck", side: int, cache: Path, display: "Display") -> "Prepared":
    """Decode a domain into the cache."""
    from unihssl.data.catalog.prepare import prepare

    domain, source = result.domain, result.found
    assert source is not None
    decoding = display.counter(f"decoding {domain.name}")
    waiting = display.counter(f"waiting for another process that decodes {domain.name}")
    return prepare(dataset, domain, source, side, cache, decoding, waiting)


def _checked(
    dataset: "Dataset", root: Path, domains: "Sequence[CatalogDomain]", quiet: bool
) -> "tuple[DomainCheck, ...]":
    """Check the domains, with progress bars for archives that are unpacked."""
    from unihssl.data.catalog.check import check as compare
    from unihssl.training.display import Display

    with Display(quiet=quiet) as display:
        results = compare(dataset, root, domains, display.counter)
    missing = any(result.found is None for result in results)  # some domains come with the package
    if missing and not root.exists() and not quiet:
        typer.echo(f"{root}: there is no such folder or archive (--root says where to look)", err=True)
    return results
