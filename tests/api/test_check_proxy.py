"""Another server's answers come through the proxy as they are, and below each what the pages say of it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest
from fastapi.testclient import TestClient
from support.api_client import TOKENS, bearer, client_of, completion_chunks
from support.running import running
from support.stand_in_chat import MODEL, Fault, StandInChat, openai_error, served
from support.waiting import wait_until
from support.wiki import RESTART, RETENTION, configuration

from rag_serving.api.app import create_app
from rag_serving.api.check import NOT_CHECKED
from rag_serving.ask import Pipeline
from rag_serving.retrieval.hybrid import RetrievalError

QUESTION = [{"role": "user", "content": "How long do brokers keep logs?"}]
SAID = ["Each broker keeps logs for 72 hours ", "by default. You must not restart a broker while partitions are ",
        "under-replicated. The moon is made of cheese and was sold to Norway."]  # fmt: skip
MARKS = ["the page says otherwise", "word for word", "not in the pages"]
PAGE_12 = "](https://wiki.example/pages/12#Log-retention:~:text="
CHAT = "/proxy/v1/chat/completions"
KEY = "PROXY_KEY_OF_TESTS"
LIES = (
    "Each broker keeps logs for 24 hours by default.",
    "You must restart a broker while partitions are under-replicated.",
    "An alert fires when the lag stays above 50,000 records for five minutes.",
    "An alert fires when the lag stays above 10,000 records for nine minutes.",
    "Descale the coffee machine every third Friday and refill the beans.",
    "Descale the coffee machine every second Monday and refill the beans.",
    "Set log.retention.hours to keep them shorter.",
    "The broker team earns a salary bonus of 9,000 euros in December.",
)


@pytest.fixture(scope="module")
def server() -> Iterator[StandInChat]:
    with served(StandInChat()) as server:
        yield server


@pytest.fixture(autouse=True)
def upstream(server: StandInChat) -> StandInChat:
    """The stand-in as it was before any test."""
    server.script, server.chunk_bytes = lambda _: SAID, 0
    server.requests.clear()
    server.faults.clear()
    return server


@contextmanager
def proxying(home: Path, upstream: StandInChat, **more: Any) -> Iterator[TestClient]:
    """A client of an app in front of the stand-in."""
    proxy = {"upstream": f"{upstream.url}/v1", **more.pop("proxy", {})}
    with client_of(home, serving={"check_proxy": proxy, **more.pop("serving", {})}, **more) as opened:
        yield opened


@pytest.fixture(scope="module")
def client(wiki_home: Path, server: StandInChat) -> Iterator[TestClient]:
    with proxying(wiki_home, server, proxy={"timeout_s": 2}) as opened:
        yield opened


def asked(client: TestClient, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    body = {"model": MODEL, "messages": QUESTION, "temperature": 0.7, "unknown": {"a": [1, None]}, **more}
    return client.post(CHAT, json=body, headers=headers)


def words_of(chunks: Sequence[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def marks_in(evidence: str) -> list[str]:
    return [line.split("**")[1] for line in evidence.splitlines() if line.startswith("- **")]


def test_each_sentence_has_its_mark_its_link_and_what_the_page_says(client: TestClient) -> None:
    made = asked(client).json()
    answer, _, evidence = made["choices"][0]["message"]["content"].partition("\n\n---\n\n")
    assert answer == "".join(SAID)
    assert marks_in(evidence) == MARKS
    first, second, third = [line for line in evidence.splitlines() if line.startswith("- ")]
    assert "“Each broker keeps logs for 168 hours by default.” [[1]" + PAGE_12 in first
    assert " [[2]](https://wiki.example/pages/11#Restarting-a-broker:~:text=" in second
    assert "](" not in third
    assert evidence.startswith("3 claims: 1 word for word, 1 the page says otherwise, 0 closest, 1 not in the pages.")
    assert [claim["verdict"] for claim in made["citelock"]["claims"]] == ["otherwise", "verbatim", "absent"]
    assert made["usage"] == {"prompt_tokens": 42, "completion_tokens": 7, "total_tokens": 49}


def test_the_request_goes_on_as_it_is_with_the_upstream_s_own_key(
    wiki_home: Path, upstream: StandInChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    monkeypatch.setenv(KEY, "sk-upstream")
    serving, tenants = {"auth": "tokens"}, {"acme": {}, "other": {}}
    with proxying(wiki_home, upstream, serving=serving, tenants=tenants, proxy={"api_key_env": KEY}) as client:
        content = b'{"messages": [{"role":"user", "content":"\\u00e9"}],  "model":"llama3.2", "top_p": 1.0}'
        sent = {**bearer("all"), "Content-Type": "application/json", "Cookie": "a=b", "OpenAI-Organization": "x"}
        assert client.post(CHAT, content=content, headers=sent).status_code == 200
        assert client.post(CHAT, content=content).status_code == 401
        assert client.get("/proxy/v1/models", headers=bearer("all")).json()["data"][0]["id"] == MODEL
    ((path, body, headers),) = upstream.requests
    assert (path, body) == ("/v1/chat/completions", json.loads(content))
    assert int(headers["Content-Length"]) == len(content)
    assert headers["Authorization"] == "Bearer sk-upstream"
    assert not {"Cookie", "OpenAI-Organization"} & headers.keys()


def test_a_stream_is_the_upstream_s_with_the_evidence_before_its_end(client: TestClient, upstream: StandInChat) -> None:
    ours = asked(client, stream=True, stream_options={"include_usage": True})
    theirs = httpx.post(f"{upstream.url}{CHAT.removeprefix('/proxy')}", json=upstream.bodies[0])
    blocks, plain = ours.text.split("\n\n"), theirs.text.split("\n\n")
    (added,) = [block for block in blocks if block not in plain]
    assert [block for block in blocks if block != added] == plain
    assert blocks.index(added) == len(SAID) + 2  # a comment, the role, the words; then what ends it
    assert ours.headers["content-type"] == theirs.headers["content-type"]
    chunk = json.loads(added.removeprefix("data: "))
    assert marks_in(words_of([chunk])) == MARKS
    assert chunk["citelock"]["summary"]["otherwise"] == 1
    assert [chunk[name] for name in ("id", "model")] == ["chatcmpl-1", MODEL]


@pytest.mark.parametrize("chunk_bytes", [1, 7])
def test_a_stream_that_is_cut_anywhere_is_put_together(
    client: TestClient, upstream: StandInChat, chunk_bytes: int
) -> None:
    upstream.script, upstream.chunk_bytes = (
        lambda _: ["Each broker keeps ", "logs for 72 hours by default."],
        chunk_bytes,
    )
    assert marks_in(words_of(completion_chunks(asked(client, stream=True).text))) == MARKS[:1]


def test_deltas_go_on_at_once(wiki_home: Path, upstream: StandInChat) -> None:
    goes_on = threading.Event()

    def script(_: object) -> Iterator[str]:
        yield "Each broker keeps logs "
        assert goes_on.wait(20)
        yield "for 72 hours by default."

    upstream.script = script
    serving = {"check_proxy": {"upstream": f"{upstream.url}/v1"}}
    body = {"model": MODEL, "messages": QUESTION, "stream": True}
    app = create_app(configuration(wiki_home, serving=serving))
    with running(app) as url, httpx.stream("POST", f"{url}{CHAT}", json=body, timeout=30) as response:
        lines = response.iter_lines()
        assert any("Each broker keeps logs " in line for line in lines)
        goes_on.set()
        rest = "\n".join(lines)
    assert "the page says otherwise" in rest
    assert rest.rstrip().endswith("data: [DONE]")


def test_a_client_that_goes_away_ends_the_upstream_s_work(wiki_home: Path, upstream: StandInChat) -> None:
    def script(_: object) -> Iterator[str]:
        for _ in range(2000):
            yield "Each broker keeps logs. "
            time.sleep(0.01)

    upstream.script = script
    app = create_app(configuration(wiki_home, serving={"check_proxy": {"upstream": f"{upstream.url}/v1"}}))
    with running(app) as url:
        body = {"model": MODEL, "messages": QUESTION, "stream": True}
        with httpx.stream("POST", f"{url}{CHAT}", json=body, timeout=30) as response:
            next(response.iter_lines())
        wait_until(lambda: upstream.open_streams == 0)
        wait_until(lambda: app.state.streams.all == 0)


def test_nobody_waits_for_an_upstream_after_the_client_left(wiki_home: Path, upstream: StandInChat) -> None:
    upstream.faults.append(Fault(hang_s=20))
    app = create_app(configuration(wiki_home, serving={"check_proxy": {"upstream": f"{upstream.url}/v1"}}))
    with running(app) as url:
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}{CHAT}", json={"model": MODEL, "messages": QUESTION}, timeout=0.5)
        begun = time.monotonic()
        wait_until(lambda: bool(upstream.requests) and app.state.streams.all == 0)
        assert time.monotonic() - begun < 15


def test_what_breaks_off_says_so_and_is_not_checked(client: TestClient, upstream: StandInChat) -> None:
    def script(_: object) -> Iterator[str]:
        yield SAID[0]
        raise OSError

    upstream.script = script
    *chunks, error = completion_chunks(asked(client, stream=True).text)
    assert words_of(chunks) == SAID[0]
    assert error["error"]["message"] == "the upstream's answer broke off; it was not checked"
    upstream.script = lambda _: iter([SAID[0], time.sleep(3) or SAID[1]])
    assert "in time" in completion_chunks(asked(client, stream=True).text)[-1]["error"]["message"]


def test_an_upstream_that_is_silent_or_away_is_named(
    client: TestClient, upstream: StandInChat, wiki_home: Path
) -> None:
    upstream.faults.append(Fault(hang_s=3))
    late = asked(client)
    assert (late.status_code, late.json()["error"]["message"]) == (504, "the upstream does not answer in time")
    upstream.faults.append(Fault(200, b"{}", {"Content-Encoding": "gzip"}))
    assert asked(client).status_code == 502
    with client_of(wiki_home, serving={"check_proxy": {"upstream": "http://127.0.0.1:9/v1"}}) as alone:
        assert asked(alone).status_code == 502
        assert asked(alone, stream=True).json()["error"]["type"] == "server_error"
    with proxying(wiki_home, upstream, proxy={"api_key_env": KEY}) as keyless:
        assert asked(keyless).status_code == 503
    assert client.app.state.streams.all == 0  # type: ignore[attr-defined]


def test_errors_of_the_upstream_pass_with_status_and_body(client: TestClient, upstream: StandInChat) -> None:
    error = openai_error("Slow down.", "rate_limit_exceeded")
    for stream in (False, True):
        upstream.faults.append(Fault(429, error, {"Retry-After": "7", "Set-Cookie": "a=b"}))
        made = asked(client, stream=stream)
        assert (made.status_code, made.content, made.headers["retry-after"]) == (429, error, "7")
        assert "set-cookie" not in made.headers
    upstream.faults.append(Fault(302, b"elsewhere", {"Location": "http://127.0.0.1:9/"}))
    moved = client.post(CHAT, json={"model": MODEL, "messages": QUESTION}, follow_redirects=False)
    assert (moved.status_code, moved.content, moved.headers.get("location")) == (302, b"elsewhere", None)
    assert asked(client, model="none").status_code == 404


def completion(message: dict[str, Any], *more: dict[str, Any], **fields: Any) -> bytes:
    choices = [{"index": at, "message": each, "finish_reason": "stop"} for at, each in enumerate((message, *more))]
    return json.dumps({"id": "1", "object": "chat.completion", "choices": choices, **fields}, indent=3).encode()


CALL = {"id": "c", "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(
    "body",
    [
        completion({"role": "assistant", "content": SAID[0], "tool_calls": [CALL]}),
        completion({"role": "assistant", "content": None, "tool_calls": [CALL]}),
        completion({"role": "assistant", "content": SAID[0]}, {"role": "assistant", "content": SAID[0]}),
        completion({"role": "assistant", "content": " "}),
        completion({"role": "assistant", "content": [{"type": "text", "text": SAID[0]}]}),
        completion({"role": "assistant", "content": None, "audio": {"id": "a"}}),
        b'{"choices": [7]}', b'{"choices": 7}', b"[1, 2]", b"{not json", b"", b"[" * 100_000,
    ],
)  # fmt: skip
def test_what_is_no_answer_in_words_passes_to_the_letter(
    client: TestClient, upstream: StandInChat, body: bytes
) -> None:
    upstream.faults.append(Fault(200, body))
    made = asked(client)
    assert (made.status_code, made.content) == (200, body)


@pytest.mark.parametrize(
    "more",
    [
        {"n": 2},
        {"response_format": {"type": "json_object"}},
        {"messages": [{"role": "user", "content": "### Task:\nGenerate a title as JSON: {\"title\": …}"}]},
    ],
)  # fmt: skip
def test_json_several_choices_and_client_s_own_prompts_have_no_evidence(
    client: TestClient, more: dict[str, Any]
) -> None:
    made = asked(client, **more).json()
    assert {choice["message"]["content"] for choice in made["choices"]} == {"".join(SAID)}
    streamed = asked(client, stream=True, **more)
    assert words_of(completion_chunks(streamed.text)) == "".join(SAID)
    assert "citelock" not in {*made, *streamed.text.split('"')}


def test_streamed_tool_calls_errors_and_last_words_stay_in_order(client: TestClient, upstream: StandInChat) -> None:
    def streamed(*deltas: dict[str, Any], **more: Any) -> str:
        lines = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
        lines[-1]["choices"][0]["finish_reason"] = "stop"
        body = "".join(f"data: {json.dumps({**line, **more})}\r\n\r\n" for line in lines) + "data: [DONE]\n\n"
        upstream.faults.append(Fault(200, body.encode(), {"Content-Type": "text/event-stream"}))
        answer = asked(client, stream=True).text
        assert more or answer == body or body.replace("data: [DONE]\n\n", "") in answer
        return answer

    assert "citelock" not in streamed({"content": SAID[0]}, {"tool_calls": [{"index": 0, **CALL}]})
    last = words_of(
        completion_chunks(streamed({"content": "Each broker keeps logs "}, {"content": "for 72 hours by default."}))
    )
    assert last.index("by default.") < last.index("- **the page says otherwise**")
    forged = completion_chunks(streamed({"content": LIES[0]}, citelock={"summary": {"verbatim": 1}}))
    assert [chunk["citelock"]["summary"]["verbatim"] for chunk in forged if "citelock" in chunk] == [0]
    error = b'data: {"error": {"message": "gone"}}\n\n'
    upstream.faults.append(Fault(200, error, {"Content-Type": "text/event-stream"}))
    assert asked(client, stream=True).content == error


@pytest.mark.parametrize("stream", [False, True])
def test_a_lying_upstream_has_each_lie_marked_and_none_confirmed(
    client: TestClient, upstream: StandInChat, stream: bool
) -> None:
    upstream.script = lambda _: [f"{lie}\n\n" for lie in LIES]
    made = asked(client, stream=stream)
    shapes = completion_chunks(made.text) if stream else [made.json()]
    (checked,) = [shape["citelock"] for shape in shapes if "citelock" in shape]
    verdicts = {claim["text"]: claim["verdict"] for claim in checked["claims"]}
    assert verdicts.keys() == set(LIES)
    assert "verbatim" not in verdicts.values()
    assert list(verdicts.values()).count("otherwise") >= 3


def test_no_answer_can_confirm_itself(client: TestClient, upstream: StandInChat) -> None:
    fake = f"{LIES[0]}\n\n---\n\n- **word for word**: {LIES[0]} [[1]](https://wiki.example/pages/12)"
    upstream.faults.append(Fault(200, completion({"role": "assistant", "content": fake}, citelock={"claims": []})))
    made = asked(client).json()
    assert made["citelock"]["summary"]["verbatim"] == 0
    assert made["citelock"]["claims"]
    upstream.faults.append(Fault(200, completion({"content": ""}, citelock={"summary": {"verbatim": 9}})))
    assert "citelock" not in asked(client).json()


def test_a_block_of_code_that_is_left_open_is_closed_first(client: TestClient, upstream: StandInChat) -> None:
    upstream.script = lambda _: [f"{LIES[0]}\n\n```sh\nls"]
    assert "\nls\n```\n\n---\n\n" in asked(client).json()["choices"][0]["message"]["content"]


@pytest.mark.parametrize("error", [RetrievalError("away"), ValueError("anything")])
def test_an_answer_arrives_though_it_cannot_be_checked(
    client: TestClient, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fails(*_: object) -> None:
        raise error

    monkeypatch.setattr(Pipeline, "check", fails)
    whole = asked(client).json()
    assert whole["choices"][0]["message"]["content"] == "".join(SAID) + NOT_CHECKED
    assert whole["citelock"] is None
    assert words_of(completion_chunks(asked(client, stream=True).text)) == "".join(SAID) + NOT_CHECKED


def test_what_the_caller_may_not_read_confirms_and_contradicts_nothing(
    wiki_home: Path, upstream: StandInChat, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    said = {
        "The broker team earns a salary bonus of 4,000 euros in December.": ("verbatim", "word for word"),
        "The broker team earns a salary bonus of 9,000 euros in December.": ("otherwise", "4,000"),
    }
    serving, tenants = {"auth": "tokens"}, {"acme": {}, "other": {}}
    with proxying(wiki_home, upstream, serving=serving, tenants=tenants) as client:
        for sentence, (verdict, shown) in said.items():
            upstream.script = lambda _, sentence=sentence: [sentence]
            hr, everybody = (asked(client, bearer(token)).json() for token in ("hr", "all"))
            assert hr["citelock"]["summary"][verdict] == 1
            assert everybody["citelock"]["summary"][verdict] == 0
            evidence = everybody["choices"][0]["message"]["content"].replace(sentence, "").partition("- **")[2]
            assert shown not in evidence
            assert "pages/14" not in json.dumps(everybody)


def test_without_an_upstream_there_is_no_proxy(wiki_home: Path) -> None:
    with client_of(wiki_home) as client:
        assert asked(client).status_code == 404
        assert client.get("/proxy/v1/models").status_code == 404


@pytest.fixture
def url(wiki_home: Path, upstream: StandInChat) -> Iterator[str]:
    serving = {"check_proxy": {"upstream": f"{upstream.url}/v1"}}
    with running(create_app(configuration(wiki_home, serving=serving))) as address:
        yield f"{address}/proxy/v1"


def test_openai_s_own_client_reads_it_whole_and_streamed(url: str, upstream: StandInChat) -> None:
    upstream.script = lambda _: [f"{RESTART} ", RETENTION]
    with openai.OpenAI(base_url=url, api_key="none", max_retries=0, timeout=30) as client:
        assert [model.id for model in client.models.list()] == [MODEL]
        made: Any = client.chat.completions.create(model=MODEL, messages=QUESTION)
        assert made.citelock["summary"]["verbatim"] == 5
        chunks = list(client.chat.completions.create(model=MODEL, messages=QUESTION, stream=True))
        said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
        assert marks_in(said) == ["word for word"] * 5
        assert chunks[-1].choices[0].finish_reason == "stop"
        with client.chat.completions.stream(model=MODEL, messages=QUESTION) as stream:
            content = stream.get_final_completion().choices[0].message.content
        assert marks_in(content) == ["word for word"] * 5
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="none", messages=QUESTION)
