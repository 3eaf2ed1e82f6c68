"""`GET /`: a page that asks, for whoever has a browser: a form, the answer, its quotes. It needs no script.

Belongs here: what the form sends, what the page is given, its headers.
Does not belong here: answering (`pipeline`), its looks (`templates/page.html.j2`).
"""

from __future__ import annotations

import secrets
from itertools import groupby
from typing import Annotated, Any
from urllib.parse import parse_qs

from fastapi import APIRouter, Depends
from fastapi import Request as HttpRequest
from fastapi.responses import HTMLResponse

from rag_serving.api.auth import AuthError
from rag_serving.api.errors import RETRY_AFTER_S
from rag_serving.api.service import CurrentService, caller_of, checked_text
from rag_serving.api.wire import RequestError
from rag_serving.escaping.templates import html_template
from rag_serving.records import Answer, Citation

_STYLE_ONLY = (
    "default-src 'none'; style-src 'nonce-{nonce}'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

router = APIRouter(include_in_schema=False)


async def _form(request: HttpRequest) -> str:
    """Return the question of a sent form; empty where nothing was sent."""
    try:
        fields = parse_qs((await request.body()).decode("utf-8", "replace"), max_num_fields=10)
    except ValueError:  # more fields than the form has
        return ""
    return fields.get("question", [""])[0]


@router.get("/")
def show(request: HttpRequest, service: CurrentService, tenant: str | None = None) -> HTMLResponse:
    """The empty form, for whoever may ask."""
    try:
        caller_of(request, tenant)
    except AuthError as error:
        return _refused(error)
    return _page(service.config.serving.max_question_chars)


@router.post("/")
def ask(
    request: HttpRequest, service: CurrentService, question: Annotated[str, Depends(_form)], tenant: str | None = None
) -> HTMLResponse:
    """The answer to a sent form, by the same rules as POST /v1/ask; forms of other sites are not answered."""
    limit = service.config.serving.max_question_chars
    try:
        caller = caller_of(request, tenant)
        if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            raise RequestError(403, "CROSS_SITE", "this form was sent from another site")
        text = checked_text("question", question, service.config)
    except AuthError as error:
        return _refused(error)
    except RequestError as error:
        return _page(limit, error.status, question=question[:limit], problem=str(error))
    answer = service.pipelines[caller.tenant].ask(caller, text)
    if answer.status == "unavailable":
        return _page(limit, 503, {"Retry-After": str(RETRY_AFTER_S)}, question=text, problem=answer.answer)
    return _page(limit, question=text, answer=answer, sources=_sources(answer))


def _refused(error: AuthError) -> HTMLResponse:
    """Return a page without a form that says how to authenticate."""
    headers = {"WWW-Authenticate": "Bearer"} if error.status == 401 else {}
    return _page(0, error.status, headers, problem=str(error))


def _sources(answer: Answer) -> list[tuple[int, list[Citation]]]:
    """Return the citations by number: a passage stands once, with all of its quotes."""
    by_number = sorted(answer.citations, key=lambda citation: citation.index)
    return [(number, list(cited)) for number, cited in groupby(by_number, key=lambda citation: citation.index)]


def _page(limit: int, status: int = 200, headers: dict[str, str] | None = None, **shown: Any) -> HTMLResponse:
    """Return the page; `limit` is the longest question, 0 where nothing may be asked."""
    nonce = secrets.token_urlsafe(16)
    given = {"question": "", "problem": None, "answer": None, "sources": [], **shown}
    content = html_template(__package__, "page.html.j2").render(nonce=nonce, limit=limit, **given)
    always = {
        "Content-Security-Policy": _STYLE_ONLY.format(nonce=nonce),
        "Cache-Control": "no-store",
        "Referrer-Policy": "no-referrer",
        "X-Content-Type-Options": "nosniff",
    }
    return HTMLResponse(content, status, {**always, **(headers or {})})
