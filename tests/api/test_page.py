"""The page at `/`: it asks by the same rules as the API, shows nothing unescaped, and needs no script."""

from __future__ import annotations

import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import TOKENS, bearer, client_of
from support.wiki import PASSAGES, RESTART, Passage, publish

from rag_serving.api.app import MAX_BODY_BYTES

QUESTION = "May I restart a broker while partitions are under-replicated?"
NASTY = '"><script>alert(1)</script><img src=x onerror=alert(2)>'


@pytest.fixture(scope="module")
def client(wiki_home: Path) -> Iterator[TestClient]:
    with client_of(wiki_home) as opened:
        yield opened


class Elements(HTMLParser):
    """The elements of a page with their attributes, and its text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def test_a_question_is_answered_with_numbered_quotes_and_links(client: TestClient) -> None:
    response = client.post("/", data={"question": QUESTION})
    page = Elements(response.text)
    assert response.status_code == 200
    assert f"{RESTART} [1]" in page.text
    assert "“You must not restart a broker while partitions are under-replicated.” exact" in page.text
    (link,) = page.all("a")
    assert link["href"]
    assert link["href"].startswith("https://wiki.example/pages/11#Restarting-a-broker")
    assert page.all("li") == [{"value": "1"}]
    receipt = re.search(r"Receipt: (\w{32})", page.text)
    assert receipt
    assert client.get(f"/v1/receipts/{receipt[1]}").json()["question"] == QUESTION


def test_the_form_is_there_before_anything_is_asked(client: TestClient) -> None:
    response = client.get("/")
    page = Elements(response.text)
    assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
    (area,) = page.all("textarea")
    assert area["maxlength"] == "4000"
    assert {"label", "button", "form"} <= {tag for tag, _ in page.found}


def test_what_is_not_found_says_what_was_looked_at(client: TestClient) -> None:
    page = Elements(client.post("/", data={"question": "What is the capital of Mongolia?"}).text)
    assert "Not found in docs." in page.text
    assert "nothing was found among the pages that you may read" in page.text
    assert "Status: not_found" in page.text


def test_script_has_no_way_in(client: TestClient, tmp_path: Path) -> None:
    url, title = "javascript:alert(1)", f"Kitchen {NASTY}"
    passage = Passage("11", f"Restarting {NASTY}", PASSAGES[0].text + NASTY, title=title)
    publish(tmp_path, [passage, *PASSAGES[1:]])
    with client_of(tmp_path) as nasty:
        for asked in (client, nasty):
            response = asked.post("/", data={"question": f"{QUESTION} {NASTY}"})
            page = Elements(response.text)
            assert {tag for tag, _ in page.found} & {"script", "img", "iframe", "object"} == set()
            assert not [name for _, attributes in page.found for name in attributes if name.startswith("on")]
            assert url not in response.text
    policy = response.headers["content-security-policy"]
    (nonce,) = re.findall(r"style-src 'nonce-([\w-]+)'", policy)
    assert policy.startswith("default-src 'none'; ")
    assert "unsafe" not in policy
    assert page.all("style") == [{"nonce": nonce}]
    assert nonce not in client.get("/").text


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"question": " "}, 400, "'question' is empty"),
        ({}, 400, "'question' is empty"),
        ({"question": "x" * 4001}, 400, "at most 4000 are read"),
        ({"question": "x" * MAX_BODY_BYTES}, 413, "a request may have"),
    ],
)
def test_the_limits_are_those_of_the_api(client: TestClient, body: dict[str, str], status: int, message: str) -> None:
    response = client.post("/", data=body)
    assert response.status_code == status
    assert message in Elements(response.text).text


@pytest.mark.parametrize("content", [b"\xff\xfe=%FF", b"question=%00%ff", b"&" * 1000, b"a=b&" * 1000])
def test_whatever_is_sent_is_answered(client: TestClient, content: bytes) -> None:
    assert client.post("/", content=content).status_code in (200, 400)


def test_forms_of_other_sites_and_names_are_not_answered(client: TestClient, wiki_home: Path) -> None:
    foreign = client.post("/", data={"question": QUESTION}, headers={"Sec-Fetch-Site": "cross-site"})
    assert foreign.status_code == 403
    assert "You must not" not in foreign.text
    rebound = client_of(wiki_home, "http://evil.example").get("/")
    assert (rebound.status_code, Elements(rebound.text).all("form")) == (403, [])


def test_with_tokens_nobody_unknown_gets_a_form(wiki_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", TOKENS)
    secured = client_of(wiki_home, tenants={"acme": {}, "other": {}}, serving={"auth": "tokens"})
    for refused in (secured.get("/"), secured.post("/", data={"question": QUESTION})):
        assert (refused.status_code, refused.headers["www-authenticate"]) == (401, "Bearer")
        assert "Authorization: Bearer TOKEN" in Elements(refused.text).text
        assert Elements(refused.text).all("form") == []
    hidden = {"question": "What salary bonus does the broker team earn in December?"}
    assert "4,000" in secured.post("/", data=hidden, headers=bearer("hr")).text
    assert "4,000" not in secured.post("/", data=hidden, headers=bearer("all")).text


def test_several_tenants_are_named_in_the_address(wiki_home: Path) -> None:
    with client_of(wiki_home, tenants={"acme": {}, "other": {}}) as several:
        assert "?tenant=NAME" in several.get("/").text
        assert several.get("/?tenant=acme").status_code == 200
        unpublished = several.post("/?tenant=other", data={"question": QUESTION})
    assert (unpublished.status_code, unpublished.headers["retry-after"]) == (503, "30")


def test_every_folder_of_templates_is_part_of_its_package() -> None:
    root = Path(__file__).parents[2]
    project: dict[str, Any] = __import__("tomllib").loads((root / "pyproject.toml").read_text())
    data = project["tool"]["setuptools"]["package-data"]
    folders = [
        path.relative_to(root) for room in ("rag_assets", "rag_serving") for path in (root / room).rglob("templates")
    ]
    assert folders
    assert all(data[".".join(folder.parent.parts)] == ["templates/*"] for folder in folders)
