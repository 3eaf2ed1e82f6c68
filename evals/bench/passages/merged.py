"""Short neighbouring sections as one passage, which the product does not do: the rule and the rows.

Belongs here: which chunks are joined, what an index then sees. Does not belong here: what that brings (`measure`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

import pyarrow as pa

from evals.evaluation.bench import with_column
from rag_assets.steps.contexts.context_prefix import lexical_prefixes, metadata_prefix, metadata_prefixes
from rag_serving.artifacts.schema import GENERATION_CHUNKS

Row = Mapping[str, Any]
Count = Callable[[str], int]  # tokens of a text

_SAME = ("page_id", "readers", "page_readers", "included_from", "is_boilerplate")
_ONLY_IN_CHUNKS = ("content_hash", "page_readers", "included_from")


@dataclass(frozen=True)
class Rule:
    """Which sections become one passage, and where their headings stand.

    limit: tokens of a passage at most; 0 leaves every section alone.
    headings: `inline` in the text, each above its section, or `above` all of it, in the prefix.
    parent: whether the text above the first subheading belongs to the sections below.
    """

    name: str
    limit: int = 0
    headings: str = "inline"
    parent: bool = False


@dataclass(frozen=True)
class Merged:
    """Rows of GENERATION_CHUNKS, and the chunks in each by its chunk id."""

    table: pa.Table
    members: Mapping[str, tuple[Row, ...]]


def merge(chunks: pa.Table, rule: Rule, count: Count) -> Merged:
    """Return rows of CHUNKS as passages to index: whole sections joined while they are neighbours and fit the rule."""
    groups = _groups(chunks.to_pylist(), rule, count)
    rows = [_passage(group, rule, count) for group in groups]
    table = GENERATION_CHUNKS.table(rows)
    if not rule.limit:
        table = with_column(table, "prefix", metadata_prefixes(table))
    table = with_column(table, "lexical_prefix", lexical_prefixes(table))
    members = {str(row["chunk_id"]): tuple(group) for row, group in zip(rows, groups, strict=True)}
    return Merged(table, members)


def _groups(rows: Sequence[Row], rule: Rule, count: Count) -> list[list[Row]]:
    chunks_of = Counter(row["section_id"] for row in rows)
    groups: list[list[Row]] = []
    tokens = 0
    for row in rows:
        cost = row["token_count"] + count(row["heading_path"][-1])
        first = groups[-1][0] if groups else None
        whole = first is not None and chunks_of[row["section_id"]] == chunks_of[first["section_id"]] == 1
        if first is not None and whole and tokens + cost <= rule.limit and _belong(first, row, rule):
            groups[-1].append(row)
            tokens += cost
        else:
            groups.append([row])
            tokens = cost
    return groups


def _belong(first: Row, row: Row, rule: Rule) -> bool:
    """Return whether two sections of a page have one parent and the same readers."""
    above = row["heading_path"][:-1]
    related = above == first["heading_path"][:-1] or (rule.parent and above == first["heading_path"])
    return related and all(first[name] == row[name] for name in _SAME)


def _passage(group: Sequence[Row], rule: Rule, count: Count) -> dict[str, Any]:
    first = {name: value for name, value in group[0].items() if name not in _ONLY_IN_CHUNKS}
    shared = _shared([row["heading_path"] for row in group])
    headings = [*shared, *(row["heading_path"][-1] for row in group if row["heading_path"] != shared)]
    inline = rule.headings == "inline" and len(group) > 1
    text = "\n\n".join(_with_heading(group, shared) if inline else (row["text"] for row in group))
    return first | {
        "text": text,
        "end": first["start"] + len(text),
        "heading_path": headings,
        "token_count": count(text) if len(group) > 1 else first["token_count"],
        "source": "bench",
        "kind": "page",
        "places": [],
        "prefix": metadata_prefix(first["title"], shared if inline else headings),
        "lexical_prefix": "",
        "vector_keys": [""],
        "shard": "",
    }


def _with_heading(group: Sequence[Row], shared: Sequence[str]) -> Iterable[str]:
    for row in group:
        path = row["heading_path"]
        yield row["text"] if path == shared else f"## {path[-1]}\n\n{row['text']}"


def _shared(paths: Sequence[Sequence[str]]) -> Sequence[str]:
    """Return the headings that all paths begin with."""
    same = takewhile(lambda names: len(set(names)) == 1, zip(*paths, strict=False))
    return [names[0] for names in same]
