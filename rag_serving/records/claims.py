"""Claims: what a generator wrote, and what verification said of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Support = Literal["verbatim", "quoted", "unchecked"]
"""What the sentence of a claim is worth: its passage's own words; not these, so that readers see them in its place; not
looked at, because the claim was dropped."""
EXTRACTIVE = "extractive"
"""The writer whose sentences are cut out of passages."""


@dataclass(frozen=True)
class Claim:
    """A sentence a generator wrote, the passage it cites, and the words it quotes from there."""

    text: str
    index: int
    quote: str
    others: tuple[str, ...] = ()  # of a selected claim: the parts of the passage that it is made of, where not of one
    is_selected: bool = False  # its words were taken from the passage, and not written


@dataclass(frozen=True)
class RejectedCandidate:
    """A sentence that extraction ranked and did not choose, with what speaks for it."""

    passage: int  # its place in the lock, from 1
    text: str
    score: float  # by which sentences of one question are ordered
    features: Mapping[str, float]


@dataclass(frozen=True)
class Usage:
    """The usage of a model's reply."""

    prompt_tokens: int
    completion_tokens: int
    cost: float  # by the configuration's prices

    def payload(self) -> dict[str, float]:
        return dict(vars(self))


@dataclass(frozen=True)
class Draft:
    """A generator's draft, before verification. No claim, or declined: no answer in the passages."""

    claims: tuple[Claim, ...]
    model: str
    declined: bool = False
    flags: tuple[str, ...] = ()  # what is not as it should be
    notes: tuple[str, ...] = ()  # what was done on the way, a line each
    usage: Usage | None = None
    confidence: float | None = None  # how likely the best claim answers, 0 to 1; None: the writer does not say
    evidence: Mapping[str, float] = field(default_factory=dict)  # what speaks for the best claim, by name
    rejected: tuple[RejectedCandidate, ...] = ()  # the next best, best first
    further: tuple[Claim, ...] = ()  # the runners-up, for showing the closest


@dataclass(frozen=True)
class Verdict:
    """The verdict on one claim's quote."""

    claim: Claim
    outcome: Literal["exact", "fuzzy", "swapped", "dropped"]
    reason: str
    index: int | None = None
    start: int | None = None  # offsets of the quote in the passage's text
    end: int | None = None
    told: str = ""  # the page's words that readers see of it
    support: Support = "unchecked"
