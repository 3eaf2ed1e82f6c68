"""The decision on a question once its passages are ranked: an answer, or a clarifying question.

Belongs here: plain immutable records. Does not belong here: deciding (`retrieval`), wording (`answering.clarifying`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Action = Literal["answer", "weak", "ambiguous", "unsure", "no_match"]
"""`weak`: one thing may be meant, and it is not sure; `ambiguous`: several are about as likely; `unsure`: answered
where the answer is confident, else asked back as `weak`; `no_match`: none."""


@dataclass(frozen=True)
class Contender:
    """A page, or a section of one, that a question may mean; its asker may read it."""

    label: str  # title, or title and heading where several sections of one page contend
    category: str  # of the document; empty if it has none
    query: str  # what to ask to mean this one
    url: str
    page_id: str
    score: float  # what contenders were ordered by


@dataclass(frozen=True)
class Decision:
    """The decision on a question, and its candidates.

    Attributes:
        contenders: the likeliest first.
        confidence: (top score - second score) / top score, 0 to 1.
        reason: in one line, for explain and logs.
        is_several: the question has two topics with different contenders: both are answered.
    """

    action: Action
    contenders: tuple[Contender, ...] = ()
    confidence: float = 0.0
    reason: str = ""
    is_several: bool = False

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {**vars(self), "contenders": [dict(vars(each)) for each in self.contenders]}
