"""Sending spans to a collector over OTLP/HTTP, in the background. A collector that is away costs nothing but one line
of the log: spans wait in a queue of bounded length, and what does not fit is dropped."""

from __future__ import annotations

import atexit
import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from rag_serving.config.loading import ConfigError
from rag_serving.config.sections import Tracing
from rag_serving.escaping.targets import one_line
from rag_serving.tracing import spans
from rag_serving.tracing.spans import ERROR_TYPE, Ended

if TYPE_CHECKING:
    from opentelemetry.sdk.trace.export import SpanExporter

PATH = "/v1/traces"
_SCOPE = "citelock"
_TIMEOUT_S, _ASK_S = 5.0, 2.0
_PAUSE_MS = 5000.0
"""Milliseconds that spans are gathered for before they are sent."""
_CLOSE_S = 2.0  # that a process which ends waits for its last spans to be sent
_QUIET = ("opentelemetry.exporter.otlp", "opentelemetry.exporter.http", "opentelemetry.sdk")

_log = logging.getLogger(__name__)
_lock = threading.Lock()
_opened: _Exporting | None = None
_named_trace: ContextVar[int | None] = ContextVar("named_trace", default=None)


def check_tracing(settings: Tracing) -> None:
    """Check that spans can be sent as the configuration says; nothing is opened. Raises ConfigError: a collector is
    named, and the extra `tracing` is not installed."""
    if settings.endpoint is None:
        return
    try:
        import opentelemetry.exporter.otlp.proto.http.trace_exporter
        import opentelemetry.sdk.trace.export  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"tracing.endpoint needs OpenTelemetry ({error}); pip install 'citelock[tracing]', or remove it"
        ) from None


def address_of(settings: Tracing) -> str:
    """Return the address for spans; a collector must be configured."""
    endpoint = str(settings.endpoint).rstrip("/")
    return endpoint if endpoint.endswith(PATH) else f"{endpoint}{PATH}"


def is_taken(settings: Tracing) -> bool:
    """Return whether the configured collector accepts data: a request without any span, for some seconds. Raises
    ConfigError: a collector is named, and the extra `tracing` is not installed."""
    check_tracing(settings)
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.trace.export import SpanExportResult

    _quieten()
    exporter = OTLPSpanExporter(endpoint=address_of(settings), timeout=_ASK_S)
    try:
        return exporter.export([]) is SpanExportResult.SUCCESS
    finally:
        exporter.shutdown()  # type: ignore[no-untyped-call]


def _quieten() -> None:
    """Let the log have our own lines alone."""
    for name in _QUIET:
        logging.getLogger(name).setLevel(logging.CRITICAL)


def open_tracing(settings: Tracing, service: str) -> None:
    """Send the spans of this process as the configuration says; if it names no collector, or they are sent already,
    nothing is done. `service`: the name that traces show for this process. Raises ConfigError: a collector is named,
    and the extra `tracing` is not installed."""
    global _opened
    if settings.endpoint is None:
        return
    with _lock:
        if _opened is None:
            _opened = _Exporting(settings, service)
            atexit.register(close_tracing)


def close_tracing(wait_s: float = _CLOSE_S) -> None:
    """Send the rest and stop, within so many seconds; data not accepted by then is dropped."""
    global _opened
    with _lock:
        if _opened is None:
            return
        closing, _opened = _opened, None
        spans.use(None)
        atexit.unregister(close_tracing)
    closing.close(wait_s)


@contextmanager
def trace_of(identifier: bytes) -> Iterator[None]:
    """Give a span that begins a trace in this block this id, so that processes which share nothing but a name make one
    trace; `identifier`: 16 bytes, not all zero."""
    token = _named_trace.set(int.from_bytes(identifier[:16], "big"))
    try:
        yield
    finally:
        _named_trace.reset(token)


class _Exporting:
    def __init__(self, settings: Tracing, service: str) -> None:
        check_tracing(settings)
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        class Ids(RandomIdGenerator):
            """Random ids, but for the trace that `trace_of` names."""

            def generate_trace_id(self) -> int:
                return _named_trace.get() or super().generate_trace_id()

        _quieten()
        endpoint = address_of(settings)
        self._exporter = _told_once(OTLPSpanExporter(endpoint=endpoint, timeout=_TIMEOUT_S), endpoint)
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": service, "service.version": version("citelock")}),
            id_generator=Ids(),
            shutdown_on_exit=False,
        )
        self._processor = BatchSpanProcessor(self._exporter, schedule_delay_millis=_PAUSE_MS)
        self._provider.add_span_processor(self._processor)
        tracer = self._provider.get_tracer(_SCOPE, version("citelock"))
        spans.use(spans.Spans(tracer, self._emitting(), settings.text))

    def _emitting(self) -> Callable[[Ended], None]:
        from opentelemetry.sdk.trace import ReadableSpan
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope
        from opentelemetry.trace import Status, StatusCode

        scope, resource = InstrumentationScope(_SCOPE, version("citelock")), self._provider.resource

        def emit(part: Ended) -> None:
            reason = part.attributes.get(ERROR_TYPE)
            status = Status(StatusCode.ERROR, reason) if reason else Status()
            about: dict[str, Any] = {"start_time": part.started, "end_time": part.ended, "instrumentation_scope": scope}
            named = part.name, part.context, part.parent, resource, part.attributes
            self._processor.on_end(ReadableSpan(*named, status=status, **about))

        return emit

    def close(self, wait_s: float) -> None:
        """Send the rest, for so long; the thread that waits for a collector keeps no process alive."""
        ending = threading.Thread(target=self._provider.shutdown, name="tracing-end", daemon=True)
        ending.start()
        ending.join(wait_s)
        self._exporter.is_silent = True  # errors of an abandoned thread are reported to nobody


def _told_once(exporter: SpanExporter, endpoint: str) -> Any:
    """Return an exporter of which the log has one line when a collector goes away, and one when it is back."""
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

    class Told(SpanExporter):
        is_away = is_silent = False

        def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
            try:
                result = exporter.export(spans)
            except Exception as error:  # of the transport: it must not end the thread that sends
                result = SpanExportResult.FAILURE
                _log.debug("traces: %s", one_line(error))
            is_away = result is not SpanExportResult.SUCCESS
            if self.is_silent:
                return result
            if is_away and not self.is_away:
                _log.warning("traces cannot be sent to %s, and are dropped until it takes them", endpoint)
            elif self.is_away and not is_away:
                _log.warning("traces are sent to %s again", endpoint)
            self.is_away = is_away
            return result

        def shutdown(self) -> None:
            exporter.shutdown()

        def force_flush(self, timeout_millis: int = 30_000) -> bool:
            return exporter.force_flush(timeout_millis)

    return Told()
