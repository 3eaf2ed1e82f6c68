"""Contexts by a second model where the first one fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from model_of_contexts import good_context, tables_of
from support.constants import section_of
from support.stand_in_chat import MODEL, Fault, StandInChat, served

from rag_assets.llm_contexts import servers
from rag_assets.llm_contexts.servers import ContextServers, model_name, models_of, open_servers
from rag_assets.llm_contexts.writer import ContextCache, Contexts, ContextWriter, document_budget
from rag_assets.steps.contexts.prompt import build_documents
from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.models import Context, Price
from rag_serving.models.chat.messages import PromptMessage
from rag_serving.models.protocols import ModelError

ASK = [PromptMessage("user", "<passage-ab12>\nUnder T:\nbroker\n</passage-ab12>")]
BOOM = Fault(500, b'{"error": "boom"}')


@pytest.fixture
def first() -> Iterator[StandInChat]:
    with served(StandInChat(good_context)) as stand_in:
        yield stand_in


@pytest.fixture
def second() -> Iterator[StandInChat]:
    with served(StandInChat(good_context)) as stand_in:
        yield stand_in


def settings(first: StandInChat | None, second: StandInChat | None, **changes: Any) -> Context:
    """An Ollama server first, then an OpenAI-compatible one; None: nobody listens."""
    quick = {"model": MODEL, "max_retries": 0, "timeout_s": 5}
    fallback = {**quick, "base_url": f"{second.url if second else 'http://127.0.0.1:1'}/v1"}
    url = first.url if first else "http://127.0.0.1:1"
    given = {**quick, "provider": "ollama", "base_url": url, "max_workers": 1, "fallback": fallback} | changes
    return section_of(Context, **given)


def write(context: Context, folder: Path, pages: int = 4, chunks: int = 5) -> Contexts:
    cache = ContextCache(folder, *(model_name(model).key for model in models_of(context).values()))
    documents = build_documents(pa.Table.from_pylist(tables_of(pages, chunks)), document_budget(context))
    return ContextWriter(context, cache, open_servers(context)).write(documents)


def test_one_call_that_fails_is_answered_by_the_other_model(
    first: StandInChat, second: StandInChat, tmp_path: Path
) -> None:
    first.faults.append(BOOM)
    found = write(settings(first, second), tmp_path)
    assert len(found.written) == 20
    assert found.tally.written_by == {f"ollama/{MODEL}": 19, f"openai/{MODEL}": 1}
    assert (len(first.requests), len(second.requests)) == (20, 1)
    assert second.requests[0][0] == "/v1/chat/completions"
    assert {(context.provider, context.model) for context in found.written.values()} == {
        ("ollama", MODEL),
        ("openai", MODEL),
    }


def test_a_first_model_that_is_down_is_not_asked_for_each_passage(
    first: StandInChat, second: StandInChat, tmp_path: Path
) -> None:
    first.faults.extend([BOOM] * 100)
    found = write(settings(first, second), tmp_path)
    assert found.tally.written_by == {f"openai/{MODEL}": 20}
    assert len(first.requests) == servers.FAILURES


def test_what_the_other_model_wrote_is_not_asked_for_again(
    first: StandInChat, second: StandInChat, tmp_path: Path
) -> None:
    written = write(settings(None, second), tmp_path).written
    assert write(settings(first, second), tmp_path).written == written
    assert not first.requests


def test_a_first_model_that_recovers_is_asked_again(
    first: StandInChat, second: StandInChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    opened = open_servers(settings(first, second))
    monkeypatch.setattr(opened._servers[0].breaker, "_clock", lambda: now[0])
    first.faults.extend([BOOM] * servers.FAILURES)

    def asked_by() -> str:
        return asyncio.run(opened.ask(ASK)).by.provider

    assert [asked_by() for _ in range(5)] == ["openai"] * 5
    now[0] += servers.RESET_S
    assert [asked_by() for _ in range(3)] == ["ollama"] * 3


def test_when_both_fail_the_reason_names_both_and_the_rest_is_not_asked(tmp_path: Path) -> None:
    found = write(settings(None, None), tmp_path, 10, 10)
    assert len(found.failures) == 100
    reasons = list(found.failures.values())
    assert "no chat server answers at http://127.0.0.1:1;" in reasons[0]
    assert "the fallback: no chat server answers at http://127.0.0.1:1/v1" in reasons[0]
    assert "set context.fallback.base_url" in reasons[0]
    assert sum("not asked" in why for why in reasons) >= 85


def test_a_prompt_that_is_too_long_for_the_first_is_no_failure_of_it(first: StandInChat, second: StandInChat) -> None:
    too_long = Fault(400, b'{"error": "the prompt exceeds the context length of the model"}')
    first.faults.extend([too_long] * (servers.FAILURES + 1))
    opened = open_servers(settings(first, second))
    providers = [asyncio.run(opened.ask(ASK)).by.provider for _ in range(servers.FAILURES + 2)]
    assert providers == ["openai"] * (servers.FAILURES + 1) + ["ollama"]


def test_each_model_costs_by_its_own_price(first: StandInChat, second: StandInChat, tmp_path: Path) -> None:
    given = settings(first, second)
    assert given.fallback is not None
    paid = given.fallback.model_copy(update={"prices": {MODEL: Price(input=1.0)}})
    context = given.model_copy(update={"fallback": paid})
    first.faults.append(BOOM)
    tally = write(context, tmp_path).tally
    assert tally.cost == pytest.approx(42 / 1e6)  # one call of 20, with the 42 tokens that the stand-in counts


def test_a_document_fits_the_smaller_of_both_models() -> None:
    small = {"model": MODEL, "context_tokens": 2048}
    context = Context(provider="ollama", model=MODEL, context_tokens=32_000, fallback=small)  # type: ignore[arg-type]
    assert document_budget(context) < 2048


def test_without_a_fallback_the_only_model_is_asked_whatever_it_did_before(first: StandInChat) -> None:
    opened = open_servers(settings(first, None, fallback=None))
    first.faults.extend([BOOM] * 5)
    for _ in range(5):
        with pytest.raises(ModelError, match="boom"):
            asyncio.run(opened.ask(ASK))
    assert asyncio.run(opened.ask(ASK)).reply.text
    assert isinstance(opened, ContextServers)


@pytest.mark.parametrize(
    ("context", "said"),
    [
        ({"provider": "ollama", "model": "a", "fallback": {"provider": "openai"}}, "set context.fallback.model"),
        ({"provider": "ollama", "model": "a", "fallback": {"modl": "b"}}, "did you mean 'model'"),
        ({"fallback": {"model": "b"}}, "a fallback needs a first model; set context.provider"),
    ],
)
def test_a_fallback_that_cannot_be_is_refused_with_what_to_do(context: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config({"context": context})
