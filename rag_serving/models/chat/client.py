"""The common parts of chat servers' clients: patience with a deadline, retries, limits on replies. A server is never
trusted to end: the whole reply has a deadline, so has its first token and every next one, its bytes and characters are
limited, and a loop is cut. All of it runs in an event loop of its own thread, because only there can a request be
abandoned at any point, a name look-up included."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import Any, ClassVar, NoReturn, TypeVar

import httpx

from rag_serving.config.models import ChatModel
from rag_serving.deadline import StoppedError, at_most, result_within, run_in_thread
from rag_serving.models.chat.messages import CHARS_PER_TOKEN, Piece, PromptMessage, Reply, Writing
from rag_serving.models.http import (
    TRANSIENT,
    BadAnswerError,
    bearer,
    busy_error,
    is_busy,
    name_trace_async,
    server_of,
    tls_context,
    wait_s,
)
from rag_serving.models.protocols import ContextTooLongError, ModelError
from rag_serving.tracing import spans

Listen = Callable[[int], None]
"""Called with the characters written so far."""
Result = TypeVar("Result")

_BYTES_PER_TOKEN = 1000
_BYTES_AT_LEAST = 500_000
_GRACE_S = 1.0


Schema = Mapping[str, Any]


class TooLateError(ModelError):
    """The model did not answer in time."""


class RemoteChat(ABC):
    """A language model behind HTTP. Safe to use from several threads. A request is tried `max_retries` more times, with
    exponential backoff and jitter or as `Retry-After` says, on connection errors, 408, 429, 5xx and unreadable answers,
    as long as the deadline allows. A reply that was under way when its deadline passed, or its server fell silent, is
    given as far as it came, cut."""

    kind: ClassVar[str]
    default_url: ClassVar[str]
    openai_path: ClassVar[str] = ""  # below the address, where the server speaks as OpenAI's
    backoff_s: float = 0.5  # before the second try; doubled with each further one
    jitter: float = 1.0  # share of a pause that chance may add

    def __init__(self, settings: ChatModel, section: str, schema: Schema | None = None) -> None:
        """`section` is the configuration's, for messages; `schema` (JSON Schema) is that of replies. Connects to
        nothing. Raises ModelError: no model is named, or the API key's environment variable is named but not set."""
        if not settings.model:
            raise ModelError(f"no model is named; set {section}.model")
        self.model = settings.model
        self.section = section
        self.settings, self.schema = settings, schema
        self.base_url = (settings.base_url or self.default_url).rstrip("/")
        self._headers = {"Accept-Encoding": "identity", **bearer(settings.api_key_env, f"{section}.api_key_env")}

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.model}"

    def reply(self, messages: Sequence[PromptMessage], listen: Listen | None = None) -> Reply:
        """Return the model's answer, within `timeout_s` or the rest of the request's time. Raises ContextTooLongError:
        the messages are too long for the model; ModelError: the model does not answer; the message says how to fix it.
        """
        seconds = at_most(self.settings.timeout_s)
        return run_in_own_loop(self.reply_async(messages, listen, seconds), seconds + _GRACE_S, self._too_late)

    async def reply_async(
        self, messages: Sequence[PromptMessage], listen: Listen | None = None, seconds: float | None = None
    ) -> Reply:
        """Return the same asynchronously, for many requests in one event loop; within `seconds` if given."""
        writing = Writing(CHARS_PER_TOKEN * self.settings.max_output_tokens)
        asked: spans.Attributes = {
            spans.OPERATION: spans.CHAT,
            spans.PROVIDER: self.kind,
            spans.REQUEST_MODEL: self.model,
            spans.MAX_TOKENS: self.settings.max_output_tokens,
            spans.TEMPERATURE: self.settings.temperature,
            spans.INPUT_MESSAGES: spans.message_text([vars(message) for message in messages]),
            **server_of(self.base_url),
        }
        with spans.span(f"{spans.CHAT} {self.model}", asked, "client") as opened:
            try:
                async with asyncio.timeout(self.settings.timeout_s if seconds is None else seconds):
                    await self._persistently(messages, writing, listen)
            except TimeoutError:
                if not writing.text.strip():
                    self._too_late()
                writing.cut = True
            reply = writing.reply(messages)
            said = {"role": "assistant", "content": reply.text}
            opened.set(
                {
                    spans.INPUT_TOKENS: reply.prompt_tokens,
                    spans.OUTPUT_TOKENS: reply.completion_tokens,
                    spans.CACHED_TOKENS: reply.cached_tokens or None,
                    spans.FINISH_REASONS: ("length",) if reply.cut else ("stop",),
                    spans.OUTPUT_MESSAGES: spans.message_text([said]),
                }
            )
        return reply

    def check(self) -> str:
        """Return the state of the model in one line, without generating text. Raises ModelError: the model is unusable;
        the message says how to fix it."""
        return run_in_own_loop(self._checked(), 2 * self.settings.connect_timeout_s + _GRACE_S, self._too_late)

    @abstractmethod
    def stream(self, messages: Sequence[PromptMessage]) -> AsyncIterator[Piece]:
        """Return one request: pieces as they come, or one of `TRANSIENT`, or a ModelError."""

    @abstractmethod
    async def models(self) -> list[str] | None:
        """Return the names of the server's models, or None if it does not list them."""

    @abstractmethod
    def missing(self) -> str:
        """Return the line for a model that the server does not have."""

    def client_options(self) -> dict[str, Any]:
        """Return the options of an httpx client whose server can neither block nor flood this process."""
        limit = max(_BYTES_AT_LEAST, _BYTES_PER_TOKEN * self.settings.max_output_tokens)

        async def guard(response: httpx.Response) -> None:
            response.stream = _Limited(response.stream, limit)  # type: ignore[arg-type]
            if is_busy(response):
                await response.aread()
                raise busy_error(response)

        return {
            "headers": self._headers,
            "timeout": httpx.Timeout(None, connect=self.settings.connect_timeout_s),
            "event_hooks": {"request": [name_trace_async], "response": [guard]},
            "follow_redirects": False,
            "verify": tls_context(),
        }

    async def _persistently(self, messages: Sequence[PromptMessage], writing: Writing, listen: Listen | None) -> None:
        from tenacity import AsyncRetrying, retry_if_exception_type, stop_after_attempt, stop_before_delay

        retrying = AsyncRetrying(
            stop=stop_after_attempt(self.settings.max_retries + 1) | stop_before_delay(self.settings.timeout_s),
            wait=lambda state: wait_s(state, self.backoff_s, self.jitter),
            retry=retry_if_exception_type(TRANSIENT),
            reraise=True,
        )
        try:
            await retrying(self._once, messages, writing, listen)
        except TRANSIENT as error:
            self._give_up(error)

    async def _once(self, messages: Sequence[PromptMessage], writing: Writing, listen: Listen | None) -> None:
        writing.begin()
        loop, patience_s = asyncio.get_running_loop(), self.settings.token_timeout_s
        async with asyncio.timeout(patience_s) as patience, aclosing(_generator(self.stream(messages))) as pieces:
            async for piece in pieces:
                patience.reschedule(loop.time() + patience_s)
                writing.add(piece)
                if listen:
                    listen(len(writing.text))
                if writing.cut:
                    return
        if not writing.text.strip():
            raise BadAnswerError("it wrote nothing")

    async def _checked(self) -> str:
        try:
            listed = await self.models()
        except TRANSIENT as error:
            self._give_up(error)
        if listed is None:
            return f"{self.name} at {self.base_url}, which does not list its models"
        if not self.is_among(listed):
            raise ModelError(self.missing())
        return f"{self.name} at {self.base_url}"

    def is_among(self, listed: Sequence[str]) -> bool:
        """Return whether the model is one of those that the server lists."""
        return self.model in listed

    def context_too_long(self, said: str) -> ContextTooLongError:
        """Return the error for a prompt that is too long for the model, with the server's message."""
        return ContextTooLongError(
            f"the prompt is too long for {self.model!r} at {self.base_url}: {said}; lower {self.section}.context_tokens"
        )

    def _give_up(self, error: Exception) -> NoReturn:
        """Turn the last transient failure into a ModelError that says how to mend it."""
        if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, ConnectionError)):
            raise ModelError(
                f"no chat server answers at {self.base_url}; start it or set {self.section}.base_url"
            ) from error
        what = str(error) or type(error).__name__
        raise ModelError(f"the chat server at {self.base_url} failed: {what}; see the server's log") from error

    def _too_late(self) -> NoReturn:
        raise TooLateError(
            f"{self.name} at {self.base_url} did not answer in time; "
            f"raise {self.section}.timeout_s or choose a smaller model"
        )


class _Limited(httpx.AsyncByteStream):
    """A body of which no more than `limit` bytes are read."""

    def __init__(self, stream: httpx.AsyncByteStream, limit: int) -> None:
        self._stream, self._left = stream, limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for chunk in self._stream:
            self._left -= len(chunk)
            if self._left < 0:
                raise BadAnswerError("its answer does not end")
            yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


def run_in_own_loop(
    work: Coroutine[Any, Any, Result], seconds: float, too_late: Callable[[], NoReturn], name: str = "chat"
) -> Result:
    """Run a coroutine in an event loop of its own thread, and wait no longer than `seconds` for it. The caller may have
    an event loop running itself. The thread is left behind where even cancelling takes too long."""
    running: list[tuple[asyncio.AbstractEventLoop, asyncio.Task[Any] | None]] = []

    async def working() -> Result:
        running.append((asyncio.get_running_loop(), asyncio.current_task()))
        return await work

    outcome = run_in_thread(spans.carried(lambda: asyncio.run(working())), name)
    try:
        return result_within(outcome, seconds)
    except TimeoutError:
        too_late()
    except StoppedError:
        for loop, task in running:
            with suppress(RuntimeError):  # it ended by itself
                loop.call_soon_threadsafe(task.cancel if task else loop.stop)
        raise


def _generator(pieces: AsyncIterator[Piece]) -> Any:
    """Return the same object for type checkers that do not know that an async generator can be closed."""
    return pieces
