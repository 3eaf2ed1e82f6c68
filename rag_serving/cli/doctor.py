"""`citelock doctor`: what is installed, what is published, what does not work, and how to mend it."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from importlib.metadata import EntryPoint, PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING

from rag_serving.access.bearer_tokens import BearerTokens
from rag_serving.access.bounded_fetch import IssuerDownError
from rag_serving.access.principals import EVERYONE
from rag_serving.access.provider import Provider, ProviderMetadata
from rag_serving.access.token_validation import Jwk, keys_for
from rag_serving.answering.answerer import open_tables
from rag_serving.answering.writing.generator import open_generator
from rag_serving.api.auth import Authenticator, check_address
from rag_serving.artifacts.secret import RESTORE, has_secret
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.cli.phase import phase_of
from rag_serving.cli.printing import Finding, age
from rag_serving.config.index import where_home_is
from rag_serving.config.loading import DEFAULT_CONFIG, Config, ConfigError, load_config
from rag_serving.config.models import ChatModel
from rag_serving.config.serving import Jwt, Oidc
from rag_serving.indexes.databases import ENTRY_POINTS as DATABASES
from rag_serving.indexes.generation import Generation
from rag_serving.indexes.integrity import publication_fault
from rag_serving.models.chat.messages import open_chat
from rag_serving.models.embedding.factory import open_embedder
from rag_serving.models.protocols import ModelError
from rag_serving.models.reranker_client import ask_sidecar
from rag_serving.plugins import loaded
from rag_serving.shared_home import HOMES

if TYPE_CHECKING:
    from rag_serving.telemetry.usage import QueueFigures


CHECKS = "citelock.checks"
"""Entry points that look at what the serving package does not know: given the configuration, they yield findings."""

_LEAST_FREE_BYTES = 1_000_000_000
_OLD_DAYS = 30
_LOST_DAYS = 7


def examine(path: Path | None) -> Iterator[Finding]:
    """Yield everything that can be looked at without changing anything; without a usable configuration only that."""
    where = path or Path(os.environ.get("CITELOCK_CONFIG", DEFAULT_CONFIG))
    try:
        config = load_config(path)
    except ConfigError as error:
        yield Finding("configuration", "fail", str(error), "see docs/configuration.md")
        return
    yield Finding("configuration", "ok", str(where.absolute()))
    yield Finding("python", "ok", f"{sys.version.split()[0]}, citelock {_version('citelock') or 'not installed'}")
    yield _home(config)
    yield _disk(config)
    for tenant in config.tenants:
        if config.index.kind == "disk" or Store(config.home).pointer(tenant).exists():
            yield _published(config, tenant)
    if not config.tenants:
        yield Finding("tenants", "fail", "none is configured", f"add `tenants: {{NAME: {{}}}}` to {where}")
    if config.index.kind not in ("disk", *loaded(DATABASES)):
        yield Finding("index", "fail", f"no plug-in brings {config.index.kind}", "pip install 'citelock[stores]'")
    for check in (_weights, _embedder, _generator, _contexts, _reranker, _telemetry, _jobs, _tracing):
        yield check(config)
    if config.tenants:
        yield _phases(config)
    chroma, dagster = _version("chromadb"), _version("dagster")
    yield Finding("chroma", "ok", f"chromadb {chroma}" if chroma else "not installed: dense search is exact, in memory")
    if dagster:
        yield Finding("dagster", "ok", f"dagster {dagster}")
    else:
        detail = "not installed: this machine serves, it cannot build"
        yield Finding("dagster", "warn", detail, "pip install 'citelock[assets]'")
    for entry in loaded(CHECKS).values():
        yield from _joined(entry, config)
    yield _serving(config)
    if config.serving.oidc is not None:
        yield look_at(config.serving.oidc)
    if config.serving.jwt is not None:
        yield look_at_issuer(config.serving.jwt)


def _home(config: Config) -> Finding:
    home = config.home.absolute()
    try:
        with tempfile.TemporaryFile(dir=_nearest(home)):
            pass
    except OSError as error:
        return Finding("home", "fail", f"{home} cannot be written ({error.strerror})", "set `home:` or CITELOCK_HOME")
    if config.object_store.url:
        if not loaded(HOMES):
            return Finding("home", "fail", "no plug-in brings object_store", "pip install 'citelock[scale]'")
        return Finding("home", "ok", where_home_is(config.object_store, home))
    return Finding("home", "ok", f"{home}" if home.exists() else f"{home}, made by the first `citelock build`")


def _disk(config: Config) -> Finding:
    free = shutil.disk_usage(_nearest(config.home.absolute())).free
    detail = f"{free / 1e9:.1f} GB free"
    if free < _LEAST_FREE_BYTES:
        return Finding("disk", "warn", detail, "free some, or lower indexing.keep_generations")
    return Finding("disk", "ok", detail)


def _nearest(home: Path) -> Path:
    return next(folder for folder in (home, *home.parents) if folder.exists())


def _published(config: Config, tenant: str) -> Finding:
    name, store = f"tenant {tenant}", Store(config.home)
    try:
        current = store.current(tenant)
        if current is None:
            return Finding(name, "warn", "nothing is published yet", "run `citelock build`")
        if fault := publication_fault(store, tenant):
            return Finding(name, "fail", str(fault), "run `citelock build`" if has_secret(config.home) else RESTORE)
        generation = Generation.open(store, tenant, current, config)
    except (StoreError, OSError) as error:
        detail, _, mend = str(error).rpartition("; ")
        return Finding(name, "fail", detail or mend, mend if detail else "run `citelock build`")
    try:
        return _generation(name, generation)
    finally:
        generation.close()


def _generation(name: str, generation: Generation) -> Finding:
    lifetime = datetime.now(UTC) - generation.manifest.created_at
    open_to_all = generation.readable(frozenset({EVERYONE}) & generation.known_classes)
    readable = "" if open_to_all == len(generation) else f" ({open_to_all} of them readable for everyone)"
    detail = f"generation {generation.id}, {len(generation)} chunks{readable}, {age(lifetime.total_seconds())} old"
    if faults := generation.dense_faults():
        return Finding(name, "warn", f"{detail}; {faults[0].partition('; ')[0]}", "run `citelock generations repair`")
    if lifetime.days >= _OLD_DAYS:
        return Finding(name, "warn", detail, "run `citelock build`, or schedule it")
    return Finding(name, "ok", detail)


def _weights(config: Config) -> Finding:
    if config.embedding.provider != "local":
        return Finding("weights", "ok", f"not needed: embedding.provider is {config.embedding.provider}")
    from rag_serving.models.embedding.weights import find_weights

    try:
        weights = find_weights(config.embedding.model, config.embedding.weights_dir)
    except ModelError as error:
        return Finding("weights", "fail", str(error), "install the weights or set embedding.weights_dir")
    return Finding("weights", "ok", f"{weights.name} from {weights.origin}")


def _embedder(config: Config) -> Finding:
    try:
        return Finding("embedder", "ok", open_embedder(config.embedding).check())
    except ModelError as error:
        return Finding("embedder", "fail", str(error), "until then questions are answered by the lexical index alone")


def _generator(config: Config) -> Finding:
    if config.generation.provider == "extractive":
        return Finding("generator", "ok", "extractive: verbatim sentences, no model needed")
    try:
        return Finding("generator", "ok", open_generator(config.generation).check())
    except ModelError as error:
        return Finding("generator", "fail", str(error), "until then extraction answers, and answers say so")


def _contexts(config: Config) -> Finding:
    provider = config.context.provider
    if provider == "metadata" or provider == "none":
        return Finding("contexts", "ok", f"{provider}: no model needed")
    models = {"the first": _checked(provider, config.context, "context")}
    if (fallback := config.context.fallback) is not None:
        models["the fallback"] = _checked(fallback.provider, fallback, "context.fallback")
    detail = "; the fallback: ".join(said for said, _ in models.values())
    working = [name for name, (_, fails) in models.items() if not fails]
    if not working:
        return Finding("contexts", "fail", detail, "until then chunks get the metadata template")
    if len(working) < len(models):
        return Finding("contexts", "warn", detail, f"until then {working[0]} writes alone")
    return Finding("contexts", "ok", detail)


def _checked(provider: str, settings: ChatModel, section: str) -> tuple[str, bool]:
    try:
        return open_chat(provider, settings, section).check(), False
    except ModelError as error:
        return str(error), True


def _reranker(config: Config) -> Finding:
    if not config.reranker.url:
        return Finding("reranker", "ok", "none is configured: the order of the search stays")
    if not any(config.features_of(tenant).FEATURE_RERANKER for tenant in config.tenants or [""]):
        return Finding("reranker", "ok", "switched off by features.FEATURE_RERANKER")
    try:
        sidecar = ask_sidecar(config.reranker)
    except ModelError as error:
        return Finding("reranker", "fail", str(error), "until then the heuristic or the order of the search ranks")
    detail = f"{sidecar.model} at {config.reranker.url}"
    if sidecar.state != "ok":
        return Finding("reranker", "warn", f"{detail} is not ready: {sidecar.state}", "wait for it, or see its log")
    if sidecar.model != config.reranker.model:
        mend = f"start the sidecar with {config.reranker.model}, or set reranker.model"
        return Finding("reranker", "warn", f"{detail} is not the configured model", mend)
    return Finding("reranker", "ok", detail)


def _telemetry(config: Config) -> Finding:
    """Return the database as it is; it is made, and its folder, by the first question."""
    from rag_serving.telemetry.recorder import TelemetryError
    from rag_serving.telemetry.tables import faults_of, opened, rows_dropped

    settings, file = config.telemetry, Store(config.home).serving_db()
    if not settings.enabled:
        return Finding("telemetry", "ok", "switched off by telemetry.enabled")
    if settings.url is None and not file.exists():
        return Finding("telemetry", "ok", f"{file.absolute()}, made by the first question")
    try:
        with opened(settings.url, file) as engine:
            where = engine.url.render_as_string(hide_password=True)
            if faults := faults_of(engine):
                mend = "move the database away or give telemetry.url another: a new one is made"
                return Finding("telemetry", "fail", f"{where}: {'; '.join(faults)}", mend)
            since = datetime.now(UTC).date() - timedelta(days=_LOST_DAYS - 1)
            lost = rows_dropped(engine, since)
    except TelemetryError as error:
        return Finding("telemetry", "fail", str(error), "start it or mend telemetry.url; until then rows are dropped")
    detail = f"{where}, {lost:,} rows dropped in {_LOST_DAYS} days"
    return Finding("telemetry", "warn" if lost else "ok", detail, "see the server's log for the reason" if lost else "")


def _jobs(config: Config) -> Finding:
    if config.jobs.embedding != "workers":
        return Finding("workers", "ok", "builds embed by themselves: jobs.embedding is in_process")
    from sqlalchemy import inspect
    from sqlalchemy.exc import SQLAlchemyError

    from rag_serving.telemetry.recorder import TelemetryError
    from rag_serving.telemetry.tables import error_line, opened
    from rag_serving.telemetry.usage import JOBS_METADATA, queue_figures

    figures: dict[str, QueueFigures] = {}
    file = Store(config.home).serving_db()
    if config.telemetry.url is None and not file.exists():
        return Finding("workers", "ok", "the queue is made by the first build")
    try:
        with opened(config.telemetry.url, file) as engine, engine.connect() as connection:
            if not all(inspect(connection).has_table(name) for name in JOBS_METADATA.tables):
                return Finding("workers", "ok", "the queue is made by the first build")
            for tenant in config.tenants:
                figures[tenant] = queue_figures(connection, tenant, config.jobs.lease_s)
    except (TelemetryError, SQLAlchemyError) as error:
        mend = "start the database or mend telemetry.url; until then builds wait"
        return Finding("workers", "fail", f"the queue cannot be read ({error_line(error)})", mend)
    return _queue(list(figures.values()))


def _queue(figures: list[QueueFigures]) -> Finding:
    counts = {state: sum(each.jobs[state] for each in figures) for state in ("waiting", "running", "dead")}
    oldest = max((each.oldest_s for each in figures), default=0.0)
    workers = max((each.workers for each in figures), default=0)
    seen = min((each.last_seen_s for each in figures if each.last_seen_s is not None), default=None)
    detail = ", ".join(f"{count:,} {state}" for state, count in counts.items())
    detail += f", the oldest {age(oldest)} old" if counts["waiting"] + counts["running"] else ""
    told = f"the last sign of life {age(seen)} ago" if seen is not None else "none has given a sign of life of late"
    detail += f"; {workers} workers, {told}"
    if counts["waiting"] and not workers:
        return Finding("workers", "warn", detail, "start `citelock worker`")
    if counts["dead"]:
        return Finding("workers", "warn", detail, "`citelock jobs list --state dead`, then `citelock jobs retry --all`")
    return Finding("workers", "ok", detail)


def _tracing(config: Config) -> Finding:
    if config.tracing.endpoint is None:
        return Finding("tracing", "ok", "off: no trace leaves this machine (tracing.endpoint)")
    from rag_serving.tracing.exporting import address_of, is_taken

    address = address_of(config.tracing)
    try:
        if not is_taken(config.tracing):
            mend = "start the collector, or mend tracing.endpoint and OTEL_EXPORTER_OTLP_HEADERS; spans are dropped"
            return Finding("tracing", "warn", f"{address} cannot be reached, or refuses what it is sent", mend)
    except ConfigError as error:
        return Finding("tracing", "fail", str(error), "`citelock serve` refuses to start until then")
    text = "with questions and prompts" if config.tracing.text else "without any text"
    return Finding("tracing", "ok", f"traces go to {address}, {text}")


def _phases(config: Config) -> Finding:
    found = [phase_of(config, tenant) for tenant in sorted(config.tenants)]
    detail = " · ".join(f"{each.tenant}: {each.line}" for each in found)
    if any(each.is_lowered for each in found):
        return Finding("phases", "warn", detail, "see `phase` under GET /v1/status and the server's log for the reason")
    return Finding("phases", "ok", detail)


def _joined(entry: EntryPoint, config: Config) -> Iterator[Finding]:
    """Yield another package's findings; its failure is one, too."""
    try:
        yield from entry.load()(config)
    except ImportError as error:
        detail = f"cannot be looked at: {' '.join(str(error).split())}"
        yield Finding(entry.name, "warn", detail, "pip install 'citelock[assets]'")
    except Exception as error:  # whatever it is, the rest is still looked at
        if os.environ.get("CITELOCK_DEBUG"):
            raise
        detail = f"cannot be looked at: unexpected {type(error).__name__}: {' '.join(str(error).split())[:200]}"
        yield Finding(entry.name, "fail", detail, "set CITELOCK_DEBUG=1 to see where")


def _serving(config: Config) -> Finding:
    checks: tuple[Callable[[], object], ...] = (
        lambda: check_address(config.serving),
        lambda: Authenticator(config),
        lambda: open_tables(config),
    )
    try:
        for check in checks:
            check()
    except ConfigError as error:
        return Finding("serving", "fail", str(error), "`citelock serve` refuses to start until then")
    return Finding("serving", "ok", f"http://{config.serving.host}:{config.serving.port}, auth {config.serving.auth}")


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


_NAME, _ISSUER = "sign-in", "bearer tokens"


def look_at(settings: Oidc) -> Finding:
    """Return whether people could sign in now, as far as can be seen without somebody who does."""
    provider = Provider(settings)

    async def asked() -> tuple[ProviderMetadata, list[Jwk]]:
        return await provider.metadata(), await provider.keys.all()

    try:
        metadata, keys = asyncio.run(asked())
    except IssuerDownError as error:
        return Finding(_NAME, "fail", f"{settings.issuer}: {error}", "mend serving.oidc.issuer, or start the provider")
    mend = "let the provider sign with RS256 or ES256"
    found = _signing(Finding(_NAME, "fail", settings.issuer, mend), keys, settings.algorithms)
    if found.state == "ok" and not metadata.has_pkce:
        return Finding(_NAME, "warn", f"{found.detail}; it does not know PKCE with S256", "see the provider's settings")
    return found


def look_at_issuer(settings: Jwt) -> Finding:
    """Return whether bearer tokens of an issuer could be verified now."""
    try:
        tokens = BearerTokens(settings, [])
        keys = asyncio.run(tokens.keys.all())
    except ConfigError as error:
        return Finding(_ISSUER, "fail", str(error), "`citelock serve` refuses to start until then")
    except IssuerDownError as error:
        return Finding(_ISSUER, "fail", f"{settings.issuer}: {error}", "mend serving.jwt, or start the issuer")
    mend = "set serving.jwt.algorithms to what the issuer signs with"
    return _signing(Finding(_ISSUER, "fail", settings.issuer, mend), keys, tokens.expected.algorithms)


def _signing(failure: Finding, keys: Sequence[Jwk], algorithms: Iterable[str]) -> Finding:
    """Return which algorithms an issuer has keys for; the failure, with its number of keys, if there are none."""
    usable = sorted(name for name in set(algorithms) if keys_for(keys, name, None))
    detail = f"{failure.detail}, {len(keys)} keys for {', '.join(usable) or 'no algorithm that is believed'}"
    return Finding(failure.name, "ok", detail) if usable else replace(failure, detail=detail)
