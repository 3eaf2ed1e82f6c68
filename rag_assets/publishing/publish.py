"""Moving the pointer to a checked generation, and removing what nobody needs any more.

Belongs here: publishing, retention, copying to the database that `index.kind` names, if it names one.
Does not belong here: the checks themselves (`checks`), the database (`rag_serving.indexes.databases`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field

from rag_assets.publishing.checks import CheckResult, verdict_path
from rag_assets.publishing.documents import remove_unnamed_originals
from rag_assets.publishing.shard_writer import remove_unnamed_shards
from rag_assets.publishing.workspace import BuildWorkspace
from rag_serving.artifacts.manifest import read_manifest
from rag_serving.artifacts.signed_files import read_signed
from rag_serving.artifacts.store import Store, StoreError, remove_folder
from rag_serving.config.loading import Config
from rag_serving.indexes.catalog import GenerationInfo, list_generations, move_current
from rag_serving.indexes.databases import Figures, RemoteError, open_database
from rag_serving.indexes.generation import place_of

_log = logging.getLogger(__name__)


def publish_to_database(store: Store, tenant: str, generation_id: str, config: Config, resend: bool = False) -> Figures:
    """Copy a checked generation to the configured database and move its pointer; return the figures, empty without a
    database. `resend`: also send what the database has already.

    Raises:
        ConfigError, RemoteError: with the reason; the database's publication is unchanged.
    """
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
    """Point `current` at a generation that passed `check_generation` and every further gate.

    Raises:
        PublishError: it was not checked, or a check failed; `current` is unchanged. StoreError: the generation cannot
            be opened; `current` is unchanged.
        RemoteError: the database of `index` cannot take it; it answers from what it had, and `current` is as it was.
    """
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
    """Keep the published generation, the last `keep_generations` that were published, and a newer candidate.

    Folders go first, then the collections and originals that no remaining one names: a generation on disk always has
    its shards.
    """
    prune_database(store, tenant, config)
    with store.lock(tenant):
        doomed = doomed_generations(list_generations(store, tenant), config.indexing.keep_generations)
        for generation_id in doomed:
            remove_folder(store.generation(tenant, generation_id))
            verdict_path(store, tenant, generation_id).unlink(missing_ok=True)
        for leftover in store.generations(tenant).glob(".deleted-*"):
            remove_folder(leftover)
        try:
            named = _named_collections(store, tenant)
        except StoreError:  # what a manifest names cannot be known: nothing may be removed
            return Pruned(tuple(doomed), ())
        removed = remove_unnamed_shards(place_of(store, tenant, config), named)
        try:
            originals = remove_unnamed_originals(store, tenant, [info.id for info in list_generations(store, tenant)])
        except StoreError:
            originals = []
    return Pruned(tuple(doomed), tuple(removed), tuple(originals))


def discard_failed(store: Store, tenant: str, config: Config) -> tuple[str, ...]:
    """Remove candidates that failed a check of `check_generation`, and the collections that nothing else names.

    They are kept to be inspected until the next build, which must not take them for its own: content that is the same
    has the same id, however it was damaged on its way.
    """
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
    """Return the ids to remove among `generations` (newest first).

    Unpublished candidates do not push out targets of a rollback; only the newest generation of all stays without having
    been published.
    """
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


def _named_collections(store: Store, tenant: str) -> frozenset[str]:
    """Collections of every generation on disk, and of a candidate that is being built."""
    ids = [info.id for info in list_generations(store, tenant)]
    return _named(store, tenant, ids) | BuildWorkspace.of(store, tenant).collections()


def _named(store: Store, tenant: str, ids: Sequence[str]) -> frozenset[str]:
    return frozenset().union(*(read_manifest(store, tenant, name).collections for name in ids))
