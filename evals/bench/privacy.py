"""Measure what the redactor finds of personal data, and how long it takes: `python -m evals.bench.privacy`.

Belongs here: precision and recall on `evals/gold/privacy/texts.yaml`, time by length. Does not belong here: finding
(`rag_serving.privacy`).
"""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from rag_serving.privacy.redactor import PersonalData, Redactor

TEXTS = Path(__file__).parents[1] / "gold" / "privacy" / "texts.yaml"
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
    """Return what was missed in a text, and what was found that is not personal."""
    found: list[PersonalData] = Redactor(regions=text.regions).find(text.text)
    told = frozenset((one.kind, text.text[one.start : one.end]) for one in found)
    return text.personal - told, told - text.personal


def figures() -> dict[str, dict[str, float]]:
    """Return precision, recall and the number of each kind."""
    right, missed, wrong = Counter[str](), Counter[str](), Counter[str]()
    for text in marked_texts():
        lost, extra = compare(text)
        right.update(kind for kind, _ in text.personal - lost)
        missed.update(kind for kind, _ in lost)
        wrong.update(kind for kind, _ in extra)
    kinds = sorted({*right, *missed, *wrong})
    return {
        kind: {
            "precision": round(right[kind] / max(1, right[kind] + wrong[kind]), 3),
            "recall": round(right[kind] / max(1, right[kind] + missed[kind]), 3),
            "texts": right[kind] + missed[kind],
        }
        for kind in kinds
    }


def seconds_of(text: str, rounds: int = 1) -> float:
    """Return the shortest time that redacting a text takes, in seconds."""
    redactor, best = Redactor(regions=REGIONS), float("inf")
    redactor.redacted(_QUESTION)
    for _ in range(rounds):
        begun = time.perf_counter()
        redactor.redacted(text)
        best = min(best, time.perf_counter() - begun)
    return best


def main() -> None:
    """Print figures as JSON."""
    times = {
        "question_ms": round(seconds_of(_QUESTION, 200) * 1000, 3),
        "plain_question_ms": round(seconds_of("How long are the logs of the scheduler kept?", 200) * 1000, 4),
        "megabyte_s": round(seconds_of((_QUESTION * 10_000)[:1_000_000]), 3),
    }
    print(json.dumps({"regions": REGIONS, "kinds": figures(), **times}, indent=2))


if __name__ == "__main__":
    main()
