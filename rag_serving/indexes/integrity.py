"""The integrity of a generation on disk: damage relative to its manifest, part by part."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rag_serving.artifacts.manifest import FILE, Shard, id_of, read_manifest
from rag_serving.artifacts.signed_files import read_signed, read_signed_text
from rag_serving.artifacts.store import Store, StoreError, read_json
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import EVAL_HTML, EVAL_REPORT
from rag_serving.indexes.chroma import DenseError, ShardCollections, stored_readers
from rag_serving.indexes.generation import Generation, place_of
from rag_serving.indexes.originals import FILE as ORIGINALS
from rag_serving.indexes.originals import read_originals
from rag_serving.indexes.shard_files import DATABASE, database_fault, fault_of, file_fault

MARK = "damaged.json"
"""Beside the manifest: what `citelock generations repair` found and could not restore, for the next build."""


@dataclass(frozen=True)
class Damage:
    """A part of a generation that is not as it was written."""

    part: str  # a file below the tenant's folder, or a collection of Chroma
    reason: str

    def __str__(self) -> str:
        return f"{self.part} {self.reason}"


Depth = Literal["sizes", "opens", "digests"]
"""How far is looked: sizes cost nothing; whether it opens, some 0.1 s; digests read every file and ask Chroma for every
chunk."""


def find_damage(store: Store, tenant: str, generation_id: str, config: Config, depth: Depth) -> list[Damage]:
    """Return every damaged part of a generation, dense index and originals included; none if it is whole."""
    damage = find_file_damage(store, tenant, generation_id, config, depth)
    if not damage:
        damage = find_original_damage(store, tenant, generation_id, thorough=depth == "digests")
    return [*damage, *find_dense_damage(store, tenant, generation_id, config, depth)]


def find_file_damage(store: Store, tenant: str, generation_id: str, config: Config, depth: Depth) -> list[Damage]:
    """Return the damage in the generation's own folder."""
    folder, where = store.generation(tenant, generation_id), f"generations/{generation_id}"
    if not folder.is_dir():
        return [Damage(where, "is missing")]
    try:
        manifest = read_manifest(store, tenant, generation_id)
    except StoreError as error:
        return [Damage(f"{where}/{FILE}", _reason(error, folder / FILE))]
    if (manifest.tenant, manifest.id) != (tenant, generation_id) or id_of(manifest) != generation_id:
        return [Damage(f"{where}/{FILE}", "was altered: its id is not that of what it says")]
    thorough = depth == "digests"
    wrong = ((name, fault_of(folder / name, facts, thorough)) for name, facts in manifest.files.items())
    if damage := [Damage(f"{where}/{name}", fault) for name, fault in wrong if fault]:
        return damage
    if thorough and (damage := list(_report_damage(store, folder, where))):
        return damage
    try:
        if depth != "sizes":
            Generation.open(store, tenant, generation_id, config).close()
    except (StoreError, OSError) as error:
        return [Damage(where, f"does not open: {_reason(error, folder)}")]
    return [] if thorough else list(_marked(folder / MARK))


def _report_damage(store: Store, folder: Path, where: str) -> Iterator[Damage]:
    """Yield the reports on a generation that were altered: its manifest, which is older, does not cover them."""
    for name, read in ((EVAL_REPORT, read_signed), (EVAL_HTML, read_signed_text)):
        try:
            _ = read(store, folder / name) if (folder / name).exists() else None
        except StoreError as error:
            yield Damage(f"{where}/{name}", _reason(error, folder / name))


def find_original_damage(store: Store, tenant: str, generation_id: str, thorough: bool) -> list[Damage]:
    """Return which files that its pages were read from are missing or altered; `thorough` compares their digests."""
    try:
        files = {one.sha256: one for one in read_originals(store, tenant, generation_id).values()}
    except StoreError as error:
        return [
            Damage(f"generations/{generation_id}/{ORIGINALS}", _reason(error, store.generation(tenant, generation_id)))
        ]
    faults = ((one, one.fault(thorough)) for one in files.values())
    return [Damage(f"{one.path.parent.name}/{one.sha256}", fault) for one, fault in faults if fault]


def publication_fault(store: Store, tenant: str) -> Damage | None:
    """Return the fault of the signed publication record, or of the pointer beside it."""
    record, current = store.publication_record(tenant), store.current(tenant)
    try:
        published = store.publication(tenant).current
    except StoreError as error:
        return Damage(record.name, _reason(error, record)) if current or record.exists() else None
    if current not in (None, published):
        return Damage(store.pointer(tenant).name, f"names {current}, but {published} was published")
    return None


def find_dense_damage(store: Store, tenant: str, generation_id: str, config: Config, depth: Depth) -> list[Damage]:
    """Return the shards that Chroma does not have as they were written; none if no manifest names any."""
    place = place_of(store, tenant, config)
    try:
        shards = read_manifest(store, tenant, generation_id).shards
    except StoreError:
        return []
    if shards and place.url is None:
        fault = database_fault(place.folder) if (place.folder / DATABASE).exists() else "is missing"
        if fault:
            return [Damage(f"{place.folder.name}/{DATABASE}", fault.removeprefix(f"{DATABASE} "))]
    found = list[Damage]()
    for shard in shards if place.url is None else ():
        if fault := file_fault(place.folder, shard.collection, depth == "digests"):
            found.append(Damage(shard.collection, f"is damaged: {place.folder.name}/{fault}"))
    if depth == "digests" and shards:
        found += _content_damage(store, tenant, generation_id, config, {damage.part for damage in found})
    return found


def _content_damage(store: Store, tenant: str, generation_id: str, config: Config, known: set[str]) -> Iterator[Damage]:
    """Compare ids and readers of every shard with the chunk table, but for those that must not be read."""
    try:
        generation = Generation.open(store, tenant, generation_id, config)
    except (StoreError, OSError):  # reported already
        return
    rows: dict[str, dict[str, str]] = {}
    classes, shards = (generation.table[name].to_pylist() for name in ("readers", "shard"))
    for number, vector_id in enumerate(generation.vector_ids()):
        row = generation.row_of_vector(number)
        rows.setdefault(shards[row], {})[vector_id] = classes[row]
    generation.close()
    for shard in generation.manifest.shards:
        if shard.collection not in known and (fault := _content_fault(store, tenant, config, shard, rows)):
            yield Damage(shard.collection, fault)


def _content_fault(
    store: Store, tenant: str, config: Config, shard: Shard, rows: dict[str, dict[str, str]]
) -> str | None:
    expected = rows.get(shard.name, {})
    try:
        stored = dict(stored_readers(ShardCollections.open(place_of(store, tenant, config)), shard.collection))
    except DenseError as error:
        return f"cannot be read: {error}"
    missing, more = len(expected.keys() - stored.keys()), len(stored.keys() - expected.keys())
    if missing or more:
        return f"lacks {missing} of {len(expected)} vectors and has {more} others"
    other = sum(stored[vector_id] != readers for vector_id, readers in expected.items())
    return f"has other readers for {other} of {len(expected)} vectors" if other else None


def _marked(mark: Path) -> Iterator[Damage]:
    """Yield known damage that is not repaired yet; an unreadable mark counts as damage."""
    if not mark.exists():
        return
    try:
        yield from (Damage(str(one["part"]), str(one["reason"])) for one in read_json(mark)["damage"])
    except (StoreError, KeyError, TypeError):
        yield Damage(mark.name, "says that it is damaged")


def _reason(error: Exception, path: Path) -> str:
    """Return an error without the path, which the part names, and without how to mend it."""
    return " ".join(str(error).removeprefix(f"{path} ").partition("; ")[0].split())
