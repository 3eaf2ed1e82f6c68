"""`citelock build`: sync what changed, publish what follows from it, say what was done. A source that fails keeps its
last good tables, the others go on, and the tenant is published with what is complete."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rag_assets.build.summary import Summary, estimate_embedding, left_out, searched_pages, source_counts, tenant_facts
from rag_assets.llm_contexts.tenant import ContextEstimate, has_failures, plan_contexts, read_last_run
from rag_assets.progress import BarReporter, LineReporter, Reporter
from rag_assets.publishing.documents import note_stopped, settle_documents
from rag_assets.publishing.publish import narrow_readers
from rag_assets.sources import open_source
from rag_assets.sources.base import SourceError
from rag_assets.state.locks import LockedError, locked, refresh_sources
from rag_assets.state.planning import (
    attempts,
    chunk_digests,
    published_damage,
    published_inputs,
    source_facts,
    sources_to_ingest,
    tenants_to_publish,
    wanted_inputs,
)
from rag_assets.state.records import note_unchanged
from rag_assets.traced import SERVICE
from rag_serving.artifacts.schema import SELECTED_CHUNKS
from rag_serving.artifacts.store import Store, StoreError, read_json, read_table
from rag_serving.config.index import ObjectStore
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.escaping.redaction import redacted, redacted_values
from rag_serving.escaping.targets import for_log, for_terminal
from rag_serving.models import ModelError, open_embedder
from rag_serving.privacy import complain
from rag_serving.tracing.exporting import close_tracing, open_tracing
from rag_serving.tracing.spans import span

if TYPE_CHECKING:
    from rag_assets.build.runner import Runner
    from rag_assets.runs import RunOutcome


def command(
    sources: Annotated[list[str] | None, typer.Argument(help="Sources to build; all by default.")] = None,
    config: Annotated[Path | None, typer.Option("--config", help="Configuration file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
    full: Annotated[bool, typer.Option("--full", help="Make everything again, changed or not.")] = False,
    retry_contexts: Annotated[
        bool, typer.Option("--retry-contexts", help="Ask the model again for contexts that it failed to write.")
    ] = False,
    estimate: Annotated[
        bool,
        typer.Option(
            "--estimate",
            help="Tell what would be embedded and written, and what that costs: nothing is changed, no model asked.",
        ),
    ] = False,
    override_gates: Annotated[
        str | None,
        typer.Option("--override-gates", metavar="REASON", help="Publish whatever the gates of quality say; recorded."),
    ] = None,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show Dagster's log.")] = False,
) -> None:
    """Sync the sources that changed and publish the tenants they belong to."""
    try:
        settings = load_config(config)
        refuse_unknown(settings, sources or [])
        if override_gates is not None and not override_gates.strip():
            raise ConfigError("--override-gates needs a reason, which is recorded with the generation")
    except ConfigError as error:
        complain(str(error))
        raise typer.Exit(2) from None
    with reporting(as_json, verbose) as reporter:
        try:
            open_tracing(settings.tracing, SERVICE)
            refresh_sources(settings, sources or settings.sources)
            with scratch_home(settings) if estimate else nullcontext(settings) as used, span("build"):
                build = BuildRun(used, config, reporter, verbose, override_gates)
                summary = build.run(sources or [], full, retry_contexts, estimate)
        except (LockedError, StoreError) as error:
            complain(str(error))
            raise typer.Exit(1) from None
        except KeyboardInterrupt:
            print("citelock: interrupted; what was finished is kept, and what is published stays", file=sys.stderr)
            raise typer.Exit(130) from None
        finally:
            close_tracing()
    for key, reason in summary.errors.items():
        print(for_log(f"{key}: {reason}"), file=sys.stderr)
    payload = json.dumps(redacted_values(summary.payload()), indent=1)
    print(payload if as_json else for_terminal(redacted("\n".join(summary.lines()))))
    if summary.errors:
        raise typer.Exit(1)


@dataclass
class BuildRun:
    """One build: its inputs, and its work."""

    config: Config
    config_path: Path | None
    reporter: Reporter
    verbose: bool = False
    override_gates: str | None = None

    def __post_init__(self) -> None:
        self._store = Store(self.config.home)
        self._runner: Runner | None = None

    def run(
        self, only: Collection[str], full: bool = False, retry_contexts: bool = False, estimate: bool = False
    ) -> Summary:
        """Ingest, then publish; with `retry_contexts` also tenants whose chunks lack contexts of the model. With
        `estimate` nothing is published: the summary has the requests to models. The home folder should be a
        `scratch_home`: syncs write there. Raises LockedError: another build is at it. Raises KeyboardInterrupt: a
        person stopped it."""
        started = time.monotonic()
        summary = Summary()
        keys = [key for key in sorted(self.config.sources) if not only or key in only]
        try:
            summary.sources = self._ingest(keys, full, summary)
            tenants = sorted({self.config.sources[key].tenant for key in keys})
            if estimate:
                estimates: dict[str, ContextEstimate | None] = {}
                for tenant in tenants:
                    if not chunk_digests(self.config, self._store, tenant):
                        continue
                    with locked(self.config, self._store.tenant(tenant)):
                        if self._start("publish", tenant, False, summary, ["dedup_map"]).error is None:
                            estimates[tenant] = self._estimate_selected(tenant, summary)
                summary.estimates = estimates
            else:
                summary.tenants = self._publish(tenants, full, retry_contexts, summary)
                self._count_searched(tenants, summary)
                self._notify(tenants)
        finally:
            if self._runner is not None:
                self._runner.close()
        summary.seconds = time.monotonic() - started
        return summary

    def _ingest(self, keys: Collection[str], full: bool, summary: Summary) -> dict[str, dict[str, Any]]:
        due = self._due_sources(keys, full, summary)
        self._note_unchanged(key for key in keys if key not in due and key not in summary.errors)
        with ExitStack() as locks:
            for key in due:
                locks.enter_context(locked(self.config, self._store.source(key)))
            outcomes = {key: self._start("ingest", key, full, summary) for key in due}
        summary.reasons = {key: left_out(self._store, key) for key in due if key not in summary.errors}
        return {key: source_counts(self._store, key, outcomes.get(key), summary.errors.get(key)) for key in keys}

    def _count_searched(self, tenants: Collection[str], summary: Summary) -> None:
        """Tell how many pages of each source are searched, as `GET /v1/status` does."""
        for tenant in tenants:
            keys = [key for key in summary.sources if self.config.sources[key].tenant == tenant]
            for key, pages in searched_pages(self._store, tenant, keys).items():
                summary.sources[key]["pages_searched"] = pages

    def _notify(self, tenants: Collection[str]) -> None:
        if not self.config.monitoring.sends_notices:
            return
        from rag_assets.monitoring.alerts import notify
        from rag_serving.indexes.current import UnpublishedError
        from rag_serving.indexes.databases import RemoteError
        from rag_serving.receipts.receipt import ReceiptError

        for tenant in tenants:
            try:
                notify(self.config, tenant)
            except (ReceiptError, UnpublishedError, RemoteError) as error:
                print(for_log(f"{tenant}: no notices of changed answers were sent ({error})"), file=sys.stderr)

    def _note_unchanged(self, keys: Iterable[str]) -> None:
        """A source that was looked at and had nothing new counts as synced, unless another build is at it."""
        for key in keys:
            with suppress(LockedError), locked(self.config, self._store.source(key)):
                note_unchanged(self._store, key, datetime.now(UTC))

    def _due_sources(self, keys: Collection[str], full: bool, summary: Summary) -> Mapping[str, str]:
        """Return the sources to ingest, each with the reason; one that is not there is an error of its own."""
        facts = []
        for key in keys:
            try:
                settings, folder = self.config.sources[key], self._store.source(key)
                address = self.config.serving.public_url
                fingerprint = open_source(key, settings, folder, public_url=address).fingerprint()
            except SourceError as error:
                summary.errors[key] = str(error)
            else:
                facts.append(source_facts(self.config, self._store, key, fingerprint))
        return sources_to_ingest(facts, full=full)

    def _publish(
        self, tenants: Collection[str], full: bool, retry_contexts: bool, summary: Summary
    ) -> dict[str, dict[str, object]]:
        try:
            wanted = wanted_inputs(self.config, self._store, open_embedder(self.config.embedding), tenants)
        except ModelError as error:
            summary.errors["embedding"] = str(error)
            wanted = {}
            for tenant in tenants:
                narrow_readers(self.config, tenant, lambda line: print(for_log(line), file=sys.stderr))
        again = {tenant for tenant in wanted if full or (retry_contexts and has_failures(self._store, tenant))}
        damage_of = {tenant: published_damage(self.config, self._store, tenant, "opens") for tenant in wanted}
        for tenant, damage in damage_of.items():
            if damage:
                print(
                    for_log(f"{tenant}: the published generation is damaged ({damage[0]}); it is made again"),
                    file=sys.stderr,
                )
        again |= {tenant for tenant, damage in damage_of.items() if damage}
        published = {tenant: None if tenant in again else published_inputs(self._store, tenant) for tenant in wanted}
        outcomes: dict[str, RunOutcome] = {}
        for tenant in tenants_to_publish(wanted, published):
            with locked(self.config, self._store.tenant(tenant)):
                for _ in attempts(self._store, tenant):
                    if tenant in outcomes:
                        summary.errors.pop(tenant, None)
                    outcomes[tenant] = self._start("publish", tenant, full, summary)
        for tenant in tenants:
            settle_documents(self.config, tenant)
            if tenant in outcomes and outcomes[tenant].error is not None:
                note_stopped(self.config, tenant)
        return {tenant: tenant_facts(self._store, tenant, outcomes.get(tenant)) for tenant in tenants}

    def _estimate_selected(self, tenant: str, summary: Summary) -> ContextEstimate | None:
        try:
            selected = read_table(self._store.candidate(tenant) / "selected.parquet", SELECTED_CHUNKS)
            plan = plan_contexts(selected, self.config.context, self._store.cache(tenant), self._store.home)
            scratch = self._store.candidate(tenant) / ".estimate"
            summary.embedding[tenant] = estimate_embedding(self.config, tenant, selected, plan, scratch)
        except ModelError as error:
            summary.errors[tenant] = str(error)
            return None
        return plan.estimate(read_last_run(self._store, tenant)) if plan else None

    def _start(self, job: str, partition: str, full: bool, summary: Summary, only: Sequence[str] = ()) -> RunOutcome:
        if self._runner is None:
            # Here: importing Dagster takes longer than finding nothing to do.
            from rag_assets.build.runner import Runner

            home = os.environ.get("DAGSTER_HOME")
            self._runner = Runner(self.config, self.config_path, self.reporter, home, self.verbose)
        tags = {"citelock/full": "true"} if full else {}
        if self.override_gates:
            tags["citelock/override_gates"] = self.override_gates
        outcome = self._runner.run(job, partition, tags, only)
        summary.step_seconds[partition] = dict(outcome.seconds)
        if outcome.error is not None:
            summary.errors[partition] = outcome.error
        elif job == "ingest":
            for note in read_json(self._store.source(partition) / "sync_state.json")["notes"]:
                print(for_log(f"{partition}: {note}"), file=sys.stderr)
        return outcome


def refuse_unknown(config: Config, sources: Collection[str]) -> None:
    """Check the sources that were named. Raises ConfigError: one is not in the configuration; the message names the
    nearest."""
    for key in sources:
        if key not in config.sources:
            near = get_close_matches(key, sorted(config.sources), n=1)
            known = ", ".join(sorted(config.sources)) or "none"
            mend = f"did you mean {near[0]!r}?" if near else f"there are: {known}"
            raise ConfigError(f"source {key!r} is not in the configuration; {mend}")


@contextmanager
def reporting(as_json: bool, verbose: bool) -> Iterator[Reporter]:
    """Yield a bar on a terminal, plain lines elsewhere, nothing when a program reads the output."""
    if as_json and not sys.stderr.isatty():
        yield Reporter()
    elif verbose or not sys.stderr.isatty():
        yield LineReporter()
    else:
        bar = BarReporter()
        with bar.shown():
            yield bar


_LEFT_OUT = frozenset({"generations", "chroma", "originals", "candidate"})  # of a tenant's folder
_DATABASES = (".db", ".db-wal", ".db-shm")  # of the installation: telemetry, receipts
_LINKED_BYTES = 1_000_000  # files are replaced, never changed in place, but for databases


@contextmanager
def scratch_home(config: Config) -> Iterator[Config]:
    """Yield the configuration with a home folder of its own, which every process below reads, and no Dagster instance:
    what is built there leaves nothing behind."""
    with TemporaryDirectory(prefix="citelock-estimate-") as folder:
        home = Path(folder)
        if config.home.is_dir():
            _copy(config.home, home)
        with _environment({"CITELOCK_HOME": folder, "CITELOCK_OBJECT_STORE__URL": "", "DAGSTER_HOME": None}):
            yield config.model_copy(update={"home": home, "object_store": ObjectStore()})


def _copy(source: Path, target: Path) -> None:
    for folder, names, files in os.walk(source):
        here = Path(folder).relative_to(source)
        if len(here.parts) == 2 and here.parts[0] == "tenants":
            names[:] = [name for name in names if name not in _LEFT_OUT]
        (target / here).mkdir(exist_ok=True)
        for name in files:
            if name.endswith(".lock") or (here == Path() and name.endswith(_DATABASES)):
                continue
            _copy_file(Path(folder) / name, target / here / name)


def _copy_file(file: Path, copy: Path) -> None:
    """Copy a file, or link a large one that is no database; one that is gone by now is left out."""
    with suppress(FileNotFoundError):
        if file.stat().st_size > _LINKED_BYTES and "sqlite" not in file.name:
            with suppress(OSError):  # another file system
                os.link(file, copy)
                return
        shutil.copy2(file, copy)


@contextmanager
def _environment(values: dict[str, str | None]) -> Iterator[None]:
    """Set variables of this process, None: unset, until the block ends."""
    before = {name: os.environ.get(name) for name in values}
    try:
        _set(values)
        yield
    finally:
        _set(before)


def _set(values: dict[str, str | None]) -> None:
    for name, value in values.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value
