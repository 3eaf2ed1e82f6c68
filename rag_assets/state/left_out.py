"""Documents that a check found at fault: a tenant's builds go on without them until they are other ones.

Belongs here: which they are and why, and how many may be. Does not belong here: finding them
(`rag_assets.publishing.checks`), leaving them out (`rag_assets.assets.dedup`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from rag_assets.state.records import read_candidate
from rag_serving.artifacts.schema import SELECTED_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table, write_json

FILE = "left_out.json"
MOST = 10
"""One page in so many may be left out, and one of fewer pages."""
_ROUNDS = 3

LeftOut = Mapping[str, tuple[str, str]]  # page id -> what it was (version and model), and the reason


def read_left_out(store: Store, tenant: str) -> LeftOut:
    """Return the documents that are left out; none where that cannot be read."""
    try:
        return {str(page): (str(mark), str(why)) for page, (mark, why) in read_json(_file(store, tenant)).items()}
    except (StoreError, ValueError, TypeError, AttributeError):
        return {}


def still_left_out(store: Store, tenant: str, chunks: pa.Table, embedder: str) -> dict[str, str]:
    """Return why pages are left out, and forget those of which there is another version or another model."""
    marks, known = _marks(chunks, embedder), read_left_out(store, tenant)
    kept = {page: one for page, one in known.items() if one[0] == marks.get(page, f"None {embedder}")}
    if kept != known:
        write_json(_file(store, tenant), kept)
    return {page: why for page, (_, why) in kept.items()}


def leave_out(store: Store, tenant: str, at_fault: Mapping[str, str]) -> bool:
    """Note documents of the candidate, with a reason each, that the next build leaves out; whether there are so few
    that it may."""
    state, before = read_candidate(store, tenant), read_left_out(store, tenant)
    selected = read_table(store.candidate(tenant) / "selected.parquet", SELECTED_CHUNKS, ["page_id", "version"])
    marks = _marks(selected, state.embedder)
    new = {page: (marks.get(page, f"None {state.embedder}"), why) for page, why in at_fault.items()}
    pages = marks.keys() | before.keys() | new.keys()
    if not new or len({**before, **new}) > max(1, len(pages) // MOST) or not marks.keys() - new.keys():
        return False
    write_json(_file(store, tenant), {**before, **new})
    return True


def left_out_inputs(store: Store, tenant: str) -> dict[str, str]:
    """Return what is left out as a part of the inputs of a build."""
    return {f"left out {page}": mark for page, (mark, _) in read_left_out(store, tenant).items()}


def attempts(store: Store, tenant: str) -> Iterator[None]:
    """Yield once, and again as long as the build meanwhile found further documents to leave out."""
    for _ in range(_ROUNDS):
        before = read_left_out(store, tenant).keys()
        yield
        if read_left_out(store, tenant).keys() <= before:
            return


def _marks(chunks: pa.Table, embedder: str) -> dict[str, str]:
    pairs = zip(chunks["page_id"].to_pylist(), chunks["version"].to_pylist(), strict=True)
    return {page: f"{version} {embedder}" for page, version in pairs}


def _file(store: Store, tenant: str) -> Path:
    return store.tenant(tenant) / FILE
