"""How long a run will take, from the time of its first steps."""

import time

import torch

from unihssl.errors import Setting

WARM_UP = {"cpu": 1, "cuda": 5}  # steps that are not typical: memory is fetched, a graph captured
TIMED_STEPS, TIMED_SECONDS = 5, 5.0  # whichever is reached first
TOO_LONG = 3600.0  # seconds on a CPU, from which on there is a way out to name


class Forecast:
    """Times a few steps of the stage that comes first; the others' steps take time in proportion to their costs."""

    def __init__(
        self, costs: list[float], left: list[int], device: torch.device, frozen: bool, pretrained: bool = True
    ) -> None:
        """`costs` of a step and steps `left`, of each stage; `frozen`: whether only the head trains.

        `pretrained`: whether the backbone has trained weights and takes images, so that freezing it is a way out.
        """
        self.costs, self.left, self.device, self.can_freeze = costs, left, device, pretrained and not frozen
        self._steps, self._since = 0, 0.0
        self._finished = False

    def step(self, stage: int) -> str | None:
        """Called after each step; the forecast, once it is known, as a line for the user."""
        if self._finished:
            return None
        self._steps += 1
        if self._steps == WARM_UP[self.device.type]:
            self._since = self._now()
        timed = self._steps - WARM_UP[self.device.type]
        if timed <= 0 or (timed < TIMED_STEPS and time.monotonic() - self._since < TIMED_SECONDS):
            return None
        self._finished = True
        unit = (self._now() - self._since) / timed / self.costs[stage]
        seconds = unit * sum(cost * left for cost, left in zip(self.costs, self.left, strict=True))
        return self._line(seconds)

    def _line(self, seconds: float) -> str:
        line = f"training will take about {duration(seconds)} ({sum(self.left):,} steps)"
        if self.device.type != "cpu" or seconds < TOO_LONG:
            return line
        ways = [f"a frozen backbone ({Setting('train', 'head')}) takes minutes"] if self.can_freeze else []
        ways.append(f"fewer steps ({Setting('max_steps', 500)}) or a GPU take less")
        return f"{line} on this CPU: {'; '.join(ways)}"

    def _now(self) -> float:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)
        return time.monotonic()


def duration(seconds: float) -> str:
    """In the unit that suits.

    >>> duration(40), duration(400), duration(5400), duration(400_000)
    ('40 seconds', '7 minutes', '1.5 hours', '4.6 days')
    """
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds >= 1.5 * size:
            return f"{seconds / size:.1f} {unit}"
    if seconds < 1.5:
        return "1 second"
    return f"{seconds:.0f} seconds" if seconds < 90 else f"{seconds / 60:.0f} minutes"
