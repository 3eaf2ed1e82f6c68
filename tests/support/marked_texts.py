"""Texts with marked personal data (`evals/gold/privacy/texts.yaml`), and what the redactor finds of them."""

from __future__ import annotations

import re
import time
from dataclasses import dataclass
from pathlib import Path

import yaml

from rag_serving.privacy import PersonalData, Redactor

TEXTS = Path(__file__).parents[2] / "evals" / "gold" / "privacy" / "texts.yaml"
REGIONS = ("US", "GB", "DE")
_MARK = re.compile(r"\[\[(email|iban|card|national_id|phone):(.*?)\]\](?!\])")
_QUESTION = (
    "How do I reset the password of ann@example.com, and whom do I call: +49 30 901820 or 030 901820 (order 12345)? "
)


@dataclass(frozen=True)
class MarkedText:
    """A text with what is personal in it."""

    text: str
    personal: frozenset[tuple[str, str]]
    regions: tuple[str, ...]


def marked_texts() -> list[MarkedText]:
    """Return the texts of the set."""
    texts = []
    for entry in yaml.safe_load(TEXTS.read_text(encoding="utf-8")):
        personal = frozenset((match[1], match[2]) for match in _MARK.finditer(entry["text"]))
        text = _MARK.sub(lambda match: match[2], entry["text"])
        texts.append(MarkedText(text, personal, tuple(entry.get("regions", ()))))
    return texts


def compare(text: MarkedText) -> tuple[frozenset[tuple[str, str]], frozenset[tuple[str, str]]]:
    """Return the personal data missed in a text, and the false positives."""
    found: list[PersonalData] = Redactor(regions=text.regions).find(text.text)
    told = frozenset((one.kind, text.text[one.start : one.end]) for one in found)
    return text.personal - told, told - text.personal


def seconds_of(text: str, rounds: int = 1) -> float:
    """Return the shortest time that redacting a text takes, in seconds."""
    redactor, best = Redactor(regions=REGIONS), float("inf")
    redactor.redacted(_QUESTION)
    for _ in range(rounds):
        begun = time.perf_counter()
        redactor.redacted(text)
        best = min(best, time.perf_counter() - begun)
    return best
