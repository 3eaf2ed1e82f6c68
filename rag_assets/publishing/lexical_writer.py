"""The lexical index of a generation is computed by bm25s and written as arrays.

Belongs here: building the index. Does not belong here: reading and searching it (`rag_serving.indexes.lexical`).
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.indexes.bm25 import K1, METHOD, B
from rag_serving.indexes.lexical import ARRAYS, FACTS_FILE, FORMAT, IDS_FILE
from rag_serving.text.analyzer import ANALYZER_VERSION
from rag_serving.text.stemming import terms_in

_PROGRESS_EVERY = 500


Languages = Sequence[str | None]
"""The language of each text, ISO 639-1; None where it is not told."""


def documents_digest(chunk_ids: Sequence[str], texts: Sequence[str], languages: Languages) -> str:
    """Return what an index of these texts was made of."""
    return hashlib.sha256(json.dumps([list(chunk_ids), list(texts), list(languages)]).encode()).hexdigest()


def build_lexical(
    folder: Path,
    chunk_ids: Sequence[str],
    texts: Sequence[str],
    languages: Languages | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the index of `texts`, one per chunk id, into a folder; returns the size of its vocabulary.

    The same texts in the same order give the same bytes. `languages` say by which stems beside the English ones each
    text is found; None: by none. `progress` hears of (texts analyzed, texts in all), which is half of the work.
    """
    languages = languages or [None] * len(texts)
    documents = []
    for number, (text, language) in enumerate(zip(texts, languages, strict=True), 1):
        documents.append(terms_in(text, language))
        if progress and (number % _PROGRESS_EVERY == 0 or number == len(texts)):
            progress(number, len(texts))
    vocabulary = {term: number for number, term in enumerate(sorted(set().union(*documents)))}
    numbers = [[vocabulary[term] for term in document] for document in documents]
    folder.mkdir(parents=True, exist_ok=True)
    _bm25(vocabulary, numbers).save(folder, show_progress=False)
    np.save(folder / ARRAYS["counts"], _counts(numbers), allow_pickle=False)
    np.save(folder / ARRAYS["lengths"], np.array([*map(len, numbers)], dtype=np.int32), allow_pickle=False)
    _dump(folder / IDS_FILE, list(chunk_ids))
    facts = {
        "format": FORMAT,
        "analyzer": ANALYZER_VERSION,
        "chunks": len(chunk_ids),
        "terms": len(vocabulary),
        "content": documents_digest(chunk_ids, texts, languages),
    }
    _dump(folder / FACTS_FILE, facts)
    return len(vocabulary)


def _bm25(vocabulary: dict[str, int], documents: list[list[int]]) -> Any:
    """bm25s over term numbers; its own vocabulary comes from a set, whose order changes with the hash seed."""
    import bm25s

    logging.getLogger("bm25s").setLevel(logging.WARNING)  # it logs every call, whatever the application asks for
    index = bm25s.BM25(k1=K1, b=B, method=METHOD, csc_backend="numpy", backend="numpy")
    if vocabulary:
        index.index((documents, vocabulary), create_empty_token=False, show_progress=False)
        return index
    index.vocab_dict, index.nonoccurrence_array = {}, None  # bm25s itself divides by zero without a term
    index.scores = {
        "data": np.zeros(0, dtype=np.float32),
        "indices": np.zeros(0, dtype=np.int32),
        "indptr": np.zeros(1, dtype=np.int64),
        "num_docs": len(documents),
    }
    return index


def _counts(documents: Sequence[Sequence[int]]) -> NDArray[np.int32]:
    """Return how often each term stands in each row that has it, by term and then by row, as bm25s orders its
    weights."""
    counters = [Counter(document) for document in documents]
    terms = np.fromiter(chain.from_iterable(counters), np.int32)
    counts = np.fromiter(chain.from_iterable(counter.values() for counter in counters), np.int32)
    return counts[np.argsort(terms, kind="stable")]


def _dump(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, ensure_ascii=False), encoding="utf-8")
