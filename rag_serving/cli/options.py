"""Options that several commands share, and the tenant, the pipeline and the principal that they mean."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeVar

import typer

if TYPE_CHECKING:
    from rag_serving.access.principals import Principal
    from rag_serving.ask import Pipeline
    from rag_serving.config.loading import Config
    from rag_serving.records.answers import Answer, SearchResults
    from rag_serving.rendering.cited import CitedPlaces

    Noted = TypeVar("Noted", Answer, SearchResults)


ConfigPath = Annotated[
    Path | None, typer.Option("--config", help="Configuration file; default config/app.yaml or CITELOCK_CONFIG.")
]
Tenant = Annotated[str | None, typer.Option("--tenant", help="The tenant; may be left out where there is only one.")]
User = Annotated[str | None, typer.Option("--user", help="Who asks: account id or name.")]
Groups = Annotated[list[str] | None, typer.Option("--group", help="A group of who asks; repeatable.")]
Docs = Annotated[
    Path | None,
    typer.Option("--docs", help="A folder of documents, in place of a configuration; its index is kept beside them."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="With --docs: answer when all is indexed, not from words alone before that.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


class FolderIndex(NamedTuple):
    """The configuration of a question, and the maker of missing vectors: with progress shown, or silently."""

    config: Path | None
    finish: Callable[[bool], None] | None = None


@contextmanager
def indexed(docs: Path | None, config: Path | None, is_whole: bool = False) -> Iterator[Path | None]:
    """Yield the configuration of a folder, whose index is made first if it is missing; else the given one. Where many
    vectors are missing, and not all is wanted first, they are made after what is done with it. Raises UsageError: both
    are given, or there is nothing to index."""
    index = _index(docs, config, is_whole)
    yield index.config
    if index.finish:
        index.finish(True)


def config_of(docs: Path | None, config: Path | None, is_whole: bool = False) -> Path | None:
    """Return the same for what runs for long: missing vectors are made meanwhile, and taken over."""
    index = _index(docs, config, is_whole)
    if index.finish:
        threading.Thread(target=index.finish, args=[False], name="folder", daemon=True).start()
    return index.config


def _index(docs: Path | None, config: Path | None, is_whole: bool) -> FolderIndex:
    if docs is None:
        return FolderIndex(config)
    from rag_serving.cli.group import UsageError
    from rag_serving.plugins import one

    if config is not None:
        raise UsageError("--docs brings a configuration of its own; leave out --config")
    index: FolderIndex = one("citelock.folders", "docs", "assets")(docs, is_whole)
    return index


def chosen_tenant(config: Config, name: str | None) -> str:
    """Return the tenant of this name, or the only one. Raises ConfigError: there is none, or several."""
    from rag_serving.access.principals import choose_tenant
    from rag_serving.config.loading import ConfigError

    try:
        return choose_tenant(sorted(config.tenants), name, "--tenant NAME")
    except ValueError as error:
        raise ConfigError(str(error)) from None


_PATIENCE_S = 1.0  # that a command waits for a telemetry database
_PAGES_S = 1.5  # that a command waits for the pages of what is cited: its process has looked at none before


@contextmanager
def open_pipeline(path: Path | None, tenant: str | None, asks: bool = False) -> Iterator[Pipeline]:
    """Yield the pipeline of a tenant. `asks`: record its questions, and open the model in parallel with the imports.
    Raises ConfigError: the configuration cannot be used, or lacks the tenant."""
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
    counts = f"{readable:,} of {total:,} passages are readable for"
    note = f"{counts} you (`--user` and `--group` say who asks)"
    if principal.names:
        note = f"{counts} {', '.join(sorted(principal.names))} (`citelock readers explain PAGE` says why)"
    notes = [note, *(noted.notes or ())]
    return replace(noted, notes=tuple(note for note in notes if note != NOTHING_READABLE))
