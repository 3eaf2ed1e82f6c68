"""The decision on a question once its passages are ranked: an answer, or a clarifying question."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Gate = Literal[
    "empty", "order", "pointer", "passages", "similarity", "coverage", "no_sentence", "declined", "verification",
    "confidence", "remark", "ocr", "meaning", "named", "marked",
]  # fmt: skip
"""What kept a question from a confident answer: it has no words, gives orders, or points at something; no passage was
found, or none is near; no sentence answers, or the model says so; nothing stands; the best is doubtful; a remark; OCR
was not sure of what it read; it is not clear which of several things is meant; what the question names by a number or
an identifier is not named by what is shown; its page or heading says that it is no longer, or not, in force."""
OptionKind = Literal["question", "page", "spelling", "meaning"]
"""What an option is: another question, a page to read, the question with its words as they were typed, one of the
things that may be meant."""


@dataclass(frozen=True)
class Rejected:
    """The best sentence that was not good enough, and its place."""

    sentence: str
    chunk_id: str
    title: str
    url: str
    reason: str = ""  # what verification said of it


@dataclass(frozen=True)
class Refusal:
    """The reason for an unconfident answer."""

    gate: Gate
    reason: str  # in one line
    value: float | None = None  # what the gate looked at
    threshold: float | None = None  # the request
    best: Rejected | None = None  # if requested

    def payload(self) -> dict[str, Any]:
        return {**vars(self), "best": vars(self.best) if self.best else None}


@dataclass(frozen=True)
class ClarificationOption:
    """A next step for the asker: send `query`, or open the page at `url`."""

    label: str
    kind: OptionKind | None = None
    query: str | None = None
    url: str | None = None
    category: str | None = None  # of the document that it leads to, as its front matter or its space says


@dataclass(frozen=True)
class Clarification:
    """A note to the asker beside the answer, and next steps."""

    text: str
    options: tuple[ClarificationOption, ...] = ()

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {"text": self.text, "options": [dict(vars(option)) for option in self.options]}


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
    """The decision on a question, and its candidates."""

    action: Action
    contenders: tuple[Contender, ...] = ()  # the likeliest first
    confidence: float = 0.0  # (top score - second score) / top score, 0 to 1
    reason: str = ""  # in one line, for explain and logs
    is_several: bool = False  # the question has two topics with different contenders: both are answered

    def payload(self) -> dict[str, Any]:
        """Return the JSON shape."""
        return {**vars(self), "contenders": [dict(vars(each)) for each in self.contenders]}
