"""`citelock init`: what it asks, what it writes, and when it writes nothing."""

from __future__ import annotations

import difflib
import os
import pty
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from sources.stand_in_confluence import TOKEN, USER, StandIn
from sources.stand_in_site import page
from support.command_line import CITELOCK, run
from typer.testing import CliRunner

from rag_assets.build import init
from rag_serving.cli.main import app
from rag_serving.config.loading import load_config
from rag_serving.config.sources import BasicAuth, BearerAuth, Confluence, DocsFolder, Files

STAFF = {"results": [{"type": "group", "name": "staff"}]}
PERMISSIONS = [{"operation": {"operation": "read", "targetType": "space"}, "subjects": {"group": STAFF}}]


@pytest.fixture(params=["cloud", "datacenter"])
def wiki(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """A site that asks who reads it, with a page that is restricted."""
    monkeypatch.setenv("CONFLUENCE_USER", USER)
    monkeypatch.setenv("CONFLUENCE_TOKEN", TOKEN)
    with StandIn(request.param) as site:
        site.require("basic" if request.param == "cloud" else "bearer")
        site.site.permissions["ENG"] = PERMISSIONS
        site.site.put(page(1, "Backups"), page(2, "Salaries", groups=["hr"]), page(3, "Logs"))
        yield site


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that the command runs in, with two pages of documentation."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("CITELOCK_CONFIG", raising=False)
    (tmp_path / "docs").mkdir()
    for name in ("backups.md", "logs.md"):
        (tmp_path / "docs" / name).write_text("# Backups\n\nThey are kept for 35 days.\n", encoding="utf-8")
    return tmp_path


def flags(wiki: StandIn, **more: str) -> list[str]:
    """The arguments for the site; as on a real one, a user belongs to the token of Cloud alone."""
    user = {"user_env": "CONFLUENCE_USER"} if wiki.flavor == "cloud" else {}
    given = {"kind": "confluence", "url": wiki.url, "space": "ENG", **user, **more}
    return [part for name, value in given.items() for part in (f"--{name.replace('_', '-')}", value)]


DOCS = ["--kind", "docs", "--path", "docs", "--readers", "everyone"]


def test_a_space_is_written_with_who_may_read_it_and_how_to_go_on(wiki: StandIn, folder: Path) -> None:
    code, out, err = run("init", *flags(wiki))
    assert code == 0, err
    assert "3 pages, readable for group:staff; 1 of the first 3 are restricted further" in out
    assert "a first build takes about 1 min and 1 MB" in out
    assert out.endswith("config/app.yaml is written. Next: citelock build\n")
    assert TOKEN not in (folder / "config" / "app.yaml").read_text(encoding="utf-8") + out
    (source,) = load_config().sources.values()
    assert isinstance(source, Confluence)
    assert (source.base_url, source.space, source.schedule) == (wiki.url, "ENG", "*/15 * * * *")
    assert isinstance(source.auth, BasicAuth if wiki.flavor == "cloud" else BearerAuth)
    assert wiki.bodies_asked() == set()


def test_the_address_of_a_page_says_site_and_space(wiki: StandIn) -> None:
    arguments = flags(wiki, url=f"{wiki.url}/spaces/ENG/pages/1/Backups")
    assert run("init", *arguments[:4], *arguments[6:])[0] == 0  # without --space
    (source,) = load_config().sources.values()
    assert isinstance(source, Confluence)
    assert (source.base_url, source.space) == (wiki.url, "ENG")


@pytest.mark.parametrize(("kind", "model"), [("docs", DocsFolder), ("files", Files)])
def test_a_folder_has_no_schedule_and_is_counted(kind: str, model: type, folder: Path) -> None:
    arguments = ["--kind", kind, "--path", "docs", "--readers", "group:staff, user:ann", "--config", "my docs.yaml"]
    code, out, err = run("init", *arguments)
    assert code == 0, err
    assert "2 pages, readable for group:staff or user:ann" in out
    assert out.endswith("Next: citelock build --config 'my docs.yaml'\n")
    (source,) = load_config(folder / "my docs.yaml").sources.values()
    assert isinstance(source, model)
    assert (source.schedule, source.readers) == (None, ["group:staff", "user:ann"])  # type: ignore[attr-defined]


def test_a_wrong_token_is_one_line_and_nothing_is_written(
    wiki: StandIn, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CONFLUENCE_TOKEN", "wrong-token")
    code, out, _ = run("init", *flags(wiki), "--yes")
    assert code == 1
    assert out.startswith("fail  source eng")
    assert out.count("\n") == 1
    assert "auth" in out
    assert "wrong-token" not in out
    assert not (folder / "config").exists()


def test_a_host_that_does_not_answer_is_one_line(wiki: StandIn, folder: Path) -> None:
    code, out, _ = run("init", *flags(wiki, url="http://127.0.0.1:9/wiki"))
    assert (code, out.count("\n")) == (1, 1)
    assert "gave no answer" in out
    assert not (folder / "config").exists()


def test_without_a_terminal_a_missing_answer_names_its_flag(folder: Path) -> None:
    for given, flag in ((0, "--kind"), (2, "--path"), (4, "--readers")):
        code, _, err = run("init", *DOCS[:given])
        assert (code, err.count("\n")) == (2, 1)
        assert f"{flag} is missing" in err
    assert not (folder / "config").exists()


def test_a_file_that_is_there_keeps_all_it_says(folder: Path) -> None:
    assert run("init", *DOCS)[0] == 0
    file = folder / "config" / "app.yaml"
    before = file.read_text(encoding="utf-8").replace("sources:", "# ours\nsources:  # all of them") + "# end\n"
    file.write_text(before, encoding="utf-8")
    code, out, err = run("init", "--kind", "files", "--path", ".", "--readers", "everyone", "--yes")
    assert (code, file.read_text(encoding="utf-8")) == (2, before)
    assert "+  files:" in out
    assert "--force" in err
    assert run("init", "--kind", "files", "--path", ".", "--readers", "everyone", "--force")[0] == 0
    after = file.read_text(encoding="utf-8")
    assert list(load_config().sources) == ["files", "docs"]
    assert not [line for line in difflib.ndiff(before.splitlines(), after.splitlines()) if line.startswith("-")]
    assert "has a source 'docs' already" in run("init", *DOCS, "--force")[2]


@pytest.mark.parametrize(
    "text",
    [
        "tenants: {a: {}}\nsources: {}\n",
        "tenants: {a: {}, b: {}}\nsources:\n  s: {kind: files, tenant: a}\n",
        "tenants: {a: {}}\n",
    ],
)
def test_a_file_of_another_shape_is_left_and_the_lines_are_shown(text: str, folder: Path) -> None:
    (folder / "other.yaml").write_text(text, encoding="utf-8")
    code, out, err = run("init", *DOCS, "--config", "other.yaml", "--force")
    assert code == 2
    assert "is not changed" in err
    assert yaml.safe_load(out)["docs"]["path"] == "docs"
    assert (folder / "other.yaml").read_text(encoding="utf-8") == text


@pytest.mark.parametrize(
    "name", ['a"b: c', "it's # none", "{x}", "- y", "*z", "!!binary x", "@q", "%r", "yes", "12", "ü 🦊", "a: |"]
)
def test_whatever_a_path_is_called_it_is_a_path(name: str, folder: Path) -> None:
    (folder / "docs").rename(folder / name)
    code, out, err = run("init", "--kind", "docs", "--path", name, "--readers", "everyone")
    assert code == 0, out + err
    (source,) = load_config().sources.values()
    assert isinstance(source, DocsFolder)
    assert source.path == Path(name)


@pytest.mark.parametrize(
    ("flag", "value", "told"),
    [
        ("space", 'ENG\nhome: "/"', "--space has a character"),
        ("url", "https://ann:pw@wiki.example", "without a user"),
        ("url", "wiki.example", "https://HOST"),
        ("url", "http://[", "https://HOST"),
        ("user_env", "ann@example.com", "names of environment variables"),
        ("token_env", "ATATT3x-s3cr3t", "no secrets"),
        ("readers", "group:a\n,user:b", "--readers has a character"),
        ("readers", "staff", "must start with 'group:' or 'user:'"),
        ("schedule", "soon", "schedule"),
    ],
)
def test_hostile_answers_are_refused_in_a_line_that_shows_no_secret(flag: str, value: str, told: str) -> None:
    given = {"kind": "confluence", "url": "http://127.0.0.1:9", "space": "ENG", flag: value}
    arguments = [part for name, one in given.items() for part in (f"--{name.replace('_', '-')}", one)]
    code, out, err = run("init", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert told in err
    assert "s3cr3t" not in err
    assert "pw" not in err


def test_a_key_of_a_space_with_quotes_stays_one_word() -> None:
    block = init._block("eng", "confluence", "main", {"space": 'E"N: {G} # x', "readers": ["group:a, b"]})
    read = yaml.safe_load(block)["eng"]
    assert (read["space"], read["readers"]) == ('E"N: {G} # x', ["group:a, b"])


def test_five_questions_at_a_terminal_give_a_file(folder: Path) -> None:
    master, slave = pty.openpty()
    os.write(master, b"docs\ndocs\neveryone\n\n\n")
    done = subprocess.run([*CITELOCK, "init"], stdin=slave, capture_output=True, text=True, timeout=200, check=False)
    os.close(master)
    os.close(slave)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "2 pages, readable for everyone" in done.stdout
    assert list(load_config(folder / "config" / "app.yaml").sources) == ["docs"]


def test_no_at_a_terminal_leaves_the_file(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "app.yaml").write_text("tenants: {a: {}}\nsources:\n  s: {kind: files, tenant: a}\n", encoding="utf-8")
    before = (folder / "app.yaml").read_text(encoding="utf-8")
    monkeypatch.setattr(init, "_is_terminal", lambda: True)
    answers = [*DOCS, "--config", "app.yaml", "--schedule", "none"]
    result = CliRunner().invoke(app, ["init", *answers], input="n\n")
    assert result.exit_code == 1
    assert "+  docs:" in result.stdout
    assert (folder / "app.yaml").read_text(encoding="utf-8") == before
    assert CliRunner().invoke(app, ["init", *answers], input="y\n").exit_code == 0
    assert list(load_config(folder / "app.yaml").sources) == ["docs", "s"]


@pytest.mark.parametrize("moment", ["rag_assets.build.init.look_at", "pathlib.Path.replace"])
def test_ctrl_c_leaves_no_half_file(moment: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moment, stopped)
    assert run("init", *DOCS)[0] == 130
    monkeypatch.undo()
    assert [path for path in folder.rglob("*") if path.is_file() and path.parent.name != "docs"] == []
