"""Read the questions of handbooks, and weigh them.

The form of a question betrays its label (`../shared/data/reader/README.md`), so each question is weighted by
the inverse propensity of its form.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path


@dataclass(frozen=True)
class Text:
    """A passage: its heading path and its units."""

    corpus: str
    headings: str
    units: tuple[str, ...]


@dataclass(frozen=True)
class ReaderExample:
    """A question, its passage, and the units that answer it (none: a near miss)."""

    question: str
    passage: Text
    answer: tuple[int, ...]
    weight: float = 1.0

    @property
    def corpus(self) -> str:
        return self.passage.corpus


def handbooks(folder: Path) -> list[ReaderExample]:
    """Return the questions of `../shared/data/reader`."""
    texts = {}
    for line in (folder / "passages.jsonl").read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        texts[row["id"]] = Text(row["repository"], " → ".join(row["heading_path"]), tuple(row["units"]))
    rows = map(json.loads, (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines())
    return [
        ReaderExample(row["question"], texts[row["passage"]], tuple(row["answer"]))
        for row in rows
        if row["passage"] in texts
    ]


def weighted(asked: Sequence[ReaderExample]) -> list[ReaderExample]:
    """Return the questions weighted by how little their form says of their label: 0.3 to 3, 1 in the mean."""
    counts: dict[str, Counter[bool]] = defaultdict(Counter)
    shares = Counter(bool(each.answer) for each in asked)
    for each in asked:
        counts[_form(each.question)][bool(each.answer)] += 1

    def weight(each: ReaderExample) -> float:
        own, label = counts[_form(each.question)], bool(each.answer)
        prior = shares[label] / len(asked)
        likely = (own[label] + 4 * prior) / (own.total() + 4)
        return min(max(prior / likely, 0.3), 3.0)

    return [replace(each, weight=weight(each)) for each in asked]


def _form(question: str) -> str:
    words = question.lower().split()
    return f"{' '.join(words[:1])}|{min(len(words) // 5, 3)}|{question.rstrip().endswith('?')}"
