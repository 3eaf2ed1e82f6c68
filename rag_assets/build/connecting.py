"""The web page's "Connect a source", for operators: what `citelock init` does, by its code, over HTTP. What asks
sources is imported when it is needed: a machine that only serves has not got it."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

from fastapi import APIRouter
from fastapi import Request as HttpRequest
from fastapi.responses import JSONResponse

from rag_serving.api.bodies import Body, Name
from rag_serving.api.pages import PRIVATE
from rag_serving.api.service import Caller, CurrentService
from rag_serving.api.session import may_connect
from rag_serving.api.wire import RequestError
from rag_serving.artifacts.store import Store
from rag_serving.cli.group import UsageError
from rag_serving.config.loading import Config, ConfigError
from rag_serving.config.sources import Confluence
from rag_serving.documents.noted import EVERYTHING, NotedPages
from rag_serving.hooks import Event

if TYPE_CHECKING:
    from rag_assets.build.init import Edit

router = APIRouter()

_VARIABLE = re.compile(r"CONFLUENCE_[A-Z0-9_]{1,50}|none")
_NO_VARIABLE = "here a variable is called CONFLUENCE_…; `citelock init` takes any name"


class SourceBody(Body):
    """POST /v1/sources/check."""

    kind: Literal["confluence", "docs", "files"]
    url: Name | None = None
    space: Name | None = None
    path: Name | None = None
    readers: Name | None = None
    token_env: Name | None = None
    user_env: Name | None = None
    schedule: Name | None = None
    key: Name | None = None


class ConfirmedBody(SourceBody):
    """POST /v1/sources. `digest`: of the file that the change was shown for."""

    digest: Name


@router.post("/v1/sources/check")
def check(body: SourceBody, request: HttpRequest, caller: Caller, service: CurrentService) -> JSONResponse:
    """Tell whether a source can be read, what it has, and how the file would change. Nothing is written."""
    edit = _edit(body, request, caller.tenant, service.config)
    from rag_assets.build.init import look_at

    finding, extent = look_at(edit.config, edit.key)
    told: dict[str, Any] = {"state": finding.state, "detail": finding.detail, "mend": finding.mend, "extent": None}
    if extent:
        told["extent"] = {**vars(extent), "minutes": extent.minutes, "megabytes": extent.megabytes}
    return JSONResponse({"key": edit.key, **told, "diff": edit.diff, "digest": edit.digest}, headers=PRIVATE)


@router.post("/v1/sources", status_code=202)
def connect(body: ConfirmedBody, request: HttpRequest, caller: Caller, service: CurrentService) -> JSONResponse:
    """Write what `check` showed, and note the source for its first sync."""
    edit = _edit(body, request, caller.tenant, service.config)
    if edit.digest != body.digest:
        raise RequestError(409, "CONFLICT", f"{edit.file} was changed meanwhile: test the connection again")
    service.pipelines[caller.tenant].log.record(Event("source.connected", caller.user, edit.key))
    try:
        edit.write()
        NotedPages(Store(edit.config.home).source(edit.key)).note({EVERYTHING})
    except (ConfigError, OSError) as error:
        raise RequestError(409, "CONFLICT", str(error)) from None
    return JSONResponse({"key": edit.key}, 202, headers=PRIVATE)


def _edit(body: SourceBody, request: HttpRequest, tenant: str, config: Config) -> Edit:
    """Return the file with the source. Raises RequestError: 400, 409 or 501."""
    reload = request.app.state.reload
    if not may_connect(config) or reload is None:
        raise RequestError(501, "NOT_IMPLEMENTED", "no source is connected here; see serving.connect")
    if find_spec("dagster") is None:
        message = "this machine serves and does not build; run `citelock init` on the one that does"
        raise RequestError(501, "NOT_IMPLEMENTED", message)
    from rag_assets.build.init import ShapeError, edit_of, key_of, source_of

    given = body.model_dump()
    try:
        kind, source = source_of(given)
        _check_reach(source, config)
        edit = edit_of(reload.path, key_of(given, kind, source), kind, source, tenant)
        _ = edit.config  # what the file may not say is refused before anything is asked or written
    except ShapeError as error:
        raise RequestError(409, "CONFLICT", f"{error}\n{error.block}") from None
    except (ConfigError, UsageError) as error:
        raise RequestError(400, "BAD_REQUEST", str(error).replace("--", "")) from None
    return edit


def _check_reach(source: dict[str, Any], config: Config) -> None:
    """Refuse what would give an operator's site another one's secret, or show what the home has. Raises RequestError:
    400."""
    auth, site = source.get("auth", {}), urlsplit(source.get("base_url", ""))[:2]
    for field in auth.keys() - {"kind"}:
        if not _VARIABLE.fullmatch(auth[field]):
            raise RequestError(400, "BAD_REQUEST", _NO_VARIABLE, field)
    for key, other in config.sources.items():
        if not isinstance(other, Confluence) or urlsplit(other.base_url)[:2] == site:
            continue
        theirs = {getattr(other.auth, "token_env", ""), other.webhook.secret_env if other.webhook else ""}
        if taken := theirs.intersection(auth.values()):
            message = f"{taken.pop()} is for the site of source {key!r}: this one needs another variable"
            raise RequestError(400, "BAD_REQUEST", message, "token_env")
    path, home = Path(source.get("path", "/none")).resolve(), config.home.resolve()
    if path.is_relative_to(home) or home.is_relative_to(path):
        raise RequestError(400, "BAD_REQUEST", f"{source['path']} has the index in it: name a folder beside it", "path")
