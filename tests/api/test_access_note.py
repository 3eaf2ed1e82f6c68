"""Who may read nothing is told so: with counts in the terminal, without them over HTTP."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from support.command_line import run, write_config
from support.wiki import PASSAGES, configuration, publish

from rag_serving.api.app import create_app
from rag_serving.retrieval.search import NOTHING_READABLE

QUESTION = "How long does a broker keep logs?"
ASKS = "(`--user` and `--group` say who asks)"


@pytest.fixture(scope="module")
def closed_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home whose pages only staff may read, one of them only hr."""
    home = tmp_path_factory.mktemp("closed")
    publish(home, [replace(one, readers="group:hr" if one.page_id == "14" else "group:staff") for one in PASSAGES])
    return home


@pytest.fixture
def config(closed_home: Path, tmp_path: Path) -> str:
    return write_config(tmp_path, closed_home)


def test_an_answer_that_is_not_found_says_how_much_could_be_read(config: str) -> None:
    _, out, _ = run("ask", QUESTION, "--config", config)
    assert out.splitlines()[0] == "Not found in docs."
    assert f"    0 of 6 passages are readable for you {ASKS}" in out.splitlines()
    told = json.loads(run("ask", QUESTION, "--config", config, "--json")[1])
    assert told["notes"] == [f"0 of 6 passages are readable for you {ASKS}"]
    _, out, _ = run("ask", "What does a unicorn eat?", "--config", config, "--user", "ann", "--group", "staff")
    assert "5 of 6 passages are readable for group:staff, user:ann (`citelock readers explain PAGE` says why)" in out


def test_an_answer_that_is_found_says_it_only_where_that_is_asked(config: str) -> None:
    asked = ("ask", QUESTION, "--config", config, "--group", "staff")
    assert "of 6 passages" not in run(*asked)[1]
    assert "5 of 6 passages are readable for group:staff" in run(*asked, "--explain")[1]
    both = (*asked, "--group", "hr", "--explain")
    assert "of 6 passages" not in run(*both)[1], "who may read everything has nothing to learn"


def test_a_search_without_results_says_it_too(config: str) -> None:
    _, out, _ = run("search", "log retention", "--config", config)
    assert out.splitlines() == ["Nothing found.", f"    0 of 6 passages are readable for you {ASKS}"]
    told = json.loads(run("search", "log retention", "--config", config, "--json")[1])
    assert told["notes"] == [f"0 of 6 passages are readable for you {ASKS}"]


def test_over_http_nobody_is_told_how_many_there_are(closed_home: Path, tmp_path: Path) -> None:
    publish(tmp_path, [replace(PASSAGES[0], readers="group:hr")])
    told = []
    for home in (closed_home, tmp_path):
        with TestClient(create_app(configuration(home)), "http://127.0.0.1:8088", client=("127.0.0.1", 5000)) as client:
            answer = client.post("/v1/ask", json={"question": QUESTION}).json()
            found = client.post("/v1/search", json={"query": "log retention"}).json()
            told.append((answer["notes"], found["notes"]))
    assert told == [([NOTHING_READABLE], [NOTHING_READABLE])] * 2, "six hidden passages are told as one is"
