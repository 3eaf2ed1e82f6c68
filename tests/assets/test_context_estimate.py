"""What contexts will cost, before any model is asked."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from model_of_contexts import good_context, tables_of
from support.building import build, build_json
from support.envelopes import Wiki
from support.stand_in_chat import MODEL, StandInChat, served

from rag_assets.llm_contexts.tenant import (
    CHARS_PER_TOKEN,
    TOKENS_OUT,
    ContextEstimate,
    LastRun,
    estimate,
    note_run,
    plan_contexts,
    read_last_run,
)
from rag_assets.llm_contexts.writer import ContextUsage
from rag_assets.steps.contexts.prompt import build_documents, prompt
from rag_serving.artifacts.store import Store
from rag_serving.config.models import Context
from rag_serving.text.marks import Fence

FENCE = Fence("7f3a9c21")
DOCUMENTS = build_documents(pa.Table.from_pylist(tables_of(2, 5)), 4_000)
PAID = {"input": 1.0, "output": 10.0}


def estimated(known: set[str] = frozenset(), rate: float | None = None, **changes: Any) -> ContextEstimate:  # type: ignore[assignment]
    settings = Context(**({"provider": "openai", "model": "gpt"} | changes))
    return estimate(DOCUMENTS, known, settings, rate)


def test_tokens_are_those_of_the_prompts_that_will_be_sent() -> None:
    found = estimated()
    sent = sum(len(prompt(document, [index], FENCE)) for document in DOCUMENTS for index in range(5))
    assert (found.chunks, found.wanted, found.calls) == (10, 10, 10)
    assert found.tokens_in == sent // CHARS_PER_TOKEN
    assert found.tokens_out == 10 * TOKENS_OUT


def test_of_many_calls_some_are_looked_at() -> None:
    many = build_documents(pa.Table.from_pylist(tables_of(60, 7)), 4_000)
    settings = Context(provider="ollama", model="m")
    sent = sum(len(prompt(document, [index], FENCE)) for document in many for index in range(7))
    assert estimate(many, (), settings).tokens_in == pytest.approx(sent / CHARS_PER_TOKEN, rel=0.02)


def test_what_is_known_costs_nothing() -> None:
    keys = [passage.key for document in DOCUMENTS for passage in document.passages]
    assert estimated(set(keys[:4])).wanted == 6
    done = estimated(set(keys))
    assert (done.wanted, done.tokens_in, done.seconds) == (0, 0, (0.0, 0.0))
    assert done.line() == "all 10 chunks have a context: no model will be asked"


def test_passages_asked_about_together_take_fewer_calls() -> None:
    found = estimated(chunks_per_call=5)
    assert (found.calls, found.wanted) == (2, 10)
    assert found.tokens_in < estimated().tokens_in


def test_the_cost_is_by_the_configured_prices_and_unknown_without_one() -> None:
    found = estimated(prices={"gpt": PAID})
    assert found.costs == {"openai/gpt": pytest.approx((found.tokens_in + 10 * found.tokens_out) / 1e6, abs=1e-6)}
    assert estimated().costs == {"openai/gpt": None}
    assert "openai/gpt has no price (`context.prices`)" in estimated().line()
    local = estimated(provider="ollama", fallback={"model": "gpt", "prices": {"gpt": PAID}})
    assert local.costs == {"ollama/gpt": 0.0, "openai/gpt": found.costs["openai/gpt"]}
    assert "ollama/gpt costs nothing (should the fallback write all: openai/gpt costs 0.0" in local.line()


def test_time_is_the_last_runs_pace_or_a_range() -> None:
    assert estimated(rate=2.5).seconds == (4.0, 4.0)
    assert "4 s (at the pace of the last run)" in estimated(rate=2.5).line()
    assert estimated(max_workers=2).seconds == (2.5, 5.0)
    assert estimated(provider="ollama", max_workers=2).seconds == (5.0, 10.0)
    assert "2 s to 5 s (a guess" in estimated(max_workers=2).line()


def test_a_run_of_some_length_leaves_its_pace_for_the_next(tmp_path: Path) -> None:
    store, long, short = Store(tmp_path), ContextUsage(100), ContextUsage(3)
    long.count(done=100)
    long.written_by["ollama/llama3.2"] = 100
    long.started -= 50
    note_run(store, "demo", {}, long)
    assert read_last_run(store, "demo").contexts_per_second["ollama/llama3.2"] == pytest.approx(2, rel=0.1)
    short.count(done=3)
    short.written_by["ollama/llama3.2"] = 3
    note_run(store, "demo", {"1": "away"}, short)
    after = read_last_run(store, "demo")
    assert after.contexts_per_second["ollama/llama3.2"] == pytest.approx(2, rel=0.1)
    assert (after.failures, after.reason) == (1, "away")


def test_without_a_model_there_is_nothing_to_plan(tmp_path: Path) -> None:
    assert plan_contexts(pa.Table.from_pylist(tables_of(1, 1)), Context(), tmp_path) is None


def test_a_plan_needs_no_key_of_a_server(tmp_path: Path) -> None:
    settings = Context(provider="openai", model="gpt", api_key_env="CITELOCK_NO_SUCH_KEY")
    plan = plan_contexts(pa.Table.from_pylist(tables_of(1, 2)), settings, tmp_path)
    assert plan is not None
    assert plan.estimate(LastRun()).wanted == 2


def test_the_command_tells_the_cost_asks_nobody_and_publishes_nothing(wiki: Wiki) -> None:
    with served(StandInChat(good_context)) as server:
        prices = {MODEL: PAID}
        wiki.configure(
            context={"provider": "ollama", "model": MODEL, "base_url": server.url, "timeout_s": 5, "prices": prices}
        )
        run = build(wiki, "--estimate", "--json")
        summary = json.loads(run.stdout)
        assert not server.requests
        assert Store(wiki.home).current("demo") is None
        assert summary["tenants"] == {}
        expected = summary["estimates"]["demo"]
        assert (expected["contexts_wanted"], expected["calls"]) == (4, 4)
        assert expected["cost"][f"ollama/{MODEL}"] > 0
        assert build_json(wiki)["tenants"]["demo"]["contexts_generated"] == expected["contexts_wanted"]
        asked = len(server.requests)
        assert "all 4 chunks have a context: no model will be asked" in build(wiki, "--estimate").stdout
        assert len(server.requests) == asked
