"""What a question is asked of and beside: books alone, the state of an application, earlier questions.

Belongs here: plain immutable records. Does not belong here: who asks and what (`receipts.recording`), earlier turns
(`conversations`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Occasion:
    """What a question is asked of and beside.

    Attributes:
        is_book: it is asked of the books of the tenant alone.
        application: what the application shows to its asker, in lines of text; a language model reads it.
        widgets: the application's widgets, each with its state.
        questions: those before it in the conversation, the last one first.
    """

    is_book: bool = False
    application: str = ""
    widgets: tuple[tuple[str, str], ...] = ()
    questions: tuple[str, ...] = ()


PLAIN = Occasion()
