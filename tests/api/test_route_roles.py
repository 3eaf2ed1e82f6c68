"""Every route of the API has a declared role, and asks for it: nobody reaches more than his role says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from starlette.routing import BaseRoute
from support.api_client import bearer, client_of
from support.wiki import copied

from rag_serving.api.admission import ROUTES, Access, check_caller
from rag_serving.api.limits import Guesses
from rag_serving.api.wire import RequestError
from rag_serving.config.serving import Role

DOCS = Path(__file__).parents[2] / "docs"
ROLES: tuple[Role, ...] = ("reader", "editor", "operator", "auditor")
TOKENS = {role: {"tenant": "acme", "user": role, "roles": [role]} for role in ROLES}
PARAMETER = re.compile(r"\{[\w:]+\}")
LIST = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}


@pytest.fixture(scope="module")
def client(wiki_home: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestClient]:
    serving = {"auth": "tokens", "mcp": True, "public_url": "http://127.0.0.1:8088"}
    sources: dict[str, Any] = {"inbox": {"kind": "files", "tenant": "acme", "readers": "everyone"}}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
        home = copied(wiki_home, tmp_path_factory.mktemp("roles"))
        with client_of(home, serving=serving, sources=sources) as opened:
            yield opened


@pytest.fixture(autouse=True)
def forgotten_guesses(client: TestClient) -> None:
    client.app.state.guesses = Guesses()  # type: ignore[attr-defined]


def routes_in(routes: Iterable[BaseRoute]) -> Iterator[tuple[str, str]]:
    """Each method and path of some routes, of included routers as well."""
    for route in routes:
        inner = getattr(route, "original_router", route)
        if inner is not route or not hasattr(route, "path"):
            yield from routes_in(inner.routes)  # type: ignore[attr-defined]
            continue
        for method in route.methods:  # type: ignore[attr-defined]
            yield method, route.path


def asked(client: TestClient, route: str, headers: dict[str, str]) -> Response:
    method, _, path = route.partition(" ")
    accepted = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    body = LIST if path == "/mcp" else {}
    content = None if method == "GET" else json.dumps(body)
    named = {**headers, **accepted, "Content-Type": "application/json"}
    return client.request(method, PARAMETER.sub("x", path), content=content, headers=named)


def test_each_route_is_declared_and_nothing_else_is(client: TestClient) -> None:
    app: Any = client.app
    served = {(method, path) for method, path in routes_in(app.routes)}
    page = {(method, path) for method, path in routes_in(app.state.web.router().routes)}
    assert len(page) > 5
    assert {f"{method} {path}" for method, path in served - page} == set(ROUTES)


NOT_PUBLIC = sorted(route for route, access in ROUTES.items() if access != "public")


@pytest.mark.parametrize("route", NOT_PUBLIC)
def test_a_stranger_is_asked_who_he_is(client: TestClient, route: str) -> None:
    assert asked(client, route, {}).status_code == 401
    assert asked(client, route, bearer("made up")).status_code == 401


@pytest.mark.parametrize("route", [route for route in NOT_PUBLIC if ROUTES[route] != "reader"])
def test_who_has_not_the_role_is_refused(client: TestClient, route: str) -> None:
    for role in ROLES:
        response = None if role == ROUTES[route] and route == "GET /v1/events" else asked(client, route, bearer(role))
        if response is not None:  # the stream of events has no end to wait for
            assert (response.status_code == 403) is (role != ROUTES[route]), (role, response.text)


@pytest.mark.parametrize("route", [route for route in NOT_PUBLIC if ROUTES[route] == "reader"])
def test_every_role_reads(client: TestClient, route: str) -> None:
    roles = ("editor",) if route == "POST /v1/embeddings" else ROLES
    for role in roles:
        assert asked(client, route, bearer(role)).status_code not in (401, 403), role


def test_an_auditor_writes_nothing_and_sees_no_more_than_a_reader(client: TestClient) -> None:
    for route in NOT_PUBLIC:
        if ROUTES[route] == "reader":
            same = [asked(client, route, bearer(role)).status_code for role in ("reader", "auditor")]
            assert same[0] == same[1], route
    tools = [asked(client, "POST /mcp", bearer(role)).text for role in ("auditor", "reader", "editor")]
    assert tools[0] == tools[1]


def test_a_route_that_is_not_declared_is_refused_to_everybody(client: TestClient) -> None:
    app: Any = client.app
    app.add_api_route("/v1/forgotten", lambda: {"inside": True}, methods=["GET"])
    for role in ROLES:
        response = client.get("/v1/forgotten", headers=bearer(role))
        assert (response.status_code, "inside" in response.json()) == (403, False)
    app.router.routes.pop()


@pytest.mark.parametrize("access", [None, "editor", "operator", "auditor"])
def test_this_machines_own_reader_may_all_that_is_declared(access: Access | None) -> None:
    if access is not None:
        check_caller(None, access)
        return
    with pytest.raises(RequestError):
        check_caller(None, access)


def test_the_documented_roles_are_those_that_are_asked() -> None:
    text = (DOCS / "access.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `((?:GET|POST|DELETE) [^`]+)` \| (\w+)", text, re.MULTILINE)
    assert dict(rows) == dict(ROUTES)
    assert len(rows) == len(ROUTES)
