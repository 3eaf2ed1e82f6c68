"""The pipeline and the principal of a command's options.

Belongs here: opening and closing them; the readable share of the publication, as a note below an answer. Does not
belong here: options (`cli.options`), commands, HTTP: a user of the terminal can read the whole home folder anyway; a
caller of the API never learns the number of passages hidden from him.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from rag_serving.cli.options import chosen_tenant

if TYPE_CHECKING:
    from rag_serving.access.principals import Principal
    from rag_serving.ask import Pipeline
    from rag_serving.config.loading import Config
    from rag_serving.records.answers import Answer, SearchResults
    from rag_serving.rendering.cited import CitedPlaces

    Noted = TypeVar("Noted", Answer, SearchResults)

_PATIENCE_S = 1.0  # that a command waits for a telemetry database
_PAGES_S = 1.5  # that a command waits for the pages of what is cited: its process has looked at none before


@contextmanager
def open_pipeline(path: Path | None, tenant: str | None, asks: bool = False) -> Iterator[Pipeline]:
    """Yield the pipeline of a tenant. `asks`: record its questions, and open the model in parallel with the imports.

    Raises:
        ConfigError: the configuration cannot be used, or lacks the tenant.
    """
    from rag_serving.config.loading import load_config
    from rag_serving.models.lazy_embedder import open_guarded

    config = load_config(path)
    name = chosen_tenant(config, tenant)
    if config.object_store.url:
        from rag_serving.shared_home import shared_home

        if home := shared_home(config):
            home.follower(config, [name]).fetch()
    embedder = open_guarded(config)
    if asks and config.embedding.provider == "local":  # opened beside the imports, which take as long
        threading.Thread(target=embedder.warm, name="warm").start()

    from rag_serving.ask import Pipeline
    from rag_serving.documents.links import FileLinks
    from rag_serving.telemetry.telemetry import open_telemetry
    from rag_serving.tracing.exporting import close_tracing, open_tracing

    open_tracing(config.tracing, "citelock")
    telemetry = open_telemetry(config, name, _PATIENCE_S, "terminal") if asks else None
    with _cited(config) if asks else nullcontext() as cited:
        pipeline = Pipeline.open(config, name, embedder, telemetry=telemetry)
        pipeline.cited = cited
        pipeline.published.lead_by(FileLinks(config))
        if asks:
            from rag_serving.hooks import open_audit, open_budgets

            pipeline.log.audit = open_audit(config, name)
            pipeline.log.budget = open_budgets(config, [name]).get(name)
        try:
            yield pipeline
        finally:
            pipeline.close()
            close_tracing()


@contextmanager
def _cited(config: Config) -> Iterator[CitedPlaces]:
    """Yield the finder of quotes on pages of PDF files; its process starts with the first quote."""
    from rag_serving.rendering.cited import CitedPlaces
    from rag_serving.rendering.pictures import Pictures

    pictures = Pictures(config.home)
    cited = CitedPlaces(pictures, _PAGES_S)
    try:
        yield cited
    finally:
        cited.close()
        pictures.close()


def principal_of(pipeline: Pipeline, user: str | None, groups: list[str] | None) -> Principal:
    """Return the caller, with the user's groups as of the last sync."""
    from rag_serving.access.group_members import Memberships
    from rag_serving.access.principals import Principal

    principal = Principal(pipeline.tenant, user, frozenset(groups or ()))
    return Memberships(pipeline.config).with_groups(principal)


def with_access_note(pipeline: Pipeline, principal: Principal, noted: Noted) -> Noted:
    """Return an answer or results with a note that counts what the principal may read, unless that is everything."""
    from rag_serving.indexes.current import UnpublishedError
    from rag_serving.indexes.databases import RemoteError
    from rag_serving.retrieval.search import NOTHING_READABLE

    try:
        with pipeline.published.acquire() as generation:
            readable, total = len(generation.for_reader(principal)), len(generation)
    except (UnpublishedError, RemoteError):
        return noted
    if readable == total:
        return noted
    notes = [access_note(principal, readable, total), *(noted.notes or ())]
    return replace(noted, notes=tuple(note for note in notes if note != NOTHING_READABLE))


def access_note(principal: Principal, readable: int, total: int) -> str:
    """Return the note: `0 of 210 passages are readable for you (`--user` and `--group` say who asks)`."""
    counts = f"{readable:,} of {total:,} passages are readable for"
    if not principal.names:
        return f"{counts} you (`--user` and `--group` say who asks)"
    return f"{counts} {', '.join(sorted(principal.names))} (`citelock readers explain PAGE` says why)"
