"""The models that write contexts: the first, and the fallback when a call to it fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rag_serving.config.models import ChatModel, Context, ContextFallback, Price
from rag_serving.models.breaker import Breaker
from rag_serving.models.chat.client import RemoteChat, TooLateError
from rag_serving.models.chat.messages import PromptMessage, Reply, open_chat
from rag_serving.models.protocols import ContextTooLongError, ModelError

BACKOFF_S = 1.0
JITTER = 0.25  # so that calls that failed together do not come back together
FAILURES = 3
RESET_S = 30.0

OpenChat = Callable[[str, ChatModel, str], RemoteChat]


@dataclass(frozen=True)
class ModelName:
    """A provider and the name of its model."""

    provider: str
    model: str

    @property
    def key(self) -> str:
        """The cache key of this model's contexts."""
        return f"{self.provider}/{self.model}"

    @classmethod
    def of(cls, key: str) -> ModelName:
        """Return the name that has this key."""
        provider, _, model = key.partition("/")
        return cls(provider, model)


NOBODY = ModelName("", "")


@dataclass(frozen=True)
class ModelReply:
    """A reply, and its model."""

    reply: Reply
    by: ModelName
    price: Price | None = None


@dataclass
class ContextServer:
    """One model; `shorter` is the same one with fewer output tokens."""

    name: ModelName
    chat: RemoteChat
    shorter: RemoteChat
    price: Price | None = None
    breaker: Breaker = field(default_factory=lambda: Breaker(FAILURES, RESET_S))
    failure: str = ""  # the last one

    async def ask(self, messages: Sequence[PromptMessage], brief: bool) -> ModelReply:
        """Return the model's answer; a failure is counted. Raises ModelError: it does not answer."""
        try:
            reply = await (self.shorter if brief else self.chat).reply_async(messages)
        except ContextTooLongError as error:  # the prompt's fault: the server is well
            self.breaker.succeed()
            self.failure = str(error)
            raise
        except ModelError as error:
            self.breaker.fail()
            self.failure = str(error)
            raise
        self.breaker.succeed()
        return ModelReply(reply, self.name, self.price)


class ContextServers:
    """Calls the first model that answers; the last one is always tried."""

    def __init__(self, servers: Sequence[ContextServer]) -> None:
        self._servers = servers

    async def ask(self, messages: Sequence[PromptMessage], brief: bool = False) -> ModelReply:
        """Return the first answer; `brief` requests fewer tokens. Raises TooLateError: the last model did not answer in
        time. Raises ModelError: no model answers; the message has each one's reason."""
        *first, last = self._servers
        for server in first:
            if server.breaker.allow():
                try:
                    return await server.ask(messages, brief)
                except ModelError:
                    continue
        try:
            return await last.ask(messages, brief)
        except ModelError as error:
            if not first:
                raise
            kind = TooLateError if isinstance(error, TooLateError) else ModelError
            raise kind("; the fallback: ".join(server.failure for server in self._servers)) from error


def open_servers(settings: Context, open_model: OpenChat | None = None) -> ContextServers:
    """Open the configured models without contacting them. Raises ModelError: no model is named, or a named API key is
    not set."""
    opened = open_model or open_patient_chat
    return ContextServers(
        [
            ContextServer(
                model_name(model),
                opened(model.provider, _sized(model, settings.chunks_per_call, 1), section),
                opened(model.provider, _sized(model, settings.chunks_per_call, 2), section),
                price_of(settings, model),
            )
            for section, model in models_of(settings).items()
        ]
    )


def open_patient_chat(provider: str, settings: ChatModel, section: str) -> RemoteChat:
    """Open a model of contexts: nobody waits for it, so requests are repeated after 1, 2 and 4 seconds. Raises
    ModelError: see `open_chat`."""
    chat = open_chat(provider, settings, section)
    chat.backoff_s, chat.jitter = BACKOFF_S, JITTER
    return chat


def models_of(settings: Context) -> dict[str, Context | ContextFallback]:
    """Return the writing models in order of preference, by their sections of the configuration."""
    if settings.provider in ("metadata", "none"):
        return {}
    models: dict[str, Context | ContextFallback] = {"context": settings}
    return models | ({"context.fallback": settings.fallback} if settings.fallback else {})


def model_name(model: Context | ContextFallback) -> ModelName:
    return ModelName(model.provider, model.model or "")


def price_of(settings: Context, model: Context | ContextFallback) -> Price | None:
    """Return a model's price: of its own table, else of the first model's."""
    name = model.model or ""
    return model.prices.get(name) or settings.prices.get(name)


def _sized(settings: ChatModel, passages: int, divisor: int) -> ChatModel:
    """Return the settings for a call: tokens for all of its passages, or a part of them after a time-out."""
    tokens = max(16, settings.max_output_tokens * passages // divisor)
    return settings.model_copy(update={"max_output_tokens": tokens, "first_token_timeout_s": settings.timeout_s})
