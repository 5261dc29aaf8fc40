"""`unihssl serve`"""

import warnings
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import typer

from unihssl.cli.options import DEVICE
from unihssl.errors import UserError

PACKAGES = ("fastapi", "uvicorn", "python_multipart", "prometheus_client")


def serve(
    model: Path = typer.Argument(
        help="Run directory, a folder written by save(), or a file written by export (.onnx)."
    ),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; others than this machine's own need --token."),
    port: int = typer.Option(8000, min=0, max=65535, help="Port; 0 takes a free one."),
    token: str | None = typer.Option(
        None, envvar="UNIHSSL_TOKEN", help="What clients send in the header Authorization: Bearer TOKEN."
    ),
    max_mb: float = typer.Option(20, min=0.01, help="Megabytes of one request."),
    max_megapixels: float = typer.Option(
        40, min=0.01, help="Megapixels of one image; a request may have four times as many."
    ),
    max_files: int = typer.Option(32, min=1, help="Images of one request."),
    max_requests: int = typer.Option(64, min=1, help="Requests worked on at once; more are told to try again."),
    timeout: float = typer.Option(30, min=0.1, help="Seconds in which a request must have arrived."),
    nearest: bool | None = typer.Option(
        None,
        "--nearest/--no-nearest",
        help="Show the nearest training images beside answers. [default: only to this machine, and without --token]",
        show_default=False,
    ),
    device: str = DEVICE,
) -> None:
    """Serve a trained model: a page for people, HTTP for programs.

    Programs POST images to /predict; /openapi.json describes it, /health and /metrics watch it. From an .onnx file the
    same is served without novelty and heat maps.
    """
    if missing := [name for name in PACKAGES if find_spec(name) is None]:
        raise UserError(f"serving needs packages that are not installed ({missing[0]}): pip install 'unihssl[serve]'")

    from unihssl.interrupt import termination_interrupts
    from unihssl.serving.app import create_app
    from unihssl.serving.guard import is_loopback
    from unihssl.serving.limits import MEGA, Limits
    from unihssl.serving.predictor import open_predictor
    from unihssl.serving.server import address, bind, make_server

    if token and not all("!" <= sign <= "~" for sign in token):
        raise UserError("--token: only letters, digits and signs of ASCII, and no spaces")
    if not is_loopback(host) and not token:
        raise UserError(f"--host {host}: other machines reach it, so that a --token is needed (or UNIHSSL_TOKEN)")
    shown = is_loopback(host) and not token if nearest is None else nearest  # behind a proxy there is a token
    pixels = round(max_megapixels * MEGA)
    limits = Limits(
        body_bytes=round(max_mb * MEGA),
        pixels=pixels,
        request_pixels=4 * pixels,
        files=max_files,
        requests=max_requests,
        seconds=timeout,
    )
    warnings.simplefilter("ignore")  # of decoders, on files that are not to the letter of a standard
    with bind(host, port) as listening, termination_interrupts():
        predictor = open_predictor(model, device, nearest=shown)
        app = create_app(predictor, limits, token or None)
        typer.echo(f"Serving {model} at {address(listening)} (Ctrl-C ends)")
        audit = predictor.about["audit"]
        if audit and audit["threshold"] is None:
            typer.echo(
                f"note: no image gets an answer: the audit could not show that {100 * audit['max_risk']:g}% of the "
                "answers or fewer would be wrong; audit with more labels or another --max-risk, then serve again",
                err=True,
            )
        with suppress(KeyboardInterrupt):
            make_server(app, limits).run([listening])
