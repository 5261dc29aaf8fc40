"""`unihssl benchmark`"""

import typer

from unihssl.cli.grid_command import GridOptions, grid_command, run_and_report


@grid_command
def benchmark(
    options: GridOptions,
    methods: str = typer.Option(
        "",
        help="Method names with commas, or paper, or all; mcc:original is a method with another of its presets. "
        "[default: the paper's eight and unihssl on its data sets, else all]",
    ),
) -> None:
    """Run every method on the same splits of a data set's pairs and print one table, beside the paper's figures.

    Each run has a folder named by its configuration. An interrupted benchmark resumes when the command is repeated; a
    failed run is named at the end and does not stop the others. table.md, .tex, .csv and .json are written beside the
    runs; `unihssl table` makes them again from the folders alone. How to read them: docs/experiments.md.
    """
    from unihssl.experiments.designs import benchmark_runs

    protocol = options.protocol()
    rows = protocol.methods(methods)
    run_and_report(options, protocol, benchmark_runs(protocol, protocol.pairs(options.pairs), rows, options.seeds))
