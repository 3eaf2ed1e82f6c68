"""A conversation with a language model: messages, pieces of a stream, the reply in the making."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from rag_serving.config.models import ChatModel
    from rag_serving.models.chat.client import RemoteChat, Schema


def open_chat(provider: str, settings: ChatModel, section: str, schema: Schema | None = None) -> RemoteChat:
    """Open the configured language model without contacting it. Replies are JSON of this schema, if its server supports
    that. Raises ModelError: no model is named, or a named API key is not set."""
    from rag_serving.models.chat.providers import CHATS

    return CHATS[provider](settings, section, schema)


CHARS_PER_TOKEN = 6
# A text whose last part occurs this often in the text just before it is a loop.
_LOOP_PART, _LOOP_WINDOW, _LOOP_TIMES = 48, 1600, 8


@dataclass(frozen=True)
class PromptMessage:
    """One message of a prompt."""

    role: Literal["system", "user", "assistant"]
    content: str


@dataclass(frozen=True)
class Piece:
    """One event of a stream: more text, the reason for its end, or the counted tokens."""

    text: str = ""
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None


@dataclass(frozen=True)
class Reply:
    """A model's reply; `cut` if it did not come to its own end."""

    text: str
    prompt_tokens: int
    completion_tokens: int
    cut: bool = False
    cached_tokens: int = 0  # of the prompt: read from the server's cache


@dataclass
class Writing:
    """A reply in the making."""

    limit: int  # characters
    text: str = ""
    finish: str | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    cut: bool = False

    def begin(self) -> None:
        """Forget an earlier try's text."""
        self.text, self.finish, self.cut = "", None, False
        self.prompt_tokens = self.completion_tokens = self.cached_tokens = None

    def add(self, piece: Piece) -> None:
        """Add a piece; text beyond the limit, and endless repetition, is cut."""
        before = len(self.text)
        self.text += piece.text
        self.finish = piece.finish or self.finish
        self.prompt_tokens = piece.prompt_tokens if piece.prompt_tokens is not None else self.prompt_tokens
        self.completion_tokens = (
            piece.completion_tokens if piece.completion_tokens is not None else self.completion_tokens
        )
        self.cached_tokens = piece.cached_tokens if piece.cached_tokens is not None else self.cached_tokens
        if len(self.text) > self.limit:
            self.text, self.cut = self.text[: self.limit], True
        elif before // _LOOP_PART != len(self.text) // _LOOP_PART:
            self.cut = loops(self.text)

    def reply(self, prompt: Sequence[PromptMessage]) -> Reply:
        """Return the reply; tokens that the server did not count are estimated."""
        sent, written = self.prompt_tokens, self.completion_tokens
        sent = sum(len(message.content) for message in prompt) // 4 if sent is None else sent
        written = len(self.text) // 4 if written is None else written
        return Reply(self.text, sent, written, self.cut or self.finish == "length", self.cached_tokens or 0)


def loops(text: str) -> bool:
    """Return whether the end of a text has been repeated so often that nothing new is to be expected."""
    part = text[-_LOOP_PART:]
    return len(part) == _LOOP_PART and text[-_LOOP_WINDOW:].count(part) >= _LOOP_TIMES
