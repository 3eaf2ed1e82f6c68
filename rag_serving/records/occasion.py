"""What a question is asked of and beside: books alone, the state of an application, earlier questions.

Belongs here: plain immutable records. Does not belong here: who asks and what (`receipts.recording`), earlier turns
(`conversations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QuestionMode = Literal["corpus", "book-wide"]
"""All pages of the tenant that its asker may read, or its books alone."""


@dataclass(frozen=True)
class Occasion:
    """What a question is asked of and beside.

    Attributes:
        mode: the pages that it is asked of.
        application: what the application shows to its asker, in lines of text; a language model reads it.
        widgets: the application's widgets, each with its state.
        questions: those before it in the conversation, the last one first.
        as_of: a kept generation that it is asked of, or the date of one; empty: the published one.
    """

    mode: QuestionMode = "corpus"
    application: str = ""
    widgets: tuple[tuple[str, str], ...] = ()
    questions: tuple[str, ...] = ()
    as_of: str = ""


PLAIN = Occasion()
