"""The resources of assets, checks and sensors: the configuration, the store, and a reporter."""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

import dagster as dg
from dagster._core.execution.context.compute import current_execution_context

from evals.evaluation.evaluate import EvaluationError
from evals.evaluation.gold import GoldError
from rag_assets.embedding_usage import DeadTextsError
from rag_assets.making import Making
from rag_assets.progress import Reporter, ShownReporter
from rag_assets.publishing.arrange import BuildError
from rag_assets.publishing.publish import PublishError
from rag_assets.sources.base import SourceError
from rag_assets.state.locks import LockedError, locked, refresh_sources
from rag_assets.steps.chunks.select import CollisionError
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, ConfigError, load_config
from rag_serving.documents.noted import NotedPages
from rag_serving.escaping.redaction import redacted
from rag_serving.indexes.chroma import DenseError
from rag_serving.models.protocols import ModelError
from rag_serving.shared_home import ObjectHomeError

Context: TypeAlias = dg.AssetExecutionContext
StepReporter: TypeAlias = dg.ResourceParam[Reporter]
OVERRIDE_TAG = "citelock/override_gates"
NOTED_TAG = "citelock/noted"
"""The tag of a sync for noted pages alone: how many they are."""
SHOWN_TAG = "citelock/shown"
"""The tag of the runs of a source's sync that operators look at: its key."""

STEP_WAIT_SECONDS = 60.0
"""How long a step waits for another build's lock before it gives up."""

_FOR_GOOD = (
    ConfigError, StoreError, LockedError, SourceError, CollisionError, BuildError, PublishError, GoldError,
    DeadTextsError,
)  # fmt: skip


class Installation(dg.ConfigurableResource):  # type: ignore[type-arg]
    """One configuration file and its home folder."""

    config_path: str = ""  # empty: CITELOCK_CONFIG, else config/app.yaml

    def config(self) -> Config:
        """Return the configuration as it is now: the file is read at each step, so an edit needs no restart. Raises
        ConfigError: see `load_config`."""
        return load_config(Path(self.config_path) if self.config_path else None)

    def store(self) -> Store:
        return Store(self.config().home)


def opened(installation: Installation) -> tuple[Config, Store]:
    """Return the configuration and the store for a step; without a usable configuration it fails at once."""
    try:
        config = installation.config()
    except ConfigError as error:
        raise dg.Failure(str(error), allow_retries=False) from None
    return config, Store(config.home)


def of_source(partition: str, installation: Installation) -> tuple[str, Config, Store]:
    """Return the source that a step is run for, the configuration that has it, and the store."""
    config, store = opened(installation)
    return _configured("source", partition, config.sources), config, store


def of_tenant(partition: str, installation: Installation) -> tuple[str, Config, Store]:
    """Return a step's tenant, the configuration with it, and the store, updated with other machines' work."""
    config, store = opened(installation)
    tenant = _configured("tenant", partition, config.tenants)
    try:
        refresh_sources(config, config.sources_of(tenant))
    except (ConfigError, ObjectHomeError) as error:
        redact_error(error)
        raise dg.Failure(str(error)) from error
    return tenant, config, store


def of_source_step(context: Context, installation: Installation, reporter: Reporter) -> Making:
    """Return the context for making an asset of a source."""
    key, config, store = of_source(context.partition_key, installation)
    reporter = _shown(context, store, reporter)
    return Making(key, config, store, reporter, context.log, is_full(context), NOTED_TAG in context.run.tags)


def of_tenant_step(context: Context, installation: Installation, reporter: Reporter) -> Making:
    """Return the context for making an asset of a tenant."""
    tenant, config, store = of_tenant(context.partition_key, installation)
    return Making(tenant, config, store, _shown(context, store, reporter), context.log, is_full(context))


def _shown(context: Context, store: Store, reporter: Reporter) -> Reporter:
    key = context.run.tags.get(SHOWN_TAG)
    return ShownReporter(reporter, NotedPages(store.source(key))) if key else reporter


def _configured(kind: str, key: str, known: Collection[str]) -> str:
    """Return a key of the configuration; for one that is not there no retry helps."""
    if key not in known:
        there = ", ".join(sorted(known)) or "none"
        mend = f"add it under `{kind}s:`, or let the sensor `register_partitions` delete its partition"
        raise dg.Failure(f"{kind} {key!r} is not in the configuration, which has {there}; {mend}", allow_retries=False)
    return key


@contextmanager
def writing(config: Config, folder: Path, run: str | None = None) -> Iterator[None]:
    """Lock the folder during a step; an error that no retry can fix becomes a failure without retries. `run`: the id of
    a run whose other steps may write other files there meanwhile; None: no other step may."""
    try:
        context = current_execution_context.get()
        own_run, step = (context.run.run_id, context.op_execution_context.op.name) if context else (None, None)
        with locked(config, folder, STEP_WAIT_SECONDS, own_run, step if run else None):
            started = context.instance.get_run_by_id(own_run) if context and own_run else None
            if started is not None and started.is_finished:  # an attempt that was given up may come back much later
                message = f"run {own_run} has ended; this late attempt of its step writes nothing"
                raise dg.Failure(message, allow_retries=False)
            yield
    except Exception as error:
        redact_error(error)  # Dagster stores the messages of all errors that this one came from
        if isinstance(error, _FOR_GOOD) and not isinstance(error, ObjectHomeError):
            raise dg.Failure(str(error), allow_retries=False) from error
        if isinstance(error, ObjectHomeError | ModelError | DenseError | EvaluationError):
            raise dg.Failure(str(error)) from error
        raise


def override_of(context: Context) -> str | None:
    """Return a person's reason for publishing despite the gates: the value of the run's tag
    `citelock/override_gates`."""
    return context.run.tags.get(OVERRIDE_TAG, "").strip() or None


def is_full(context: Context) -> bool:
    """Return whether the run makes everything again: it has the tag `citelock/full`."""
    return "citelock/full" in context.run.tags


def redact_error(error: BaseException | None) -> None:
    """Take credentials out of the messages of an error and of those it came from, where they are kept as arguments."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        error.args = tuple(redacted(word) if isinstance(word, str) else word for word in error.args)
        error = error.__cause__ or error.__context__
