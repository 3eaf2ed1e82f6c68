"""Traces of questions: one across server, reranker and models; none by default, and no text unless allowed."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from contextvars import copy_context
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient
from support.api_client import QUESTION, client_of
from support.running import running
from support.stand_in_chat import MODEL, StandInChat, served
from support.stand_in_collector import Sent, StandInCollector, collector
from support.waiting import wait_until
from support.word_counter import NAME, WordCounter

from rag_serving.config.loading import ConfigError, parse_config
from rag_serving.config.models import RerankService
from rag_serving.config.sections import Tracing
from rag_serving.rerank_service.api import create_app as create_sidecar
from rag_serving.tracing import StageTrace, spans
from rag_serving.tracing.exporting import close_tracing, open_tracing, trace_of
from rag_serving.tracing.spans import carried, is_on, outgoing, span, trace_id

TRACE, CALLER = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
PARENT = {"traceparent": f"00-{TRACE}-{CALLER}-01", "tracestate": "vendor=1"}
SERVER, INTERNAL, CLIENT = 2, 1, 3  # kinds in OTLP


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr("rag_serving.tracing.exporting._PAUSE_MS", 100.0)
    yield
    close_tracing()


@pytest.fixture
def collected() -> Iterator[StandInCollector]:
    with collector() as opened:
        yield opened


@contextmanager
def server(home: Path, collected: StandInCollector, **more: Any) -> Iterator[TestClient]:
    tracing = {"endpoint": collected.url, **more.pop("tracing", {})}
    with client_of(home, tracing=tracing, **more) as client:
        yield client
    close_tracing()


def by_name(sent: list[Sent]) -> dict[str, Sent]:
    return {each.name: each for each in sent}


def ancestors(sent: Sent, all_spans: list[Sent]) -> list[str]:
    """Return the names of the spans above one, the nearest first."""
    ids = {each.id: each for each in all_spans}
    found = []
    while sent.parent in ids:
        sent = ids[sent.parent]
        found.append(sent.name)
    return found


def test_one_trace_goes_from_the_client_over_server_and_sidecar_to_the_model(
    wiki_home: Path, collected: StandInCollector
) -> None:
    with ExitStack() as opened:
        chat = opened.enter_context(served(StandInChat()))
        sidecar = create_sidecar(RerankService(), NAME, None, WordCounter)
        ranker = opened.enter_context(running(sidecar))
        wait_until(lambda: httpx.get(f"{ranker}/healthz").json()["status"] == "ok")
        client = opened.enter_context(
            server(
                wiki_home,
                collected,
                reranker={"url": f"{ranker}/rerank", "model": NAME},
                features={"FEATURE_RERANKER": True},
                generation={"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{chat.url}/v1"},
            )
        )
        answer = client.post("/v1/ask", json=QUESTION, headers=PARENT)
        assert answer.headers["x-trace-id"] == TRACE
    sent = collected.spans()
    assert {each.trace for each in sent} == {TRACE}
    found = by_name(sent)
    root = found["POST /v1/ask"]
    assert (root.parent, root.kind) == (CALLER, SERVER)
    assert root.attributes["http.response.status_code"] == 200
    assert root.attributes["citelock.tenant"] == "acme"
    assert ancestors(found["retrieval"], sent) == ["total", "POST /v1/ask"]
    assert found["retrieval"].attributes["gen_ai.operation.name"] == "retrieval"
    assert found["retrieval"].attributes["citelock.phase"] == 3
    assert found[f"rerank {NAME}"].kind == CLIENT
    assert ancestors(found["score"], sent)[:4] == ["POST /rerank", f"rerank {NAME}", "rerank", "retrieval"]
    told = found[f"chat {MODEL}"]
    assert told.kind == CLIENT
    assert told.attributes["gen_ai.provider.name"] == "openai"
    assert told.attributes["gen_ai.usage.output_tokens"] > 0
    assert ancestors(told, sent)[-2:] == ["total", "POST /v1/ask"]


def test_servers_that_are_asked_get_the_trace_and_no_other_does(wiki_home: Path, collected: StandInCollector) -> None:
    with served(StandInChat()) as chat:
        generation = {"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{chat.url}/v1"}
        with server(wiki_home, collected, generation=generation) as client:
            client.post("/v1/ask", json=QUESTION, headers=PARENT)
            named = [headers.get("traceparent") for _, _, headers in chat.requests]
        chat.requests.clear()
        with client_of(wiki_home, generation=generation) as client:
            off = client.post("/v1/ask", json=QUESTION, headers=PARENT)
            unnamed = [headers.get("traceparent") for _, _, headers in chat.requests]
    told = by_name(collected.spans())[f"chat {MODEL}"]
    assert named == [f"00-{TRACE}-{told.id}-01"]
    assert unnamed == [None], "without tracing nothing is told to a model server"
    assert "x-trace-id" not in off.headers


def test_no_text_is_in_spans_unless_it_is_allowed(wiki_home: Path, collected: StandInCollector) -> None:
    with served(StandInChat(lambda _: ["A very particular reply."])) as chat:
        generation = {"provider": "openai", "style": "prose", "model": MODEL, "base_url": f"{chat.url}/v1"}
        with server(wiki_home, collected, generation=generation) as client:
            client.post("/v1/ask", json=QUESTION)
            client.post("/v1/ask", json={"question": "x" * 100_000})
            client.get("/v1/pages/no-such-page-of-ours")
        bodies = collected.bodies
        for text in (b"broker", b"replicated", b"Kafka", b"particular", b"no-such-page"):
            assert text not in bodies
        with server(wiki_home, collected, generation=generation, tracing={"text": True}) as client:
            client.post("/v1/ask", json=QUESTION)
    found = by_name(collected.spans())
    assert found["retrieval"].attributes["gen_ai.retrieval.query.text"] == QUESTION["question"]
    assert "particular" in found[f"chat {MODEL}"].attributes["gen_ai.output.messages"]


def test_an_error_is_marked_by_its_class_and_its_message_is_kept_out(collected: StandInCollector) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    trace = StageTrace()
    with span("whole"), trace.part("flagged", "flag_of_ours"):
        raise ValueError("what the secret page says")
    with pytest.raises(KeyError), trace.part("raised"):
        raise KeyError("what the secret page says")
    close_tracing()
    found = by_name(collected.spans())
    assert found["flagged"].failed
    assert found["flagged"].attributes == {"citelock.flag": "flag_of_ours", "error.type": "ValueError"}
    assert (found["raised"].failed, found["raised"].attributes["error.type"]) == (True, "KeyError")
    assert not found["whole"].failed
    assert b"secret" not in collected.bodies


def test_parts_are_spans_where_they_took_long_failed_or_opened_one(
    collected: StandInCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "SHORTEST_NS", 200_000_000)
    open_tracing(Tracing(endpoint=collected.url), "test")
    trace = StageTrace()
    with span("whole"):
        with trace.part("short"), trace.part("short too"):
            pass
        with trace.part("outer"), trace.part("inner"), span("asked"):
            pass
        with trace.part("outer of a failure"), trace.part("failed", "flag"):
            raise ValueError
        with trace.part("outer of a long one"), trace.part("long"):
            time.sleep(0.21)
        with trace.part("of a thread"):
            thread = threading.Thread(target=copy_context().run, args=(lambda: _part(trace, "in a thread"),))
            thread.start()
            thread.join()
    close_tracing()
    sent = collected.spans()
    found = by_name(sent)
    assert not found.keys() & {"short", "short too"}
    assert ancestors(found["asked"], sent) == ["inner", "outer", "whole"]
    assert ancestors(found["failed"], sent) == ["outer of a failure", "whole"]
    assert ancestors(found["long"], sent) == ["outer of a long one", "whole"]
    assert ancestors(found["in a thread"], sent) == ["of a thread", "whole"]


def test_a_part_that_is_left_behind_by_its_thread_makes_no_second_span(
    collected: StandInCollector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spans, "SHORTEST_NS", 60_000_000_000)
    open_tracing(Tracing(endpoint=collected.url), "test")
    trace, go = StageTrace(), threading.Event()

    def late() -> None:
        go.wait(20)
        _part(trace, "late")

    with span("whole"), trace.part("left"):
        thread = threading.Thread(target=copy_context().run, args=(late,))
        thread.start()
    go.set()
    thread.join()
    close_tracing()
    sent = collected.spans()
    assert sorted(each.name for each in sent) == ["asked late", "late", "whole"]
    assert ancestors(by_name(sent)["late"], sent) == ["whole"]


def _part(trace: StageTrace, name: str) -> None:
    with trace.part(name), span(f"asked {name}"):
        pass


def test_an_unexpected_error_names_its_trace_in_header_and_log(
    wiki_home: Path, collected: StandInCollector, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with server(wiki_home, collected) as client:
        monkeypatch.setattr("rag_serving.api.app.parse_filters", lambda _: 1 / 0)
        answer = client.post("/v1/ask", json=QUESTION, headers=PARENT)
    assert (answer.status_code, answer.headers["x-trace-id"]) == (500, TRACE)
    assert f"request failed (trace {TRACE})" in caplog.text
    assert by_name(collected.spans())["POST /v1/ask"].failed


@pytest.mark.parametrize(
    "given", ["", "garbage", f"00-{'0' * 32}-{CALLER}-01", f"00-{TRACE}-{'0' * 16}-01", "x" * 60_000]
)
def test_a_trace_context_that_is_none_begins_a_trace(wiki_home: Path, collected: StandInCollector, given: str) -> None:
    with server(wiki_home, collected) as client:
        answer = client.get("/v1/models", headers={"traceparent": given, "tracestate": "a=" + "b" * 5000})
    assert answer.status_code == 200
    (sent,) = collected.spans()
    assert sent.trace == answer.headers["x-trace-id"] != TRACE
    assert (sent.name, sent.parent) == ("GET /v1/models", "")


def test_probes_and_unknown_methods_make_no_names(wiki_home: Path, collected: StandInCollector) -> None:
    with server(wiki_home, collected) as client:
        client.get("/healthz")
        client.get("/metrics")
        client.request("BREW" * 10, "/v1/ask")
        client.get("/nothing/of/ours")
    assert [each.name for each in collected.spans()] == ["_OTHER /v1/ask", "GET"]


@pytest.mark.parametrize(("ratio", "flag", "count"), [(0.0, "", 0), (0.0, "-01", 1), (1.0, "-00", 0)])
def test_who_began_a_trace_decides_whether_it_is_sent(
    wiki_home: Path, collected: StandInCollector, monkeypatch: pytest.MonkeyPatch, ratio: float, flag: str, count: int
) -> None:
    monkeypatch.setenv("OTEL_TRACES_SAMPLER", "parentbased_traceidratio")
    monkeypatch.setenv("OTEL_TRACES_SAMPLER_ARG", str(ratio))
    headers = {"traceparent": f"00-{TRACE}-{CALLER}{flag}"} if flag else {}
    with server(wiki_home, collected) as client:
        client.get("/v1/models", headers=headers)
    assert len(collected.spans()) == count


def test_a_collector_that_is_away_costs_one_line_and_no_time(wiki_home: Path, caplog: pytest.LogCaptureFixture) -> None:
    with collector() as gone:
        port = gone.server_address[1]
    tracing = {"endpoint": f"http://127.0.0.1:{port}"}
    with client_of(wiki_home, tracing=tracing) as client:
        client.post("/v1/ask", json=QUESTION)
        for _ in range(3):
            started = time.monotonic()
            client.post("/v1/ask", json=QUESTION)
            assert time.monotonic() - started < 5
        wait_until(lambda: "traces cannot be sent" in caplog.text)
        started = time.monotonic()
    assert time.monotonic() - started < 8
    close_tracing()
    told = [record for record in caplog.records if record.levelno >= logging.WARNING and "traces" in record.message]
    assert len(told) == 1
    assert not [record for record in caplog.records if record.name.startswith("opentelemetry")]


def test_a_collector_that_comes_back_is_told_of(collected: StandInCollector, caplog: pytest.LogCaptureFixture) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    collected.status = 400  # is not tried again
    with span("lost"):
        pass
    wait_until(lambda: "traces cannot be sent" in caplog.text)
    collected.status = 200
    with span("kept"):
        pass
    collected.wait_for("kept")
    wait_until(lambda: "sent to" in caplog.records[-1].message and "again" in caplog.records[-1].message)


def test_a_slow_collector_holds_neither_questions_nor_the_end(collected: StandInCollector) -> None:
    collected.pause_s = 30
    open_tracing(Tracing(endpoint=collected.url), "test")
    started = time.monotonic()
    for _ in range(5000):
        with span("one"):
            pass
    close_tracing(0.5)
    assert time.monotonic() - started < 5
    collected.pause_s = 0


def test_without_a_collector_nothing_of_opentelemetry_is_imported() -> None:
    code = (
        "import sys, rag_serving.retrieval.search, rag_serving.models.http\n"
        "from rag_serving.tracing import StageTrace\n"
        "with StageTrace().part('a'): pass\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry.sdk')]\n"
        "assert 'rag_serving.tracing.spans' in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_spans_of_another_thread_stand_below_the_one_that_began_it(collected: StandInCollector) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    ids: list[str | None] = []
    with span("whole"):
        threads = [threading.Thread(target=work) for work in (carried(lambda: ids.append(trace_id())),) * 2]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert ids == [trace_id()] * 2
        assert outgoing()["traceparent"].startswith(f"00-{ids[0]}-")
    assert trace_id() is None
    assert outgoing() == {}


def test_a_named_trace_is_the_same_in_every_process(collected: StandInCollector) -> None:
    open_tracing(Tracing(endpoint=collected.url), "test")
    with trace_of(b"0123456789abcdef"), span("one"):
        assert trace_id() == b"0123456789abcdef".hex()
    with span("other"):
        assert trace_id() != b"0123456789abcdef".hex()


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace.export", None)
    with pytest.raises(ConfigError, match=r"citelock\[tracing\]"):
        open_tracing(Tracing(endpoint="http://127.0.0.1:9"), "test")
    assert not is_on()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"endpoint": "collector:4318"}, "must begin with http"),
        ({"sample_ratio": 0.5}, "OTEL_TRACES_SAMPLER=parentbased_traceidratio"),
        ({"endpont": "http://a"}, "did you mean 'endpoint'"),
    ],
)
def test_a_configuration_that_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        parse_config({"tracing": given})
