"""Load on a real server of the small wiki, by locust; verdicts on its answers and on its memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import QUESTION, write_config

from evals.load.__main__ import main
from evals.load.expected import Expected
from evals.load.memory import growth
from evals.load.plan import Plan, quantiles
from evals.load.profiles import PROFILES, SEARCH

pytestmark = pytest.mark.load

QUESTIONS = (QUESTION, "How long does each broker keep logs?", "What is the capital of Mongolia?")


def answer(text: str = "Four.", **more: Any) -> dict[str, Any]:
    cited = {"page_id": "1", "page_version": 1, "url": "u", "quote": "four"}
    shape = {"status": "answered", "answer": text, "citations": [cited], "clarification": None, "flags": []}
    return {**shape, "receipt_id": "r", **more}


@pytest.mark.parametrize(
    ("given", "verdict"),
    [
        (answer(receipt_id="another", timings_ms={"total": 9}), "same"),
        (answer(flags=["closest_passage"]), "same"),
        (answer("Five."), "wrong"),
        (answer(citations=[]), "wrong"),
        (answer(flags=["reranker_unavailable"]), "degraded"),
        (answer("By words alone.", flags=["reranker_unavailable"]), "degraded"),
        (answer("By words alone."), "wrong"),
        (answer("Five.", flags=["reranker_unavailable"]), "wrong"),
        (answer("", status="unavailable"), "refused"),
    ],
)
def test_an_answer_is_the_calm_one_or_says_what_was_missing(given: dict[str, Any], verdict: str) -> None:
    expected = Expected()
    assert not expected.learn(("acme", "ask", "q"), answer())
    assert not expected.learn(("acme", "ask", "q"), answer("By words alone."))
    assert expected.verdict(("acme", "ask", "q"), given) == verdict


def test_a_search_is_its_passages_in_their_order() -> None:
    expected, asked = Expected(), ("acme", SEARCH, "q")
    expected.learn(asked, {"results": [{"chunk_id": "1"}, {"chunk_id": "2"}], "degraded": []})
    assert expected.verdict(asked, {"results": [{"chunk_id": "2"}, {"chunk_id": "1"}], "degraded": []}) == "wrong"


def test_memory_that_grows_is_seen_and_memory_that_jumps_and_comes_back_is_flat() -> None:
    def judged(leak_mb: float) -> bool:
        samples = [(float(at), 500 + (at % 7) + (300 if 60 <= at < 70 else 0) + leak_mb * at) for at in range(200)]
        return bool(growth([(at, min(mb, 200 + at * 20)) for at, mb in samples])["flat"])  # models load at first

    assert judged(0)
    assert judged(0.02)
    assert not judged(0.2)


def test_profiles_pass_through_their_stages() -> None:
    burst = PROFILES["burst"].with_clients(16)
    assert [burst.clients_at(second) for second in (0, 9, 10, 14, 15, 25)] == [1, 1, 16, 16, 1, 16]
    assert {sum(profile.doors.values()) for profile in PROFILES.values()} == {1.0}
    assert quantiles([3, 1, 2]) == {"p50": 2, "p95": 3, "p99": 3, "longest": 3}


def test_a_plan_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    Plan(PROFILES["mixed"], 1, 2, ("a",), {"a": "t"}, ("q",), {"a\nask\nq": ["d"]}, "r").write(file)
    read = Plan.read(file)
    assert read.profile == PROFILES["mixed"]
    assert read.tokens == {"a": "t"}
    assert [*read.questions, *read.tenants] == ["q", "a"]


def test_a_server_under_load_says_what_it_said_before(
    wiki_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = loaded(wiki_home, tmp_path, capsys, "--profile", "streaming", "--seconds", "20", "--requests", "20")
    assert told["requests"] >= 20
    assert told["answers"] == {"same": told["requests"]}
    assert told["first_event_ms"]["p50"] <= told["ms"]["stream"]["longest"]


def test_a_long_run_tells_memory_over_time(wiki_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = loaded(wiki_home, tmp_path, capsys, "--profile", "search", "--soak", "0.1")
    assert told["answers"] == {"same": told["requests"]}
    assert told["memory"]["samples"] >= 3
    assert told["memory"]["most_mb"] > 50
    assert told["exit_code"] == (0 if told["memory"]["flat"] else 1)


def loaded(home: Path, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """What the command prints of a server of one process, and how it ends."""
    questions = folder / "questions.txt"
    questions.write_text("\n".join(QUESTIONS), encoding="utf-8")
    config = write_config(folder, home)
    code = main(["--config", config, "--questions", str(questions), "--clients", "3", "--workers", "1", *more])
    return {**json.loads(capsys.readouterr().out), "exit_code": code}


def test_what_the_command_cannot_do_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--url", "http://127.0.0.1:9", "--profile", "mixed"])
    assert ended.value.code == 2
    assert "needs the tenants of the sample" in capsys.readouterr().err
