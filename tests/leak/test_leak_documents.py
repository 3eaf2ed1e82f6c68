"""Documents that are hidden leave no trace in pages, pictures, text layers and filters: as if they had never been read.

The same requests go to a server over all documents and to one over those that the caller may read.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from sources.pdf_writer import pdf
from support.api_client import bearer, client_of
from support.wiki import Passage, publish_paged

READERS = ("everyone", "group:hr", "group:hr&group:board", "user:ann|group:board", "nobody")
WHO = {
    "anybody": {"tenant": "acme"},
    "hr": {"tenant": "acme", "groups": ["hr"]},
    "ann": {"tenant": "acme", "user": "ann"},
    "board": {"tenant": "acme", "groups": ["hr", "board"]},
}
MAY_READ = {
    "anybody": READERS[:1],
    "hr": READERS[:2],
    "ann": (READERS[0], READERS[3]),
    "board": READERS[:4],
}
DOCUMENTS = 20
SAID = ("Mooring lines are checked hourly.", "Cranes stop at twenty metres.", "The bonus is paid in May.")


def passages() -> list[Passage]:
    """Documents of one to three pages, their readers by turns; some texts stand in further, dropped documents."""
    found = []
    for number in range(DOCUMENTS):
        for page in range(number % 3 + 1):
            text = f"{SAID[page]} Document {number}."
            one = Passage(
                f"att{number}", f"Page {page + 1}", text, f"file {number}.pdf", f"S{number % 4}", chunk_idx=page
            )
            places = ((f"att{100 + number}", "COPIES", READERS[number % 5]),) if page == 0 else ()
            found.append(replace(one, readers=READERS[number % 5], labels=(f"l{number % 5}",), places=places))
    return found


def originals(kept: Sequence[Passage]) -> dict[str, bytes]:
    texts: dict[str, list[str]] = {}
    for one in kept:
        texts.setdefault(one.page_id, []).append(one.text)
    return {page_id: pdf(*pages) for page_id, pages in texts.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("documents")
    publish_paged(home, passages(), originals(passages()))
    return home


@pytest.fixture(params=list(WHO))
def who(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def servers(
    whole: Path, who: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[TestClient, TestClient]]:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"token": WHO[who]}))
    rest = [one for one in passages() if one.readers in MAY_READ[who]]
    publish_paged(tmp_path, rest, originals(rest))
    with ExitStack() as stack:
        opened = [
            stack.enter_context(client_of(home, serving={"auth": "tokens", "rate_limit_per_minute": 0}))
            for home in (whole, tmp_path)
        ]
        yield opened[0], opened[1]


def paths(dice: random.Random) -> Iterator[str]:
    yield "filters"
    for number in [*range(DOCUMENTS), *range(100, 100 + DOCUMENTS), 999]:
        page = dice.randint(1, 3)
        yield f"pages/att{number}"
        yield f"passages/att{number}:1:{dice.randint(0, 2)}"
        yield f"pages/att{number}/image?page={page}&scale=1"
        yield f"pages/att{number}/layer?page={page}&quote={dice.choice(SAID).replace(' ', '%20')}"


def test_no_hidden_document_shows_through_any_door(servers: tuple[TestClient, TestClient], who: str) -> None:
    shown = 0
    for path in paths(random.Random(who)):
        got, wanted = (server.get(f"/v1/{path}", headers=bearer("token")) for server in servers)
        assert told_by(got) == told_by(wanted), path
        shown += got.status_code == 200 and "image" in path
    assert shown
    assert told_by(servers[0].get("/v1/pages/att4/image", headers=bearer("token")))[0] == 404  # nobody's


def told_by(response: Response) -> tuple[int, dict[str, str], object]:
    """Status, headers and content, without the generation's id."""
    content: object = response.content
    headers = {**response.headers, "content-length": "", "date": ""}
    if headers["content-type"].startswith("application/json"):
        content = {**json.loads(response.content), "generation": ""}
    return response.status_code, headers, content
