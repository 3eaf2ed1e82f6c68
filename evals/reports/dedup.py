"""Dropped near-duplicates, for analysts: how much, where, and the remaining texts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from evals.reports.report import Case, Cell, Figure, Report, Table, filled, words
from rag_assets.steps.dedup import SCOPES, Effect

VERSION = 1
"""Raised when the report of the same figures changes."""
COLUMNS = ["chunk_id", "space", "title", "heading_path", "url", "version", "text"]
"""Columns of the chunks that the report shows."""
MOST_PAIRS = 2_000
MOST_GROUPS = 100

Row = Mapping[str, Any]
Chunks = Mapping[str, Row]  # by id
Group = tuple[str, Sequence[Row]]  # the id of a kept chunk, and its rows of the dedup map


def dedup_report(tenant: str, chunks: pa.Table, dedup_map: pa.Table, effects: Sequence[Effect]) -> Report:
    """Return the report of a tenant. `chunks` (COLUMNS) are those that were looked at, before any was dropped."""
    by_id = {row["chunk_id"]: row for row in chunks.select(COLUMNS).to_pylist()}
    pairs = sorted(dedup_map.to_pylist(), key=lambda pair: (pair["jaccard"], pair["dropped_id"]))
    groups: dict[str, list[Row]] = defaultdict(list)
    for pair in pairs:
        groups[pair["kept_id"]].append(pair)
    largest = sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:MOST_GROUPS]
    return Report(
        title=f"Duplicates of {tenant}",
        about=f"{len(pairs):,} of {len(chunks):,} chunks are near-duplicates and are not indexed",
        figures=_figures(len(chunks), pairs, len(groups)),
        tables=filled(_by_space(effects), _largest(largest, by_id), _pairs(pairs, by_id)),
        cases=[_case(kept, pairs_of_kept, by_id) for kept, pairs_of_kept in largest],
        cases_title="The same text in several places, the most places first",
    )


def _figures(total: int, pairs: Sequence[Row], groups: int) -> list[Figure]:
    identical = sum(pair["jaccard"] >= 1 for pair in pairs)
    scopes = Counter(pair["scope"] for pair in pairs)
    return [
        Figure("dropped", f"{len(pairs):,}", note=f"of {total:,} chunks" if total else ""),
        Figure("share", f"{100 * len(pairs) / total:.1f} %" if total else "–"),
        Figure("identical", f"{identical:,}", note=f"{len(pairs) - identical:,} differ a little"),
        Figure("texts", f"{groups:,}", note="that stand in several places"),
        *(Figure(words(scope), f"{scopes[scope]:,}") for scope in SCOPES),
    ]


def _by_space(effects: Sequence[Effect]) -> Table:
    dropped = {effect.space: sum(effect.dropped.values()) for effect in effects}
    rows = (
        {
            "space": effect.space,
            "chunks": effect.chunks,
            "dropped": dropped[effect.space],
            "share": dropped[effect.space] / effect.chunks if effect.chunks else None,
            **{words(scope): effect.dropped.get(scope, 0) for scope in SCOPES},
        }
        for effect in sorted(effects, key=lambda effect: -dropped[effect.space])
    )
    return Table.from_rows("By space", rows)


def _largest(groups: Sequence[Group], by_id: Chunks) -> Table:
    rows: list[dict[str, Cell]] = []
    for kept, pairs in groups:
        members = [kept, *(pair["dropped_id"] for pair in pairs)]
        spaces = ", ".join(sorted({str(by_id[one]["space"]) for one in members if one in by_id}))
        least = min(pair["jaccard"] for pair in pairs)
        places: dict[str, Cell] = {"kept": _location(kept, by_id), "places": 1 + len(pairs)}
        rows.append({**places, "spaces": spaces, "least Jaccard": least})
    return Table.from_rows("Largest groups", rows)


def _pairs(pairs: Sequence[Row], by_id: Chunks) -> Table:
    rows = (
        {
            "dropped": _location(pair["dropped_id"], by_id),
            "kept": _location(pair["kept_id"], by_id),
            "Jaccard": pair["jaccard"],
            "scope": words(pair["scope"]),
        }
        for pair in pairs[:MOST_PAIRS]
    )
    more = len(pairs) - MOST_PAIRS
    note = "The least alike first." + (f" {more:,} more are in dedup_map.parquet." if more > 0 else "")
    return Table.from_rows("Dropped and kept", rows, note)


def _case(kept: str, pairs: Sequence[Row], by_id: Chunks) -> Case:
    chunk = by_id.get(kept, {})
    urls = [str(by_id.get(pair["dropped_id"], {}).get("url") or pair["dropped_id"]) for pair in pairs]
    parts = [("kept", f"{_location(kept, by_id)}\n{chunk.get('url', '')}"), ("stands as well at", "\n".join(urls))]
    if text := chunk.get("text"):
        parts.append(("text", str(text)))
    for pair in pairs:
        dropped = pair["dropped_id"]
        other = by_id.get(dropped, {}).get("text")
        if other and other != chunk.get("text"):
            parts.append((f"dropped, Jaccard {pair['jaccard']:.3f}: {_location(dropped, by_id)}", str(other)))
    return Case(_location(kept, by_id), f"{len(pairs) + 1} places", "neutral", parts)


def _location(chunk_id: str, by_id: Chunks) -> str:
    """Return a chunk as people know it; its id if it is no longer there."""
    chunk = by_id.get(chunk_id)
    if chunk is None:
        return chunk_id
    return f"{chunk['space']}: {' › '.join(chunk['heading_path'] or [chunk['title']])} (v{chunk['version']})"
