"""What a client may ask of the service, and how it is told that it asked for too much."""

from dataclasses import dataclass

MEGA = 1_000_000


@dataclass(frozen=True)
class Limits:
    """Bounds that keep memory flat whatever clients send."""

    body_bytes: int = 20 * MEGA  # of one request
    total_bytes: int = 256 * MEGA  # of all bodies and decoded images that are held at once
    pixels: int = 40 * MEGA  # of one image
    request_pixels: int = 160 * MEGA  # of all images of one request
    files: int = 32  # in one request
    requests: int = 64  # that are worked on at once
    connections: int = 512  # open at once
    seconds: float = 30.0  # until a request has arrived whole, or an answer is taken


class RefusedError(Exception):
    """A request that gets no prediction: the HTTP status, and one line that says why."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.status, self.detail = status, detail

    @property
    def headers(self) -> dict[str, str]:
        return {503: {"retry-after": "1"}, 401: {"www-authenticate": "Bearer"}}.get(self.status, {})
