"""Tiny two-domain problems that train in well under a second."""

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from colour_domains import colour_images, write_domain


def pytest_configure(config: pytest.Config) -> None:
    """Only `-m gpu` shows the tests a GPU: all others mean the same on every machine."""
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # two test workers share two cores
    for name in ("FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "RAY_ADDRESS", "UNIHSSL_COMMIT"):
        os.environ.pop(name, None)
    for name in ("NO_PROXY", "no_proxy"):
        os.environ[name] = "127.0.0.1,localhost"  # the tests' own servers
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background starts with Ctrl-C ignored
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # for `deterministic`, before a test starts CUDA
    if config.option.markexpr != "gpu":
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
    elif not _gpu_is_there():
        pytest.exit("these tests need a CUDA GPU, and torch sees none", returncode=1)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("gpu") and not _gpu_is_there():
        pytest.skip("needs a CUDA GPU, which only -m gpu shows: make test-gpu")


def _gpu_is_there() -> bool:
    import torch  # not before the variables above are set

    return torch.cuda.is_available()


@pytest.fixture(scope="session", autouse=True)
def decoded_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Decoded images go to a temporary folder, in subprocesses too, never to the user's home."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("UNIHSSL_CACHE", str(folder))
        yield folder


@pytest.fixture
def doubles() -> Iterator[None]:
    """Networks that this test makes or trains are in double precision, and so is what they compute."""
    from precision import double_precision

    with double_precision():
        yield


@pytest.fixture(scope="session")
def image_arrays() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Labeled (x, y) and unlabeled (x, y): 60 images each."""
    return colour_images(20, 0, seed=0), colour_images(20, 60, seed=1)


@pytest.fixture(scope="session")
def vector_arrays() -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
    """Labeled (x, y) and unlabeled (x, y): 60 feature vectors of length 5 each, classes 10, 20 and 30."""
    rng = np.random.default_rng(2)
    y = np.repeat([10, 20, 30], 20)
    x = rng.normal(size=(2, 60, 5)) + 3 * np.eye(5)[y // 10]
    return (x[0], y), (x[1] + 0.5, y)


@pytest.fixture(scope="session")
def image_folders(tmp_path_factory: pytest.TempPathFactory, image_arrays) -> tuple[Path, Path]:
    """The two domains as folders of class folders; shared by all tests, so not to be changed."""
    root = tmp_path_factory.mktemp("domains")
    return write_domain(root / "labeled", *image_arrays[0]), write_domain(root / "unlabeled", *image_arrays[1])


@pytest.fixture
def own_folders(tmp_path: Path, image_arrays) -> Callable[..., tuple[Path, Path]]:
    """The same, fewer and this test's own to damage: `own_folders(per_class=4)`."""

    def make(per_class: int = 4) -> tuple[Path, Path]:
        some = np.concatenate([np.arange(per_class) + 20 * c for c in range(3)])
        (x, y), (u, truth) = image_arrays
        return write_domain(tmp_path / "a", x[some], y[some]), write_domain(tmp_path / "b", u[some], truth[some])

    return make
