"""Measure what the redactor finds of personal data, and how long it takes: `python -m evals.bench.privacy`.

Belongs here: precision and recall on `evals/gold/privacy/texts.yaml`, time by length; with `--names-model` the time
that a model of names adds. Does not belong here: finding (`rag_serving.privacy`).
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import yaml

from citelock_governance.privacy.names import NameFinder
from rag_serving.privacy import PersonalData, Redactor

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
    """Return the personal data missed in a text, and the false positives."""
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


def name_times(folder: Path, questions: int = 50, characters: int = 100_000) -> dict[str, float]:
    """Return how long a model of names takes to open and read a word, to read a question, and to read a long text.

    Raises:
        NamesError: the model cannot be opened.
    """
    finder, begun = NameFinder(folder), time.perf_counter()
    finder.spans("Ann")
    opened = time.perf_counter()
    for number in range(questions):  # each text is another one: those of before are remembered
        finder.spans(f"{number} {_QUESTION}")
    asked = time.perf_counter()
    finder.spans((_QUESTION * (characters // len(_QUESTION) + 1))[:characters])
    return {
        "names_opened_s": round(opened - begun, 2),
        "names_question_ms": round((asked - opened) / questions * 1000, 2),
        "names_100_kilobytes_s": round(time.perf_counter() - asked, 2),
    }


def main() -> None:
    """Print figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.privacy", description=__doc__)
    parser.add_argument("--names-model", type=Path, help="the folder of a model of names, as privacy.names_model")
    arguments = parser.parse_args()
    times = {
        "question_ms": round(seconds_of(_QUESTION, 200) * 1000, 3),
        "plain_question_ms": round(seconds_of("How long are the logs of the scheduler kept?", 200) * 1000, 4),
        "megabyte_s": round(seconds_of((_QUESTION * 10_000)[:1_000_000]), 3),
    }
    names = name_times(arguments.names_model) if arguments.names_model else {}
    print(json.dumps({"regions": REGIONS, "kinds": figures(), **times, **names}, indent=2))


if __name__ == "__main__":
    main()
