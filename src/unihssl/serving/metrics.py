"""What the service counts, in Prometheus' text format."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
SIZES = (1, 2, 4, 8, 16, 32)


class Metrics:
    """Counters of one service, in a registry of its own."""

    def __init__(self) -> None:
        self._registry = own = CollectorRegistry()
        self.requests = Counter("unihssl_requests", "Requests by path and status", ["path", "status"], registry=own)
        self.images = Counter("unihssl_images", "Images that were classified", registry=own)
        self.classes = Counter("unihssl_predicted", "Images by predicted class", ["class"], registry=own)
        self.abstained = Counter("unihssl_abstained", "Images without an answer, by the audit", registry=own)
        self.held = Gauge("unihssl_held_bytes", "Bytes of requests and decoded images that are held now", registry=own)
        self.active = Gauge("unihssl_active_requests", "Requests that are worked on now", registry=own)
        self.seconds = Histogram(
            "unihssl_predict_seconds", "From the whole body to the answer", buckets=SECONDS, registry=own
        )
        self.batches = Histogram("unihssl_batch_images", "Images in a batch of the model", buckets=SIZES, registry=own)

    def text(self) -> bytes:
        return generate_latest(self._registry)
