"""Chat by Ollama and by OpenAI-compatible servers: the wire, patience with a deadline, limits."""

from __future__ import annotations

import asyncio
import itertools
import json
import time
from collections.abc import AsyncIterator, Iterable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.constants import section_of
from support.stand_in_chat import MODEL, Fault, StandInChat, openai_error, served

from rag_serving.config.models import ChatModel
from rag_serving.models.chat.client import RemoteChat
from rag_serving.models.chat.messages import PromptMessage, loops, open_chat
from rag_serving.models.chat.providers import event_data, says_too_long
from rag_serving.models.protocols import ContextTooLongError, ModelError

ASK = [PromptMessage("system", "Be brief."), PromptMessage("user", "Hello?")]


@pytest.fixture(params=["ollama", "openai"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RemoteChat, "backoff_s", 0.01)


@pytest.fixture
def server() -> Iterator[StandInChat]:
    with served(StandInChat()) as stand_in:
        yield stand_in


def opened(kind: Any, server: StandInChat, **changes: Any) -> RemoteChat:
    url = server.url if kind == "ollama" else f"{server.url}/v1"
    given = {"model": MODEL, "base_url": url, "timeout_s": 5, "first_token_timeout_s": 3} | changes
    return open_chat(kind, section_of(ChatModel, **given), "generation")


def test_a_reply_is_read_from_the_stream_with_its_tokens(kind: str, server: StandInChat) -> None:
    heard: list[int] = []
    reply = opened(kind, server).reply(ASK, heard.append)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens, reply.cut) == ("Hello there.", 42, 3, False)
    assert heard[-1] == 12
    assert sorted(heard) == heard


def test_what_is_sent_is_what_the_documentation_asks_for(server: StandInChat) -> None:
    for kind in ("ollama", "openai"):
        opened(kind, server, context_tokens=4096, max_output_tokens=99).reply(ASK)
    (path, ollama, _), (other_path, openai, _) = server.requests
    assert (path, other_path) == ("/api/chat", "/v1/chat/completions")
    said = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello?"}]
    assert ollama["messages"] == openai["messages"] == said
    assert ollama["options"] == {"num_ctx": 4096, "num_predict": 99, "temperature": 0.0}
    assert (openai["max_tokens"], openai["temperature"], openai["stream"]) == (99, 0.0, True)
    assert openai["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("size", [1, 7, 4096])
def test_events_may_break_anywhere_and_hold_any_character(kind: str, server: StandInChat, size: int) -> None:
    server.chunk_bytes = size
    pieces = ["Größe: ", "5 µm – ", "line\nbreak ", "„Zitat“ ", "日本語 "]
    server.script = lambda _: pieces
    assert opened(kind, server).reply(ASK).text == "".join(pieces)


def test_a_separator_that_only_python_takes_for_a_line_end_breaks_no_event(server: StandInChat) -> None:
    server.script = lambda _: ["one\u2028two\u0085three"]
    assert opened("openai", server).reply(ASK).text == "one\u2028two\u0085three"


@given(
    data=st.lists(st.text(st.characters(exclude_characters="\r\n"), min_size=1), min_size=1, max_size=4),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    size=st.integers(1, 9),
)
def test_events_are_the_same_however_they_are_cut(data: list[str], end: str, size: int) -> None:
    wire = "".join(f": note{end}event: x{end}data: {text}{end}{end}" for text in data).encode("utf-8", "surrogatepass")
    text_back = [text.encode("utf-8", "surrogatepass").decode(errors="replace") for text in data]

    async def chunks() -> AsyncIterator[bytes]:
        for start in range(0, len(wire), size):
            yield wire[start : start + size]

    async def read() -> list[str]:
        return [event async for event in event_data(chunks())]

    assert asyncio.run(read()) == text_back


def test_a_server_that_does_not_stream_is_understood(server: StandInChat) -> None:
    whole = {
        "choices": [{"message": {"role": "assistant", "content": "All at once."}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 5, "completion_tokens": 4},
    }
    server.faults.append(Fault(200, json.dumps(whole).encode()))
    reply = opened("openai", server).reply(ASK)
    assert (reply.text, reply.prompt_tokens, reply.completion_tokens) == ("All at once.", 5, 4)


def test_tokens_that_nobody_counted_are_estimated(server: StandInChat) -> None:
    server.refused["stream_options"] = "Unrecognized request argument supplied: stream_options"
    reply = opened("openai", server).reply(ASK)
    assert (reply.prompt_tokens, reply.completion_tokens) == (3, 3)


def test_a_parameter_that_a_model_refuses_is_called_by_its_other_name_from_then_on(server: StandInChat) -> None:
    server.refused["max_tokens"] = (
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
    )
    server.refused["temperature"] = "Unsupported value: 'temperature' does not support 0 with this model."
    model = opened("openai", server)
    assert model.reply(ASK).text == "Hello there."
    assert len(server.requests) == 3
    model.reply(ASK)
    assert len(server.requests) == 4
    assert server.bodies[-1]["max_completion_tokens"] == 600
    assert {"max_tokens", "temperature"}.isdisjoint(server.bodies[-1])


def test_an_answer_that_is_cut_at_its_limit_says_so(kind: str, server: StandInChat) -> None:
    server.finish = "length"
    assert opened(kind, server).reply(ASK).cut


# Failures


def test_a_busy_server_is_asked_again(kind: str, server: StandInChat) -> None:
    server.faults.extend([Fault(429, openai_error("Rate limit reached", "rate_limit_exceeded")), Fault(500, b"boom")])
    assert opened(kind, server).reply(ASK).text == "Hello there."
    assert len(server.requests) == 3


def test_retry_after_is_obeyed(kind: str, server: StandInChat) -> None:
    server.faults.append(Fault(503, b"", {"Retry-After": "1"}))
    opened(kind, server).reply(ASK)
    assert server.times[1] - server.times[0] >= 1.0


def test_a_server_that_asks_for_more_patience_than_there_is_is_given_up_at_once(kind: str, server: StandInChat) -> None:
    server.faults.append(Fault(429, b"quota", {"Retry-After": "3600"}))
    began = time.monotonic()
    with pytest.raises(ModelError, match="failed: HTTP 429: quota"):
        opened(kind, server).reply(ASK)
    assert time.monotonic() - began < 20


def test_a_server_that_keeps_failing_is_named_with_what_it_said(kind: str, server: StandInChat) -> None:
    server.faults.extend([Fault(500, b"CUDA out\nof memory")] * 9)
    with pytest.raises(ModelError, match=rf"{server.url}.* failed: HTTP 500: CUDA out of memory") as caught:
        opened(kind, server, max_retries=1).reply(ASK)
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 2


def test_a_model_that_is_not_there_is_not_asked_for_twice(kind: str, server: StandInChat) -> None:
    mend = {"ollama": "run `ollama pull qwen`", "openai": "load the model there"}[kind]
    with pytest.raises(ModelError, match=mend):
        opened(kind, server, model="qwen").reply(ASK)
    assert len(server.requests) == 1


def test_a_refused_key_names_the_setting(kind: str, server: StandInChat) -> None:
    server.faults.append(Fault(401, openai_error("Incorrect API key provided", "invalid_api_key")))
    with pytest.raises(ModelError, match=r"refuses the API key .* set generation\.api_key_env"):
        opened(kind, server).reply(ASK)


def test_the_key_of_the_environment_is_sent(kind: str, server: StandInChat, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CHAT_KEY", "secret")
    opened(kind, server, api_key_env="CHAT_KEY").reply(ASK)
    headers = {name.lower(): value for name, value in server.requests[0][2].items()}
    assert headers["authorization"] == "Bearer secret"
    monkeypatch.delenv("CHAT_KEY")
    with pytest.raises(ModelError, match=r"CHAT_KEY \(generation.api_key_env\) is not set"):
        opened(kind, server, api_key_env="CHAT_KEY")


@pytest.mark.parametrize(
    "body",
    [
        openai_error(
            "This model's maximum context length is 8192 tokens. However, your messages resulted in 9000 tokens.",
            "context_length_exceeded",
        ),
        b'{"object":"error","message":"This model\'s maximum context length is 4096 tokens. However, you requested '
        b'4127 tokens (3527 in the messages, 600 in the completion).","type":"BadRequestError","code":400}',
        b'{"error":{"code":400,"message":"the request exceeds the available context size, try increasing it",'
        b'"type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":4096}}',
        b'{"error":"Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with '
        b'context length of only 4096 tokens, which is not enough."}',
        b'{"error":"the input length exceeds the context length"}',
        openai_error("'max_tokens' is too large: 600. This model's maximum context length is 4096 tokens."),
    ],
)
def test_a_prompt_that_is_too_long_is_recognized_whoever_says_so(kind: str, server: StandInChat, body: bytes) -> None:
    server.faults.append(Fault(400, body))
    with pytest.raises(ContextTooLongError, match=r"too long.*lower generation\.context_tokens"):
        opened(kind, server).reply(ASK)
    assert len(server.requests) == 1


def test_an_overflow_with_status_200_is_recognized_too(server: StandInChat) -> None:
    server.faults.append(Fault(200, b'{"error": {"message": "Context size has been exceeded."}}'))
    with pytest.raises(ContextTooLongError):
        opened("openai", server).reply(ASK)
    assert not says_too_long("model not found")


@pytest.mark.parametrize(
    ("kind", "body", "headers"),
    [
        ("openai", b"data: {not json\n\n", {"Content-Type": "text/event-stream"}),
        ("openai", b"data: [1, 2]\n\ndata: [DONE]\n\n", {"Content-Type": "text/event-stream"}),
        ("openai", b'data: {"error": {"message": "upstream went away"}}\n\n', {"Content-Type": "text/event-stream"}),
        ("openai", b"data: [DONE]\n\n", {"Content-Type": "text/event-stream"}),
        ("openai", b"<html>proxy</html>", {"Content-Type": "text/html"}),
        ("openai", b'{"choices": "none"}', {}),
        ("openai", b'{"choices": [{"message": {"content": "x', {"Content-Length": "900", "Connection": "close"}),
        ("ollama", b"not json\n", {}),
        ("ollama", b"[]\n", {}),
        ("ollama", b'{"message": 3}\n', {}),
        ("ollama", b'{"error": "an error was encountered while running the model"}\n', {}),
        ("ollama", b"", {}),
    ],
)
def test_an_unreadable_answer_is_tried_again_and_then_told(
    kind: str, server: StandInChat, body: bytes, headers: dict[str, str]
) -> None:
    server.faults.append(Fault(200, body, headers))
    assert opened(kind, server, first_token_timeout_s=2).reply(ASK).text == "Hello there."
    server.faults.extend([Fault(200, body, headers)] * 3)
    with pytest.raises(ModelError, match=r"failed|did not answer"):
        opened(kind, server, first_token_timeout_s=0.5, timeout_s=4).reply(ASK)


def test_a_server_that_is_down_is_named_with_its_mend(kind: str, server: StandInChat) -> None:
    model = opened(kind, server, max_retries=1)
    server.shutdown()
    server.server_close()
    with pytest.raises(ModelError, match=r"no chat server answers at .*set generation\.base_url"):
        model.reply(ASK)
    with pytest.raises(ModelError, match="no chat server answers"):
        model.check()


# Patience


def slowly(texts: Iterable[str], pause_s: float) -> Iterator[str]:
    for text in texts:
        time.sleep(pause_s)
        yield text


def test_a_server_that_says_nothing_is_left_when_the_first_token_is_late(kind: str, server: StandInChat) -> None:
    server.faults.extend([Fault(hang_s=30)] * 3)
    began = time.monotonic()
    with pytest.raises(ModelError, match=r"did not answer in time; raise generation\.timeout_s"):
        opened(kind, server, first_token_timeout_s=0.3).reply(ASK)
    assert time.monotonic() - began < 15


def test_a_model_that_falls_silent_is_heard_as_far_as_it_came(kind: str, server: StandInChat) -> None:
    server.script = lambda _: itertools.chain(["A whole sentence. ", "And ha"], slowly(["lf"], 30))
    reply = opened(kind, server, first_token_timeout_s=1.5).reply(ASK)
    assert (reply.text, reply.cut) == ("A whole sentence. And ha", True)


def test_a_stream_without_end_is_left_at_the_deadline(kind: str, server: StandInChat) -> None:
    server.script = lambda _: slowly((f"word{n} " for n in itertools.count()), 0.01)
    began = time.monotonic()
    assert opened(kind, server, timeout_s=0.6).reply(ASK).cut
    assert time.monotonic() - began < 20


def test_headers_that_come_a_byte_at_a_time_do_not_outlast_the_deadline(kind: str) -> None:
    import socket
    import threading

    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        connection, _ = listener.accept()
        with connection:
            try:
                connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
                for _ in range(2000):
                    connection.sendall(b"x")
                    time.sleep(0.02)
            except OSError:
                pass

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}" + ("" if kind == "ollama" else "/v1")
    model = open_chat(kind, ChatModel(model=MODEL, base_url=url, timeout_s=0.5), "generation")  # type: ignore[arg-type]
    began = time.monotonic()
    with pytest.raises(ModelError, match="did not answer in time"):
        model.reply(ASK)
    assert time.monotonic() - began < 20
    thread.join()
    listener.close()


def test_a_flood_is_cut_at_the_limit(kind: str, server: StandInChat) -> None:
    server.script = lambda _: (f"sentence number {n}, all different. " * 20 for n in itertools.count())
    reply = opened(kind, server, max_output_tokens=100).reply(ASK)
    assert (len(reply.text), reply.cut) == (600, True)


def test_an_event_without_end_does_not_fill_the_memory(kind: str, server: StandInChat) -> None:
    server.faults.extend([Fault(200, b"data: " + b"x" * 3_000_000, {"Content-Type": "text/event-stream"})] * 3)
    with pytest.raises(ModelError, match="its answer does not end"):
        opened(kind, server, max_output_tokens=100).reply(ASK)


def test_a_loop_is_cut_long_before_the_limit(kind: str, server: StandInChat) -> None:
    server.script = lambda _: itertools.repeat("The broker keeps logs for 168 hours [1]. ")
    reply = opened(kind, server, max_output_tokens=4000).reply(ASK)
    assert reply.cut
    assert len(reply.text) < 1000
    assert not loops("The broker keeps logs. " * 3)


def test_the_connection_is_closed_when_enough_was_heard(kind: str, server: StandInChat) -> None:
    server.script = lambda _: itertools.repeat("again and again the very same sentence comes, ")
    server.pause_s = 0.002
    opened(kind, server).reply(ASK)
    for _ in range(100):
        if not server.open_streams:
            return
        time.sleep(0.02)
    pytest.fail("the stream is still open")


def test_a_model_can_be_asked_where_an_event_loop_runs(kind: str, server: StandInChat) -> None:
    async def asked() -> tuple[str, str]:
        model = opened(kind, server)
        return model.reply(ASK).text, (await model.reply_async(ASK)).text

    assert asyncio.run(asked()) == ("Hello there.", "Hello there.")


# Check


def test_a_check_names_model_and_server(kind: str, server: StandInChat) -> None:
    assert opened(kind, server).check().startswith(f"{kind}/{MODEL} at {server.url}")
    with pytest.raises(ModelError, match="qwen"):
        opened(kind, server, model="qwen").check()
    assert server.requests == []


def test_a_model_must_be_named(server: StandInChat) -> None:
    with pytest.raises(ModelError, match=r"set generation\.model"):
        opened("ollama", server, model=None)
