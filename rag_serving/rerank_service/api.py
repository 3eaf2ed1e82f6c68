"""The sidecar's HTTP API: GET /healthz, /readyz, /metrics, POST /rerank; and its model while it is loaded or fails."""

from __future__ import annotations

import asyncio
import hmac
import logging
import math
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Annotated, Any, Generic, Literal, Protocol, TypeVar

from fastapi import FastAPI, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from pydantic import Field, StringConstraints, ValidationError
from starlette.exceptions import HTTPException

from rag_serving.api.bodies import Body
from rag_serving.api.wire import NO_TOKEN, BodyLimit, RequestError, Traced, bearer_token, error_response, first_fault
from rag_serving.config.models import RerankService
from rag_serving.escaping.targets import one_line
from rag_serving.rerank_service.cross_encoder import SHORTEST_SEQ_LEN, Pair
from rag_serving.telemetry.metrics import PREFIX, Kind, Series, Unit, plain_text
from rag_serving.tracing.spans import REQUEST_MODEL, TEXTS, span

AnyPair = TypeVar("AnyPair")
Meter = TypeVar("Meter", Counter, Gauge, Histogram)
ScoreBatch = Callable[[Sequence[AnyPair]], Sequence[float]]


class ScoringError(Exception):
    """The model cannot score these pairs; the message is one line."""


def length_sorted(lengths: Sequence[int], max_pairs: int, max_tokens: int) -> list[list[int]]:
    """Positions in batches, longest first: at most `max_pairs` of them and `max_tokens` tokens with the padding.
    Neighbours in a batch have nearly the same length. The largest batch comes first, so that memory that does not
    suffice shows at once. A pair longer than `max_tokens` is a batch of its own."""
    batches: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda at: -lengths[at]):
        last = batches[-1] if batches else []
        room = min(max_pairs, max_tokens // max(1, lengths[last[0]])) if last else 0
        if len(last) < room:
            last.append(position)
        else:
            batches.append([position])
    return batches


def score_halving(pairs: Sequence[AnyPair], score: ScoreBatch[AnyPair]) -> list[float]:
    """Return scores of one batch in its order; a batch that fails is tried in halves, down to single pairs. The halving
    ends: a failure that persists costs log2(n) + 1 tries, then the first single pair raises. (The loop of FlagEmbedding
    1.4, which lowers its batch size on every `RuntimeError`, does not.) Raises ScoringError: a single pair fails, or a
    score is not a finite number."""
    try:
        scores = [float(value) for value in score(pairs)]
    except RuntimeError as error:  # out of memory is one; CUDA reports others the same way
        if len(pairs) <= 1:
            raise ScoringError(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}") from error
        middle = len(pairs) // 2
        return score_halving(pairs[:middle], score) + score_halving(pairs[middle:], score)
    if len(scores) != len(pairs) or not all(map(math.isfinite, scores)):
        raise ScoringError(f"the model gave {len(scores)} scores for {len(pairs)} pairs, or one that is no number")
    return scores


def score_all(
    pairs: Sequence[AnyPair], lengths: Sequence[int], score: ScoreBatch[AnyPair], max_pairs: int, max_tokens: int
) -> list[float]:
    """Return the scores of all pairs in their order, computed in length-sorted batches; raises as `score_halving`."""
    scores = [math.nan] * len(pairs)
    for batch in length_sorted(lengths, max_pairs, max_tokens):
        for position, value in zip(batch, score_halving([pairs[at] for at in batch], score), strict=True):
            scores[position] = value
    return scores


DEFAULT_TOP_N = 8
DEFAULT_SEQ_LEN = 512

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1)]


class RerankCandidate(Body):
    """A candidate."""

    id: str = Field(min_length=1, max_length=500)
    text: str


class RerankBody(Body):
    """POST /rerank."""

    query: Text
    candidates: list[RerankCandidate] = Field(min_length=1)
    top_n: int = Field(DEFAULT_TOP_N, ge=1)
    max_seq_len: int | None = Field(None, ge=SHORTEST_SEQ_LEN)


class Reranking:
    """The state shared by the routes."""

    def __init__(self, settings: RerankService, engine: Engine, meters: Meters, name: str, token: str | None) -> None:
        self.settings, self.engine, self.meters, self.name = settings, engine, meters, name
        self._token = token.encode() if token else None
        self._slots = asyncio.Semaphore(settings.max_concurrent)

    def check_token(self, authorization: str | None) -> None:
        """Raise RequestError unless the bearer token is right, or none is required."""
        if self._token is None:
            return
        if not hmac.compare_digest(bearer_token(authorization).encode(), self._token):
            raise RequestError(401, "UNAUTHENTICATED", NO_TOKEN)

    async def rerank(self, content: bytes) -> dict[str, Any]:
        """Return the response to a body; RequestError describes the fault, ours or the caller's."""
        if self._slots.locked():
            message = f"{self.settings.max_concurrent} requests are under way; try again"
            raise RequestError(429, "BUSY", message, retry_after=1)
        async with self._slots:
            with self.meters.in_progress.track_inprogress():
                body = _parsed(content, self.settings)
                started = time.perf_counter()
                with span("score", {TEXTS: len(body.candidates), REQUEST_MODEL: self.name}):
                    scores = await self._scores(body)
                self.meters.seconds.observe(time.perf_counter() - started)
        ranked = sorted(zip(body.candidates, scores, strict=True), key=lambda pair: -pair[1])
        return {"results": [{"id": passage.id, "score": score} for passage, score in ranked[: body.top_n]]}

    async def _scores(self, body: RerankBody) -> list[float]:
        try:
            most = self.engine.max_seq_len
            length = body.max_seq_len or min(most, DEFAULT_SEQ_LEN)
            if length > most:
                raise RequestError(400, "TOO_LONG", f"'max_seq_len' is {length}, the model reads at most {most} tokens")
            passages = [passage.text for passage in body.candidates]
            async with asyncio.timeout(self.settings.timeout_s):
                future = await run_in_threadpool(self.engine.submit, body.query, passages, length)
                return await asyncio.wrap_future(future)
        except NotReadyError as error:
            raise RequestError(503, "NOT_READY", str(error), retry_after=5) from None
        except ScoringError:
            raise RequestError(
                503, "MODEL_FAILED", "the model failed; the server's log says how", retry_after=5
            ) from None
        except TimeoutError:
            raise RequestError(
                503, "TIMEOUT", f"no scores within {self.settings.timeout_s:g} s", retry_after=5
            ) from None


def create_app(
    settings: RerankService,
    name: str,
    token: str | None,
    open_model: Callable[[], Model],
    on_failure: Callable[[], None] = lambda: None,
) -> FastAPI:
    """Return the API over one model, which is opened at startup; without `token`, callers need none."""
    meters = Meters()
    reranking = Reranking(settings, Engine(open_model, settings, meters, on_failure), meters, name, token)

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        reranking.engine.start()
        yield
        await run_in_threadpool(reranking.engine.close)

    app = FastAPI(
        title="Citelock reranker", version="1", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.reranking = reranking
    app.add_middleware(BodyLimit, max_bytes=settings.max_body_bytes)
    app.add_middleware(Traced)
    _add_routes(app, reranking)
    return app


def _add_routes(app: FastAPI, reranking: Reranking) -> None:
    @app.get("/healthz")
    async def healthz() -> JSONResponse:
        state = reranking.engine.state
        return JSONResponse({"status": state, "model": reranking.name}, 503 if state == "failing" else 200)

    @app.get("/readyz")
    async def readyz() -> JSONResponse:
        state = reranking.engine.state
        return JSONResponse({"ready": state == "ok", "status": state}, 200 if state == "ok" else 503)

    @app.get("/metrics")
    async def metrics(request: Request) -> Response:
        reranking.check_token(request.headers.get("authorization"))
        return Response(reranking.meters.exposition(), media_type="text/plain; version=0.0.4; charset=utf-8")

    @app.post("/rerank")
    async def rerank(request: Request) -> JSONResponse:
        reranking.check_token(request.headers.get("authorization"))
        answer = await reranking.rerank(await request.body())
        reranking.meters.requests.labels("200").inc()
        return JSONResponse(answer)

    @app.exception_handler(RequestError)
    async def refused(request: Request, error: RequestError) -> JSONResponse:
        if request.url.path == "/rerank":
            reranking.meters.requests.labels(str(error.status)).inc()
        return error_response(request.url.path, error)

    @app.exception_handler(HTTPException)
    async def http_error(request: Request, error: HTTPException) -> JSONResponse:
        refused = RequestError(error.status_code, f"HTTP_{error.status_code}", str(error.detail))
        return error_response(request.url.path, refused)


def _parsed(content: bytes, settings: RerankService) -> RerankBody:
    try:
        body = RerankBody.model_validate_json(content)
    except ValidationError as error:
        fault = first_fault(error.errors(include_input=False, include_url=False))
        raise RequestError(400, "BAD_REQUEST", fault) from None
    longest = max(len(passage.text) for passage in body.candidates)
    for what, value, most in (
        ("candidates", len(body.candidates), settings.max_candidates),
        ("characters in the query", len(body.query), settings.max_query_chars),
        ("characters in a candidate", longest, settings.max_text_chars),
    ):
        if value > most:
            raise RequestError(400, "TOO_LONG", f"{value} {what}, at most {most} are read")
    if len({passage.id for passage in body.candidates}) < len(body.candidates):
        raise RequestError(400, "BAD_REQUEST", "candidates: an id stands twice")
    return body


State = Literal["loading", "ok", "failing"]

_log = logging.getLogger(__name__)


class Model(Protocol):
    """The sidecar's interface of a model; `cross_encoder.CrossEncoder` is one."""

    @property
    def max_seq_len(self) -> int: ...

    def encode(self, query: str, passages: Sequence[str], max_seq_len: int) -> list[Pair]: ...

    def score(self, pairs: Sequence[Pair]) -> list[float]: ...


class NotReadyError(Exception):
    """The model cannot be used now; the message says why."""


class Engine:
    """Loads the model in a thread of its own, then scores in another. Safe to use from several threads."""

    def __init__(
        self, open_model: Callable[[], Model], settings: RerankService, meters: Meters, on_failure: Callable[[], None]
    ) -> None:
        """`on_failure` is called when the model cannot be opened: nothing will ever be scored."""
        self._open_model, self._settings, self._meters, self._on_failure = open_model, settings, meters, on_failure
        self._model: Model | None = None
        self._batcher: MicroBatcher[Pair] | None = None
        self.problem: str | None = None

    def start(self) -> None:
        """Begin to load; returns at once."""
        threading.Thread(target=self._load, name="rerank-load", daemon=True).start()

    @property
    def state(self) -> State:
        if self.problem or (self._batcher and self._batcher.is_failing(self._settings.timeout_s)):
            return "failing"
        return "ok" if self._batcher else "loading"

    @property
    def max_seq_len(self) -> int:
        """Tokens of a pair that the model reads. Raises NotReadyError: there is no model yet."""
        return self._ready()[0].max_seq_len

    def submit(self, query: str, passages: Sequence[str], max_seq_len: int) -> Future[list[float]]:
        """Return the scores of the passages in their order, later. Raises NotReadyError: there is no model yet."""
        model, batcher = self._ready()
        return batcher.submit(model.encode(query, passages, max_seq_len))

    def close(self) -> None:
        """Finish submitted work."""
        if self._batcher:
            self._batcher.close(self._settings.timeout_s)

    def _ready(self) -> tuple[Model, MicroBatcher[Pair]]:
        if self._model is None or self._batcher is None:
            raise NotReadyError(self.problem or "the model is being loaded")
        return self._model, self._batcher

    def _load(self) -> None:
        try:
            model = self._open_model()
            model.score(model.encode("warm", ["warm"], model.max_seq_len))
        except Exception as error:  # whatever a library raises, the probes must tell it
            self.problem = one_line(error, 1000) or type(error).__name__
            self._on_failure()
            return
        self._model = model
        self._batcher = MicroBatcher(self._run, self._settings.max_candidates, self._settings.batch_wait_ms / 1000)

    def _run(self, pairs: Sequence[Pair]) -> list[float]:
        model, _ = self._ready()
        lengths = [len(pair["input_ids"]) for pair in pairs]
        started = time.perf_counter()
        try:
            scores = score_all(pairs, lengths, model.score, self._settings.batch_size, self._settings.batch_tokens)
        except Exception as error:
            self._meters.failures.inc()
            _log.error("a run of %d pairs failed: %s", len(pairs), error)
            raise
        self._meters.run_seconds.observe(time.perf_counter() - started)
        self._meters.run_pairs.observe(len(pairs))
        self._meters.pairs.inc(len(pairs))
        self._meters.tokens.inc(sum(lengths))
        return scores


FAILING_AFTER = 3  # runs in a row: a device that broke stays broken until the process starts again


@dataclass
class Job(Generic[AnyPair]):
    """The pairs of one request, and where its scores go."""

    pairs: Sequence[AnyPair]
    scores: Future[list[float]] = field(default_factory=Future)


class MicroBatcher(Generic[AnyPair]):
    """Scores what comes in within `wait_s` of each other in one run of at most `max_pairs` pairs, unless one has more.
    A run that fails is repeated for each of its requests alone, once, so that nobody fails for somebody else."""

    def __init__(self, score: Callable[[Sequence[AnyPair]], list[float]], max_pairs: int, wait_s: float) -> None:
        self._score, self._max_pairs, self._wait_s = score, max_pairs, wait_s
        self._jobs: queue.SimpleQueue[Job[AnyPair] | None] = queue.SimpleQueue()
        self._held: Job[AnyPair] | None = None  # came in, but no longer fitted
        self._failed_runs = 0
        self._run_since: float | None = None
        self._thread = threading.Thread(target=self._work, name="rerank", daemon=True)
        self._thread.start()

    def submit(self, pairs: Sequence[AnyPair]) -> Future[list[float]]:
        """Return the scores of the pairs in their order, later; ScoringError if the model fails."""
        job = Job(pairs)
        self._jobs.put(job)
        return job.scores

    def is_failing(self, longest_run_s: float) -> bool:
        """Return whether the last runs all failed, or one has been under way for longer than any should be."""
        since = self._run_since
        return self._failed_runs >= FAILING_AFTER or (since is not None and time.monotonic() - since > longest_run_s)

    def close(self, timeout_s: float = 30.0) -> None:
        """Score the pairs submitted before, then end the thread."""
        self._jobs.put(None)
        self._thread.join(timeout_s)

    def _work(self) -> None:
        while jobs := self._gather():
            self._run_since = time.monotonic()
            self._run([job for job in jobs if job.scores.set_running_or_notify_cancel()])
            self._run_since = None

    def _gather(self) -> list[Job[AnyPair]]:
        """Return the next job and those that come in with it; empty at the end."""
        first = self._held or self._jobs.get()
        self._held = None
        if first is None:
            return []
        jobs, pairs = [first], len(first.pairs)
        until = time.monotonic() + self._wait_s
        while pairs < self._max_pairs:
            try:
                job = self._jobs.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                break
            if job is None:
                self._jobs.put(None)  # for the next round
                break
            if pairs + len(job.pairs) > self._max_pairs:
                self._held = job
                break
            jobs.append(job)
            pairs += len(job.pairs)
        return jobs

    def _run(self, jobs: Sequence[Job[AnyPair]]) -> None:
        if not jobs:
            return
        try:
            scores = self._score([pair for job in jobs for pair in job.pairs])
        except Exception as error:  # libraries fail in errors of any class; the thread must outlive them
            if len(jobs) > 1:
                for job in jobs:
                    self._run([job])
                return
            self._failed_runs += 1
            failure = error if isinstance(error, ScoringError) else ScoringError(f"{type(error).__name__}: {error}")
            jobs[0].scores.set_exception(failure)
            return
        self._failed_runs = 0
        start = 0
        for job in jobs:
            with suppress(InvalidStateError):
                job.scores.set_result(scores[start : start + len(job.pairs)])
            start += len(job.pairs)


_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_PAIRS = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


def _series(name: str, kind: Kind, text: str, unit: Unit = "count", **labels: str) -> Series:
    return Series(f"rerank_{name}", kind, "The reranker sidecar", text, labels, unit, has_tenant=False)


SIDECAR_SERIES: Mapping[str, Series] = {
    series.name: series
    for series in (
        _series("requests", "counter", "Requests to `/rerank`.", status=""),
        _series("request_seconds", "histogram", "From the body to the scores, for requests that got some.", "seconds"),
        _series("requests_in_progress", "gauge", "Requests not answered yet."),
        _series("pairs", "counter", "Pairs of query and passage scored."),
        _series("tokens", "counter", "Tokens scored, without padding."),
        _series("run_pairs", "histogram", "Pairs scored in one run of the model."),
        _series("run_seconds", "histogram", "One run of the model.", "seconds"),
        _series("failed_runs", "counter", "Runs that gave no scores."),
    )
}


class Meters:
    """The metrics of one server, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self.requests = self._made(Counter, "rerank_requests")
        self.seconds = self._made(Histogram, "rerank_request_seconds", buckets=_SECONDS)
        self.in_progress = self._made(Gauge, "rerank_requests_in_progress")
        self.pairs = self._made(Counter, "rerank_pairs")
        self.tokens = self._made(Counter, "rerank_tokens")
        self.run_pairs = self._made(Histogram, "rerank_run_pairs", buckets=_PAIRS)
        self.run_seconds = self._made(Histogram, "rerank_run_seconds", buckets=_SECONDS)
        self.failures = self._made(Counter, "rerank_failed_runs")

    def _made(self, kind: Callable[..., Meter], name: str, **more: Any) -> Meter:
        series = SIDECAR_SERIES[name]
        return kind(f"{PREFIX}{name}", plain_text(series), series.all_labels, registry=self._registry, **more)

    def exposition(self) -> bytes:
        """Return all of them in Prometheus' text format."""
        return generate_latest(self._registry)
