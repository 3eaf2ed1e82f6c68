"""A stand-in for a language model: it speaks OpenAI's chat format on this machine, and follows a script.

With tools it searches, reads the first passage and answers with a sentence of it. Asked for JSON it quotes the first
passage that it is given. Nothing in it understands anything: that the answers are sound is the work of the tools.
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REFUSAL = "This information cannot be verified from the pages."


@contextmanager
def scripted_model() -> Iterator[str]:
    """Yield the base URL of a server that answers while the block runs."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/v1"
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        message = next_step(request) if request.get("tools") else quoting(request["messages"])
        reply = {
            "id": "scripted",
            "object": "chat.completion",
            "created": 0,
            "model": request["model"],
            "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": "stop"}],
            "usage": {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0},
        }
        body = json.dumps(reply).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Write nothing."""


def next_step(request: dict[str, Any]) -> dict[str, Any]:
    """Return the next message of an agent: search, then read, then answer."""
    messages = request["messages"]
    question = re.search(r"Question: (.*)", messages[0]["content"])
    results = [json.loads(message["content"]) for message in messages if message["role"] == "tool"]
    asked = question[1] if question else ""
    if not results:
        return _call("search", query=asked)
    if len(results) == 1 and results[0].get("results"):
        return _call("get_passage", passage_id=results[0]["results"][0]["passage_id"])
    if len(results) < 2:
        return {"content": REFUSAL}
    passage = results[1]
    return {"content": f"{sentence_for(asked, passage['text'])} [1]\n\n[1] {passage['title']}: {passage['url']}"}


def quoting(messages: list[dict[str, str]]) -> dict[str, Any]:
    """Return claims as JSON: a sentence of the first passage that was given."""
    asked = re.search(r"Question: (.*)", messages[-1]["content"])
    passage = re.search(r"<passage n=1>\n(.*?)\n</passage>", messages[-1]["content"], re.DOTALL)
    if not passage or not asked:
        return {"content": json.dumps({"claims": []})}
    quote = sentence_for(asked[1], passage[1])
    invented = {"text": "Everybody gets a pony.", "passage": 1, "quote": "a pony for everybody"}
    return {"content": json.dumps({"claims": [{"text": quote, "passage": 1, "quote": quote}, invented]})}


def sentence_for(question: str, text: str) -> str:
    """Return the sentence with the most words of the question."""
    wanted = set(re.findall(r"\w{4,}", question.lower()))
    sentences = re.split(r"(?<=[.!?])\s+|\n+", text)
    return max(sentences, key=lambda one: len(wanted & set(re.findall(r"\w{4,}", one.lower()))))


def _call(name: str, **arguments: str) -> dict[str, Any]:
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"content": None, "tool_calls": [{"id": f"call_{name}", "type": "function", "function": function}]}
