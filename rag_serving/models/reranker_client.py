"""The reranker sidecar as a client sees it: one deadline for a whole request, a circuit breaker, checked answers."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import threading
import time
from collections.abc import Collection, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, TypeVar

import httpx

from rag_serving.config.models import Reranker
from rag_serving.config.sections import Features
from rag_serving.deadline import StoppedError, at_most, result_within
from rag_serving.escaping.targets import one_line
from rag_serving.models.breaker import Breaker
from rag_serving.models.http import BadAnswerError, bearer, server_of, tls_context
from rag_serving.models.protocols import ModelError
from rag_serving.tracing.spans import OPERATION, REQUEST_MODEL, RERANK, TEXTS, Attributes, outgoing, span

Result = TypeVar("Result")

_log = logging.getLogger(__name__)

_CHECK_S = 5.0
_GRACE_S = 1.0
_LONGEST_ANSWER = 1_000_000  # bytes; 500 results have some 40,000
_LONGEST_TEXT = 20_000  # characters; more than any model reads
_QUICK_SHARE = 0.25  # of the timeout: a refusal that takes longer costs the question its time
_CONNECTIONS = httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=60)


def open_reranker(features: Features, settings: Reranker) -> RemoteReranker | None:
    """Return the sidecar's client; None if the configuration has no sidecar, or switches it off."""
    return RemoteReranker(settings) if features.FEATURE_RERANKER and settings.url else None


@dataclass(frozen=True)
class SidecarState:
    """A sidecar's description of itself."""

    model: str
    state: str  # ok, or what it is doing instead


def ask_sidecar(settings: Reranker) -> SidecarState:
    """Return the model that serves at `reranker.url`, and whether it is ready. Raises ModelError: the token is not set,
    nothing answers there, another server does, or its model failed."""
    url = settings.url or ""
    bearer(settings.token_env, "reranker.token_env")
    try:
        health, ready = (httpx.get(httpx.URL(url).join(path), timeout=_CHECK_S) for path in ("/healthz", "/readyz"))
        answered = {**health.json(), **ready.json()}
        sidecar = SidecarState(str(answered["model"]), str(answered["status"]))
    except httpx.ConnectError:
        raise ModelError(f"no reranker answers at {url}; start `citelock rerank-service` or set reranker.url") from None
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ModelError(f"the reranker at {url} failed: {one_line(error) or type(error).__name__}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ModelError(f"what answers at {url} is no reranker; set reranker.url") from error
    if health.status_code != 200:
        raise ModelError(f"the model {sidecar.model} of the reranker at {url} is {sidecar.state}; see its log")
    return sidecar


class RemoteReranker:
    """Asks the sidecar at `reranker.url`. Safe to use from several threads; nothing is connected before the first use.
    A request has `timeout_s` in all: connecting, sending, and the last byte of the answer; less where its question has
    less time left, and none once nobody waits for that. Timeouts, transport errors, refusals and answers that are none
    count as failures of the breaker. A 429 that comes at once does not, because a busy sidecar is alive and costs
    nothing; one that keeps its question waiting does."""

    def __init__(self, settings: Reranker, breaker: Breaker | None = None) -> None:
        """Connects to nothing; whether `url` and token can be used shows with the first question."""
        self.url = settings.url or ""
        self.breaker = breaker or Breaker(settings.breaker_failures, settings.breaker_reset_s)
        self._settings = settings
        self._loop = _Loop()
        self._client: httpx.AsyncClient | None = None

    def rank(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]:
        """Return the `top_n` best of the (id, text) passages with their scores, best first. Raises ModelError: the
        token is not set, or the sidecar failed, is busy, or failed so often that it is left alone."""
        told: Attributes = {
            OPERATION: RERANK,
            REQUEST_MODEL: self._settings.model,
            TEXTS: len(passages),
            **server_of(self.url),
        }
        with span(f"{RERANK} {self._settings.model}", told, "client"):
            return self._ranked(query, passages, top_n)

    def _ranked(self, query: str, passages: Sequence[tuple[str, str]], top_n: int) -> list[tuple[str, float]]:
        key = bearer(self._settings.token_env, "reranker.token_env")
        headers = {"Content-Type": "application/json", **key, **outgoing()}
        seconds = at_most(self._settings.timeout_s)
        if not self.breaker.allow():
            raise ModelError(f"the reranker at {self.url} failed a moment ago and is left alone for a while")
        try:
            candidates = [{"id": identifier, "text": text[:_LONGEST_TEXT]} for identifier, text in passages]
            asked = {
                "query": query,
                "candidates": candidates,
                "top_n": top_n,
                "max_seq_len": self._settings.max_seq_len,
            }
            work = self._ask(json.dumps(asked).encode(), headers, seconds)
            content = self._loop.run(work, seconds + _GRACE_S)
            ranking = _ranking(content, {identifier for identifier, _ in passages}, top_n)
        except _BusyError as error:
            self._count_busy(error)
            raise ModelError(f"the reranker at {self.url} is busy ({error}); put several behind one URL") from None
        except (httpx.HTTPError, httpx.InvalidURL, BadAnswerError, OSError, TimeoutError) as error:
            if not isinstance(error, TimeoutError) or seconds >= self._settings.timeout_s / 2:
                self.breaker.fail()  # else it had no time to show that it is alive
            message = self._failure_message(error, seconds)
            _log.warning("%s (circuit breaker: %s)", message, self.breaker.state)
            raise ModelError(message) from error
        except StoppedError:  # the caller left: no fault of the sidecar
            raise
        except BaseException:
            self.breaker.fail()
            raise
        self.breaker.succeed()
        return ranking

    def _count_busy(self, error: _BusyError) -> None:
        """Tell the breaker of a refusal: it is a failure where the question waited for it."""
        if error.waited_s < _QUICK_SHARE * self._settings.timeout_s:
            return self.breaker.succeed()
        self.breaker.fail()
        state = self.breaker.state
        _log.warning("the reranker at %s is busy, and says so late (circuit breaker: %s)", self.url, state)
        return None

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        if self._client is not None:
            self._loop.run(self._client.aclose(), _CHECK_S)
            self._client = None
        self._loop.close()

    async def _ask(self, body: bytes, headers: Mapping[str, str], seconds: float) -> bytes:
        """Return the body of a 200; the deadline cancels the request, even while data trickles in."""
        if self._client is None:
            self._client = httpx.AsyncClient(timeout=None, limits=_CONNECTIONS, verify=tls_context())
        started = time.monotonic()
        async with asyncio.timeout(seconds):
            async with self._client.stream("POST", self.url, content=body, headers=headers) as response:
                content = b""
                async for part in response.aiter_bytes():
                    content += part
                    if len(content) > _LONGEST_ANSWER:
                        raise BadAnswerError(f"its answer is longer than {_LONGEST_ANSWER} bytes")
        if response.status_code == 429:
            raise _BusyError(one_line(content.decode("utf-8", "replace")), time.monotonic() - started)
        if response.status_code != 200:
            raise BadAnswerError(f"HTTP {response.status_code}: {one_line(content.decode('utf-8', 'replace'))}")
        return content

    def _failure_message(self, error: Exception, seconds: float) -> str:
        if isinstance(error, TimeoutError):
            return f"the reranker at {self.url} did not answer within {seconds:.3g} s"
        if isinstance(error, httpx.ConnectError):
            return f"no reranker answers at {self.url}; start `citelock rerank-service` or set reranker.url"
        return f"the reranker at {self.url} failed: {one_line(error) or type(error).__name__}; see its log"


class _BusyError(Exception):
    """The sidecar has as many requests as it takes, which it said after `waited_s` seconds."""

    def __init__(self, text: str, waited_s: float) -> None:
        super().__init__(text)
        self.waited_s = waited_s


class _Loop:
    """An event loop in a thread of its own, so that waiting threads can be given a firm deadline."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def run(self, work: Coroutine[Any, Any, Result], seconds: float) -> Result:
        """Wait for the work, which is cancelled when waiting is interrupted, or nobody waits for the answer."""
        future: Future[Result] = asyncio.run_coroutine_threadsafe(work, self._started())
        try:
            return result_within(future, seconds)
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        with self._lock:
            loop, thread, self._loop, self._thread = self._loop, self._thread, None, None
        if loop and thread:
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="reranker", daemon=True)
                self._thread.start()
            return self._loop


def _ranking(content: bytes, known: Collection[str], top_n: int) -> list[tuple[str, float]]:
    """Return the answered ids and scores, best first. Raises BadAnswerError: other ids than asked, or no numbers."""
    try:
        ranking = [(item["id"], _score(item["score"])) for item in json.loads(content)["results"]]
        answered = {identifier for identifier, _ in ranking}
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError) as error:
        raise BadAnswerError(f"its answer is no ranking ({type(error).__name__}: {error})") from None
    if not answered.issubset(known) or len(ranking) != len(answered) or len(ranking) != min(top_n, len(known)):
        raise BadAnswerError(f"it gave {len(ranking)} results that do not fit the {len(known)} candidates")
    return sorted(ranking, key=lambda pair: -pair[1])


def _score(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise ValueError(f"score {str(value)[:20]!r} is no number")
    return float(value)
