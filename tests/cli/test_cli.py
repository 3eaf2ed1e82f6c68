from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.command_line import CITELOCK, QUESTION, run, write_config
from support.stand_in_chat import Fault, StandInChat, served
from support.wiki import RESTART, publish
from typer.testing import CliRunner

from rag_serving.answering.selection.signs import VERSION
from rag_serving.artifacts.store import Store
from rag_serving.cli.main import app
from rag_serving.config.models import AnswerGeneration


@pytest.fixture
def config(wiki_home: Path, tmp_path: Path) -> str:
    return write_config(tmp_path, wiki_home)


def test_ask_prints_answer_heading_path_quote_and_link(config: str) -> None:
    code, out, err = run("ask", QUESTION, "--config", config)
    assert (code, err) == (0, "")
    assert out.splitlines()[0] == f"{RESTART} [1]"
    assert "[1] Kafka operations → Restarting a broker  OPS, version 1" in out
    assert "“You must not restart a broker while partitions are under-replicated.”" in out
    assert "https://wiki.example/pages/11#Restarting-a-broker" in out
    assert "\x1b" not in out


def test_ask_prints_json(config: str) -> None:
    code, out, _ = run("ask", QUESTION, "--config", config, "--json", "--explain")
    assert (code, json.loads(out)["status"]) == (0, "answered")
    assert json.loads(out)["passages"]


def test_ask_as_of_a_time_from_which_nothing_is_kept_names_what_is(config: str) -> None:
    code, out, _ = run("ask", QUESTION, "--config", config, "--as-of", "2019-02-09")
    assert (code, out.startswith("No generation of '2019-02-09' is kept. Kept are: ")) == (0, True)


def test_ask_prints_what_comes_closest_below_a_line_of_its_own(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_GATES__MIN_CONFIDENCE", "1")
    code, out, err = run("ask", QUESTION, "--config", config, "--explain")
    lines = out.splitlines()
    assert code == 0
    assert lines[:2] == ["This may answer it:", ""]
    assert "You must not restart a broker" in lines[2]
    assert any(line.startswith("gate confidence: ") for line in lines)
    assert any(line.startswith("confidence 0.") and " of 1.00: " in line for line in lines)
    assert "passages are readable for" in out
    assert err == ""  # the line above the passages says it


def test_an_explained_refusal_prints_the_candidates_that_were_not_chosen(
    config: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    thresholds = tmp_path / "weights.json"
    content = {"version": VERSION, "embedding": "local/all-MiniLM-L6-v2", "gates": {"min_closest": 1}}
    thresholds.write_text(json.dumps(content))
    monkeypatch.setenv("CITELOCK_GATES__MIN_CONFIDENCE", "1")
    monkeypatch.setenv("CITELOCK_GATES__CONFIDENCE_WEIGHTS", str(thresholds))
    question = "How long is a partition leader kept away by the alert of consumer lag?"
    lines = run("ask", question, "--config", config, "--explain")[1].splitlines()
    assert lines[0] == "Not found in docs."
    after = lines[lines.index("not chosen:") + 1]
    assert after.startswith("    passage ")
    assert "(score " in after


def test_ask_knows_who_asks(config: str) -> None:
    question = "What salary bonus does the broker team earn in December?"
    assert "Not found in docs." in run("ask", question, "--config", config)[1]
    assert "4,000 euros" in run("ask", question, "--config", config, "--user", "ann", "--group", "hr")[1]


def test_search_prints_passages_and_json(config: str) -> None:
    code, out, _ = run("search", "consumer lag", "--config", config, "--space", "SRE", "-k", "1")
    assert code == 0
    assert out.startswith("1. Monitoring → Consumer lag  SRE, version 1")
    found = json.loads(run("search", "consumer lag", "--config", config, "--json")[1])
    assert found["results"][0]["page_id"] == "13"
    assert run("search", "zzzz", "--config", config, "--space", "NOWHERE")[1].startswith("Nothing found.\n")


def test_an_answer_is_printed_as_text_markdown_or_json(config: str) -> None:
    text, marked, told = (
        run("ask", QUESTION, "--config", config, "--format", f)[1] for f in ("text", "markdown", "json")
    )
    answer = json.loads(told)
    assert answer["answer"] in text
    assert answer["citations"][0]["url"] in text
    assert marked.startswith(answer["answer"])
    assert "- [1] [" in marked
    assert answer["citations"][0]["fragment_url"] in marked
    assert run("ask", QUESTION, "--config", config, "--format", "html")[0] == 2


def test_a_receipt_is_shown_and_proved(config: str) -> None:
    identifier = json.loads(run("ask", QUESTION, "--config", config, "--json")[1])["receipt_id"]
    code, out, _ = run("receipt", "show", identifier, "--config", config)
    assert (code, json.loads(out)["question"]) == (0, QUESTION)
    code, out, _ = run("receipt", "verify", identifier, "--config", config)
    assert code == 0
    assert out.startswith(f"{identifier} holds")
    code, out, _ = run("receipt", "verify", identifier, "--config", config, "--json")
    proof = json.loads(out)
    assert (proof["receipt_id"], proof["valid"], proof["faults"], proof["changes"]) == (identifier, True, [], [])
    assert all(check["ok"] for check in proof["checks"])
    code, _, err = run("receipt", "verify", "none", "--config", config)
    assert (code, err) == (1, "citelock: tenant 'acme' has no receipt 'none'\n")


def test_what_ask_prints_is_enough_to_prove_and_to_judge_an_answer(config: str) -> None:
    lines = run("ask", QUESTION, "--config", config)[1].splitlines()
    assert lines[-2] == ""
    identifier = lines[-1].removeprefix("receipt ").split()[0]
    code, out, _ = run("receipt", "verify", identifier, "--config", config)
    assert (code, out.startswith(f"{identifier} holds")) == (0, True)
    judged = ("feedback", identifier, "wrong_citation", "--citation", "1", "--config", config)
    assert run(*judged) == (0, "Thank you: kept.\n", "")
    refused = run("ask", "What is the capital of Mongolia?", "--config", config)[1].splitlines()[-1]
    assert run("feedback", refused.split()[1], "missing", "--config", config)[0] == 0


def test_a_search_is_explained_where_that_is_asked_for(config: str) -> None:
    code, out, _ = run("search", "consumer lag space:SRE", "--config", config, "-k", "1", "--explain")
    assert code == 0
    assert "    only pages of the space SRE\n    terms: consum 1, lag 1\n1. Monitoring → Consumer lag" in out
    assert "\n    dense 0." in out
    assert "\nalso found:\n    Consumer settings → Settings: ranked lower (dense 0." in out
    plain = run("search", "consumer lag space:SRE", "--config", config, "-k", "1")[1]
    assert "only pages of the space SRE" in plain
    assert "dense" not in plain
    told = json.loads(run("search", "consumer lag", "--config", config, "-k", "1", "--explain", "--json")[1])
    assert told["query"]["terms"] == {"consum": 1.0, "lag": 1.0}
    assert told["candidates"][0]["chunk_id"] == told["results"][0]["chunk_id"] == "13:1:0"
    assert {"dense", "bm25", "fused"} <= told["candidates"][1]["scores"].keys()
    assert "query" not in json.loads(run("search", "consumer lag", "--config", config, "--json")[1])


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["ask", " "], 2, "citelock: the question is empty\n"),
        (["ask", "x" * 4001], 2, "citelock: the question has 4001 characters, at most 4000 are read\n"),
        (["ask", "x", "--tenant", "y"], 2, "citelock: tenant 'y' is not configured; there are: acme\n"),
        (["search", "x", "-k", "0"], 2, "Invalid value for '--k'"),
        (["nothing"], 2, "No such command 'nothing'"),
        (["serve", "--host", "0.0.0.0"], 2, "citelock: serving.auth 'loopback' asks nobody who they are"),
        (["generations", "show", "none"], 1, "generation"),
    ],
)
def test_an_error_is_one_line_and_an_exit_code(config: str, arguments: list[str], code: int, message: str) -> None:
    result = CliRunner().invoke(app, arguments, prog_name="citelock", env={"CITELOCK_CONFIG": config})
    assert result.exit_code == code
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert not message.startswith("citelock") or result.stderr.count("\n") == 1


def test_a_missing_configuration_is_wrong_usage(tmp_path: Path) -> None:
    code, _, err = run("ask", "x", "--config", str(tmp_path / "none.yaml"))
    assert code == 2
    assert "cannot be read" in err


def test_nothing_published_is_a_failure_that_says_how_to_mend_it(tmp_path: Path) -> None:
    config = write_config(tmp_path, tmp_path / "home")
    message = "citelock: nothing is published for tenant 'acme' yet; run `citelock build`\n"
    assert run("ask", "x", "--config", config) == (1, "", message)
    assert run("search", "x", "--config", config) == (1, "", message)
    code, out, err = run("ask", "x", "--config", config, "--json")
    assert (code, json.loads(out)["status"], err) == (1, "unavailable", message)


def test_doctor_looks_at_everything(config: str, wiki_home: Path) -> None:
    code, out, _ = run("doctor", "--config", config, "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)}
    assert code == 0
    assert findings["configuration"]["detail"] == config
    assert str(Store(wiki_home).current("acme")) in findings["tenant acme"]["detail"]
    assert {"home", "disk", "weights", "embedder", "chroma", "dagster", "serving"} <= findings.keys()
    assert "ok    configuration" in run("doctor", "--config", config)[1]


def test_doctor_fails_on_what_is_broken_and_says_how_to_mend_it(tmp_path: Path) -> None:
    generation = publish(tmp_path)
    (Store(tmp_path).generation("acme", generation) / "vectors.npy").unlink()
    config = write_config(tmp_path, tmp_path, "embedding: {weights_dir: nowhere}\n")
    code, out, _ = run("doctor", "--config", config, "--json")
    findings = {finding["name"]: finding for finding in json.loads(out)}
    assert code == 1
    assert "is missing" in findings["tenant acme"]["detail"]
    assert "generations repair" in findings["tenant acme"]["mend"]
    assert findings["weights"]["state"] == findings["embedder"]["state"] == "fail"


def test_doctor_asks_for_the_generator(tmp_path: Path, wiki_home: Path) -> None:
    with served(StandInChat()) as server:
        more = f"generation: {{provider: ollama, model: llama3.2, base_url: '{server.url}'}}"
        config = write_config(tmp_path, wiki_home, more)
        assert f"ok    generator      ollama/llama3.2 at {server.url}" in run("doctor", "--config", config)[1]
    out = run("doctor", "--config", config)[1]
    assert f"fail  generator      no chat server answers at {server.url}" in out
    assert "extraction answers" in out


def test_ask_says_that_extraction_answered_for_a_model(
    tmp_path: Path, wiki_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AnswerGeneration, "max_retries", 0)
    reply = 'You must not restart a broker while partitions are under-replicated. "must not restart a broker" [1]'
    with served(StandInChat(lambda _: [reply])) as server:
        more = f"generation: {{provider: openai, model: llama3.2, base_url: '{server.url}/v1'}}"
        config = write_config(tmp_path, wiki_home, more)
        made = json.loads(run("ask", QUESTION, "--config", config, "--json")[1])
        assert made["answer"] == "You must not restart a broker while partitions are under-replicated. [1]"
        assert (made["generator"], made["usage"]["completion_tokens"]) == ("openai/llama3.2", 1)
        server.faults.append(Fault(500))
        code, out, err = run("ask", QUESTION, "--config", config)
    assert (code, err) == (
        0,
        "citelock: The language model was not available; sentences of the pages answer instead.\n",
    )
    assert out.startswith(f"{RESTART} [1]")


def test_doctor_without_a_configuration_says_only_that(tmp_path: Path) -> None:
    code, out, _ = run("doctor", "--config", str(tmp_path / "none.yaml"))
    assert code == 1
    assert out.startswith("fail  configuration")


def test_help_lists_every_command_without_loading_any() -> None:
    script = (
        "import sys\nfrom rag_serving.cli.main import main\n"
        "try: main()\nexcept SystemExit: print(sorted({'numpy', 'chromadb', 'dagster', 'fastapi'} & set(sys.modules)))"
    )
    output = subprocess.run(
        [sys.executable, "-c", script, "--help"], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    commands = {word.strip(",") for line in output if line.startswith("  ") for word in line.split()}
    assert {"ask", "search", "serve", "doctor", "receipt", "generations", "bench", "build"} <= commands
    assert output[-1] == "[]"


def test_interrupting_the_server_is_quiet(config: str) -> None:
    process = subprocess.Popen(
        [*CITELOCK, "serve", "--port", "0", "--config", config], stderr=subprocess.PIPE, text=True, env=os.environ
    )
    assert process.stderr is not None
    with process.stderr as stderr:
        assert "no authentication, this machine only" in stderr.readline()
        time.sleep(2)
        process.send_signal(signal.SIGINT)
        rest = stderr.read()
    assert (process.wait(20), rest) == (130, "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_a_full_disk_is_told_in_plain_words(config: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_to_a_full_device(*_: object) -> None:
        with Path("/dev/full").open("wb", buffering=0) as full:
            full.write(b"a generation")

    monkeypatch.setattr(Store, "current", write_to_a_full_device)
    code, out, err = run("generations", "list", "--config", config)
    assert (code, out) == (1, "")
    assert err.startswith("citelock: no space is left on the disk")
    assert err.count("\n") == 1
