"""`GET /v1/reports`: the reports of a tenant, for its operators.

Belongs here: the routes, how a browser is asked for a token, the headers under which a page of ours may run its own
script and nothing else, the list. Does not belong here: which reports there are (`rag_serving.indexes.reports`), who
may see them (`route_roles`).

A browser cannot be told to send a bearer token, but asks for a password where the server says `Basic`: the token is the
password, whatever the name.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse, JSONResponse, Response

from rag_serving.api.credentials import AuthError
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.wire import RequestError, error_response
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.escaping.templates import html_template
from rag_serving.indexes.reports import HEADINGS, ReportFile, evaluations, list_reports, read_report, route_of

_MEASURES = {
    "citation_precision": "citation precision",
    "answerability": "rightly answered or declined",
    "recall@10": "recall@10",
}


@dataclass(frozen=True)
class _Row:
    """One report; `means` and `failed` gates are those of an evaluation, None where it has none."""

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
        facts = evaluations.get(report.generation or "", {})
        means = [_mean(facts, name) for name in _MEASURES]
        return _Row(report, route_of(report.name, tenant), means, _failed(facts), report.generation == current)

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


def _failed(facts: Mapping[str, Any]) -> list[str] | None:
    """Return the names of the gates that failed; None where the file names no gates."""
    try:
        return [str(gate["gate"]) for gate in facts["gates"] if not gate["passed"]]
    except (KeyError, TypeError):
        return None


PATH = "/v1/reports"
router = APIRouter()

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


def add_reports(app: FastAPI) -> None:
    """Add the routes, and what is answered to who may not see reports."""
    app.include_router(router)

    @app.exception_handler(AuthError)
    async def refused(request: HttpRequest, error: AuthError) -> JSONResponse:
        response = error_response(request.url.path, error)
        if error.status == 401 and request.url.path.startswith(PATH):
            del response.headers["WWW-Authenticate"]
            for challenge in _CHALLENGES:
                response.headers.append("WWW-Authenticate", challenge)
        return response


def policy_of(content: str) -> str:
    """Return the content security policy of a report: nothing is loaded, and nothing runs but its own script.

    That is the last one, which the program writes behind everything that pages say; its style is the first one. What
    a page managed to put between them has no hash here.
    """
    style, closed, _ = content.partition(_STYLE)[2].partition("</style>")
    start, end = content.rfind(_SCRIPT), content.rfind("</script>")
    script = content[start + len(_SCRIPT) : end] if 0 <= start < end else None
    return "; ".join(
        [
            "default-src 'none'",
            "img-src data:",
            f"style-src {_hash(style) if closed else _NONE}",
            f"script-src {_hash(script) if script is not None else _NONE}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
        ]
    )


_NONE = "'none'"


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
