"""The operators' view of a tenant over HTTP: its state, its reports, rollback, the phase of retrieval. Each act is
logged before it is done; with `audit.mode: required` it is refused if that fails. A browser cannot be made to send a
bearer token, but prompts for a password if the server says `Basic`: the token is the password, whatever the name."""

from __future__ import annotations

import base64
import hashlib
import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, Response
from pydantic import Field

from rag_serving.api.auth import AuthError
from rag_serving.api.bodies import Body, Name
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.pages import PRIVATE
from rag_serving.api.reload import NOT_USED
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.status import status_of
from rag_serving.api.wire import RequestError, error_response
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, ConfigError
from rag_serving.degradation.phases import ChosenPhases
from rag_serving.escaping.templates import html_template
from rag_serving.hooks import Event
from rag_serving.indexes.catalog import (
    HEADINGS,
    ReportFile,
    evaluations,
    list_generations,
    list_reports,
    published_generation,
    read_report,
    rollback,
    route_of,
)
from rag_serving.indexes.databases import RemoteError, open_database
from rag_serving.shared_home import HeldError, ObjectHomeError, written_with

router = APIRouter()


_log = logging.getLogger(__name__)


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
    """Return ids of the generations that are or were published and are still there. Raises ConfigError: this server
    cannot ask the database for them."""
    if config.index.kind == "disk":
        return {info.id for info in list_generations(store, tenant) if info.published and not info.problem}
    stored = open_database(config).listed(tenant)
    if stored is None:
        raise ConfigError("index.writer_url is not set")
    return {info.id for info in stored}


@contextmanager
def _refusals() -> Iterator[None]:
    """Refuse in one line acts that are impossible on this machine, or now. Raises RequestError: 409, 501 or 503."""
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


@router.get("/v1/status")
def status(request: HttpRequest, caller: Caller, service: CurrentService) -> JSONResponse:
    """Tell an operator what is published and what does not work; `streams`: the tenant's in this process."""
    told, reload = status_of(service.pipelines[caller.tenant], service.behind(caller.tenant)), request.app.state.reload
    if reload:
        restart = [f"restart the server for {key} of the configuration file" for key in reload.waiting]
        told["degraded"] += [*([NOT_USED] if reload.problem else []), *restart]
    return JSONResponse(
        {**told, "streams": request.app.state.streams.of_tenant(caller.tenant)}, headers={"Cache-Control": "no-store"}
    )


_MEASURES = {
    "citation_precision": "citation precision",
    "answerability": "rightly answered or declined",
    "recall@10": "recall@10",
}


@dataclass(frozen=True)
class _Row:
    """One report; `means` and `failed` gates are those of an evaluation, None without one."""

    report: ReportFile
    url: str
    means: Sequence[str]
    failed: Sequence[str] | None
    published: bool


def index_page(
    tenant: str, reports: Sequence[ReportFile], evaluations: Mapping[str, Mapping[str, Any]], current: str | None
) -> str:
    """Return the page; evaluations show their key measures, the published one is marked."""

    def row(report: ReportFile) -> _Row:
        facts, failed = evaluations.get(report.generation or "", {}), None
        with suppress(KeyError, TypeError):  # of a file that names no gates
            failed = [str(gate["gate"]) for gate in facts["gates"] if not gate["passed"]]
        means = [_mean(facts, name) for name in _MEASURES]
        return _Row(report, route_of(report.name, tenant), means, failed, report.generation == current)

    by_kind = groupby(reports, key=lambda report: report.kind)
    return html_template(__package__, "report_index.html.j2").render(
        tenant=tenant,
        measures=list(_MEASURES.values()),
        sections=[(HEADINGS[kind], kind == "evaluation", list(map(row, group))) for kind, group in by_kind],
    )


def _mean(facts: Mapping[str, Any], measure: str) -> str:
    try:
        return f"{facts['summary'][measure]['mean']:.3f}"
    except (KeyError, TypeError, ValueError):
        return "–"


PATH = "/v1/reports"

# A header each: browsers do not find the one that they know among several in a line.
_CHALLENGES = ('Basic realm="Citelock reports: a token as the password", charset="UTF-8"', "Bearer")
_STYLE = "<style>"
_SCRIPT = "<script>"


@router.get(PATH)
def reports(request: HttpRequest, caller: Caller, service: CurrentService) -> Response:
    """List the tenant's reports: a page for browsers, JSON for programs."""
    store = Store(service.config.home)
    found = list_reports(store, caller.tenant)
    if "text/html" in request.headers.get("accept", ""):
        published = None
        with suppress(OSError):  # the reports are there all the same
            published = store.current(caller.tenant)
        return _page(index_page(caller.tenant, found, evaluations(store, caller.tenant), published))
    return JSONResponse({"reports": [each.payload(caller.tenant) for each in found]})


@router.get(PATH + "/{name}")
def report(name: str, caller: Caller, service: CurrentService) -> Response:
    """Show one report."""
    try:
        content = read_report(Store(service.config.home), caller.tenant, name)
    except StoreError:
        raise RequestError(
            404, "NOT_FOUND", "this report was altered or damaged; `citelock build` makes it again"
        ) from None
    if content is None:
        raise RequestError(404, "NOT_FOUND", "there is no such report; GET /v1/reports lists them")
    return _page(content)


def challenge_browsers(app: FastAPI) -> None:
    """Have a browser that may not see reports ask for a token as the password."""

    @app.exception_handler(AuthError)
    async def refused(request: HttpRequest, error: AuthError) -> JSONResponse:
        response = error_response(request.url.path, error)
        if error.status == 401 and request.url.path.startswith(PATH):
            del response.headers["WWW-Authenticate"]
            for challenge in _CHALLENGES:
                response.headers.append("WWW-Authenticate", challenge)
        return response


def policy_of(content: str) -> str:
    """Return the content security policy of a report: nothing is loaded, and nothing runs but its own script. That is
    the last one, which the program writes after all text of pages; its style is the first one. Anything that a page put
    between them has no hash here."""
    style, closed, _ = content.partition(_STYLE)[2].partition("</style>")
    start, end = content.rfind(_SCRIPT), content.rfind("</script>")
    script = content[start + len(_SCRIPT) : end] if 0 <= start < end else None
    styles, scripts = (_hash(text) if text is not None else "'none'" for text in (style if closed else None, script))
    return (
        f"default-src 'none'; img-src data:; style-src {styles}; script-src {scripts}; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _page(content: str) -> HTMLResponse:
    headers = {
        "Content-Security-Policy": policy_of(content),
        "X-Content-Type-Options": "nosniff",
        "X-Frame-Options": "DENY",
        "Referrer-Policy": "no-referrer",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
    }
    return HTMLResponse(content, headers=headers)
