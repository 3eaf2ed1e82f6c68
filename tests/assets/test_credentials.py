"""What signs in somewhere is written nowhere: one installation whose servers all fail, and everything it leaves behind.

Every address has a user, a password and a token in its query; every variable with a secret has a value of its own. The
servers refuse, and repeat in their answers what they were sent.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from fastapi.testclient import TestClient
from support.envelopes import Wiki
from support.running import served
from typer.testing import CliRunner

from rag_serving.api.app import create_app
from rag_serving.cli.main import app
from rag_serving.config.loading import load_config
from rag_serving.config.models import AnswerGeneration, Context, Embedding
from rag_serving.privacy import LineFormatter

MARK = re.compile(rb"mark[a-z]+[0-9]{3}|bWFya\w+", re.IGNORECASE)  # the other one is base64 of it
VARIABLES = {
    "CITELOCK_SECRET": "marksecret000markings",
    "WIKI_USER": "markname001",
    "WIKI_TOKEN": "markwiki002",
    "MCP_TOKEN": "markmcp003",
    "CHAT_KEY": "markchat004",
    "EMBED_KEY": "markembed005",
    "RERANK_TOKEN": "markrerank006",
    "HOOK_URL": "http://markhook007:markhook008@127.0.0.1:1/markhook009?token=markhook010",
    "TOKENS": json.dumps({"marktoken011": {"tenant": "demo", "user": "ann"}}),
}


class Echo(BaseHTTPRequestHandler):
    """Refuses everything, and says what it was asked and with which key, as gateways do."""

    def do_GET(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        url = f"http://{self.headers['Host']}{self.path}"
        said = f"{url} refused the key {(self.headers.get('Authorization') or '').split(' ')[-1]}"
        body = json.dumps({"error": {"message": said}, "message": said}).encode()
        self.send_response(500 if self.path.startswith(("/rerank", "/v1/emb")) else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    do_POST = do_GET

    def log_message(self, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture
def server() -> Iterator[ThreadingHTTPServer]:
    with served(ThreadingHTTPServer(("127.0.0.1", 0), Echo)) as server:
        yield server


@pytest.fixture
def address(server: ThreadingHTTPServer) -> Callable[[str], str]:
    """An address of the server with credentials that are named after what it is for."""

    def marked(what: str, scheme: str = "http", path: str = "") -> str:
        port = server.server_address[1]
        return f"{scheme}://mark{what}100:mark{what}101@127.0.0.1:{port}{path}?access_token=mark{what}102"

    return marked


@pytest.fixture
def marked(wiki: Wiki, monkeypatch: pytest.MonkeyPatch, address: Callable[..., str]) -> Wiki:
    """The wiki, with every server failing that only costs a note; Dagster's storage lies in its folder."""
    for name, value in VARIABLES.items():
        port = address("hook").rpartition(":")[2].partition("?")[0]
        monkeypatch.setenv(name, value.replace("127.0.0.1:1/", f"127.0.0.1:{port}/"))
    dagster_home = wiki.folder / "dagster_home"
    dagster_home.mkdir()
    monkeypatch.setenv("DAGSTER_HOME", str(dagster_home))
    for section in (Embedding, AnswerGeneration, Context):
        monkeypatch.setattr(section, "max_retries", 0)
    model = {"provider": "openai", "model": "m", "api_key_env": "CHAT_KEY"}
    signs_in = {"kind": "basic", "user_env": "WIKI_USER", "token_env": "WIKI_TOKEN"}
    usual = {"tenant": "demo", "space": "ENG", "readers": "everyone"}
    wiki.configure(
        sources={
            "ops": wiki.source("ops"),
            "live": {"kind": "confluence", "base_url": address("live", path="/wiki"), "auth": signs_in, **usual},
            "mcp": {"kind": "confluence_mcp", "url": address("mcp", path="/mcp"), "token_env": "MCP_TOKEN", **usual},
        },
        context={**model, "base_url": address("context", path="/v1")},
        generation={**model, "base_url": address("generation", path="/v1")},
        reranker={"url": address("rerank", path="/rerank"), "token_env": "RERANK_TOKEN"},
        telemetry={"url": "postgresql+psycopg://marktelemetry100:marktelemetry101@127.0.0.1:1/db?password=markpg102"},
        monitoring={"alert_url_env": "HOOK_URL"},
        serving={"auth": "tokens", "tokens_env": "TOKENS"},
    )
    return wiki


def change(wiki: Wiki, **settings: Any) -> None:
    content = yaml.safe_load(wiki.config_path.read_text())
    wiki.config_path.write_text(yaml.safe_dump({**content, **settings}))


def run(wiki: Wiki, *arguments: str) -> str:
    """The command in this process, whatever becomes of it; what it printed."""
    result = CliRunner().invoke(app, [*arguments, "--config", str(wiki.config_path)])
    assert result.exit_code in (0, 1), result.output
    return result.output


def marks(text: bytes) -> set[str]:
    return {found[0].decode() for found in MARK.finditer(text)}


def marks_in_files(folder: Path) -> dict[str, set[str]]:
    """The marks in every file below a folder but the configuration; tables are read, not searched packed."""
    found = {}
    for path in folder.rglob("*"):
        if path.is_file() and path.name != "app.yaml":
            packed = path.suffix == ".parquet"
            content = str(pq.read_table(path).to_pylist()).encode() if packed else path.read_bytes()
            if held := marks(content):
                found[str(path.relative_to(folder))] = held
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_no_credential_is_printed_logged_stored_or_answered(
    marked: Wiki,
    address: Callable[..., str],
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    caplog.handler.setFormatter(LineFormatter("%(message)s"))
    shown = [run(marked, "build", "--json"), run(marked, "doctor"), run(marked, "ask", "Who has the pager?", "--json")]
    with TestClient(create_app(load_config(marked.config_path))) as client:
        headers = {"Authorization": "Bearer marktoken011"}
        for body in ({"question": "Who has the pager?", "explain": True}, {"question": "pager", "stream": True}):
            reply = client.post("/v1/ask", json=body, headers=headers)
            assert reply.status_code == 200, reply.text
            shown.append(reply.text)
        shown += [client.get(path, headers=headers).text for path in ("/metrics", "/readyz", "/healthz")]
    change(marked, telemetry={}, embedding={
        "provider": "openai", "model": "m", "base_url": address("embed", path="/v1"), "api_key_env": "EMBED_KEY",
    })  # fmt: skip
    shown += [run(marked, "build", "--full", "--verbose", "ops"), run(marked, "ask", "Who has the pager?")]
    change(marked, telemetry={}, embedding={}, indexing={"chroma_url": address("chroma")})
    shown += [run(marked, "build", "--full", "ops"), run(marked, "doctor"), run(marked, "ask", "Who has the pager?")]
    printed = capfd.readouterr()
    assert "live" in shown[0]
    assert marks("".join([*shown, printed.out, printed.err]).encode()) == set()
    assert marks(caplog.text.encode()) == set()
    assert marks_in_files(marked.folder) == {}
