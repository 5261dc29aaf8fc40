"""`unihssl data`"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
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
ROOT = typer.Option(Path("data"), help="Folder that holds the data set, or its parent, or an archive as downloaded.")
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

    Understands the layouts that go around: with or without `images/`, `Real World` or `RealWorld`, class folders or
    list files, one wrapping folder, and archives as downloaded, which it unpacks beside themselves. The exit code is
    0 only if every count matches.
    """
    import json as json_format

    from unihssl.data.catalog.check import where
    from unihssl.data.catalog.dataset import counted
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
        least = "nothing found" if not any(r.found for r in results) else counted(len(problems), "difference")
        raise UserError(f"{dataset.name}: {least} {where(root)}; first: {problems[0]}")


def prepare(
    name: str = NAME,
    root: Path = ROOT,
    domains: str = DOMAINS,
    image_size: int = typer.Option(256, min=8, max=2048, help="Side of the stored images; 256 suits a model of 224."),
    cache: str = typer.Option("", help="Folder for decoded images.", show_default="~/.cache/unihssl"),
    json: bool = JSON,
) -> None:
    """Check a data set, then decode every domain once, so that training starts at once.

    If it is interrupted, it goes on where it was when called again. An image takes 3 bytes a pixel: 192 KiB at 256.
    """
    import json as json_format
    import time

    from unihssl.data.cache import cache_folder
    from unihssl.data.catalog.check import where
    from unihssl.data.catalog.dataset import counted
    from unihssl.errors import UserError
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
    with Display(quiet=json) as display, _to_go_on():
        for result in results:
            for problem in result.problems:
                typer.echo(f"warning: {problem}", err=True)
            begin = time.monotonic()
            done = _decoded(dataset, result, image_size, folder, display)
            rows[result.domain.name] = {"images": done.images, "unreadable": done.unreadable, "new": done.new}
            if not json:
                how = f"decoded in {time.monotonic() - begin:.1f} s" if done.new else "ready before"
                skipped = f", {len(done.unreadable)} unreadable" if done.unreadable else ""
                typer.echo(f"{result.domain.name}: {counted(done.images, 'image')}{skipped}, {how}")
    if json:
        typer.echo(json_format.dumps({"name": dataset.name, "cache": str(folder), "domains": rows}))


def download(name: str = NAME, root: Path = ROOT, json: bool = JSON) -> None:
    """Fetch a data set whose host and licence allow it, then check it; says where to get the others.

    A download that was broken off goes on where it was.
    """
    from unihssl.data.catalog.archives import stem
    from unihssl.data.catalog.check import how_to_get
    from unihssl.data.catalog.download import fetch, published
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
                typer.echo(f"{folder}: {remote.file} was unpacked before; delete the folder to fetch it anew", err=True)
                continue
            path = fetch(remote, root, display.counter(f"fetching {remote.file}"))
            how = "" if published(remote) else " (no published checksum: checked by length and class counts)"
            typer.echo(f"{path}: {path.stat().st_size:,} bytes{how}", err=True)
    check(name, root, "", json)


def _chosen(name: str, domains: str) -> "tuple[Dataset, list[CatalogDomain]]":
    from unihssl.data import catalog

    dataset = catalog.get(name)
    return dataset, [dataset.domain(d.strip()) for d in domains.split(",")] if domains else list(dataset.domains)


def _decoded(dataset: "Dataset", result: "DomainCheck", side: int, cache: Path, display: "Display") -> "Prepared":
    """Decode a domain, going on where a stopped call was."""
    from unihssl.data.catalog.prepare import decoded_before, prepare

    domain, found = result.domain, result.found
    assert found is not None
    if before := decoded_before(found, side, cache):
        display.note(f"{domain.name}: {before:,} of {len(found.items):,} images were decoded before; going on")
    decoding = display.counter(f"decoding {domain.name}")
    waiting = display.counter(f"waiting for another process that decodes {domain.name}")
    return prepare(dataset, domain, found, side, cache, decoding, waiting)


@contextmanager
def _to_go_on() -> Iterator[None]:
    """Who stops what goes on when it is called again is told so."""
    from unihssl.errors import RunInterruptedError

    try:
        yield
    except KeyboardInterrupt:
        raise RunInterruptedError("stopped; call again to go on") from None


def _checked(
    dataset: "Dataset", root: Path, domains: "Sequence[CatalogDomain]", quiet: bool
) -> "tuple[DomainCheck, ...]":
    from unihssl.data.catalog.check import check as compare
    from unihssl.training.display import Display

    with Display(quiet=quiet) as display:
        results = compare(dataset, root, domains, display.counter)
    if not root.exists() and not all(result.found for result in results) and not quiet:  # some come with the package
        typer.echo(f"{root}: there is no such folder or archive (--root says where to look)", err=True)
    return results
