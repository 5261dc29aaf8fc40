"""`unihssl sensitivity`"""

import typer

from unihssl.cli.grid_command import GridOptions, grid_command, run_and_report


@grid_command
def sensitivity(
    options: GridOptions,
    knob: str = typer.Option("", help="The knob to vary. [default: the paper's four, one after the other]"),
    values: str = typer.Option("", help="Its values with commas. [default: ours for the paper's four]"),
    method: str = typer.Option(
        "", help="The method whose knob it is, or method:preset. [default: unihssl:paper; with --set preset=… unihssl]"
    ),
) -> None:
    """Vary one knob and keep all others: lambda_pa, lambda_pl, lambda_mixup and beta in turn, or any that is named.

    Runs are kept and resumed like those of `unihssl benchmark`, and shared with them in one --out. sensitivity.md,
    .tex, .csv and .json are written beside the runs.
    """
    from unihssl.experiments.designs import sensitivity_runs, sensitivity_values
    from unihssl.experiments.paper import METHOD, UNIHSSL

    protocol = options.protocol()
    pairs = protocol.pairs(options.pairs) if options.pairs else protocol.pairs()[:1]
    row = method or (METHOD if "preset" in protocol.asked else UNIHSSL)
    runs = sensitivity_runs(protocol, pairs, options.seeds, sensitivity_values(knob, values), row)
    run_and_report(options, protocol, runs)
