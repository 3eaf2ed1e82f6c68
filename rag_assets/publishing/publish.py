"""Moving the pointer to a checked generation, or to the published one for fewer readers, and removing what nobody needs
any more."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa

from rag_assets.publishing.arrange import content_digest
from rag_assets.publishing.checks import CheckResult, verdict_path
from rag_assets.publishing.documents import remove_unnamed_originals
from rag_assets.publishing.shard_writer import remove_unnamed_shards
from rag_assets.publishing.workspace import (
    BuildWorkspace,
    create_manifest,
    signed,
    stamped_facts,
    write_chunk_parts,
    write_facts,
    write_manifest,
    write_page_readers,
)
from rag_assets.state.locks import locked
from rag_assets.state.records import PublishState, settled_chunks, write_publish_state
from rag_assets.steps.chunks.select import select_chunks
from rag_serving.access.principals import NOBODY, intersect_readers, may_all_read
from rag_serving.artifacts.columns import values_digest
from rag_serving.artifacts.manifest import Manifest, read_manifest
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError, commit_folder, read_table, remove_folder
from rag_serving.config.loading import Config
from rag_serving.escaping.redaction import redacted
from rag_serving.indexes.catalog import EVAL_REPORT, GenerationInfo, list_generations, move_current
from rag_serving.indexes.databases import Figures, RemoteError, open_database
from rag_serving.indexes.generation import place_of, read_files
from rag_serving.indexes.generation_parts import CHUNKS_FILE, MAPPED_FILE, parts_of
from rag_serving.indexes.set_tables import DUPLICATES_FILE, FACTS_FILE, Facts
from rag_serving.indexes.sources import FILE as READERS_FILE

WAIT_S = 60.0
"""Seconds that another build's lock is waited for."""
NARROWED_FROM = "narrowed_from"
"""The setting of a manifest that names the generation which this one was made of."""


@dataclass(frozen=True)
class SourceReaders:
    """Hold who may read the pages of a source by its last syncs."""

    of_page: Mapping[str, str]
    of_chunk: Mapping[str, str]
    of_chunks: dict[str, set[str]] = field(default_factory=dict)  # by page

    @classmethod
    def read(cls, store: Store, source: str, drop_labels: Sequence[str]) -> SourceReaders | None:
        """Return them; None if they are not known."""
        try:
            chunks, _ = settled_chunks(store, source)
            pages = read_table(store.source(source) / "pages.parquet", PAGES, ["page_id", "labels", "readers"])
        except StoreError:
            return None
        unwanted = {label.casefold() for label in drop_labels}
        of_page = {
            row["page_id"]: row["readers"] if unwanted.isdisjoint(map(str.casefold, row["labels"] or ())) else NOBODY
            for row in pages.to_pylist()
        }
        dropped = select_chunks(chunks, drop_labels, drop_boilerplate=False).excluded
        ids, page_ids, readers = (chunks[name].to_pylist() for name in ("chunk_id", "page_id", "readers"))
        of_chunk = {name: NOBODY if name in dropped else one for name, one in zip(ids, readers, strict=True)}
        found = cls(of_page, of_chunk)
        for name, page in zip(ids, page_ids, strict=True):
            found.of_chunks.setdefault(page, set()).add(of_chunk[name])
        return found

    def narrowed(self, chunk_id: str, readers: str) -> str:
        """Return the remaining readers of a chunk: for a page cut anew, those of all its chunks."""
        page = chunk_id.rsplit(":", 2)[0]
        known = self.of_chunk.get(chunk_id)
        now = {known} if known else self.of_chunks.get(page, set())
        return _narrowed(readers, {self.of_page.get(page, NOBODY), *now})

    def narrowed_page(self, page_id: str, readers: str) -> str:
        """Return the remaining readers of a page."""
        return _narrowed(readers, {self.of_page.get(page_id, NOBODY)})


def _narrowed(readers: str, others: Iterable[str]) -> str:
    for one in sorted(others):
        readers = readers if may_all_read(readers, one) else intersect_readers(readers, one)
    return readers


def narrow_readers(config: Config, tenant: str, tell: Callable[[str], object], run: str | None = None) -> None:
    """Run `publish_narrowed` and report the result; errors are reported, not raised."""
    try:
        if made := publish_narrowed(config, tenant, run):
            tell(f"generation {made} is published: the last one, for those alone who still may read its pages")
    except Exception as error:  # any error: this runs after another failure, which is reported
        tell(redacted(f"the readers of published pages are not narrowed: {error}"))


def publish_narrowed(config: Config, tenant: str, run: str | None = None) -> str | None:
    """Publish the same content for its remaining readers according to the last syncs; return the new generation.

    It is made of the published one where a build of new pages does not get through: no text is cut, embedded or indexed
    for it. Nobody ever may read more by it. A page that is gone, or whose source is, is one that nobody may read, until
    a build leaves it out. Graphs of Chroma are not made again: without them search is exact.

    Nothing is done, and None returned, if nobody lost access. `run`: its steps may write meanwhile. Raises LockedError:
    another build is at it. Raises StoreError: the published generation is damaged. Raises RemoteError, ObjectHomeError:
    the database of `index`, or the store of a shared home, cannot take it.
    """
    store = Store(config.home)
    with locked(config, store.tenant(tenant), WAIT_S, run, "narrow_readers" if run else None):
        return _publish(store, tenant, config)


def _publish(store: Store, tenant: str, config: Config) -> str | None:
    current = store.current(tenant)
    if current is None:
        return None
    sources = {key: SourceReaders.read(store, key, config.ingestion.drop_labels) for key in config.sources_of(tenant)}
    files = read_files(store, tenant, current, memory_bytes=0, is_searched=False)
    table, before = narrowed_table(files.table, sources), files.facts()
    facts = narrowed_facts(before, sources) if before else None
    if table is None and facts == before:
        return None
    manifest = _commit(store, tenant, files.manifest, files.table if table is None else table, facts)
    try:
        evaluation: dict[str, object] | None = read_signed(store, store.generation(tenant, current) / EVAL_REPORT)
    except StoreError:
        evaluation = None
    if evaluation:  # which the next candidate is compared with
        write_signed(store, store.generation(tenant, manifest.id) / EVAL_REPORT, evaluation)
    publish_to_database(store, tenant, manifest.id, config)
    move_current(store, tenant, manifest.id, config)
    # Its inputs are those of no build: the next one does not take it for its own.
    state = PublishState(generation=manifest.id, inputs="", chunks=manifest.chunks, shards=0, gates={})
    write_publish_state(store, tenant, state)
    if NARROWED_FROM in files.manifest.settings:  # nothing to go back to, and nothing is pruned before a build succeeds
        remove_folder(store.generation(tenant, current))
    return manifest.id


def narrowed_table(table: pa.Table, sources: Mapping[str, SourceReaders | None]) -> pa.Table | None:
    """Return GENERATION_CHUNKS with the readers that remain, None if all remain. `sources`: of every source of the
    tenant; None: its present readers are unknown."""

    def narrowed(source: str, chunk_id: str, readers: str) -> str:
        if source not in sources:
            return NOBODY
        known = sources[source]
        return known.narrowed(chunk_id, readers) if known else readers

    names = ("source", "chunk_id", "readers", "places")
    rows = list(zip(*(table[name].to_pylist() for name in names), strict=True))
    readers = [narrowed(source, chunk_id, old) for source, chunk_id, old, _ in rows]
    places = [
        old and [{**one, "readers": narrowed(one["source"], one["chunk_id"], one["readers"])} for one in old]
        for *_, old in rows
    ]
    if (readers, places) == ([row[2] for row in rows], [row[3] for row in rows]):
        return None
    for name, values in (("readers", readers), ("places", places)):
        place = table.schema.get_field_index(name)
        table = table.set_column(place, table.schema.field(name), pa.array(values, table.schema.field(name).type))
    return table


def narrowed_facts(facts: Facts, sources: Mapping[str, SourceReaders | None]) -> Facts:
    """Return the facts with the readers that remain; `sources` as those of `narrowed_table`."""

    def table_of(table: pa.Table, name: str, narrowed: Callable[[SourceReaders, str, str], str]) -> pa.Table:
        rows = zip(*(table[column].to_pylist() for column in ("source", name, "readers")), strict=True)
        readers = [
            NOBODY if source not in sources else narrowed(known, one, old) if (known := sources[source]) else old
            for source, one, old in rows
        ]
        place = table.schema.get_field_index("readers")
        return table.set_column(place, table.schema.field(place), pa.array(readers, pa.string()))

    return Facts(
        table_of(facts.pages, "page_id", SourceReaders.narrowed_page),
        table_of(facts.duplicates, "chunk_id", SourceReaders.narrowed),
    )


def _commit(store: Store, tenant: str, before: Manifest, table: pa.Table, facts: Facts | None) -> Manifest:
    """Put a copy of a generation with another chunk table beside it; returns its manifest."""
    source, working = store.generation(tenant, before.id), store.candidate(tenant) / "narrowed"
    remove_folder(working)
    parts = parts_of(before)
    made = {
        READERS_FILE,
        FACTS_FILE,
        DUPLICATES_FILE,
        *(part.file(name) for part in parts for name in (CHUNKS_FILE, MAPPED_FILE)),
    }
    for name in before.files.keys() - made:
        (working / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source / name, working / name)  # a link would be a change of the file that is served
    write_chunk_parts(working, table, parts)
    write_page_readers(working, table)
    if facts is not None:
        write_facts(working, facts)
    files = {name: one.facts for name, one in stamped_facts(working).items()}
    if altered := [name for name in before.files.keys() - made if files[name] != before.files[name]]:
        raise StoreError(f"{source / altered[0]} is not what the manifest says; run `citelock build`")
    same = before.model_dump(exclude={"id", "signature"})
    manifest = signed(
        create_manifest(
            **{
                **same,
                "inputs_digest": content_digest(
                    [before.inputs_digest, *map(values_digest, (table, *(facts or ())))], ()
                ),
                "shards": (),
                "created_at": datetime.now(UTC),
                "settings": {**before.settings, NARROWED_FROM: before.id},
                "files": files,
            }
        ),
        store.home,
    )
    write_manifest(working, manifest)
    commit_folder(working, store.generation(tenant, manifest.id))
    return manifest


_log = logging.getLogger(__name__)


def publish_to_database(store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False) -> Figures:
    """Copy a checked generation to the configured database and move its pointer; return the figures, empty without a
    database. `resend`: also send what the database has already. Raises ConfigError, RemoteError: with the reason; the
    database's publication is unchanged."""
    if config.index.kind == "disk":
        return {}
    return open_database(config).publish(store, tenant, generation_id, resend)


def prune_database(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    """Remove generations beyond `keep_generations` from the database; returns their ids."""
    if config.index.kind == "disk":
        return ()
    try:
        return open_database(config).prune(store, tenant)
    except RemoteError as error:  # what is published is: the next publication removes them
        _log.warning("older generations of %s stay in the database: %s", tenant, error)
    return ()


class PublishError(Exception):
    """A generation was not published; the message says which check it failed."""


@dataclass(frozen=True)
class PublishOutcome:
    """The result of `publish`."""

    generation: str
    previous: str | None
    changed: bool
    database: Figures = field(default_factory=dict)  # of the database of `index`, if there is one


@dataclass(frozen=True)
class Pruned:
    """The files removed by `prune`."""

    generations: tuple[str, ...]
    collections: tuple[str, ...]
    originals: tuple[str, ...] = ()


def publish(
    store: Store, tenant: str, generation_id: str, config: Config, gates: Sequence[CheckResult] = ()
) -> PublishOutcome:
    """Point `current` at a generation that passed `check_generation` and every further gate. Raises PublishError: it
    was not checked, or a check failed; `current` is unchanged. Raises StoreError: the generation cannot be opened;
    `current` is unchanged. Raises RemoteError: the database of `index` cannot take it; it answers from what it had, and
    `current` is as it was."""
    failed = [
        f"{check.name}: {check.detail}"
        for check in (*_verdict(store, tenant, generation_id), *gates)
        if not check.passed
    ]
    if failed:
        kept = store.generation(tenant, generation_id)
        raise PublishError(
            f"generation {generation_id} was not published ({'; '.join(failed)}); it can be inspected in {kept}"
        )
    previous = store.current(tenant)
    figures = publish_to_database(store, tenant, generation_id, config)
    move_current(store, tenant, generation_id, config)
    return PublishOutcome(generation_id, previous, previous != generation_id, figures)


def prune(store: Store, tenant: str, config: Config) -> Pruned:
    """Keep the published generation, the last `keep_generations` that were published, and a newer candidate. Folders
    go first, then the collections and originals that no remaining one names: a generation on disk always has its
    shards."""
    prune_database(store, tenant, config)
    with store.lock(tenant):
        doomed = doomed_generations(list_generations(store, tenant), config.indexing.keep_generations)
        for generation_id in doomed:
            remove_folder(store.generation(tenant, generation_id))
            verdict_path(store, tenant, generation_id).unlink(missing_ok=True)
        for leftover in store.generations(tenant).glob(".deleted-*"):
            remove_folder(leftover)
        try:
            ids = [info.id for info in list_generations(store, tenant)]
            named = _named(store, tenant, ids) | BuildWorkspace.of(store, tenant).collections()
        except StoreError:  # what a manifest names cannot be known: nothing may be removed
            return Pruned(tuple(doomed), ())
        removed = remove_unnamed_shards(place_of(store, tenant, config), named)
        try:
            originals = remove_unnamed_originals(store, tenant, [info.id for info in list_generations(store, tenant)])
        except StoreError:
            originals = []
    return Pruned(tuple(doomed), tuple(removed), tuple(originals))


def discard_failed(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    """Remove candidates that failed a check of `check_generation`, and the collections that nothing else names. They
    are kept to be inspected until the next build, which must not take them for its own: content that is the same has
    the same id, however it was damaged on its way."""
    with store.lock(tenant):
        infos = list_generations(store, tenant)
        doomed = [info.id for info in infos if not info.published and _has_failed(store, tenant, info.id)]
        for generation_id in doomed:
            remove_folder(store.generation(tenant, generation_id))
            verdict_path(store, tenant, generation_id).unlink(missing_ok=True)
        if doomed:
            kept = [info.id for info in infos if info.id not in doomed and not info.problem]
            named = _named(store, tenant, kept)
            remove_unnamed_shards(place_of(store, tenant, config), named)
    return tuple(doomed)


def _has_failed(store: Store, tenant: str, generation_id: str) -> bool:
    try:
        return not all(result.passed for result in _verdict(store, tenant, generation_id))
    except PublishError:
        return False


def doomed_generations(generations: Sequence[GenerationInfo], keep: int) -> list[str]:
    """Return the ids to remove among `generations` (newest first). Unpublished candidates do not push out targets of a
    rollback; only the newest generation of all stays without having been published."""
    published = [info.id for info in generations if info.published and not info.problem]
    kept = {info.id for info in generations if info.current}
    kept.update([name for name in published if name not in kept][: keep - len(kept)])
    newest = generations[0] if generations else None
    if newest and not newest.published and not newest.problem:
        kept.add(newest.id)
    return [info.id for info in generations if info.id not in kept]


def _verdict(store: Store, tenant: str, generation_id: str) -> list[CheckResult]:
    try:
        results = read_signed(store, verdict_path(store, tenant, generation_id))["checks"]
    except StoreError:
        raise PublishError(f"generation {generation_id} was not checked; run `citelock build`") from None
    return [CheckResult(**result) for result in results]


def _named(store: Store, tenant: str, ids: Sequence[str]) -> frozenset[str]:
    return frozenset().union(*(read_manifest(store, tenant, name).collections for name in ids))
