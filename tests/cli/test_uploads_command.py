"""`citelock uploads`: documents of the inboxes at a terminal, under the rules of HTTP."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import run, write_config

SOURCES = "sources:\n  uploads: {kind: files, tenant: acme}\n  more: {kind: files, tenant: acme, readers: everyone}\n"


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path, tmp_path / "home", SOURCES)


def put(folder: Path, config: str, name: str, content: bytes = b"# Text\n\nWords.\n", source: str = "uploads") -> str:
    """Put a file in; return the document's id."""
    path = folder / name
    path.write_bytes(content)
    code, out, _ = run("add", str(path), "--readers", "group:staff", "--source", source, "--config", config)
    assert code == 0
    return out.split()[0]


def test_documents_of_all_inboxes_are_listed_the_newest_first(config: str, tmp_path: Path) -> None:
    first, second = put(tmp_path, config, "a.md"), put(tmp_path, config, "b.md", b"other", "more")
    code, out, _ = run("uploads", "list", "--config", config)
    assert (code, out.splitlines()) == (
        0,
        [f"{second}  b.md  received, for group:staff", f"{first}  a.md  received, for group:staff"],
    )
    assert run("uploads", "list", "--source", "more", "--config", config)[1].split()[0] == second
    told = json.loads(run("uploads", "list", "--json", "--config", config)[1])
    assert [(one["document_id"], one["source"]) for one in told] == [(second, "more"), (first, "uploads")]


def test_a_deleted_document_is_gone_with_its_proof_after_the_next_build(config: str, tmp_path: Path) -> None:
    kept, gone = put(tmp_path, config, "a.md"), put(tmp_path, config, "b.md", b"# Other\n\nTides at noon.\n")
    assert run("build", "uploads", "--config", config)[0] == 0
    code, out, err = run("uploads", "delete", gone, gone, "--config", config)
    assert (code, out.splitlines()) == (0, [f"{gone}  b.md  deleting, for group:staff"])
    assert "citelock build uploads" in err
    assert json.loads(run("uploads", "show", gone, "--config", config)[1])["status"] == "deleting"
    code, out, _ = run("uploads", "delete", gone, "--build", "--config", config)
    assert code == 0
    shown = json.loads(run("uploads", "show", gone, "--config", config)[1])
    assert (shown["status"], shown["name"], len(shown["sha256"])) == ("deleted", "b.md", 1)
    (left,) = json.loads(run("uploads", "list", "--json", "--config", config)[1])
    assert (left["document_id"], left["status"]) == (kept, "published")
    assert run("uploads", "delete", gone, "--config", config)[0] == 1


def test_what_is_not_there_is_told_and_the_others_are_deleted(config: str, tmp_path: Path) -> None:
    document = put(tmp_path, config, "a.md")
    code, out, err = run("uploads", "delete", "doc0", "../../x", document, "--config", config)
    assert (code, out.split()[0]) == (1, document)
    assert [line.split(": ")[1] for line in err.splitlines() if "no inbox has" in line] == ["doc0", "../../x"]
    code, _, err = run("uploads", "show", "doc0", "--config", config)
    assert (code, "citelock uploads list" in err) == (1, True)


def test_an_inbox_of_another_name_and_no_inbox_are_told(config: str, tmp_path: Path) -> None:
    code, _, err = run("uploads", "list", "--source", "lost", "--config", config)
    assert (code, "uploads, more" in err) == (2, True)
    code, _, err = run("uploads", "list", "--config", write_config(tmp_path, tmp_path / "home"))
    assert (code, "no upload inbox" in err) == (2, True)


def test_another_tenant_is_not_shown_nor_touched(tmp_path: Path) -> None:
    config = write_config(tmp_path, tmp_path / "home", f"{SOURCES}  theirs: {{kind: files, tenant: port}}\n")
    text = Path(config).read_text(encoding="utf-8")
    Path(config).write_text(text.replace("{acme: {}}", "{acme: {}, port: {}}"), encoding="utf-8")
    document = put(tmp_path, config, "a.md", source="theirs")
    assert run("uploads", "list", "--tenant", "acme", "--config", config)[1] == ""
    assert run("uploads", "delete", document, "--tenant", "acme", "--config", config)[0] == 1
    assert run("uploads", "delete", document, "--tenant", "port", "--config", config)[0] == 0
