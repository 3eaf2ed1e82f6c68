"""`citelock add`: files into an inbox from a terminal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import run, write_config

SOURCES = "sources:\n  uploads: {kind: files, tenant: acme}\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path, tmp_path / "home", SOURCES)


def file(folder: Path, name: str, content: bytes = b"# Text\n\nWords.\n") -> str:
    path = folder / name
    path.write_bytes(content)
    return str(path)


def test_files_are_put_in_once(config: str, tmp_path: Path) -> None:
    files = [file(tmp_path, "a.md"), file(tmp_path, "b.md", b"other")]
    first = run("add", *files, "--readers", "group:staff", "--json", "--config", config)
    again = run("add", *files, "--readers", "group:staff", "--json", "--config", config)
    assert first == again
    assert [(one["name"], one["readers"], one["status"]) for one in json.loads(first[1])] == [
        ("a.md", "group:staff", "received"),
        ("b.md", "group:staff", "received"),
    ]


def test_one_that_is_not_taken_is_told_and_the_others_are_put_in(config: str, tmp_path: Path) -> None:
    files = [file(tmp_path, "a.gif", b"GIF89a\x00"), str(tmp_path / "lost.md"), file(tmp_path, "empty.md", b"")]
    code, out, err = run("add", *files, file(tmp_path, "b.md"), "--readers", "everyone", "--config", config)
    assert code == 1
    assert [line.split("  ")[1:] for line in out.splitlines()] == [["b.md", "received, for everyone"]]
    assert [line.split(": ")[1] for line in err.splitlines()[:3]] == ["a.gif", "lost.md", "empty.md"]
    assert "citelock build uploads" in err


def test_it_must_be_said_who_may_read(config: str, tmp_path: Path) -> None:
    code, _, err = run("add", file(tmp_path, "a.md"), "--config", config)
    assert (code, "--readers everyone" in err) == (2, True)
    code, _, err = run("add", file(tmp_path, "a.md"), "--readers", "staff", "--config", config)
    assert (code, "group:NAME" in err) == (2, True)


def test_without_an_inbox_there_is_nowhere_to_put_it(tmp_path: Path) -> None:
    code, _, err = run("add", file(tmp_path, "a.md"), "--config", write_config(tmp_path, tmp_path / "home"))
    assert (code, "no upload inbox" in err) == (2, True)


def test_an_inbox_is_named_where_there_are_several(tmp_path: Path) -> None:
    config = write_config(
        tmp_path, tmp_path / "home", f"{SOURCES}  more: {{kind: files, tenant: acme, readers: everyone}}\n"
    )
    code, _, err = run("add", file(tmp_path, "a.md"), "--readers", "everyone", "--config", config)
    assert (code, "uploads, more" in err) == (2, True)
    assert run("add", file(tmp_path, "a.md"), "--source", "more", "--config", config)[0] == 0


def test_it_can_build_at_once(config: str, tmp_path: Path) -> None:
    code, out, _ = run("add", file(tmp_path, "a.md"), "--readers", "everyone", "--build", "--config", config)
    assert code == 0
    assert "1 page" in out


def test_a_new_version_takes_the_place_of_the_document_that_is_named(config: str, tmp_path: Path) -> None:
    path = Path(file(tmp_path, "a.md"))
    code, out, _ = run("add", str(path), "--readers", "group:staff", "--config", config)
    assert code == 0
    document_id = out.split()[0]
    path.write_text("# Other words", encoding="utf-8")
    code, out, _ = run("add", str(path), "--replace", document_id, "--config", config)
    assert out.splitlines()[0] == f"{document_id}  a.md  received, version 2, for group:staff"
    code, _, err = run("add", str(path), "--replace", "doc0", "--config", config)
    assert (code, "has no document doc0" in err) == (1, True)
    code, _, err = run("add", str(path), str(path), "--replace", document_id, "--config", config)
    assert (code, "--replace takes one file" in err) == (2, True)
