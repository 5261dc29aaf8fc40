"""Fabric, from `lightning-fabric` or from the `lightning` bundle, which carries the same package."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DDPStrategy", "Fabric", "LightningEnvironment", "SLURMEnvironment", "TorchElasticEnvironment"]


@contextmanager
def _hidden(name: str) -> Iterator[None]:
    """While entered, a package that was not imported yet cannot be."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


try:
    # Fabric imports all of torchmetrics, where it is installed, to compare its version: half of the time that importing
    # unihssl takes. The price: Fabric's SpikeDetection, not used here, believes torchmetrics to be missing.
    with _hidden("torchmetrics"):
        from lightning_fabric import Fabric
        from lightning_fabric.plugins.environments import (
            LightningEnvironment,
            SLURMEnvironment,
            TorchElasticEnvironment,
        )
        from lightning_fabric.strategies import DDPStrategy
except ImportError:
    from lightning.fabric import Fabric
    from lightning.fabric.plugins.environments import LightningEnvironment, SLURMEnvironment, TorchElasticEnvironment
    from lightning.fabric.strategies import DDPStrategy
