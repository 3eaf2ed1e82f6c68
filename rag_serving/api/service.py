"""The common parts of the API's routes: the service, authentication, refusals."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from fastapi import Request as HttpRequest

from rag_serving.access.principals import Principal
from rag_serving.access.sessions import Session
from rag_serving.api.auth import Authenticator, Identity, Request, as_bearer, token_digest
from rag_serving.api.limits import ActiveStreams, TakeSlot
from rag_serving.api.origins import SESSION, cookie_of
from rag_serving.api.status import status_series
from rag_serving.api.wire import RequestError, bearer_token
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.config.phases import Canary
from rag_serving.degradation.phases import OnChange
from rag_serving.hooks import AuditLog, Event, open_audit, open_budgets
from rag_serving.models.embedding.factory import TokenCount
from rag_serving.models.lazy_embedder import open_guarded
from rag_serving.models.protocols import Embedder
from rag_serving.models.reranker_client import RemoteReranker
from rag_serving.rendering.cited import CitedPlaces
from rag_serving.shared_home import HomeFollower, shared_home
from rag_serving.telemetry.metrics import Metrics
from rag_serving.telemetry.telemetry import open_telemetry
from rag_serving.telemetry.usage import BuildSeries
from rag_serving.text.normalization import fault_of
from rag_serving.tracing import coarse

_FORWARDED = frozenset({"forwarded", "x-forwarded-for", "x-real-ip"})


@dataclass(frozen=True, eq=False)
class Service:
    """The state shared by requests. A reread configuration replaces it (`reload`)."""

    config: Config
    authenticator: Authenticator
    pipelines: Mapping[str, Pipeline]
    embedder: Embedder
    metrics: Metrics
    cited: CitedPlaces | None = None
    follower: HomeFollower | None = None

    @classmethod
    def open(
        cls,
        config: Config,
        metrics_folder: Path | None = None,
        like: Service | None = None,
        cited: CitedPlaces | None = None,
    ) -> Service:
        """Open the configured tenants. They share only the embedding model, which is taken over from the service `like`
        if its configuration is the same. `metrics_folder`: shared counters of one server's processes. Raises
        ConfigError: the configured tokens or weights cannot be used."""
        authenticator = Authenticator(config, like.authenticator if like else None)
        same = like is not None and like.config.embedding == config.embedding
        embedder = like.embedder if like and same else open_guarded(config)
        # Its client connects to nothing, and is there though it is switched off: it may be switched on.
        sidecar = RemoteReranker(config.reranker) if config.reranker.url else None
        metrics, cited = Metrics(metrics_folder, len(config.tenants)), cited or (like.cited if like else None)
        home = shared_home(config)
        follower = home.server_follower(config) if home else None
        telemetries = {tenant: open_telemetry(config, tenant, count=metrics.add) for tenant in config.tenants}
        pipelines = {
            tenant: Pipeline.open(config, tenant, embedder, sidecar, telemetry)
            for tenant, telemetry in telemetries.items()
        }
        budgets = open_budgets(config, config.tenants)
        for pipeline in pipelines.values():
            pipeline.cited, pipeline.followed = cited, follower
            pipeline.log.budget = budgets.get(pipeline.tenant)
            pipeline.log.audit = open_audit(config, pipeline.tenant)
            pipeline.watch(_noted(metrics.add_change, pipeline.log.audit))
        return cls(config, authenticator, pipelines, embedder, metrics, cited, follower)

    def switch(self, config: Config) -> list[str]:
        """Apply another configuration's switches and phases from the next question on; return the changes as lines."""
        told: list[str] = []
        for tenant, pipeline in self.pipelines.items():
            if tenant in config.tenants:
                features, wanted = config.features_of(tenant), config.phases_of(tenant)
                told += changes_of(pipeline.config.features, features, f"features of {tenant}: ")
                told += changes_of(pipeline.phases.configured, wanted, f"retrieval of {tenant}: ")
                pipeline.switch(features, wanted)
        return told

    def warm(self) -> None:
        """Open models and generations before a question needs them."""
        for pipeline in self.pipelines.values():
            pipeline.warm()

    def follow(self) -> None:
        """Look whether a newer generation was published."""
        if self.follower:
            self.follower.follow()
        for pipeline in self.pipelines.values():
            pipeline.published.follow()
            pipeline.phases.follow()

    def fetch(self) -> None:
        """Fetch the publication from an object store, if it is shared by one, before returning."""
        if self.follower:
            self.follower.fetch()

    def behind(self, tenant: str) -> str | None:
        """Return why this machine may lack a tenant's last publication; None if it has it."""
        return self.follower.staleness(tenant) if self.follower else None

    def awaited(self, tenant: str, has_older: bool) -> str | None:
        """Return the part of a tenant that is still being fetched; `has_older`: an earlier generation could answer."""
        return self.follower.awaited(tenant, has_older) if self.follower else None

    def measure(self) -> None:
        """Set the metrics of the present state: circuit breakers, rows of telemetry."""
        for tenant, pipeline in self.pipelines.items():
            if state := pipeline.phases.state():
                self.metrics.set_phase(tenant, state.in_force if pipeline.phases.settings.enabled else 0)
            for server, breaker in pipeline.breakers().items():
                self.metrics.set_breaker(tenant, server, breaker)
            self.metrics.set_generation(tenant, pipeline.published.answers_from())
            if pipeline.telemetry:
                self.metrics.set_rows(tenant, pipeline.telemetry.counts())
            if pipeline.log.audit:
                self.metrics.set_events(tenant, **vars(pipeline.log.audit.counts()))

    def exposition(self, tenant: str, of_operator: bool = False) -> bytes:
        """Return a tenant's metrics over all server processes, in Prometheus' text format; `of_operator` adds those
        about pages that are hidden from some readers."""
        self.measure()
        if tenant not in self.pipelines:
            return self.metrics.exposition(tenant)
        pipeline = self.pipelines[tenant]
        parts = [self.metrics.exposition(tenant), self._builds.exposition(tenant)]
        if pipeline.log.budget:
            parts.append(pipeline.log.budget.exposition())
        if of_operator:
            is_followed = None if self.follower is None else self.follower.problem_of(tenant) is None
            parts.append(status_series(pipeline, self._builds, is_followed))
        return b"".join(parts)

    @cached_property
    def _builds(self) -> BuildSeries:
        return BuildSeries(self.config)

    @cached_property
    def token_count(self) -> TokenCount:
        return TokenCount(self.config.embedding)

    def flush(self, seconds: float) -> None:
        """Write the telemetry of all tenants, for so many seconds at most."""
        until = time.monotonic() + seconds
        for pipeline in self.pipelines.values():
            if pipeline.telemetry:
                pipeline.telemetry.flush(max(0.0, until - time.monotonic()))
            if pipeline.log.audit:
                pipeline.log.audit.flush(max(0.0, until - time.monotonic()))

    def close(self) -> None:
        for pipeline in self.pipelines.values():
            pipeline.close()
        self.authenticator.close()
        self._builds.close()
        self.measure()


def _noted(on_change: OnChange, audit: AuditLog | None) -> OnChange:
    def changed(tenant: str, direction: str, phase: int) -> None:
        on_change(tenant, direction, phase)
        if audit:
            audit.note(Event("phase.changed", details={"direction": direction, "phase": phase}))

    return changed


def changes_of(old: object, new: object, what: str) -> list[str]:
    """Return each setting of two of a kind that differs, as it was and is."""
    before, after = (
        {name: str(value) if isinstance(value, Canary) else value for name, value in vars(settings).items()}
        for settings in (old, new)
    )
    told = [f"{name} {before[name]} → {after[name]}" for name in after if before[name] != after[name]]
    return [what + ", ".join(told)] if told else []


def service_of(request: HttpRequest) -> Service:
    """Return the service of this request, the same until it is answered."""
    if not hasattr(request.state, "service"):
        request.state.service = request.app.state.service
    service: Service = request.state.service
    return service


def caller_of(request: HttpRequest, tenant: str | None = None) -> Principal:
    return service_of(request).authenticator.principal(seen_of(request), tenant)


def known_caller(request: HttpRequest) -> Principal | None:
    """Return the caller of any tenant, by headers alone; None is this machine's own reader, who may do everything.
    Raises AuthError: the caller has no access."""
    return service_of(request).authenticator.identify(seen_of(request))


async def recognize(request: HttpRequest, reading: Callable[[str | None], str | None] | None = None) -> None:
    """Resolve a request's credentials once for all checks; `reading` turns other credentials into a bearer token."""
    seen = seen_of(request)
    if reading is not None:
        seen = replace(seen, authorization=reading(seen.authorization))
    request.state.recognized = await service_of(request).authenticator.recognize(seen)


def seen_of(request: HttpRequest) -> Request:
    """Return the parts of a request that matter to authentication."""
    headers = request.headers
    return Request(
        client=request.client.host if request.client else None,
        host=headers.get("host"),
        authorization=headers.get("authorization"),
        forwarded=not _FORWARDED.isdisjoint(headers.keys()),
        session=session_of(request),
        headers=headers,
        address=f"{service_of(request).config.serving.public_url or ''}{request.url.path}",
        recognized=getattr(request.state, "recognized", None),
    )


def session_of(request: HttpRequest) -> Session | None:
    """Return the session of a request's cookie; None if `Authorization` names the caller."""
    if not hasattr(request.state, "session"):
        service = service_of(request)
        shown = request.headers.get("authorization") is not None or service.config.serving.auth == "loopback"
        sealed = None if shown else cookie_of(request, service.config.serving, SESSION)
        request.state.session = service.authenticator.sessions.read(sealed) if sealed else None
    session: Session | None = request.state.session
    return session


def shown_token(request: HttpRequest) -> str:
    """Return the presented token; empty without one."""
    shown = request.headers.get("authorization")
    return bearer_token(as_bearer(shown)) or shown or ""


def counted_as(request: HttpRequest) -> str:
    """Return the key for counting a caller: the token, presented or signed in with, or the user."""
    recognized = getattr(request.state, "recognized", None)
    if isinstance(recognized, Identity):
        return recognized.counted_as
    session = session_of(request)
    if session:
        return session.caller
    return token_digest(token) if (token := shown_token(request)) else ""


def slots_of(request: HttpRequest, taken: ActiveStreams | None = None) -> TakeSlot:
    """Return what takes one of the streams that the caller may still begin beside those of their sort that are `taken`,
    answers by default. They are counted by the caller, and the user on whose behalf a server asks."""
    serving, taken = service_of(request).config.serving, taken or request.app.state.streams
    if serving.auth == "loopback":
        return partial(taken.take, serving, "")
    caller = caller_of(request)
    return partial(taken.take, serving, f"{caller.tenant} {counted_as(request)} {caller.user or ''}")


async def _current_service(request: HttpRequest) -> Service:
    """Return the service; by the event loop itself, because threads may all be waiting."""
    return service_of(request)


Caller = Annotated[Principal, Depends(caller_of)]
RequireCaller = Depends(known_caller)
"""Of routes that show nothing of a tenant: all but `/healthz` and `/readyz` ask who calls."""
CurrentService = Annotated[Service, Depends(_current_service)]


def checked_text(name: str, value: str, config: Config) -> str:
    """Return a question without outer white space, neither empty nor too long."""
    text = value.strip()
    if fault := fault_of(text):
        raise RequestError(400, "BAD_REQUEST", f"'{name}': {fault}", name)
    limit = config.serving.max_question_chars
    if not text:
        raise RequestError(400, "BAD_REQUEST", f"'{name}' is empty", name)
    if len(text) > limit:
        raise RequestError(400, "TOO_LONG", f"'{name}' has {len(text)} characters, at most {limit} are read", name)
    return text


def timings_for(caller: Principal, timings_ms: Mapping[str, float]) -> Mapping[str, float]:
    """Return the time of each stage as the caller may see it: operators all of it, others rounded."""
    return timings_ms if "operator" in caller.roles else coarse(timings_ms)
