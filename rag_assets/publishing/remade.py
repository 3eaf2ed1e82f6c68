"""A comparison of a generation with its parts made anew, and the differences.

Belongs here: checks that make a sample again (vectors, terms, anchors, counts) and name the damage. Does not belong
here: checks of a generation against itself (`checks`), the quality of its answers (`evals.evaluation`).
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rag_assets.publishing.arrange import lexical_documents
from rag_assets.publishing.checks import CheckResult, few, sample_rows
from rag_assets.steps.contexts.contextualize import embedded_windows
from rag_serving.artifacts.columns import take_rows
from rag_serving.indexes.exact import Vectors
from rag_serving.indexes.generation import LEXICAL_FOLDER, Generation
from rag_serving.indexes.lexical import LexicalIndex
from rag_serving.models.protocols import Embedder, InputLimit
from rag_serving.text.analyzer import stems
from rag_serving.text.stemming import terms_in

EMBEDDED = 48
"""Vectors that are made again: the cost of this check where a model is paid for."""

# Servers batch and round differently from call to call: the same text came back at 0.9999 and above.
SAME_TEXT = 0.999
# Vectors of two models are nearly orthogonal; those of two prompts of one model are not.
SAME_MODEL = 0.5
# Included text, anchor macros and headings without an id put single anchors elsewhere, and rightly so.
ASTRAY = 0.3
_MEND = "delete the tenant's cache/vectors.sqlite and run `citelock build`"
_REPEATED = re.compile(r"[.-]\d+$")


def checks_made_again(
    embedder: Embedder, limit: InputLimit | None, folder: Path, selected: Mapping[str, int]
) -> list[Callable[[Generation], CheckResult]]:
    """Return the checks below, ready for a generation in this folder; `limit`: how much the embedder reads at once,
    `selected`: chunks to index, by source."""
    return [
        lambda generation: check_embedded_again(generation, embedder, limit),
        lambda generation: check_analyzed_again(generation, folder),
        lambda generation: check_counts(generation, selected),
        check_anchors,
    ]


@dataclass(frozen=True)
class _Sample:
    """Vectors of a generation [n, d], their supposed texts, and these without their prefixes."""

    stored: Vectors
    texts: list[str]
    bare: list[str]
    pages: list[str]

    def take(self, places: Sequence[int]) -> _Sample:
        lists = ([named[one] for one in places] for named in (self.texts, self.bare, self.pages))
        return _Sample(self.stored[list(places)], *lists)


def _sampled(generation: Generation, limit: InputLimit | None) -> _Sample:
    """Return evenly spread vectors with the text, or the window of it, that each should be of now."""
    vectors, windows = generation.vector_table.vectors, generation.vector_table.windows
    numbers = _spread(len(vectors), EMBEDDED)
    rows = [generation.row_of_vector(number) for number in numbers]
    chunks = take_rows(generation.table, np.array(rows, np.int64))
    texts, bare = list[str](), list[str]()
    columns = zip(numbers, rows, embedded_windows(chunks, limit), chunks["prefix"].to_pylist(), strict=True)
    for number, row, own, prefix in columns:
        place = 0 if windows is None else number - windows.start_of(row)
        texts.append(own[min(place, len(own) - 1)])
        bare.append(texts[-1].removeprefix(f"{prefix}\n"))
    return _Sample(vectors[numbers], texts, bare, chunks["page_id"].to_pylist())


def check_embedded_again(generation: Generation, embedder: Embedder, limit: InputLimit | None) -> CheckResult:
    """Sampled vectors are those that the configured model and prompts give their texts now."""
    sample = _sampled(generation, limit)
    fresh = embedder.embed_documents(sample.texts) if sample.texts else np.zeros((0, embedder.dimension), np.float32)
    stored = sample.stored
    if fresh.shape != stored.shape:
        detail = f"vectors have {stored.shape[1]} dimensions, the model gives {fresh.shape[1]}: embedding model mix-up"
        return CheckResult("embedded_again", False, detail, {"sampled": len(fresh), "wrong": len(fresh)})
    wrong = np.flatnonzero((fresh * stored).sum(axis=1) < SAME_TEXT)
    numbers = {"sampled": len(fresh), "wrong": len(wrong)}
    if not len(wrong):
        return CheckResult(
            "embedded_again", True, f"{len(fresh)} sampled chunks have the vectors of their texts", numbers
        )
    wrongly = sample.take(wrong.tolist())
    damage = _vector_damage(generation, embedder, wrongly, fresh[wrong])
    detail = f"{len(wrong)} of {len(fresh)} sampled vectors are wrong: {damage}; {_MEND}"
    return CheckResult("embedded_again", False, detail, numbers, few(wrongly.pages, len(fresh)))


def _vector_damage(generation: Generation, embedder: Embedder, sample: _Sample, fresh: NDArray[np.float32]) -> str:
    """Return the fate of vectors that differ from their texts'; the majority decides."""
    stored, everyone = sample.stored, frozenset(generation.reader_classes)
    elsewhere = [generation.exact(vector, 1, everyone)[0].score >= SAME_TEXT for vector in fresh]
    if 2 * sum(elsewhere) >= len(stored):
        return "shuffled, these vectors stand at other chunks"
    asked = np.stack([embedder.embed_query(text) for text in sample.texts])
    if _most_same(asked, stored):
        return "wrong prompt prefix, passages were embedded as questions"
    if _most_same(embedder.embed_documents(sample.bare), stored):
        return "wrong prompt prefix, passages were embedded without their context"
    if float(np.median((fresh * stored).sum(axis=1))) >= SAME_MODEL:
        return "wrong prompt prefix, the model is right and the text that it read is not"
    return f"embedding model mix-up, they are not of {embedder.name!r}"


def _most_same(one: NDArray[np.float32], other: NDArray[np.float32]) -> bool:
    return bool(np.median((one * other).sum(axis=1)) >= SAME_TEXT)


def check_analyzed_again(generation: Generation, folder: Path) -> CheckResult:
    """Sampled chunks have the terms in the lexical index that their texts have now."""
    rows = sample_rows(len(generation))
    texts, languages = lexical_documents(take_rows(generation.table, np.array(rows, np.int64)))
    indexed = LexicalIndex.open(folder / LEXICAL_FOLDER).counts_of(rows)
    wanted = [dict(Counter(terms_in(*document))) for document in zip(texts, languages, strict=True)]
    wrong = [number for number, counts in enumerate(indexed) if counts != wanted[number]]
    numbers = {"sampled": len(rows), "wrong": len(wrong)}
    if not wrong:
        return CheckResult("analyzed_again", True, f"{len(rows)} sampled chunks have the terms of their texts", numbers)
    damage = _term_damage([indexed[number] for number in wrong], [wanted[number] for number in wrong])
    detail = f"{len(wrong)} of {len(rows)} sampled texts are indexed wrong: {damage}"
    pages = [generation.table["page_id"][rows[number]].as_py() for number in wrong]
    return CheckResult("analyzed_again", False, detail, numbers, few(pages, len(rows)))


def _term_damage(indexed: Sequence[Mapping[str, int]], wanted: Sequence[Mapping[str, int]]) -> str:
    have, want = frozenset().union(*indexed), frozenset().union(*wanted)
    extra = sorted(have - want)
    if extra and 2 * sum(stem in want for stem in stems(extra)) >= len(extra):
        return f"stemmer off, words stand in the index as they are written ({', '.join(extra[:3])})"
    return f"their terms are others ({', '.join([*extra, *sorted(want - have)][:3]) or 'other counts'})"


def check_counts(generation: Generation, selected: Mapping[str, int]) -> CheckResult:
    """Check that as many chunks of each source are indexed as were selected."""
    indexed = Counter(generation.table["source"].to_pylist())
    wrong = [
        f"{source}: {indexed[source]} of {selected.get(source, 0)} selected chunks are indexed"
        for source in sorted({*selected, *indexed})
        if indexed[source] != selected.get(source, 0)
    ]
    numbers = {"indexed": len(generation), "selected": sum(selected.values()), "wrong": len(wrong)}
    if wrong:
        return CheckResult("counts", False, f"chunks missing or too many: {'; '.join(wrong)}", numbers)
    return CheckResult("counts", True, f"all {len(generation)} selected chunks are indexed", numbers)


def check_anchors(generation: Generation) -> CheckResult:
    """Anchors name the heading above their text, not another heading of the page.

    By either of Confluence's rules, and by those of Markdown, an anchor ends in its heading's letters and digits.
    """
    columns = [generation.table[name].to_pylist() for name in ("page_id", "heading_path", "anchor")]
    headings: dict[str, set[str]] = {}
    for page, path, _ in zip(*columns, strict=True):
        headings.setdefault(page, set()).update(path[-1:])
    fitting, astray = 0, []
    for page, path, anchor in zip(*columns, strict=True):
        if path and _names(anchor, path[-1]):
            fitting += 1
        elif any(_names(anchor, heading) for heading in headings[page]):
            astray.append(page)
    numbers = {"fitting": fitting, "astray": len(astray), "chunks": len(generation)}
    if len(astray) > ASTRAY * (fitting + len(astray)):
        pages = list(dict.fromkeys(astray))
        detail = f"anchors shifted: {len(astray)} of {len(generation)} chunks link to another heading of their page"
        return CheckResult("anchors", False, f"{detail} (pages {', '.join(pages[:5])})", numbers, pages)
    return CheckResult("anchors", True, f"{fitting} of {len(generation)} anchors are made of their headings", numbers)


def _names(anchor: str, heading: str) -> bool:
    """Return whether an anchor is made of a heading, whether or not it has the number of a repeated one."""
    letters = _letters(heading)
    return bool(letters) and any(_letters(form).endswith(letters) for form in (anchor, _REPEATED.sub("", anchor)))


@lru_cache(maxsize=1 << 14)
def _letters(text: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFKC", text).casefold() if char.isalnum())


def _spread(count: int, most: int) -> list[int]:
    """Up to `most` rows, evenly spread, the same each time."""
    return [int(row) for row in np.unique(np.linspace(0, count - 1, min(count, most)).astype(int))] if count else []
