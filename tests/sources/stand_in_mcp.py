"""A Confluence MCP server made with the package `mcp`: it serves the envelopes of a folder, or fails as it is told.

`python stand_in_mcp.py FOLDER [STYLE] [--without TOOL…]` speaks over standard input and output. STYLE is how it
answers: `atlassian` as sooperset/mcp-atlassian does, `envelopes` as REST does, `markdown` in plain text. It filters by
no space: pages of another one come with the rest, as from a server whose filter is bypassed.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import uvicorn
from mcp.server import MCPServer

SITE = "https://wiki.example"


class Wiki:
    """The pages of a folder, read anew for each question."""

    def __init__(self, folder: Path, style: str) -> None:
        self.folder = folder
        self.style = style

    def pages(self) -> dict[str, dict[str, Any]]:
        found = [json.loads(file.read_text(encoding="utf-8")) for file in sorted(self.folder.glob("*.json"))]
        return {str(one["id"]): one for one in found}

    def simplified(self, one: dict[str, Any], body_format: str | None = None) -> dict[str, Any]:
        """A page as sooperset/mcp-atlassian tells of it."""
        told = {
            "id": one["id"],
            "title": one["title"],
            "type": one["type"],
            "created": "",
            "updated": "2026-03-01 10:00:00 UTC",
            "url": f"{SITE}/pages/viewpage.action?pageId={one['id']}",
            "space": one["space"],
            "version": one["version"]["number"],
            "version_date": one["version"]["when"],
            "attachments": [],
        }
        body = one["body"]["storage"]["value"]
        return {**told, "content": {"value": body, "format": body_format}} if body_format and body else told


def make_server(folder: Path, style: str = "atlassian", without: tuple[str, ...] = ()) -> MCPServer[Any]:
    """A server with the tools that a Confluence server has, but for some."""
    wiki, server = Wiki(folder, style), MCPServer("Confluence")

    def confluence_search(query: str, limit: int = 10) -> str:
        """Search by CQL."""
        excluded = re.search(r"id not in \(([^)]*)\)", query)
        seen = set(excluded[1].split(",")) if excluded else set()
        found = [wiki.simplified(one) for key, one in wiki.pages().items() if key not in seen]
        return json.dumps(found[: min(limit, 3)])

    def confluence_get_space_page_tree(space_key: str, limit: int = 100) -> str:
        """List a space."""
        if space_key != "ENG":
            raise ValueError(f"no space {space_key}")
        found = list(wiki.pages().values())
        pages = [
            {"id": one["id"], "title": one["title"], "parent_id": ([None] + [a["id"] for a in one["ancestors"]])[-1]}
            for one in found[:limit]
        ]
        for file, name in (("versions", "version"), ("spaces", "space")):
            if (folder / file).exists():
                pages = [{**told, name: one[name]} for told, one in zip(pages, found, strict=False)]
        many = (folder / "has_more").exists()
        return json.dumps({"space_key": space_key, "total_pages": len(pages), "has_more": many, "pages": pages})

    def confluence_get_page(page_id: str, include_metadata: bool = True, convert_to_markdown: bool = True) -> str:
        """Get a page."""
        if (folder / "slow").exists():
            time.sleep(60)
        if (folder / "die").exists():
            os._exit(3)
        with (folder / "read.log").open("a") as log:
            log.write(f"{page_id} ")
        if (folder / f"{page_id}.broken").exists():
            return json.dumps({"error": f"Failed to retrieve page by ID '{page_id}': 500"})
        one = wiki.pages()[page_id]
        if wiki.style == "envelopes":
            return json.dumps(one)
        if wiki.style == "markdown":
            return f"# {one['title']}\n\n## Part\n\nText of *page* {page_id}.\n"
        body_format = "markdown" if convert_to_markdown else "storage"
        return json.dumps({"metadata": wiki.simplified(one, body_format)} if include_metadata else {"content": {}})

    def confluence_get_page_restrictions(page_id: str) -> str:
        """Tell who may read a page."""
        lists = wiki.pages()[page_id]["restrictions"]["read"]["restrictions"]
        users = [one.get("accountId") or one["username"] for one in lists["user"]["results"]]
        groups = [one["name"] for one in lists["group"]["results"]]
        return json.dumps({"read": {"users": users, "groups": groups}, "update": {"users": [], "groups": []}})

    for tool in (
        confluence_search,
        confluence_get_space_page_tree,
        confluence_get_page,
        confluence_get_page_restrictions,
    ):
        if tool.__name__ not in without:
            server.tool()(tool)
    return server


@contextmanager
def over_http(server: MCPServer[Any], token: str | None = None) -> Iterator[str]:
    """The server on a free port of the loopback; with a token, who does not send it is refused."""
    app = server.streamable_http_app()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope.get("headers", [])).get(b"authorization", b"").decode()
        if scope["type"] == "http" and token and sent != f"Bearer {token}":
            await send({"type": "http.response.start", "status": 401, "headers": []})
            await send({"type": "http.response.body", "body": b"unauthorized"})
            return
        await app(scope, receive, send)

    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    running = uvicorn.Server(uvicorn.Config(guarded, log_level="error", lifespan="on", ws="none"))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    while not running.started:
        time.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
    finally:
        running.should_exit = True
        thread.join(10)
        listener.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("style", nargs="?", default="atlassian")
    parser.add_argument("--without", nargs="*", default=[])
    given = parser.parse_args()
    make_server(given.folder, given.style, tuple(given.without)).run(transport="stdio")
