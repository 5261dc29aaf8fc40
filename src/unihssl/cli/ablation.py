"""`unihssl ablation`"""

import typer

from unihssl.cli.grid_command import GridOptions, grid_command, run_and_report


@grid_command
def ablation(
    options: GridOptions,
    of: str = typer.Option("paper", help="The preset to take apart: paper (its six variants), or robust."),
) -> None:
    """Uni-HSSL whole and with each part left out: the six variants of the paper's ablation.

    With --of robust: our preset without each of its knobs, and the paper's with each of them alone.

    Runs are kept and resumed like those of `unihssl benchmark`, and shared with them in one --out. ablation.md
    (ablation-of-robust.md), .tex, .csv and .json are written beside the runs.
    """
    from unihssl.experiments.designs import ablation_runs

    protocol = options.protocol()
    run_and_report(options, protocol, ablation_runs(protocol, protocol.pairs(options.pairs), options.seeds, of))
