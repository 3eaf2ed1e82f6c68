"""The circumstances of a question: books alone, the state of an application, earlier questions.

Belongs here: plain immutable records. Does not belong here: the asker and the question (`receipts.recording`), earlier
turns (`conversations`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

QuestionMode = Literal["corpus", "book-wide"]
"""All pages of the tenant that its asker may read, or its books alone."""


@dataclass(frozen=True)
class Occasion:
    """The circumstances of a question.

    Attributes:
        mode: the kind of pages that answer it.
        application: the application's state as shown to its asker, in lines of text, for a language model.
        widgets: the application's widgets, each with its state.
        questions: those before it in the conversation, the last one first.
        as_of: an earlier generation that answers it, or the date of one; empty: the published one.
    """

    mode: QuestionMode = "corpus"
    application: str = ""
    widgets: tuple[tuple[str, str], ...] = ()
    questions: tuple[str, ...] = ()
    as_of: str = ""


PLAIN = Occasion()
