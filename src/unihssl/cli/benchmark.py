"""`unihssl benchmark`"""

from pathlib import Path

import typer

from unihssl.cli.options import GPUS_PER_RUN, JSON, LAUNCHER, WORKERS, split_setting


def register(app: typer.Typer) -> None:
    app.command()(benchmark)


def benchmark(
    dataset: str = typer.Argument(help="Data set: digits (MNIST and UCI, embedded)."),
    pairs: str = typer.Option("mnist/uci", help="labeled/unlabeled pairs, separated by commas."),
    methods: str = typer.Option("all", help="Method names, separated by commas."),
    seeds: int = typer.Option(3, min=1, help="Seeds 0, 1, ... to run each with."),
    out: Path = typer.Option(Path("runs/benchmark"), help="Folder of the runs; finished ones are not run again."),
    launcher: str = LAUNCHER,
    workers: int = WORKERS,
    gpus_per_run: float | None = GPUS_PER_RUN,
    settings: list[str] = typer.Option([], "--set", metavar="NAME=VALUE", help="Set any knob; may be repeated."),
    json: bool = JSON,
) -> None:
    """Run every method on the same splits, for the same number of epochs, and print one table.

    Each run has a folder named by its configuration. An interrupted benchmark goes on where it was when called
    again; a failed run is named at the end and does not stop the others. table.md is written beside the runs.

    Columns: accuracy on both test parts pooled, on each part, how often the domain of a sample is told right, and
    the pooled accuracy of a routed method if it were always told right (oracle).
    """
    import json as json_format

    from rich.console import Console
    from rich.table import Table

    from unihssl import methods as registry
    from unihssl.errors import UserError
    from unihssl.experiments.benchmark import COLUMNS, benchmark_runs, cells, markdown, run_benchmark, summarise
    from unihssl.experiments.launchers import make_launcher
    from unihssl.files import write_json, write_text

    if dataset != "digits":
        raise UserError(f"unknown data set '{dataset}': there is digits")
    names = list(registry.available()) if methods == "all" else methods.split(",")
    runs = benchmark_runs(pairs.split(","), names, seeds, dict(map(split_setting, settings)))
    place = make_launcher(launcher, workers, gpus_per_run)
    finished = []
    for run in run_benchmark(runs, out, place):
        finished.append(run)
        if not json:
            outcome = run.failure or f"{100 * run.result['pooled']['accuracy']:.1f}%"
            name = f"{run.pair} {run.knobs['method']} seed {run.knobs['seed']}"
            typer.echo(f"[{len(finished)}/{len(runs)}] {name}: {outcome}", err=True)
    order = {run.folder(out): i for i, run in enumerate(runs)}
    rows = summarise(sorted(finished, key=lambda run: order[run.folder(out)]))
    write_text(out / "table.md", markdown(rows))
    write_json(out / "table.json", rows)
    if json:
        typer.echo(json_format.dumps(rows))
    else:
        for pair in dict.fromkeys(row["pair"] for row in rows):
            table = Table(*COLUMNS, title=f"{pair}: test accuracy, %", title_justify="left")
            for row in rows:
                if row["pair"] == pair:
                    table.add_row(*cells(row))
            Console().print(table)
    failed = [run for run in finished if run.failure]
    if failed:
        raise UserError(f"{len(failed)} of {len(runs)} runs failed; first: {failed[0].failure}")
