"""A served model, its client, and images to send."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from served_images import encoded

from unihssl.evaluation.model import Model
from unihssl.evaluation.novelty import Reference

pytest.importorskip("fastapi", reason="fastapi is not installed")

AUDIT = {"temperature": 1.7, "labeled_temperature": 0.6, "max_risk": 0.05, "delta": 0.1}


@pytest.fixture(scope="session")
def images() -> np.ndarray:
    """(6, 16, 16, 3), of the stored size, so that decoding a PNG changes nothing."""
    return np.random.default_rng(0).integers(0, 256, (6, 16, 16, 3), dtype=np.uint8)


@pytest.fixture(scope="session")
def pngs(images) -> list[bytes]:
    return [encoded(pixels) for pixels in images]


@pytest.fixture(scope="session")
def model(images) -> Model:
    """Audited, with a reference for novelty, with random weights."""
    from unihssl import methods
    from unihssl.methods.recipe import resolve
    from unihssl.models.backbones import EncoderFactory

    torch.manual_seed(0)
    params = resolve({"method": "unihssl", "backbone": "small_cnn", "weights": "none"})[1]
    encoders = EncoderFactory("small_cnn", "none", 0)
    network = methods.get("unihssl").build_network(encoders, 3, params)
    model = Model("unihssl", params, network, encoders.architecture, ["cat", "dog", "<b>bird</b>"], (16, 16))
    first, *_, last = sorted(model.predict_proba(images).max(1).tolist())
    model.audit(images, 2 * ["cat", "dog", "<b>bird</b>"])
    model.audited |= AUDIT | {"threshold": (first + last) / 2}  # some answers are given
    model.reference = Reference.of(torch.randn(50, network.feature_dim, generator=torch.Generator().manual_seed(1)))
    return model


@pytest.fixture(scope="session")
def folder(model, tmp_path_factory) -> Any:
    """The model as `save` writes it."""
    path = tmp_path_factory.mktemp("served") / "model"
    model.save(path)
    return path


@pytest.fixture
def client(folder) -> Iterator[Callable[..., Any]]:
    """`client(limits, token)` talks to a service of the model, without a socket."""
    from contextlib import ExitStack

    from starlette.testclient import TestClient

    from unihssl.serving.app import create_app
    from unihssl.serving.limits import Limits
    from unihssl.serving.predictor import open_predictor

    with ExitStack() as stack:

        def make(limits: Limits | None = None, token: str | None = None, path: Any = folder) -> TestClient:
            app = create_app(open_predictor(path, "cpu", nearest=True), limits, token)
            return stack.enter_context(TestClient(app, base_url="http://127.0.0.1:8000"))

        yield make


@pytest.fixture
def running(folder) -> Callable[..., Any]:
    """`with running(limits) as address:` serves the model on a port, in a thread."""
    import threading
    from contextlib import contextmanager

    from unihssl.serving.app import create_app
    from unihssl.serving.limits import Limits
    from unihssl.serving.predictor import open_predictor
    from unihssl.serving.server import address, bind, make_server

    @contextmanager
    def serve(limits: Limits | None = None, token: str | None = None, path: Any = folder) -> Iterator[str]:
        limits = limits or Limits()
        server = make_server(create_app(open_predictor(path, "cpu"), limits, token), limits)
        with bind("127.0.0.1", 0) as listening:
            thread = threading.Thread(target=server.run, args=([listening],))
            thread.start()
            try:
                yield address(listening)
            finally:
                server.should_exit = True
                thread.join()

    return serve
