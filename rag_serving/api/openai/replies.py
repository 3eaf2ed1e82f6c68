"""What a chat client is shown of an answer: its Markdown, where its citations stand in it, how long it is.

Belongs here: the parts that both of OpenAI's formats show. Does not belong here: their shapes (`completions`,
`responses`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rag_serving.answering.markdown import linked_markdown
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.wire import RequestError
from rag_serving.models.embedding.token_count import TokenCount
from rag_serving.records.answers import Answer


class Usage(NamedTuple):
    """Tokens that were read and written."""

    read: int = 0
    written: int = 0

    def chat(self) -> dict[str, int]:
        """Return the shape of chat completions."""
        return {
            "prompt_tokens": self.read,
            "completion_tokens": self.written,
            "total_tokens": self.read + self.written,
        }


@dataclass(frozen=True)
class Reply:
    """A text with its citations."""

    text: str
    citations: tuple[dict[str, Any], ...] = ()  # of type url_citation: offsets of the marker, address, title
    answer: Answer | None = None  # None: a client's own prompt was answered

    @classmethod
    def of(cls, answer: Answer) -> Reply:
        """Return an answer as a reply."""
        linked = linked_markdown(answer)
        citations = tuple(
            {
                "start_index": marker.start,
                "end_index": marker.end,
                "url": marker.citation.fragment_url,
                "title": marker.citation.title,
            }
            for marker in linked.markers
            if marker.citation.fragment_url.startswith(("https://", "http://"))
        )
        return cls(linked.text, citations, answer)

    @property
    def refusal(self) -> RequestError | None:
        """The error of an answer that is not available now."""
        if self.answer is None or self.answer.status != "unavailable":
            return None
        return RequestError(503, "UNAVAILABLE", self.answer.answer, retry_after=RETRY_AFTER_S)

    @property
    def structured(self) -> dict[str, Any]:
        """The whole answer, in a field of its own that other clients ignore."""
        return {"citelock": self.answer.payload()} if self.answer else {}


@dataclass
class Counter:
    """Counts the tokens of one exchange, once."""

    read: Sequence[str]
    tokens: TokenCount
    usage: Usage = field(default_factory=Usage)

    def count(self, reply: Reply) -> Usage:
        """Return the tokens that a model behind the answer took, as its server says; else those of what came in and
        went out."""
        if reply.answer and (used := reply.answer.usage):
            self.usage = Usage(used.prompt_tokens, used.completion_tokens)
        else:
            self.usage = Usage(self.tokens(self.read), self.tokens([reply.text]))
        return self.usage
