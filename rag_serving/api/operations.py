"""What operators of a tenant do over HTTP: publish an earlier generation again, choose the phase of retrieval.

Belongs here: the routes, which refusals follow from what this machine may not do. Does not belong here: who may call
(`route_roles`), moving pointers (`indexes.catalog`), phases (`degradation.tenant_phases`).

Each act stands in the audit log before it is done; with `audit.mode: required` it is refused where it cannot be logged.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from fastapi import APIRouter
from fastapi.responses import JSONResponse
from pydantic import Field

from rag_serving.api.bodies import Body, Name
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.pages import PRIVATE
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, ConfigError
from rag_serving.degradation.tenant_phases import ChosenPhases
from rag_serving.hooks import Event
from rag_serving.indexes.catalog import list_generations, published_generation, rollback
from rag_serving.indexes.databases import RemoteError, open_database
from rag_serving.object_home.leases import HeldError
from rag_serving.object_home.objects import ObjectHomeError
from rag_serving.object_home.shared_home import written_with

_log = logging.getLogger(__name__)

router = APIRouter()


class RollbackBody(Body):
    """POST /v1/generations/rollback."""

    generation: Name | None = None


class PhaseBody(Body):
    """POST /v1/phase."""

    phase: int | None = Field(ge=1, le=3)
    enabled: bool = True


@router.post("/v1/generations/rollback")
def rollback_generation(body: RollbackBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Publish a generation again that was published before: the named one, or the one before the current."""
    config, tenant = service.config, caller.tenant
    store = Store(config.home)
    with _refusals(), written_with(config, store.tenant(tenant)):
        if body.generation is not None and body.generation not in _published_before(store, tenant, config):
            message = f"generation {body.generation!r} was never published here; only published ones can be again"
            raise RequestError(409, "CONFLICT", message, "generation")
        before = published_generation(store, tenant, config)
        event = Event("generation.rolled_back", caller.user, body.generation, details={"from": before})
        service.pipelines[tenant].log.record(event)
        now = rollback(store, tenant, config, body.generation)
    service.pipelines[tenant].published.follow()
    return JSONResponse({"tenant": tenant, "previous": before, "current": now}, headers=PRIVATE)


@router.post("/v1/phase")
def choose_phase(body: PhaseBody, caller: Caller, service: CurrentService) -> JSONResponse:
    """Ask in one phase from now on, or without retrieval; `phase: null` with `enabled: true` lifts the choice."""
    tenant = caller.tenant
    store, phases = Store(service.config.home), service.pipelines[tenant].phases
    details = {"direction": "chosen", "phase": body.phase, "enabled": body.enabled}
    with _refusals(), written_with(service.config, store.tenant(tenant)):
        service.pipelines[tenant].log.record(Event("phase.changed", caller.user, details=details))
        ChosenPhases(store, tenant).choose(body.phase, body.enabled)
    phases.follow()
    settings = phases.settings
    state = {"phase": settings.phase, "enabled": settings.enabled, "chosen": phases.chosen is not None}
    return JSONResponse({"tenant": tenant, **state}, headers=PRIVATE)


def _published_before(store: Store, tenant: str, config: Config) -> set[str]:
    """Return ids of the generations that are or were published and are still there.

    Raises:
        ConfigError: this server cannot ask the database for them.
    """
    if config.index.kind == "disk":
        return {info.id for info in list_generations(store, tenant) if info.published and not info.problem}
    stored = open_database(config).listed(tenant)
    if stored is None:
        raise ConfigError("index.writer_url is not set")
    return {info.id for info in stored}


@contextmanager
def _refusals() -> Iterator[None]:
    """Answer in one line what this machine may not do, or cannot do now.

    Raises:
        RequestError: 409, 501 or 503.
    """
    try:
        yield
    except ConfigError as error:
        message = f"this server cannot move the pointer: {error}; run `citelock generations rollback` where it is set"
        raise RequestError(501, "NOT_IMPLEMENTED", message) from None
    except OSError as error:
        _log.error("an operator's request: %s", error)
        message = "this server may not write the home folder; use the command on the machine that builds"
        raise RequestError(501, "NOT_IMPLEMENTED", message) from None
    except HeldError as error:
        _log.warning("an operator's request: %s", error)
        message = "another machine writes to this tenant; try again when it has ended"
        raise RequestError(409, "CONFLICT", message) from None
    except (RemoteError, ObjectHomeError) as error:
        _log.error("an operator's request: %s", error)
        where = "database of the index" if isinstance(error, RemoteError) else "object store"
        message = f"the {where} refused, or cannot be reached; the server's log says why"
        raise RequestError(503, "UNAVAILABLE", message, retry_after=RETRY_AFTER_S) from None
    except StoreError as error:
        raise RequestError(409, "CONFLICT", str(error)) from None
