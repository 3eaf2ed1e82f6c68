"""Operators connect a source over HTTP: what is shown, what is written, and what is refused."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from httpx import Response
from sources.stand_in_confluence import TOKEN, StandIn
from sources.stand_in_faults import Answer, Fault
from sources.stand_in_site import page
from support.api_client import ADDRESS, LOCAL, bearer
from support.command_line import run

from rag_assets.build import init
from rag_serving.api.app import create_app
from rag_serving.api.reload import ConfigFile
from rag_serving.artifacts.store import Store
from rag_serving.config.loading import ConfigError, load_config
from rag_serving.documents.noted import NotedPages

CONNECT, CHECK = "/v1/sources", "/v1/sources/check"
BEFORE = """# ours
home: home
tenants: {acme: {}}  # one
serving: {auth: tokens, connect: true}
sources:  # all of them
  wiki: {kind: confluence, tenant: acme, base_url: "https://wiki.example", space: HQ, auth: {
    kind: bearer, token_env: CONFLUENCE_HQ}}

retrieval: {final_passages: 6}  # measured
"""
DOCS = {"kind": "docs", "path": "docs", "readers": "everyone", "schedule": "none"}
WIKI = {"kind": "confluence", "url": "http://127.0.0.1:9/wiki", "space": "ENG"}
ROLES = ("reader", "editor", "auditor", "operator")
TOKENS = {role: {"tenant": "acme", "user": role, "roles": [role]} for role in ROLES}
BOSS = bearer("operator")


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The configuration of a server, in whose folder two pages of documentation are."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    (tmp_path / "docs").mkdir()
    for name in ("backups.md", "logs.md"):
        (tmp_path / "docs" / name).write_text("# Backups\n\nThey are kept for 35 days.\n", encoding="utf-8")
    file = tmp_path / "app.yaml"
    file.write_text(BEFORE, encoding="utf-8")
    return file


@contextmanager
def served(file: Path, with_file: bool = True) -> Iterator[TestClient]:
    config = load_config(file)
    app = create_app(config, file=ConfigFile(file, config.serving) if with_file else None)
    yield TestClient(app, ADDRESS, client=LOCAL, raise_server_exceptions=False)
    app.state.service.close()


@pytest.fixture
def client(file: Path) -> Iterator[TestClient]:
    with served(file) as client:
        yield client


def sent(client: TestClient, path: str, body: dict[str, Any], **headers: str) -> Response:
    return client.post(path, json=body, headers=headers or BOSS)


def test_what_was_shown_is_written_as_init_writes_it(client: TestClient, file: Path, tmp_path: Path) -> None:
    file.chmod(0o640)
    shown = sent(client, CHECK, DOCS).json()
    assert (shown["key"], shown["state"]) == ("docs", "ok")
    counts = {"pages": 2, "listed": 0, "restricted": 0, "minutes": 1, "megabytes": 1}
    assert shown["extent"] == {"readers": "everyone", **counts}
    added = [line[1:] for line in shown["diff"].splitlines() if line.startswith("+") and line[1:3] != "++"]
    assert file.read_text(encoding="utf-8") == BEFORE
    done = sent(client, CONNECT, {**DOCS, "digest": shown["digest"]})
    assert (done.status_code, done.json()) == (202, {"key": "docs"})
    after, place = file.read_text(encoding="utf-8"), BEFORE.index("  wiki:")
    assert after == BEFORE[:place] + "\n".join(added) + "\n" + BEFORE[place:]
    assert (file.stat().st_mode & 0o777, file.stat().st_uid) == (0o640, os.getuid())
    assert (NotedPages(Store(tmp_path / "home").source("docs")).mark() or "").startswith("all noted")
    file.write_text(BEFORE, encoding="utf-8")
    flags = [part for name, value in DOCS.items() for part in (f"--{name}", value)]
    assert run("init", *flags, "--config", str(file), "--force")[0] == 0
    assert file.read_text(encoding="utf-8") == after


def test_a_space_is_tested_as_the_doctor_does_and_no_secret_is_shown_or_written(
    client: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    with StandIn("datacenter") as site:
        site.require("bearer")
        site.site.put(page(1, "Backups"), page(2, "Salaries", groups=["hr"]))
        body = {**WIKI, "url": site.url, "readers": "group:staff"}
        shown = sent(client, CHECK, body).json()
        monkeypatch.setenv("CONFLUENCE_TOKEN", "wr0ng")
        wrong = sent(client, CHECK, body)
        assert sent(client, CONNECT, {**body, "digest": shown["digest"]}).status_code == 202
        monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
        # Nobody is led from a company's site to another address of its network.
        site.faults.append(Fault(lambda *_: Answer(302, b"", {"Location": "http://169.254.169.254/"}), None))
        led = sent(client, CHECK, {**body, "key": "again"}).json()
    assert (shown["state"], shown["extent"]["pages"], shown["extent"]["restricted"]) == ("ok", 2, 1)
    assert (wrong.json()["state"], wrong.json()["extent"]) == ("fail", None)
    assert (led["state"], led["extent"]) == ("fail", None)
    assert not {TOKEN, "wr0ng"} & set((json.dumps(shown) + wrong.text + file.read_text(encoding="utf-8")).split('"'))
    assert load_config(file).sources["eng"].schedule == "*/15 * * * *"


def test_a_file_that_was_changed_since_the_diff_is_left_as_it_is(client: TestClient, file: Path) -> None:
    shown = sent(client, CHECK, DOCS).json()
    changed = BEFORE.replace("final_passages: 6", "final_passages: 5")
    file.write_text(changed, encoding="utf-8")
    refused = sent(client, CONNECT, {**DOCS, "digest": shown["digest"]})
    assert (refused.status_code, refused.json()["code"]) == (409, "CONFLICT")
    assert file.read_text(encoding="utf-8") == changed
    edit = init.edit_of(file, "docs", *init.source_of({"kind": "docs", "path": "docs", "readers": "everyone"}))
    file.write_text(BEFORE, encoding="utf-8")  # between the look and the write
    with pytest.raises(ConfigError, match="changed meanwhile"):
        edit.write()
    assert file.read_text(encoding="utf-8") == BEFORE


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({**WIKI, "space": "ENG\nhome: /"}, "space has a character"),
        ({**WIKI, "url": "https://a.example\nhome: /"}, "url has a character"),
        ({**WIKI, "url": "https://ann:pw@a.example"}, "without a user"),
        ({**WIKI, "url": "file:///etc"}, "https://HOST"),
        ({**DOCS, "path": "docs\n  x: {}"}, "path has a character"),
        ({**DOCS, "readers": "group:a\r,user:b"}, "readers has a character"),
        ({**DOCS, "readers": "staff"}, "must start with 'group:'"),
        ({**DOCS, "schedule": "soon"}, "schedule"),
        ({**DOCS, "key": "docs: {}\n  x"}, "must be a slug"),
        ({**DOCS, "key": "wiki"}, "has a source 'wiki' already"),
        ({**DOCS, "path": "home/tenants"}, "has the index in it"),
        ({**DOCS, "path": "."}, "has the index in it"),
        ({**WIKI, "token_env": "ATATT3x-s3cr3t"}, "no secrets"),
        ({**WIKI, "token_env": "S3CR3T"}, "called CONFLUENCE_"),
        ({**WIKI, "token_env": "CITELOCK_TOKENS"}, "called CONFLUENCE_"),
        ({**WIKI, "user_env": "CONFLUENCE_HQ"}, "is for the site of source 'wiki'"),
        ({**WIKI, "token_env": "CONFLUENCE_HQ"}, "is for the site of source 'wiki'"),
        ({**WIKI, "token": "s3cr3t"}, "token"),
    ],
)
def test_hostile_fields_are_refused_in_a_line_without_a_secret(
    client: TestClient, file: Path, body: dict[str, Any], told: str
) -> None:
    for path, more in ((CHECK, {}), (CONNECT, {"digest": "0"})):
        refused = sent(client, path, {**body, **more})
        assert refused.status_code in (400, 422), refused.text
        assert told in refused.json()["message"]
        assert "s3cr3t" not in refused.text.lower()
        assert "pw@" not in refused.text
    assert file.read_text(encoding="utf-8") == BEFORE


@pytest.mark.parametrize("space", ['E"N: {G} # x', "*alias", "!!python/object:os.system", "- y", "{x: 1}"])
def test_whatever_a_space_is_called_it_is_one_word(client: TestClient, space: str) -> None:
    shown = sent(client, CHECK, {**WIKI, "space": space, "token_env": "none", "key": "eng"}).json()
    assert (shown["state"], shown["extent"]) == ("fail", None)  # nobody listens there
    sent(client, CONNECT, {**WIKI, "space": space, "token_env": "none", "key": "eng", "digest": shown["digest"]})
    assert load_config(Path("app.yaml")).sources["eng"].space == space  # type: ignore[union-attr]


def test_only_operators_write_by_a_page_of_ours_and_by_post(client: TestClient, file: Path) -> None:
    for role in ("reader", "editor", "auditor"):
        for path in (CHECK, CONNECT):
            assert sent(client, path, {**DOCS, "digest": "0"}, **bearer(role)).status_code == 403
    assert {client.get(path, headers=BOSS).status_code for path in (CHECK, CONNECT)} <= {404, 405}
    client.post("/v1/session", json={"token": "operator"}, headers={"Origin": ADDRESS})  # the client keeps its cookie
    for headers in ({"Origin": ADDRESS}, {"Origin": "https://evil.example"}, {"Accept": "*/*"}):
        refused = sent(client, CONNECT, {**DOCS, "digest": "0"}, **headers)
        assert (refused.status_code, refused.json()["code"]) == (403, "CSRF")
    file.write_text(BEFORE.replace("auth: tokens, ", ""), encoding="utf-8")
    with served(file) as local:
        refused = sent(local, CONNECT, {**DOCS, "digest": "0"}, Origin="https://evil.example")
        assert (refused.status_code, refused.json()["code"]) == (403, "CROSS_SITE")


@pytest.mark.parametrize(
    "settings", ["serving: {auth: tokens}", "serving: {connect: false}", "tenants: {acme: {}, other: {}}"]
)
def test_where_the_configuration_is_not_the_operator_s_nothing_is_connected(file: Path, settings: str) -> None:
    name = settings.partition(":")[0]
    lines = [settings if line.startswith(f"{name}:") else line for line in BEFORE.splitlines()]
    file.write_text("\n".join(lines), encoding="utf-8")
    headers = {} if "connect: false" in settings else BOSS
    with served(file) as client:
        assert client.get("/v1/session", headers=headers).json()["features"]["connect"] is False
        refused = client.post(CHECK, json=DOCS, headers=headers)
    assert (refused.status_code, refused.json()["code"]) == (501, "NOT_IMPLEMENTED")


def test_operators_alone_are_offered_it(client: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    offered = {role: client.get("/v1/session", headers=bearer(role)).json()["features"]["connect"] for role in TOKENS}
    assert offered == {"reader": False, "editor": False, "auditor": False, "operator": True}
    with served(file, with_file=False) as without:
        assert sent(without, CHECK, DOCS).status_code == 501
    monkeypatch.setattr("rag_assets.build.connecting.find_spec", lambda _: None)  # a machine that only serves
    assert "does not build" in sent(client, CHECK, DOCS).json()["message"]


def test_a_file_that_the_server_may_not_write_is_said(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    def read_only(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    shown = sent(client, CHECK, DOCS).json()
    monkeypatch.setattr(init, "rewrite", read_only)
    refused = sent(client, CONNECT, {**DOCS, "digest": shown["digest"]})
    assert (refused.status_code, "Read-only file system" in refused.json()["message"]) == (409, True)
    assert NotedPages(Store(Path("home")).source("docs")).mark() is None
