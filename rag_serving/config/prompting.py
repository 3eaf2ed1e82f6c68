"""The section `prompt`: what a language model reads beside a question, within budgets of tokens.

Belongs here: keys, types, defaults. Does not belong here: acting on them (`answering.writing.prompt`,
`answering.writing.prompt`); the model itself (`sections`).
"""

from __future__ import annotations

from typing import ClassVar

from pydantic import Field

from rag_serving.config.sources import Section


class Prompt(Section):
    """What a language model reads in addition to a question; extraction uses none of it. Tokens that one part does not
    use are available for passages. If passages do not fit, those with the lowest scores are left out first."""

    concepts: dict[str, str] = Field({})
    """Core concepts, one sentence each, sent with every question. Sent with every question."""
    # Tokens of core concepts; concepts beyond this limit are left out, the last ones first.
    concept_tokens: ClassVar[int] = 500
    document_tokens: ClassVar[int] = 1500  # tokens of passages
    book_tokens: ClassVar[int] = 5000  # tokens of passages for questions to the books only
    application_tokens: ClassVar[int] = 300  # tokens of the application state (`context.application` of a question)
    widget_tokens: ClassVar[int] = 200  # tokens of the states of its widgets (`context.widgets`)
    # Tokens of earlier questions of the conversation; the oldest are left out first.
    message_tokens: ClassVar[int] = 500

    def passage_tokens(self, mode: str) -> int:
        """Return the tokens of passages for questions of a mode."""
        return {"book-wide": self.book_tokens}.get(mode, self.document_tokens)
