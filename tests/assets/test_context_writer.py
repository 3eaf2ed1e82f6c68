"""Contexts by a stand-in model: many at once, nothing lost, nothing asked twice."""

from __future__ import annotations

import asyncio
import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from model_of_contexts import good_context, tables_of
from support.constants import section_of
from support.stand_in_chat import MODEL, Fault, StandInChat, served

from rag_assets.llm_contexts import writer as module
from rag_assets.llm_contexts.servers import open_patient_chat, open_servers
from rag_assets.llm_contexts.writer import ContextCache, ContextUsage, ContextWriter
from rag_assets.steps.contexts.prompt import VERSION, ContextDocument, build_documents
from rag_serving.config.models import Context
from rag_serving.models.chat.client import RemoteChat
from rag_serving.models.chat.messages import PromptMessage, open_chat

KILLS = int(os.environ.get("CITELOCK_KILLS", "2"))


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteChat, "backoff_s", 0.01)


@pytest.fixture
def server() -> Iterator[StandInChat]:
    with served(StandInChat(good_context)) as stand_in:
        yield stand_in


def documents(pages: int = 4, chunks: int = 5) -> list[ContextDocument]:
    return build_documents(pa.Table.from_pylist(tables_of(pages, chunks)), 4_000)


def keys(wanted: list[ContextDocument]) -> set[str]:
    return {passage.key for document in wanted for passage in document.passages}


def writer(server: StandInChat, folder: Path, **changes: Any) -> ContextWriter:
    provider = changes.pop("provider", "ollama")
    url = server.url if provider == "ollama" else f"{server.url}/v1"
    given = {"provider": provider, "model": MODEL, "base_url": url, "timeout_s": 5} | changes
    settings = Context(**given)
    return ContextWriter(settings, ContextCache(folder, f"{provider}/{MODEL}"), open_servers(settings, open_chat))


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_every_passage_gets_a_context_and_is_asked_about_once(
    server: StandInChat, tmp_path: Path, provider: str
) -> None:
    found = writer(server, tmp_path, provider=provider).write(documents())
    assert set(found.written) == keys(documents())
    assert not found.failures
    assert all(context.quality >= 0.7 and context.text.startswith("It tells of") for context in found.written.values())
    assert len(server.requests) == found.tally.done == 20
    assert found.tally.tokens_in > 0


def test_a_second_run_asks_nothing(server: StandInChat, tmp_path: Path) -> None:
    first = writer(server, tmp_path).write(documents())
    again = writer(server, tmp_path).write(documents())
    assert again.written == first.written
    assert len(server.requests) == 20
    assert again.tally.total == 0


def test_only_changed_passages_are_asked_about(server: StandInChat, tmp_path: Path) -> None:
    writer(server, tmp_path).write(documents())
    rows = tables_of(4, 5)
    rows[3]["text"] = "another broker entirely"
    found = writer(server, tmp_path).write(build_documents(pa.Table.from_pylist(rows), 4_000))
    assert found.tally.total == 1
    assert len(server.requests) == 21


def test_a_new_prompt_asks_for_nothing_again(
    server: StandInChat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer(server, tmp_path).write(documents(1, 3))
    monkeypatch.setattr(module, "VERSION", VERSION + 1)
    assert writer(server, tmp_path).write(documents(1, 3)).tally.total == 0


def test_another_model_is_asked_anew(server: StandInChat, tmp_path: Path) -> None:
    writer(server, tmp_path).write(documents(1, 3))
    other = writer(server, tmp_path)
    other.cache = ContextCache(tmp_path, "another")
    assert other.write(documents(1, 3)).tally.total == 3


def test_several_passages_are_asked_about_in_one_call(server: StandInChat, tmp_path: Path) -> None:
    found = writer(server, tmp_path, chunks_per_call=3).write(documents(2, 5))
    assert len(found.written) == 10
    assert len(server.requests) == 4


def test_a_poor_context_is_asked_for_again_with_advice_and_the_best_is_kept(
    server: StandInChat, tmp_path: Path
) -> None:
    answers = iter(["It tells of broker setup.", "Broker.", "A setup of broker with partition and replica."])
    server.script = lambda _: [next(answers)]
    found = writer(server, tmp_path, max_workers=1).write(documents(1, 1))
    (context,) = found.written.values()
    assert context.text == "A setup of broker with partition and replica."
    assert "too short: 8 words" in context.issues
    assert found.tally.retries == 2
    assert "Write 50 to 100 words." in server.bodies[1]["messages"][-1]["content"]


def test_a_context_that_invents_is_not_kept(server: StandInChat, tmp_path: Path) -> None:
    server.script = lambda messages: [*good_context(messages), " Since 1987 by RabbitMQ."]
    found = writer(server, tmp_path).write(documents(1, 2))
    assert not found.written
    assert all("invents 1987" in why for why in found.failures.values())
    assert len(server.requests) == 6


def test_a_context_that_negates_what_the_page_says_is_not_kept(server: StandInChat, tmp_path: Path) -> None:
    server.script = lambda messages: [*good_context(messages), " The broker is never restarted."]
    found = writer(server, tmp_path).write(documents(1, 2))
    assert not found.written
    assert all("invents The broker is never restarted." in why for why in found.failures.values())


def test_after_a_time_out_fewer_tokens_are_asked_for(server: StandInChat, tmp_path: Path) -> None:
    server.faults.append(Fault(hang_s=30))
    found = writer(server, tmp_path, timeout_s=1, max_output_tokens=200).write(documents(1, 1))
    assert len(found.written) == 1
    first, second = (body["options"]["num_predict"] for body in server.bodies)
    assert (first, second) == (200, 100)


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_the_transport_is_tried_again_after_1_2_and_4_seconds(
    server: StandInChat, monkeypatch: pytest.MonkeyPatch, provider: str
) -> None:
    pauses: list[float] = []

    async def pause(seconds: float) -> None:
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    server.faults.extend([Fault(500, b"boom")] * 3)
    settings = Context(provider=provider, model=MODEL, base_url=server.url + "/v1" * (provider == "openai"))
    chat = open_patient_chat(provider, settings, "context")
    assert asyncio.run(
        chat.reply_async([PromptMessage("user", "<passage-ab12>\nUnder T:\nbroker\n</passage-ab12>")])
    ).text
    assert len(server.requests) == 4
    assert len(pauses) == 3
    assert all(least <= pause <= 1.25 * least for least, pause in zip((1, 2, 4), pauses, strict=True))


def test_a_model_that_is_away_fails_every_passage_quickly(tmp_path: Path) -> None:
    away_model = {"model": MODEL, "base_url": "http://127.0.0.1:1", "max_retries": 0, "max_workers": 4}
    settings = section_of(Context, provider="ollama", **away_model)
    away = ContextWriter(settings, ContextCache(tmp_path, f"ollama/{MODEL}"), open_servers(settings, open_chat))
    started = time.monotonic()
    found = away.write(documents(40, 10))
    assert len(found.failures) == 400
    assert found.tally.failed == 400
    assert time.monotonic() - started < 20
    assert sum("not asked" in why for why in found.failures.values()) > 300


def test_a_hung_server_holds_no_longer_than_its_time_out_times_its_attempts(
    server: StandInChat, tmp_path: Path
) -> None:
    server.faults.extend([Fault(hang_s=30)] * 100)
    started = time.monotonic()
    found = writer(server, tmp_path, timeout_s=0.5).write(documents(20, 5))
    assert time.monotonic() - started < 15
    assert len(found.failures) == 100
    assert any("did not answer in time" in why for why in found.failures.values())


def test_errors_time_outs_and_garbage_lose_nothing(server: StandInChat, tmp_path: Path) -> None:
    draw = random.Random(4)

    def script(messages: list[dict[str, str]]) -> Iterable[str]:
        if draw.random() < 0.02:
            time.sleep(2.5)
        return ["\x00\x01 zzz"] if draw.random() < 0.01 else good_context(messages)

    server.script = script
    server.faults.extend(Fault(500, b'{"error": "boom"}') for _ in range(8))
    wanted = documents(20, 8)
    found = writer(server, tmp_path, timeout_s=2, max_workers=10).write(wanted)
    assert set(found.written) | set(found.failures) == keys(wanted)
    assert not set(found.written) & set(found.failures)
    assert len(found.failures) <= 2


def test_the_workers_are_kept_busy(server: StandInChat, tmp_path: Path) -> None:
    meeting = threading.Barrier(10, timeout=30)  # broken, and so no context, where fewer than ten ask at once

    def together(messages: list[dict[str, str]]) -> Iterable[str]:
        meeting.wait()
        return good_context(messages)

    server.script = together
    found = writer(server, tmp_path, max_workers=10, timeout_s=40).write(documents(10, 6))
    assert len(found.written) == 60
    assert not meeting.broken


def test_who_watches_sees_rate_remaining_time_and_cost(server: StandInChat, tmp_path: Path) -> None:
    seen: list[str] = []
    watched = writer(server, tmp_path, prices={MODEL: {"input": 1.0, "output": 2.0}})
    watched.watch = lambda tally: seen.append(tally.line())
    tally = watched.write(documents(1, 4)).tally
    assert seen[0].startswith("contexts 1/4, 0 failed, ")
    assert "left" not in seen[0]  # one context says nothing of the pace
    assert tally.cost == pytest.approx((tally.tokens_in + 2 * tally.tokens_out) / 1e6)
    assert tally.facts()["contexts_generated"] == 4


def test_an_empty_tally_says_so() -> None:
    assert ContextUsage(0).line().startswith("contexts 0/0, 0 failed")


KILLED = """
import sys
from pathlib import Path
sys.path[:0] = sys.argv[3:]
from test_context_writer import documents, writer
from support.stand_in_chat import StandInChat
class At:
    url = sys.argv[1]
writer(At, Path(sys.argv[2]), max_workers=10).write(documents(40, 10))
"""


def test_a_killed_run_repeats_at_most_what_was_in_flight_and_the_last_uncommitted(
    server: StandInChat, tmp_path: Path
) -> None:
    def slow(messages: list[dict[str, str]]) -> Iterable[str]:
        time.sleep(0.02)
        return good_context(messages)

    server.script = slow
    draw, here = random.Random(7), Path(__file__).parent
    command = [sys.executable, "-c", KILLED, server.url, str(tmp_path), str(here), str(here.parent)]
    for _ in range(KILLS):
        before = len(server.requests)
        process = subprocess.Popen(command)
        while len(server.requests) == before and process.poll() is None:
            time.sleep(0.01)
        time.sleep(draw.uniform(0.1, 0.5))
        process.send_signal(signal.SIGKILL)
        process.wait()
    time.sleep(0.3)
    found = writer(server, tmp_path).write(documents(40, 10))
    assert len(found.written) == 400
    asked = Counter(
        re.search(r"<passage-\w+>\n(.*?)</passage", body["messages"][-1]["content"], re.DOTALL)[1]
        for body in server.bodies
    )  # type: ignore[index]
    assert len(asked) == 400
    assert sum(asked.values()) - 400 <= KILLS * (10 + module.COMMIT_CONTEXTS)
