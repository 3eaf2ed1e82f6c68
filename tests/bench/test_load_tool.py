"""Load on a real server of the small wiki, by locust; verdicts on its answers and on its memory."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.command_line import QUESTION, write_config

from evals.load import running
from evals.load.__main__ import main
from evals.load.installation import AskerProofs, BuiltInstallation, ExpectedAnswers
from evals.load.plan import PROFILES, SEARCH, LoadProfile, LoadResults, Plan, quantiles
from evals.load.running import LoadTarget, anonymous_mb, growth

pytestmark = pytest.mark.load

QUESTIONS = (QUESTION, "How long does each broker keep logs?", "What is the capital of Mongolia?")


def answer(
    text: str = "Four.", quote: str = "four", version: int = 1, chunk_id: str = "1:1:0", **more: Any
) -> dict[str, Any]:
    cited = {"page_id": "1", "page_version": version, "url": "u", "quote": quote, "chunk_id": chunk_id, "index": 1}
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
        (answer("Five.", flags=["reranker_unavailable"]), "unproved"),
        (answer("", status="unavailable"), "refused"),
    ],
)
def test_an_answer_is_the_calm_one_or_says_what_was_missing(given: dict[str, Any], verdict: str) -> None:
    expected = ExpectedAnswers()
    assert not expected.learn(("acme", "ask", "q"), answer())
    assert not expected.learn(("acme", "ask", "q"), answer("By words alone."))
    assert expected.verdict(("acme", "ask", "q"), given) == verdict


def test_a_search_is_its_passages_in_their_order() -> None:
    expected, asked = ExpectedAnswers(), ("acme", SEARCH, "q")
    expected.learn(asked, {"results": [{"chunk_id": "1"}, {"chunk_id": "2"}], "degraded": []})
    assert expected.verdict(asked, {"results": [{"chunk_id": "2"}, {"chunk_id": "1"}], "degraded": []}) == "wrong"


def test_an_answer_to_a_question_that_the_calm_server_was_not_asked_is_compared_with_the_pages() -> None:
    assert ExpectedAnswers().verdict(("acme", "ask", "q"), answer()) == "unproved"


PASSAGE = {"chunk": {"text": "| Name | Limit |\n|---|---|\n| Oslo | 4 |\n\nKeep **four** days."}}
PASSAGE |= {"page": {"page_id": "1", "version": 1}}


@pytest.mark.parametrize(
    ("given", "fault"),
    [
        (answer("Keep four days. [1]"), ""),
        (answer("Name: Oslo; Limit: 4 [1]"), ""),
        (answer("Keep five days. [1]"), "does not stand on the page"),
        (answer(quote="five days"), "no such words"),
        (answer(version=2), "another version"),
        (answer(chunk_id="hidden"), "not one that the asker may read"),
        (answer(citations=[]), "without citations"),
        ({**answer("Not found.", citations=[]), "status": "not_found"}, ""),
        ({"results": [{"chunk_id": "1:1:0", "text": PASSAGE["chunk"]["text"]}]}, ""),
        ({"results": [{"chunk_id": "1:1:0", "text": "Else."}]}, "another text"),
    ],
)
def test_an_answer_that_says_what_was_missing_is_compared_with_its_pages(given: dict[str, Any], fault: str) -> None:
    def pages(request: httpx.Request) -> httpx.Response:
        known = request.url.path == "/v1/passages/1:1:0" and request.headers["Authorization"] == "Bearer t"
        return httpx.Response(200, json=PASSAGE) if known else httpx.Response(404)

    with httpx.Client(base_url="http://server", transport=httpx.MockTransport(pages)) as client:
        found = AskerProofs(client, {"Authorization": "Bearer t"}).fault(given)
    assert (fault in found) if fault else (found == "")


def test_unproved_answers_are_counted_by_what_the_pages_say() -> None:
    results = LoadResults()
    for text in ("true", "true", "false"):
        results.verdicts["unproved"] += 1
        results.keep_unproved("acme", "q", {"text": text}, text, is_flagged=True)
    results.prove(lambda _, payload: "" if payload["text"] == "true" else "made up")
    assert results.verdicts == {"proved": 2, "wrong": 1}
    assert results.faults == {"wrong: made up": 1}


@pytest.mark.parametrize(
    ("leak_mb_per_hour", "is_flat"), [(0, True), (10, True), (54, False), (40, False), (-50, True)]
)
@pytest.mark.parametrize("seed", range(3))
def test_a_slow_leak_is_found_and_noise_is_not(leak_mb_per_hour: float, is_flat: bool, seed: int) -> None:
    """Half an hour: models load at first, caches fill, a build comes and goes, the allocator's pages come and go."""
    dice = random.Random(seed)

    def memory_mb(at: float) -> float:
        loading, build = min(500.0, 200 + at * 2), 300.0 if 1000 <= at < 1060 else 0.0
        return loading + build + dice.gauss(0, 3) + leak_mb_per_hour * at / 3600

    samples = [(at * 7.5, memory_mb(at * 7.5)) for at in range(240)]
    assert growth(samples)["flat"] is is_flat


_GROWS = """
import mmap, sys, time
kept, file = [], open(sys.argv[2], "r+b")
pages = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
for turn in range(10_000):
    if sys.argv[1] == "leak":
        kept.append(b"x" * 200_000)
    sum(pages[(turn * 200_000) % len(pages) :][:200_000:4096])  # of a file, whose pages are counted as resident
    print(turn, flush=True)
    time.sleep(0.01)
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
@pytest.mark.parametrize(("kind", "is_flat"), [("leak", False), ("none", True)])
def test_a_real_leak_is_found_and_pages_of_files_are_none(kind: str, is_flat: bool, tmp_path: Path) -> None:
    file = tmp_path / "pages"
    file.write_bytes(b"p" * 60_000_000)
    command = [sys.executable, "-c", _GROWS, kind, str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        samples = []
        for line in process.stdout:
            if int(line) % 10 == 0 and int(line) >= 20:
                samples.append((float(line), anonymous_mb(process.pid)))
            if int(line) == 150:
                process.kill()
    # 13 MB leak while it is judged; what the system pages out and in again on a busy machine is beside the point.
    assert (growth(samples)["grown_mb"] < 6) is is_flat


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
    assert told["answers"].keys() <= {"same", "proved"}
    assert told["first_event_ms"]["p50"] <= told["ms"]["stream"]["longest"]


def test_a_long_run_tells_memory_over_time(wiki_home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told = loaded(wiki_home, tmp_path, capsys, "--profile", "search", "--soak", "0.1")
    assert told["answers"].keys() <= {"same", "proved"}
    assert told["memory"]["samples"] >= 3
    assert told["memory"]["most_mb"] > 50
    assert told["exit_code"] == (0 if told["memory"]["flat"] else 1)


def test_too_small_a_ratio_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(_: LoadTarget, profile: LoadProfile, seconds: float) -> LoadResults:
        count = 10 if profile.clients_at(0) == 1 else 17
        return LoadResults(ms=[1.0] * count, doors=["ask"] * count, began=1.0, ended=1.0 + seconds)

    monkeypatch.setattr(running, "run", run)
    target = LoadTarget("http://server", BuiltInstallation(None, ("",), {}, ()), None)
    for at_least, is_good in ((1.7, True), (1.8, False)):
        found, good = running.scaling(target, PROFILES["search"], 8, 1, 3, at_least)
        assert (found["ratio"], good) == (1.7, is_good)


def loaded(home: Path, folder: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict[str, Any]:
    """What the command prints of a server of one process, and how it ends."""
    questions = folder / "questions.txt"
    questions.write_text("\n".join(QUESTIONS), encoding="utf-8")
    config = write_config(folder, home)
    code = main(
        [
            "--config",
            config,
            "--questions",
            str(questions),
            "--clients",
            "3",
            "--workers",
            "1",
            "--wordings",
            "1",
            *more,
        ]
    )
    return {**json.loads(capsys.readouterr().out), "exit_code": code}


def test_what_the_command_cannot_do_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["--url", "http://127.0.0.1:9", "--profile", "mixed"])
    assert ended.value.code == 2
    assert "needs the tenants of the sample" in capsys.readouterr().err
