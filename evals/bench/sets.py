"""The judged sets: everything in the real data that says which documents answer which queries."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from evals.bench.links import JUDGEMENTS, write_collection
from evals.bench.real_text import DATA, DataError
from evals.evaluation.beir import BeirCollection, read_collection
from evals.evaluation.gold_collections import read_gold_collection


@dataclass(frozen=True)
class JudgedSet:
    """A set's name and how it is read."""

    name: str
    read: Callable[[], BeirCollection]


def judged_sets(data: Path = DATA) -> list[JudgedSet]:
    """Return every folder in BEIR layout (its test split), wiki with known links, and SQuAD file; by name.

    Raises:
        DataError: there is none.
    """
    found = sorted(_found(data), key=lambda judged: judged.name)
    if not found:
        raise DataError(f"{data} has no judged set")
    return found


def _found(data: Path) -> Iterator[JudgedSet]:
    for path in data.glob("*/qrels/test.tsv"):
        yield JudgedSet(path.parents[1].name, partial(read_collection, path.parents[1]))
    for path in data.glob(f"*/{JUDGEMENTS}"):
        yield JudgedSet(f"{path.parent.name}-links", partial(read_links, path.parent))
    for path in data.glob("*/*.json"):
        if _is_squad(path):
            yield JudgedSet(f"{path.parent.name}-{path.stem}", partial(read_squad, path))


def read_links(wiki: Path) -> BeirCollection:
    """Return the words around a wiki's links, and the pages they point to: anchor text and target's title are
    masked."""
    with tempfile.TemporaryDirectory(prefix="citelock-links-") as folder:
        write_collection(wiki, Path(folder))
        return read_collection(Path(folder))


def read_squad(path: Path) -> BeirCollection:
    """Return the answerable questions of a SQuAD file, and their paragraphs, each a page."""
    collection = read_gold_collection(path)
    asked = [question for question in collection.gold.questions if question.answerable]
    return BeirCollection(
        collection.documents,
        {question.id: question.question for question in asked},
        {question.id: dict.fromkeys(sorted(question.pages), 1) for question in asked},
    )


def _is_squad(path: Path) -> bool:
    try:
        data = json.loads(path.read_text(encoding="utf-8"))["data"]
        return "paragraphs" in data[0]
    except (OSError, ValueError, KeyError, IndexError, TypeError):
        return False
