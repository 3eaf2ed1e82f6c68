"""`POST /v1/hooks/confluence/{source}`: a wiki announces changed pages, which are noted for the next sync. An event is
trusted only for where to look. It is signed with the source's secret as Data Center does
(https://confluence.atlassian.com/doc/managing-webhooks-1021225606.html), or shows it, as Cloud's automation can.
Replies are the same whatever pages and sources there are."""

from __future__ import annotations

import hmac
import json
import os
import secrets
import time
from collections.abc import Mapping

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from rag_serving.api.service import CurrentService
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.store import Store
from rag_serving.config.sources import Confluence
from rag_serving.documents.noted import EVERYTHING, PAGE_ID, NotedPages

router = APIRouter()

_PATH = "/v1/hooks/"
_SIGNATURE, _TOKEN = "X-Hub-Signature", "X-Citelock-Token"
_WINDOW_MS = 300_000
"""An event that says when it was is taken so long before and after."""
_IDS = frozenset({"id", "idAsString", "pageId", "contentId"})
_NOBODYS = secrets.token_hex(32)
"""The secret of sources that have none: they are compared as long as others."""
_REFUSED = "this is not signed with the secret of a source that hears of events, or it is too old"


@router.post(_PATH + "confluence/{source}", status_code=202)
async def confluence(source: str, request: HttpRequest, service: CurrentService) -> Response:
    """Note the pages that an event names; one that names none is of the whole space."""
    body = await request.body()
    settings = service.config.sources.get(source)
    webhook = settings.webhook if isinstance(settings, Confluence) else None
    secret = os.environ.get(webhook.secret_env, "").strip() if webhook else ""
    try:
        event = json.loads(body)
    except (ValueError, RecursionError):
        event = None
    if not _knows(secret, request.headers, body) or not _is_recent(event):
        raise RequestError(401, "UNAUTHENTICATED", _REFUSED)
    noted = NotedPages(Store(service.config.home).source(source))
    try:
        await run_in_threadpool(noted.note, ids_in(event) or {EVERYTHING})
    except OSError as error:
        raise RequestError(503, "UNAVAILABLE", f"it could not be noted: {error.strerror}", retry_after=5) from None
    return Response(status_code=202)


def is_event(request: HttpRequest) -> bool:
    """Return whether a request may be an event of a wiki, by its headers alone: only then its body is read."""
    has_proof = not {_SIGNATURE.lower(), _TOKEN.lower()}.isdisjoint(request.headers.keys())
    return request.method == "POST" and request.url.path.startswith(_PATH) and has_proof


def ids_in(event: object) -> set[str]:
    """Return whatever may be a page's id: of a comment, a file or a move as well. Other ids are requested in vain."""
    ids, rest = set[str](), [event]
    while rest:
        part = rest.pop()
        if isinstance(part, dict):
            ids.update(str(value) for name, value in part.items() if name in _IDS and PAGE_ID.fullmatch(str(value)))
            rest += part.values()
        elif isinstance(part, list):
            rest += part
    return ids


def _knows(secret: str, headers: Mapping[str, str], body: bytes) -> bool:
    signed = hmac.new((secret or _NOBODYS).encode(), body, "sha256").hexdigest()
    shown = headers.get(_SIGNATURE, "").removeprefix("sha256=")
    is_signed = hmac.compare_digest(shown.encode(), signed.encode())
    has_token = hmac.compare_digest(headers.get(_TOKEN, "").encode(), (secret or _NOBODYS).encode())
    return (is_signed or has_token) and bool(secret)


def _is_recent(event: object) -> bool:
    """Return whether an event is of now. Data Center says when it was, in milliseconds; others do not."""
    when = event.get("timestamp") if isinstance(event, dict) else None
    return not isinstance(when, int | float) or abs(int(time.time() * 1000) - when) <= _WINDOW_MS
