"""The tables in which a database hands a generation out, each row under the reader class that it has there.

Belongs here: columns and versions, for those who publish into a database and those who read from one.
Does not belong here: how a database keeps them, who reads them (`protocol`).

`row` is the number of a chunk in its generation: its place in GENERATION_CHUNKS as `chunks.arrow` has it, from 0.
"""

from __future__ import annotations

import pyarrow as pa

from rag_serving.artifacts.schema import GENERATION_CHUNKS, ORIGINALS, Column, table_schema

TEXT_COLUMNS = ("text", "context_before", "context_after", "structure")
"""Columns of GENERATION_CHUNKS that are read by rows, when they are shown."""

_UNREAD = frozenset({*TEXT_COLUMNS, "places", "prefix", "lexical_prefix", "vector_keys", "shard"})
_ROW: Column = ("row", pa.int64(), "number of the chunk in its generation, from 0")


def _column(name: str) -> Column:
    return name, GENERATION_CHUNKS.columns.field(name).type, GENERATION_CHUNKS.descriptions[name]


def _place(name: str) -> Column:
    kind = GENERATION_CHUNKS.columns.field("places").type.value_type
    return name, kind.field(name).type, f"`{name}` of a place of GENERATION_CHUNKS"


REMOTE_CHUNKS = table_schema(
    "remote_chunks",
    1,
    [
        _ROW,
        *(_column(name) for name in GENERATION_CHUNKS.columns.names if name not in _UNREAD),
        ("terms", pa.int32(), "how many terms the lexical index has of it: its `lengths`"),
        ("words", pa.int32(), "how many words the keyword index has of it: `length` of KEYWORD_ROWS"),
    ],
)
"""A chunk without its text. Its reader class is `readers`."""

REMOTE_PLACES = table_schema(
    "remote_places",
    1,
    [
        ("row", pa.int64(), "the chunk that was kept"),
        ("place", pa.int32(), "which of the chunk's `places`, from 0"),
        *(_place(field.name) for field in GENERATION_CHUNKS.columns.field("places").type.value_type),
    ],
)
"""Another place where the text of a chunk stands. Its reader class is its own `readers`, whatever the chunk's is."""

REMOTE_TEXTS = table_schema("remote_texts", 1, [_ROW, *map(_column, TEXT_COLUMNS)])
"""The text of a chunk, under the chunk's reader class."""

REMOTE_TERMS = table_schema(
    "remote_terms",
    1,
    [
        ("term", pa.string(), "of the lexical index, or word of the keyword index"),
        ("chunks", pa.int64(), "how many chunks have it, of those that the reader may see"),
    ],
)
"""The terms of the chunks that a reader may see."""

REMOTE_SENTENCES = table_schema(
    "remote_sentences",
    1,
    [
        _ROW,
        ("records", pa.binary(), "`indexes.sentence_vectors.record_type(d)`, one behind the other; heading path first"),
    ],
)
"""The sentence vectors of a chunk, under the chunk's reader class: what `SENTENCE_ROWS_FILE` names of it, in order."""

REMOTE_ORIGINALS = table_schema(
    "remote_originals",
    1,
    [(name, ORIGINALS.columns.field(name).type, ORIGINALS.descriptions[name]) for name in ORIGINALS.columns.names],
)
"""The file that a page was read from. Its reader class is the intersection (`access.principals.intersect_readers`) of
the classes of all chunks and places of the page: who may not read some of the text may not have the file."""

REMOTE_SEALS = table_schema(
    "remote_seals",
    1,
    [
        ("readers", pa.string(), "the reader class that is sealed"),
        ("part", pa.int32(), "which part of it, from 0: a part has the digests of so many chunks"),
        ("texts", pa.binary(), "digests of the texts of the class's chunks (`remote.seals.text_digest`), by `row`"),
        ("originals", pa.binary(), "of part 0: digests of the class's rows of REMOTE_ORIGINALS, ascending"),
        ("seal", pa.binary(), "of part 0: the seal over all rows of the class (`remote.seals.GenerationSeals`)"),
    ],
)
"""What shows that nobody altered the rows of a reader class, under that class."""
