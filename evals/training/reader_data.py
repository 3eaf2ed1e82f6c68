"""Read the questions that the reader learns from, with passages of the search beside those that answer.

Belongs here: the files, mined passages, the weights of forms. Does not belong here: the model (`train_reader`).

The form of a question betrays its label (`../shared/data/reader/README.md`), so questions lose their case and question
mark, and each is weighted by the inverse propensity of its form.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Embed = Callable[[Sequence[str]], NDArray[np.float32]]

MINED = 8  # passages of the search from which wrong ones are drawn
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z0-9\"“(])")


@dataclass(frozen=True)
class Text:
    """A passage: its heading path and its units."""

    corpus: str
    headings: str
    units: tuple[str, ...]

    @property
    def whole(self) -> str:
        return " ".join((self.headings, *self.units))


@dataclass(frozen=True)
class ReaderExample:
    """A question, its passage, the units that answer it (none: a near miss), and passages that the search finds."""

    question: str
    passage: Text
    answer: tuple[int, ...]
    near: tuple[Text, ...] = ()
    weight: float = 1.0

    @property
    def corpus(self) -> str:
        return self.passage.corpus


def plain(question: str) -> str:
    """Return a question without what its form betrays: case, and the mark at its end."""
    return " ".join(question.lower().rstrip(" ?!.").split())


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


def squad(file: Path) -> list[ReaderExample]:
    """Return the questions of a file of SQuAD 2.0; an article is a corpus."""
    asked = []
    for article in json.loads(file.read_text(encoding="utf-8"))["data"]:
        title = article["title"].replace("_", " ")
        for paragraph in article["paragraphs"]:
            units = tuple(_SENTENCE.split(paragraph["context"]))
            ends = np.cumsum([len(unit) + 1 for unit in units])
            for entry in paragraph["qas"]:
                starts = {answer["answer_start"] for answer in entry["answers"]} if not entry["is_impossible"] else ()
                answer = sorted({int(np.searchsorted(ends, start, "right")) for start in starts})
                asked.append(ReaderExample(entry["question"], Text(article["title"], title, units), tuple(answer)))
    return asked


def mined(asked: Sequence[ReaderExample], passages: Sequence[Text], embed: Embed) -> list[ReaderExample]:
    """Return the questions with the passages of their corpus that words and vectors find first, their own left out."""
    by_corpus: dict[str, list[ReaderExample]] = defaultdict(list)
    for each in asked:
        by_corpus[each.corpus].append(each)
    found: list[ReaderExample] = []
    for corpus, own in by_corpus.items():
        texts = [text for text in passages if text.corpus == corpus]
        vectors, words = embed([text.whole for text in texts]), _Words([text.whole for text in texts])
        asked_vectors = embed([each.question for each in own])
        for each, vector in zip(own, asked_vectors, strict=True):
            scores = _standard(vectors @ vector) + _standard(words.scores(each.question))
            order = [texts[at] for at in np.argsort(-scores)[: MINED + 1] if texts[at] != each.passage]
            found.append(replace(each, near=tuple(order[:MINED])))
    return found


class _Words:
    """BM25 of a few hundred passages."""

    def __init__(self, texts: Sequence[str]) -> None:
        counts = [Counter(_words(text)) for text in texts]
        self._mean = sum(sum(count.values()) for count in counts) / max(1, len(counts))
        known = Counter(word for count in counts for word in count)
        self._idf = {word: math.log(1 + (len(texts) - n + 0.5) / (n + 0.5)) for word, n in known.items()}
        self._counts = counts

    def scores(self, question: str) -> NDArray[np.float64]:
        asked = set(_words(question)) & self._idf.keys()
        return np.array([self._score(count, asked) for count in self._counts])

    def _score(self, count: Mapping[str, int], asked: set[str]) -> float:
        length = sum(count.values()) / (self._mean or 1)
        return sum(
            self._idf[word] * 2.2 * count[word] / (count[word] + 1.2 * (0.25 + 0.75 * length))
            for word in sorted(asked)
            if word in count
        )


def _words(text: str) -> list[str]:
    return [word[:6] for word in re.findall(r"\w+", text.lower())]


def _standard(values: NDArray[np.float64] | NDArray[np.float32]) -> NDArray[np.float64]:
    return np.asarray((values - values.mean()) / (values.std() or 1.0), np.float64)


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


def batches(
    asked: Sequence[ReaderExample], wrong: int, size: int, seed: int
) -> Iterator[list[tuple[ReaderExample, list[Text]]]]:
    """Yield batches of questions of like length, each with its passage first and, where that answers, wrong ones."""
    dice = random.Random(seed)
    groups = []
    for each in asked:
        others = dice.sample(each.near, min(wrong if each.answer else 1, len(each.near)))
        groups.append((each, [each.passage, *others]))
    groups.sort(key=lambda group: max(len(text.whole) for text in group[1]) + dice.random() * 200)
    parts, part, count = [], [], 0
    for group in groups:
        part.append(group)
        count += len(group[1])
        if count >= size:
            parts.append(part)
            part, count = [], 0
    dice.shuffle(parts)
    yield from parts
