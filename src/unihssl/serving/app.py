"""The service: its routes, and how a request becomes an answer."""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from importlib.resources import files
from typing import Any, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse

from unihssl.data.machine import cpus
from unihssl.serving.answers import Answer, Answers, Question, answer
from unihssl.serving.batching import Batcher
from unihssl.serving.budget import Budget
from unihssl.serving.guard import Guard
from unihssl.serving.limits import MEGA, Limits, RefusedError
from unihssl.serving.metrics import Metrics
from unihssl.serving.predictor import Predictor
from unihssl.serving.uploads import FORMATS, Upload, count_pixels, decode, read_uploads
from unihssl.version import __version__

Result = TypeVar("Result")
BATCH = 32  # images that the model sees at once
ABOUT = ("method", "backbone", "stored_size", "unihssl_version", "audit")
BODY = {
    "requestBody": {
        "required": True,
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
                }
            },
            "application/json": {
                "schema": {
                    "type": "object",
                    "required": ["images"],
                    "properties": {"images": {"type": "array", "items": {"type": "string", "format": "byte"}}},
                }
            },
        },
    }
}
REFUSALS: dict[int | str, dict[str, Any]] = {
    401: {"description": "The token is missing or wrong"},
    403: {"description": "Without a token: asked by another site, or by another name of this machine"},
    408: {"description": "The request did not arrive in time"},
    413: {"description": "Too many bytes, pixels or images"},
    415: {"description": "Not a format that is read"},
    422: {"description": "Cannot be decoded"},
    500: {"description": "The service failed: its log says why"},
    503: {"description": "Busy: try again after the time in Retry-After"},
}


def create_app(predictor: Predictor, limits: Limits | None = None, token: str | None = None) -> FastAPI:
    """The service as an ASGI application. Without a token it answers only to addresses of this machine."""
    limits, metrics = limits or Limits(), Metrics()
    decoders, model_thread = ThreadPoolExecutor(cpus()), ThreadPoolExecutor(1)

    def work(questions: Sequence[Question]) -> list[Answer]:
        metrics.batches.observe(len(questions))
        return answer(predictor, questions)

    async def on_threads(function: Callable[..., Result], uploads: Sequence[Upload], *more: Any) -> list[Result]:
        """Of each upload; the first refusal spares the others."""
        loop = asyncio.get_running_loop()
        calls = [loop.run_in_executor(decoders, function, upload, *more) for upload in uploads]
        try:
            return await asyncio.gather(*calls)
        finally:
            for call in calls:
                call.cancel()

    batcher = Batcher(work, model_thread, BATCH)
    image_bytes = math.prod(predictor.rendering.shape)
    one_request = limits.body_bytes + limits.files * image_bytes  # always fits
    budget = Budget(max(limits.total_bytes, one_request), metrics.held)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        yield
        decoders.shutdown(wait=False, cancel_futures=True)
        model_thread.shutdown(wait=False, cancel_futures=True)

    # FastAPI's own pages of documentation load scripts from elsewhere: no docs_url, no redoc_url.
    app = FastAPI(title="unihssl", version=__version__, docs_url=None, redoc_url=None, lifespan=lifespan)
    app.add_middleware(Guard, limits=limits, metrics=metrics, budget=budget, token=token)
    page = files("unihssl.serving").joinpath("page.html").read_text(encoding="utf-8")

    @app.exception_handler(RefusedError)
    async def refused(request: Request, error: RefusedError) -> JSONResponse:
        return JSONResponse({"detail": error.detail}, error.status, error.headers)

    @app.exception_handler(RequestValidationError)
    async def wrong_query(request: Request, error: RequestValidationError) -> JSONResponse:
        wrong = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
        return JSONResponse({"detail": wrong}, 422)

    @app.get("/", include_in_schema=False)
    async def index() -> HTMLResponse:
        return HTMLResponse(page)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Answers as soon as the model is loaded."""
        return {"status": "ok"}

    @app.get("/metrics")
    async def measured() -> Response:
        """Counters in Prometheus' text format."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.get("/model")
    async def model() -> dict[str, Any]:
        """What the model is, what it tells, and what may be sent."""
        about = {key: predictor.about.get(key) for key in ABOUT}
        sent = {
            "bytes": limits.body_bytes,
            "pixels": limits.pixels,
            "request_pixels": limits.request_pixels,
            "files": limits.files,
            "formats": FORMATS,
        }
        return about | {"classes": predictor.classes, "heat": predictor.heat is not None, "limits": sent}

    @app.post("/predict", openapi_extra=BODY, responses=REFUSALS)
    async def predict(request: Request, heat: bool = False, nearest: bool = False) -> Answers:
        """Classify images: files of a form, or {"images": [base64, ...]}; one that cannot be read refuses all."""
        begin = time.perf_counter()
        uploads = await read_uploads(await request.body(), request.headers.get("content-type", ""), limits)
        if sum(await on_threads(count_pixels, uploads, limits)) > limits.request_pixels:
            most = f"{limits.request_pixels / MEGA:g} megapixels"
            raise RefusedError(413, f"too many pixels: at most {most} in all images of one request")
        with budget.holding(len(uploads) * image_bytes):
            images = await on_threads(decode, uploads, predictor.rendering, limits)
            found = await asyncio.gather(*(batcher(Question(image.pixels, heat, nearest)) for image in images))
        metrics.seconds.observe(time.perf_counter() - begin)
        for each in found:
            metrics.images.inc()
            metrics.classes.labels(each.label).inc()
            metrics.abstained.inc(bool(each.abstain))
        told = ({"name": u.name, "notes": image.notes} for u, image in zip(uploads, images, strict=True))
        return Answers(predictions=[a.model_copy(update=more) for a, more in zip(found, told, strict=True)])

    return app
