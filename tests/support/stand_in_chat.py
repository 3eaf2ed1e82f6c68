"""A stand-in chat server on loopback that speaks Ollama's and OpenAI's documented wire formats, faults included.

Ollama: https://github.com/ollama/ollama/blob/main/docs/api.md (newline-delimited JSON, counts in the last line).
OpenAI: https://platform.openai.com/docs/api-reference/chat-streaming (server-sent events, usage in the last chunk).
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, ClassVar

from support.running import served
from support.stand_in_model import Fault, ModelHandler, StandInModel

__all__ = ["MODEL", "Fault", "Script", "StandInChat", "openai_error", "served"]

MODEL = "llama3.2"
Script = Callable[[list[dict[str, str]]], Iterable[str]]


def openai_error(
    message: str, code: str | None = None, kind: str = "invalid_request_error", param: Any = None
) -> bytes:
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": code}}).encode()


class StandInChat(StandInModel):
    """Answers for the model `llama3.2` what `script` says to the messages."""

    def __init__(self, script: Script = lambda _: ["Hello", " there", "."]) -> None:
        super().__init__(_Handler)
        self.script = script
        self.pause_s = 0.0
        self.refused: dict[str, str] = {}  # parameter -> message
        self.finish = "stop"
        self.chunk_bytes = 0  # 0: one write an event
        self.open_streams = 0
        self.one_choice = False


class _Handler(ModelHandler):
    server: StandInChat
    gets: ClassVar[dict[str, object]] = {
        "/api/tags": {"models": [{"name": f"{MODEL}:latest", "model": f"{MODEL}:latest"}]},
        "/v1/models": {"object": "list", "data": [{"id": MODEL, "object": "model"}]},
    }
    posts: ClassVar[dict[str, str]] = {"/api/chat": "_ollama", "/v1/chat/completions": "_openai"}

    def _ollama(self, body: dict[str, Any]) -> None:
        if body["model"] != MODEL:
            return self.write_json(404, {"error": f'model "{body["model"]}" not found, try pulling it first'})

        def line(text: str, **more: object) -> bytes:
            message = {"role": "assistant", "content": text}
            content = {"model": MODEL, "created_at": "2026-01-01T00:00:00Z", "message": message, "done": False, **more}
            return json.dumps(content).encode() + b"\n"

        def lines() -> Iterator[bytes]:
            count = 0
            for text in self.server.script(body["messages"]):
                count += 1
                yield line(text)
            counts = {"prompt_eval_count": 42, "eval_count": count, "total_duration": 5191566416}
            yield line("", done=True, done_reason=self.server.finish, **counts)

        return self._stream("application/x-ndjson", lines())

    def _openai(self, body: dict[str, Any]) -> None:
        if body["model"] != MODEL:
            message = f"The model `{body['model']}` does not exist or you do not have access to it."
            return self.write(404, openai_error(message, "model_not_found"), {})
        for parameter, message in self.server.refused.items():
            if parameter in body:
                return self.write(400, openai_error(message, "unsupported_parameter", param=parameter), {})
        if not body.get("stream"):
            return self.write_json(200, self._completion(body))

        def event(**more: object) -> bytes:
            content = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **more}
            return f"data: {json.dumps(content, ensure_ascii=False)}\n\n".encode()

        def delta(content: dict[str, str], finish: str | None = None) -> bytes:
            return event(choices=[{"index": 0, "delta": content, "finish_reason": finish}])

        def events() -> Iterator[bytes]:
            count = 0
            yield b": a comment, as keep-alive\n\n" + delta({"role": "assistant", "content": ""})
            for text in self.server.script(body["messages"]):
                count += 1
                yield delta({"content": text})
            yield delta({}, self.server.finish)
            if body.get("stream_options", {}).get("include_usage"):
                yield event(choices=[], usage={"prompt_tokens": 42, "completion_tokens": count, "total_tokens": 42})
            yield b"data: [DONE]\n\n"

        return self._stream("text/event-stream; charset=utf-8", events())

    def _completion(self, body: dict[str, Any]) -> dict[str, Any]:
        """All in one piece, as often as `n` asks for (which Ollama overlooks)."""
        wanted = 1 if self.server.one_choice else body.get("n") or 1
        choices = [
            {
                "index": index,
                "message": {"role": "assistant", "content": "".join(self.server.script(body["messages"]))},
                "finish_reason": self.server.finish,
            }
            for index in range(wanted)
        ]
        usage = {"prompt_tokens": 42, "completion_tokens": 7, "total_tokens": 49}
        head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": MODEL}
        return {**head, "choices": choices, "usage": usage}

    def _stream(self, kind: str, parts: Iterator[bytes]) -> None:
        self.server.open_streams += 1
        try:
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Connection", "close")
            self.end_headers()
            for part in parts:
                size = self.server.chunk_bytes or len(part)
                for start in range(0, len(part), size):
                    self.wfile.write(part[start : start + size])
                    self.wfile.flush()
                if self.server.pause_s:
                    time.sleep(self.server.pause_s)
        except OSError:
            pass  # the client has heard enough
        finally:
            self.close_connection = True
            self.server.open_streams -= 1
