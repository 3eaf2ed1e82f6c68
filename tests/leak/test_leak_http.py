"""The same over HTTP, where a token says who asks; and what is refused there looks like what does not exist."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from asking import misspelt, without_echo
from brute_force import Judge, pages_told
from built_wiki import WordEmbedder, configuration, publish_wiki
from fastapi.testclient import TestClient
from restricted_wiki import TENANT, Wiki, marker_of, name_of, restricted_wiki, sentence, some_principal
from support.index_backends import BACKENDS, Backends

from rag_serving.access.principals import Principal
from rag_serving.api.app import create_app
from rag_serving.models.lazy_embedder import GuardedEmbedder

ASKED = 80


@dataclass(frozen=True)
class Site:
    """An API over a wiki, callers by token, and who may read what."""

    client: TestClient
    callers: dict[str, Principal]
    judge: Judge
    backend: str

    def call(self, token: str, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        return self.client.request(method, path, json=body, headers={"Authorization": f"Bearer {token}"})

    def hidden_from(self, token: str, payload: object) -> list[str]:
        return [page for page in pages_told(payload) if not self.judge.may_read(self.callers[token], page)]


@pytest.fixture(scope="module")
def wiki(seed: int, size: Callable[[int], int]) -> Wiki:
    return restricted_wiki(size(400), seed + 3000, including=0.1)


@pytest.fixture(scope="module", params=BACKENDS)
def site(
    request: pytest.FixtureRequest,
    backends: Backends,
    wiki: Wiki,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Site]:
    home, dice = tmp_path_factory.mktemp("http"), random.Random(f"callers {seed}")
    publish_wiki(home, wiki)
    callers = {f"token-{number}": some_principal(dice) for number in range(30)}
    callers["stranger"] = Principal("other", "u1", frozenset({"staff", "g1"}))
    tokens = {token: {"tenant": p.tenant, "user": p.user, "groups": sorted(p.groups)} for token, p in callers.items()}
    tenants: dict[str, Any] = {TENANT: {}, "other": {}}
    monitoring = {"notice_folder": str(home / "notices")}
    config = configuration(home, wiki, serving={"auth": "tokens"}, tenants=tenants, monitoring=monitoring)
    config = backends.moved(str(request.param), config, TENANT)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", json.dumps(tokens))
        patch.setattr("rag_serving.api.service.open_guarded", lambda _: GuardedEmbedder(WordEmbedder))
        with TestClient(create_app(config), "http://wiki.example") as client:
            yield Site(client, callers, Judge(wiki), str(request.param))


def test_no_response_tells_of_a_page_that_the_token_s_owner_may_not_read(site: Site, seed: int) -> None:
    dice = random.Random(f"http {seed}")
    receipts: list[str] = []
    results = 0
    for _ in range(ASKED if site.backend == "disk" else ASKED // 4):
        token = dice.choice([one for one in site.callers if one != "stranger"])
        target = dice.choice(site.judge.page_ids)
        asked = [f"What is the {marker_of(target)} rule?", misspelt(dice, name_of(target)), sentence(dice, 4)]
        query = dice.choice(asked)
        filters = dice.choice(
            [None, {"title": marker_of(target)}, {"space": site.judge.envelope(target)["space"]["key"]}]
        )
        if dice.random() < 0.6:
            body = {"query": query, "filters": filters, "explain": True}
            answer = without_echo(site.call(token, "POST", "/v1/search", body).json(), query)
        elif dice.random() < 0.8 or not receipts:
            body = {"question": query, "filters": filters, "explain": True}
            answer = without_echo(site.call(token, "POST", "/v1/ask", body).json(), query)
            receipts.append(answer["receipt_id"])
        else:
            answer = site.call(token, "GET", f"/v1/receipts/{dice.choice(receipts)}").json()
            answer = {name: value for name, value in answer.items() if name not in ("question", "filters")}
        assert site.hidden_from(token, answer) == [], f"{site.callers[token]} asked {query!r}"
        results += len(answer.get("results") or ())
    assert results > ASKED // 4


def test_a_receipt_that_may_not_be_seen_is_answered_like_one_that_does_not_exist(site: Site) -> None:
    refused = shown = 0
    nothing = site.call("token-0", "GET", f"/v1/receipts/{'0' * 32}")
    for token, who in list(site.callers.items())[:15]:
        readable = [page for page in site.judge.page_ids if site.judge.may_read(who, page)]
        question = f"What is the {marker_of(readable[-1])} rule?"
        answer = site.call(token, "POST", "/v1/ask", {"question": question, "explain": True}).json()
        told = pages_told(answer["passages"])
        for other, principal in site.callers.items():
            response = site.call(other, "GET", f"/v1/receipts/{answer['receipt_id']}")
            if response.status_code == 200:
                shown += 1
                assert principal.tenant == TENANT
                assert all(site.judge.may_read(principal, page) for page in told)
            else:
                refused += 1
                assert (response.status_code, response.content) == (nothing.status_code, nothing.content)
                assert dict(response.headers) == dict(nothing.headers)
    assert refused > 20
    assert shown > 10  # its asker, and operators


def test_who_may_not_see_a_receipt_follows_it_no_more_than_one_that_does_not_exist(site: Site) -> None:
    asker, who = next(iter(site.callers.items()))
    readable = [page for page in site.judge.page_ids if site.judge.may_read(who, page)]
    question = {"question": f"What is the {marker_of(readable[-1])} rule?"}
    route = f"/v1/receipts/{site.call(asker, 'POST', '/v1/ask', question).json()['receipt_id']}"
    statuses = []
    for other in site.callers:
        seen = site.call(other, "GET", route).status_code
        for method in ("POST", "DELETE"):
            got = site.call(other, method, f"{route}/subscription")
            nothing = site.call(other, method, f"/v1/receipts/{'0' * 32}/subscription")
            if method == "DELETE" or seen != 200:
                assert (got.status_code, got.content) == (nothing.status_code, nothing.content)
                assert dict(got.headers) == dict(nothing.headers)
            else:
                assert got.json()["subscribed"]
            statuses.append((seen == 200, method, got.status_code))
    assert set(statuses) == {(True, "POST", 200), (False, "POST", 404), (True, "DELETE", 204), (False, "DELETE", 204)}


def test_another_tenant_s_token_finds_nothing_of_this_one(site: Site) -> None:
    for page in site.judge.page_ids[:50]:
        response = site.call("stranger", "POST", "/v1/search", {"query": marker_of(page)})
        assert response.status_code == 503
        assert pages_told(response.json()) == frozenset()
    assert site.call("stranger", "POST", f"/v1/search?tenant={TENANT}", {"query": "berth"}).status_code == 403


def test_errors_and_readiness_tell_of_no_page(site: Site) -> None:
    for path in ("/readyz", "/healthz", "/v1/nothing", "/openapi.json"):
        assert site.hidden_from("token-0", site.call("token-0", "GET", path).json()) == []
    bad = site.call("token-0", "POST", "/v1/search", {"query": "berth", "filters": {"author": ["ann"]}})
    assert bad.status_code == 400
    assert pages_told(bad.json()) == frozenset()
