from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.routing import Route
from support.api_client import ADDRESS, LOCAL, QUESTION, TOKENS, bearer, client_of, events_in
from support.wiki import RESTART, configuration

from rag_serving.api.app import MAX_BODY_BYTES, create_app
from rag_serving.config.loading import ConfigError
from rag_serving.web.bundle import STATIC


@pytest.fixture(scope="module")
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


@pytest.fixture
def secured(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    return client_of(wiki_home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"})


def test_an_answer_has_the_documented_shape(client: TestClient) -> None:
    response = client.post("/v1/ask", json=QUESTION)
    answer = response.json()
    assert response.status_code == 200
    assert answer.keys() == {
        "status", "outcome", "confidence", "threshold", "answer", "citations", "claims", "clarification", "refusal",
        "understood", "phase", "evidence", "generation", "generator", "usage", "reranker", "receipt_id", "timings_ms",
        "flags",
    }  # fmt: skip
    (citation,) = answer["citations"]
    assert citation.keys() == {
        "index", "chunk_id", "title", "heading_path", "url", "fragment_url", "quote", "space", "page_version",
        "verification", "start", "end", "also_at", "page_id", "source", "updated_at", "page",
        "page_label", "boxes", "continued", "ocr_confidence", "book",
    }  # fmt: skip
    assert citation["quote"] == RESTART[citation["start"] : citation["end"]]


def test_what_the_demo_says_to_open_is_there(wiki_home: Path, tmp_path: Path) -> None:
    (tmp_path / "index.html").write_text("<!doctype html>")
    client = TestClient(create_app(configuration(wiki_home), static=tmp_path), ADDRESS, client=LOCAL)
    paths = re.findall(r"127\.0\.0\.1:8088(/[^\s)\"]*)", (Path(__file__).parents[2] / "Makefile").read_text())
    assert paths
    assert [client.get(path).status_code for path in paths] == [200] * len(paths)


def test_explained_answers_show_their_passages(client: TestClient) -> None:
    passages = client.post("/v1/ask", json={**QUESTION, "explain": True}).json()["passages"]
    assert {"index", "text", "scores", "why"} <= passages[0].keys()


def test_a_search_has_the_documented_shape(client: TestClient) -> None:
    found = client.post("/v1/search", json={"query": "consumer lag", "k": 2, "filters": {"space": ["SRE"]}}).json()
    assert found.keys() == {"results", "generation", "reranker", "degraded", "timings_ms"}
    assert found["results"][0].keys() == {
        "chunk_id", "page_id", "page_version", "space", "title", "heading_path", "anchor", "url", "text", "score",
        "scores", "ranks", "also_at",
    }  # fmt: skip
    assert {result["space"] for result in found["results"]} == {"SRE"}


def test_selected_text_is_answered_without_retrieval(client: TestClient) -> None:
    body = {"question": "Whom do I call?", "mode": "selected_text", "context": "In the evening you call the guard."}
    answer = client.post("/v1/ask", json=body).json()
    assert (answer["status"], answer["citations"][0]["chunk_id"]) == ("answered", "selection:0:0")


def test_a_streamed_answer_tells_stages_then_verified_sentences_then_all_of_it(client: TestClient) -> None:
    response = client.post("/v1/ask", json={**QUESTION, "stream": True})
    events = events_in(response.text)
    assert response.headers["content-type"].startswith("text/event-stream")
    assert [name for name, _ in events] == ["progress"] * (len(events) - 2) + ["sentence", "answer"]
    assert {"total", "search", "generate", "verify"} <= {data["stage"] for name, data in events if name == "progress"}
    whole = client.post("/v1/ask", json=QUESTION).json()
    assert events[-2][1] == {"text": whole["answer"], "outcome": "told"}
    assert {key: events[-1][1][key] for key in ("status", "citations")} == {
        key: whole[key] for key in ("status", "citations")
    }
    selected = {"question": "Whom do I call?", "mode": "selected_text", "context": "In the evening you call the guard."}
    assert events_in(client.post("/v1/ask", json={**selected, "stream": True}).text)[-1][1]["status"] == "answered"


def test_a_stream_that_fails_says_so_without_telling_why(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(wiki_home)
    monkeypatch.setattr("rag_serving.ask.numbered", None)
    name, data = events_in(client.post("/v1/ask", json={**QUESTION, "stream": True}).text)[-1]
    assert (name, data["code"]) == ("error", "INTERNAL")
    assert client.post("/v1/ask", json={"question": " ", "stream": True}).status_code == 400


def test_a_stream_of_nothing_published_is_an_error_in_the_answer(tmp_path: Path) -> None:
    events = events_in(client_of(tmp_path).post("/v1/ask", json={**QUESTION, "stream": True}).text)
    assert [events[-1][0], events[-1][1]["code"]] == ["answer", "UNAVAILABLE"]


def test_a_question_as_of_a_time_from_which_nothing_is_kept_is_told_what_is(client: TestClient) -> None:
    now = client.post("/v1/ask", json=QUESTION).json()["generation"]
    assert client.post("/v1/ask", json={**QUESTION, "as_of": now}).json()["status"] == "answered"
    past = client.post("/v1/ask", json={**QUESTION, "as_of": "2019-02-09"}).json()
    assert past["status"] == "refused"
    assert now in past["answer"]
    selected = {**QUESTION, "mode": "selected_text", "context": "In the evening you call the guard.", "as_of": now}
    assert client.post("/v1/ask", json=selected).status_code == 400


def test_a_question_that_leans_on_the_one_before_is_completed_and_says_so(client: TestClient) -> None:
    def ask(question: str, history: list[dict[str, str]]) -> dict[str, Any]:
        made: dict[str, Any] = client.post("/v1/ask", json={"question": question, "history": history}).json()
        return made

    turns = [{"role": "user", "content": QUESTION["question"]}, {"role": "assistant", "content": "No. [1]"}]
    assert ask(QUESTION["question"], [{"role": "user", "content": "hello"}])["understood"] is None
    followed = ask("why?", turns)
    assert followed["understood"] == "why: restart a broker while partitions are under-replicated?"
    assert followed["citations"][0]["heading_path"][-1] == "Restarting a broker"
    assert ask("why?", [])["outcome"] == "none"


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        ("/v1/ask", {}, "question: Field required"),
        ("/v1/ask", {"question": "  "}, "'question' is empty"),
        ("/v1/ask", {"question": "x" * 4001}, "'question' has 4001 characters, at most 4000 are read"),
        ("/v1/ask", {"question": "x", "wrong": 1}, "wrong: Extra inputs are not permitted"),
        ("/v1/ask", {"question": "x", "mode": "selected_text"}, "mode 'selected_text' needs the selected text"),
        ("/v1/ask", {"question": "x", "context": "y"}, "'context' is only read in mode 'selected_text'"),
        ("/v1/ask", {"question": "x", "filters": {"spaces": "A"}}, "unknown filter 'spaces'"),
        ("/v1/search", {"query": "x", "k": 101}, "k: Input should be less than or equal to 100"),
        ("/v1/search", {"query": "x", "k": 0}, "k: Input should be greater"),
        ("/v1/search?tenant=nobody", {"query": "x"}, "tenant 'nobody' is not configured; there are: acme"),
    ],
)
def test_a_bad_request_is_told_what_is_wrong(client: TestClient, path: str, body: object, message: str) -> None:
    response = client.post(path, json=body)
    assert response.status_code == 400
    assert response.json()["error"] is True
    assert message in response.json()["message"]
    assert response.json()["code"]


def test_what_is_no_json_is_a_bad_request(client: TestClient) -> None:
    response = client.post("/v1/ask", content=b"{", headers={"content-type": "application/json"})
    assert (response.status_code, response.json()["code"]) == (400, "BAD_REQUEST")


def test_a_body_beyond_the_limit_is_refused_unread(client: TestClient) -> None:
    def endless() -> Iterator[bytes]:
        for _ in range(MAX_BODY_BYTES // 1000 + 1):
            yield b"x" * 1000

    response = client.post("/v1/ask", content=endless())
    assert (response.status_code, response.json()["code"]) == (413, "TOO_LARGE")


@pytest.mark.parametrize(("path", "status"), [("/nothing", 404), ("/v1/ask", 405)])
def test_an_unknown_route_has_the_error_shape(client: TestClient, path: str, status: int) -> None:
    response = client.get(path)
    assert (response.status_code, response.json()["error"]) == (status, True)


def test_a_receipt_can_be_fetched(client: TestClient) -> None:
    identifier = client.post("/v1/ask", json=QUESTION).json()["receipt_id"]
    assert client.get(f"/v1/receipts/{identifier}").json()["question"] == QUESTION["question"]
    assert client.get("/v1/receipts/none").json()["code"] == "NOT_FOUND"


def test_health_and_readiness(client: TestClient) -> None:
    assert client.get("/healthz").json() == {"status": "ok"}
    assert client.get("/readyz").json() == {"ready": True, "tenants": {"acme": "ok"}}


def test_without_a_generation_the_server_is_not_ready_and_says_why(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    response = client.get("/readyz")
    assert response.status_code == 503
    assert response.json()["message"] == "nothing is published for tenant 'acme' yet; run `citelock build`"
    for path, body in (("/v1/ask", QUESTION), ("/v1/search", {"query": "x"})):
        answer = client.post(path, json=body)
        assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "UNAVAILABLE", "30")
    assert client.post("/v1/ask", json=QUESTION).json()["status"] == "unavailable"


def test_an_error_inside_tells_nothing_of_the_inside(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    client = client_of(wiki_home)
    monkeypatch.setattr("rag_serving.ask.numbered", None)
    response = client.post("/v1/ask", json=QUESTION)
    assert response.status_code == 500
    assert response.json() == {
        "error": True,
        "message": "something went wrong; the server's log says what",
        "code": "INTERNAL",
    }


def test_loopback_serves_nobody_else(wiki_home: Path) -> None:
    app = create_app(configuration(wiki_home))
    stranger = TestClient(app, "http://127.0.0.1:8088", client=("10.0.0.7", 50000))
    assert stranger.post("/v1/ask", json=QUESTION).json()["code"] == "LOOPBACK_ONLY"
    rebound = TestClient(app, "http://evil.example", client=LOCAL)
    assert rebound.post("/v1/ask", json=QUESTION).status_code == 403


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Basic all"}, bearer(""), bearer("wrong")])
def test_without_a_known_token_nothing_is_served(secured: TestClient, headers: dict[str, str]) -> None:
    for response in (
        secured.post("/v1/ask", json=QUESTION, headers=headers),
        secured.post("/v1/search", json={"query": "x"}, headers=headers),
        secured.get("/v1/receipts/x", headers=headers),
    ):
        assert (response.status_code, response.headers["www-authenticate"]) == (401, "Bearer")


def test_no_route_but_the_probes_and_the_page_is_served_without_a_token(secured: TestClient) -> None:
    open_to_all = {"/healthz", "/readyz", *SIGN_IN, *PAGE}
    routes = [route for route in routes_of(secured.app) if route.path not in open_to_all]
    assert {"/openapi.json", "/metrics", "/v1/ask", "/v1/chat/completions", "/v1/feedback"} <= {r.path for r in routes}
    for route in routes:
        path = re.sub(r"{[^}]*}", "x", route.path)
        for method in route.methods:
            refused = secured.request(method, path, json={})
            assert (method, path, refused.status_code) == (method, path, 401)
    assert secured.get("/openapi.json", headers=bearer("all")).json()["info"]["title"] == "Citelock"


SIGN_IN = {"/v1/session", "/v1/session/oidc", "/v1/session/oidc/callback"}
"""Where one says who one is."""
PAGE = {"/", "/ask", "/a/{receipt_id}", "/p/{page_id:path}", "/check", "/documents", "/status", "/assets/{name:path}"}
PAGE |= {f"/{path.name}" for path in STATIC.glob("*.*")}
"""Files of the web page: nothing of a tenant is in them."""


def routes_of(router: Any) -> Iterator[Any]:
    """Every route, those of included routers too; a mounted app would have to say here how it is asked."""
    for route in [*router.routes, *getattr(router, "_low_priority_routes", ())]:
        if hasattr(route, "original_router"):
            yield from routes_of(route.original_router)
        else:
            assert isinstance(route, Route), route
            yield route


def test_of_several_tenants_none_has_to_be_named_to_see_what_the_api_offers(wiki_home: Path) -> None:
    client = client_of(wiki_home, tenants={"acme": {}, "other": {}})
    assert "/v1/ask" in client.get("/openapi.json").json()["paths"]


def test_a_token_says_who_asks(secured: TestClient) -> None:
    body = {"question": "What salary bonus does the broker team earn in December?"}
    assert secured.post("/v1/ask", json=body, headers=bearer("hr")).json()["status"] == "answered"
    receipt = secured.post("/v1/ask", json=body, headers=bearer("hr")).json()["receipt_id"]
    assert secured.post("/v1/ask", json=body, headers=bearer("all")).json()["status"] == "not_found"
    assert secured.get(f"/v1/receipts/{receipt}", headers=bearer("hr")).status_code == 200
    for other in ("all", "o"):
        assert secured.get(f"/v1/receipts/{receipt}", headers=bearer(other)).status_code == 404


def test_a_token_reaches_only_its_own_tenant(secured: TestClient) -> None:
    assert secured.post("/v1/ask?tenant=other", json=QUESTION, headers=bearer("all")).status_code == 403
    assert secured.post("/v1/ask", json=QUESTION, headers=bearer("o")).json()["status"] == "unavailable"
    assert secured.get("/readyz").json() == {"ready": True}


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        (None, "needs CITELOCK_TOKENS"),
        ("[]", "not a JSON object"),
        ('{"a": {"tenant": "nobody"}}', "tenant 'nobody' is not configured"),
        ('{"a": {"tenant": "acme", "groups": "hr"}}', "groups: Input should be"),
    ],
)
def test_tokens_that_cannot_be_used_stop_the_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokens: str | None, message: str
) -> None:
    monkeypatch.delenv("CITELOCK_TOKENS", raising=False)
    if tokens is not None:
        monkeypatch.setenv("CITELOCK_TOKENS", tokens)
    with pytest.raises(ConfigError, match=message):
        create_app(configuration(tmp_path, serving={"auth": "tokens"}))
