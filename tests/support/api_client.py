"""Clients of the API in this process, and what they send and read."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from rag_serving.api.app import create_app
from support.wiki import configuration

ADDRESS = "http://127.0.0.1:8088"
LOCAL = ("127.0.0.1", 50000)
QUESTION = {"question": "May I restart a broker while partitions are under-replicated?"}
TOKENS = json.dumps(
    {"all": {"tenant": "acme"}, "hr": {"tenant": "acme", "user": "ann", "groups": ["hr"]}, "o": {"tenant": "other"}}
)


def client_of(home: Path, base_url: str = ADDRESS, **more: Any) -> TestClient:
    """Return a client on this machine of an app over this home; `more` is configuration."""
    return TestClient(create_app(configuration(home, **more)), base_url, client=LOCAL, raise_server_exceptions=False)


@contextmanager
def client_with_tokens(home: Path) -> Iterator[TestClient]:
    """A client of an app that knows TOKENS, of the tenants `acme` and `other`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CITELOCK_TOKENS", TOKENS)
        with client_of(home, serving={"auth": "tokens"}, tenants={"acme": {}, "other": {}}) as opened:
            yield opened


def bearer(token: str) -> dict[str, str]:
    """Return the header that authenticates by this token."""
    return {"Authorization": f"Bearer {token}"}


def events_in(text: str) -> list[tuple[str, dict[str, Any]]]:
    """Return the events of a stream as (name, data)."""
    lines = [block.split("\n") for block in text.strip().split("\n\n") if not block.startswith(":")]
    return [(name.removeprefix("event: "), json.loads(data.removeprefix("data: "))) for name, data in lines]


def completion_chunks(text: str) -> list[dict[str, Any]]:
    """Return the chunks of a streamed chat completion, which must be whole."""
    lines = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]
