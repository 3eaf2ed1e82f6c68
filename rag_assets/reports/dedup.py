"""What was dropped as a near-duplicate, for analysts: how much, where, and which text stands where.

Belongs here: a dedup map beside its chunks, as a report. Does not belong here: finding duplicates (`duplicates`).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rag_assets.reports.report import Case, Cell, Figure, Plot, Report, Table
from rag_assets.steps.dedup.duplicates import SCOPES, Effect

VERSION = 1
"""Raised when the report of the same figures changes."""
COLUMNS = ["chunk_id", "space", "title", "heading_path", "url", "version", "text"]
"""Columns of the chunks that the report tells of."""
MOST_PAIRS = 2_000
MOST_GROUPS = 100

Chunk = Mapping[str, Any]


def dedup_report(
    tenant: str, chunks: pa.Table, dedup_map: pa.Table, effects: Sequence[Effect], plots: Sequence[Plot]
) -> Report:
    """Return the report of a tenant. `chunks` (COLUMNS) are those that were looked at, before any was dropped."""
    known = {row["chunk_id"]: row for row in chunks.select(COLUMNS).to_pylist()}
    pairs = sorted(dedup_map.to_pylist(), key=lambda pair: (pair["jaccard"], pair["dropped_id"]))
    groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for pair in pairs:
        groups[pair["kept_id"]].append(pair)
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))
    return Report(
        title=f"Duplicates of {tenant}",
        about=f"{len(pairs):,} of {len(chunks):,} chunks are near-duplicates and are not indexed",
        figures=_figures(len(chunks), pairs, largest),
        tables=[_effects(effects), _groups(largest, known), _pairs(pairs, known)],
        plots=plots,
        cases=[_case(kept, members, known) for kept, members in largest[:MOST_GROUPS]],
        cases_title="The same text in several places, the most places first",
    )


def _figures(total: int, pairs: Sequence[Mapping[str, Any]], groups: Sequence[Any]) -> list[Figure]:
    same = sum(pair["jaccard"] >= 1 for pair in pairs)
    scopes = Counter(pair["scope"] for pair in pairs)
    return [
        Figure("dropped", f"{len(pairs):,}", note=f"of {total:,} chunks" if total else ""),
        Figure("share", f"{100 * len(pairs) / total:.1f} %" if total else "–"),
        Figure("identical", f"{same:,}", note=f"{len(pairs) - same:,} differ a little"),
        Figure("texts", f"{len(groups):,}", note="that stand in several places"),
        *(Figure(scope.replace("_", " "), f"{scopes[scope]:,}") for scope in SCOPES),
    ]


def _effects(effects: Sequence[Effect]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "space": effect.space,
            "chunks": effect.chunks,
            "dropped": sum(effect.dropped.values()),
            "share": sum(effect.dropped.values()) / effect.chunks if effect.chunks else None,
            **{_words(scope): effect.dropped.get(scope, 0) for scope in SCOPES},
        }
        for effect in effects
    ]
    columns = ["space", "chunks", "dropped", "share", *map(_words, SCOPES)]
    return Table("By space", columns, sorted(rows, key=lambda row: -float(row["dropped"] or 0)))


def _groups(largest: Sequence[tuple[str, Sequence[Mapping[str, Any]]]], known: Mapping[str, Chunk]) -> Table:
    rows: list[Mapping[str, Cell]] = []
    for kept, members in largest[:MOST_GROUPS]:
        places = [known.get(kept, {}), *(known.get(each["dropped_id"], {}) for each in members)]
        spaces = sorted({str(place["space"]) for place in places if place})
        rows.append(
            {
                "kept": _place(kept, known),
                "places": len(places),
                "spaces": ", ".join(spaces),
                "least Jaccard": min(each["jaccard"] for each in members),
            }
        )
    return Table("Largest groups", ["kept", "places", "spaces", "least Jaccard"], rows)


def _pairs(pairs: Sequence[Mapping[str, Any]], known: Mapping[str, Chunk]) -> Table:
    rows: list[Mapping[str, Cell]] = [
        {
            "dropped": _place(pair["dropped_id"], known),
            "kept": _place(pair["kept_id"], known),
            "Jaccard": pair["jaccard"],
            "scope": _words(pair["scope"]),
        }
        for pair in pairs[:MOST_PAIRS]
    ]
    more = len(pairs) - MOST_PAIRS
    note = "The least alike first." + (f" {more:,} more are in dedup_map.parquet." if more > 0 else "")
    return Table("Dropped and kept", ["dropped", "kept", "Jaccard", "scope"], rows, note)


def _case(kept: str, members: Sequence[Mapping[str, Any]], known: Mapping[str, Chunk]) -> Case:
    chunk = known.get(kept, {})
    stands = [f"{known.get(each['dropped_id'], {}).get('url') or each['dropped_id']}" for each in members]
    parts = [("kept", f"{_place(kept, known)}\n{chunk.get('url', '')}"), ("stands as well at", "\n".join(stands))]
    if text := chunk.get("text"):
        parts.append(("text", str(text)))
    for each in members:
        other = known.get(each["dropped_id"], {}).get("text")
        if other and other != chunk.get("text"):
            parts.append((f"dropped, Jaccard {each['jaccard']:.3f}: {_place(each['dropped_id'], known)}", str(other)))
    return Case(_place(kept, known), f"{len(members) + 1} places", "neutral", parts)


def _place(chunk_id: str, known: Mapping[str, Chunk]) -> str:
    """Return a chunk as people know it; its id where it is no longer there."""
    chunk = known.get(chunk_id)
    if chunk is None:
        return chunk_id
    return f"{chunk['space']}: {' › '.join(chunk['heading_path'] or [chunk['title']])} (v{chunk['version']})"


def _words(scope: str) -> str:
    return scope.replace("_", " ")
