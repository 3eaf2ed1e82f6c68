"""A tenant's limit, shared by its callers: in all no more than it allows, and nobody drives the others out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.api_client import bearer, client_of

from rag_serving.api.limits import MAX_KEYS, TenantRates


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@given(st.lists(st.tuples(st.integers(0, 5), st.floats(0, 3)), max_size=300), st.integers(1, 60))
def test_all_callers_together_take_no_more_than_the_limit(asked: list[tuple[int, float]], limit: int) -> None:
    clock = Clock()
    rates, taken = TenantRates(clock), 0
    for caller, pause in asked:
        clock.now += pause
        wait_s = rates.take("acme", str(caller), limit)
        taken += not wait_s
        assert 0 <= wait_s <= 61
        assert taken <= limit + clock.now * limit / 60 + 1e-6


def test_one_caller_alone_may_take_all() -> None:
    rates = TenantRates(Clock())
    assert [bool(rates.take("acme", "a", 60)) for _ in range(61)] == [False] * 60 + [True]


def test_who_floods_drives_nobody_out() -> None:
    clock = Clock()
    rates = TenantRates(clock)
    taken = {"flood": 0, "calm": 0}
    refused = 0
    for step in range(6000):  # 100 a second by one, 1 in two seconds by the other
        clock.now = step / 20
        for _ in range(5):
            taken["flood"] += not rates.take("acme", "flood", 120)
        if step % 40 == 0:
            is_refused = bool(rates.take("acme", "calm", 120))
            taken["calm"] += not is_refused
            refused += is_refused
    assert refused <= 2
    assert taken["calm"] >= 148
    assert taken["flood"] + taken["calm"] <= 120 + 300 * 2
    assert taken["flood"] >= 300, "what the other leaves is used"


def test_a_tenant_s_limit_is_its_own_and_memory_is_bounded() -> None:
    rates = TenantRates(Clock())
    for _ in range(10):
        rates.take("acme", "a", 5)
    assert rates.take("acme", "a", 5)
    assert not rates.take("other", "a", 5)
    assert not any(rates.take("acme", "a", 0) for _ in range(100))
    for number in range(MAX_KEYS + 50):
        rates.take("acme", f"caller {number}", 1_000_000)
    assert len(rates._callers["acme"]) <= MAX_KEYS


def test_over_http_the_tenant_is_told_to_come_back(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = {"a": {"tenant": "acme"}, "b": {"tenant": "acme", "user": "b"}, "o": {"tenant": "other"}}
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(tokens))
    tenants = {"acme": {"rate_limit_per_minute": 6}, "other": {}}
    with client_of(wiki_home, serving={"auth": "tokens"}, tenants=tenants) as client:
        statuses = [client.get("/v1/models", headers=bearer("a")).status_code for _ in range(7)]
        assert statuses == [200] * 6 + [429]
        refused = client.get("/v1/models", headers=bearer("b"))
        assert refused.status_code == 429
        assert 1 <= int(refused.headers["Retry-After"]) <= 10
        assert client.get("/v1/models", headers=bearer("o")).status_code == 200
        assert client.get("/v1/models", headers=bearer("nobody")).status_code == 401
