"""`citelock keys`: made once, listed without secrets, revoked; each is logged."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest
from support.command_line import run, write_config

from citelock_governance.api_keys import parts_of


@pytest.fixture
def config(tmp_path: Path) -> str:
    return write_config(tmp_path, tmp_path / "home", "serving: {public_url: 'https://cite.example'}\n")


def test_a_key_is_shown_once_listed_and_revoked(config: str) -> None:
    scope = ["--user", "robot", "--group", "hr", "--role", "editor", "--days", "30"]
    code, written, told = run("keys", "create", "nightly", *scope, "--config", config)
    parts = parts_of(written.strip())
    assert code == 0, told
    assert parts is not None
    assert "not shown again" in told
    assert "loopback" in told
    code, listed, _ = run("keys", "list", "--config", config)
    assert (code, listed.count("in force")) == (0, 1)
    assert "user:robot, group:hr, editor" in listed
    assert parts[1] not in listed
    entry = json.loads(run("keys", "list", "--json", "--config", config)[1])[0]
    assert (entry["id"], entry["roles"], entry["state"]) == (parts[0], ["editor", "reader"], "in force")
    assert run("keys", "revoke", written.strip(), "--config", config)[:2] == (0, f"{parts[0]}: revoked\n")
    assert "revoked" in run("keys", "list", "--config", config)[1]
    code, _, told = run("keys", "revoke", "0" * 16, "--config", config)
    assert (code, told.count("acme has no such key")) == (1, 1)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["x", "--role", "root"], "'root' is no role; there are reader, editor, operator, auditor"),
        (["  "], "names have 1 to 200 printable characters"),
        (["x", "--user", ""], "names have"),
        (["x", "--group", "a\nb"], "names have"),
        (["x", "--address", "https://other.example"], "is not below serving.public_url"),
        (["x", "--address", "file:///x"], "an address is an URL below serving.public_url"),
        (["x", "--days", "0"], "--days"),
        (["x", "--tenant", "nobody"], "is not configured"),
    ],
)
def test_a_scope_that_makes_no_sense_is_refused(config: str, arguments: list[str], words: str) -> None:
    code, written, told = run("keys", "create", *arguments, "--config", config)
    assert (code, written) == (2, "")
    assert words in told
    assert run("keys", "list", "--config", config)[1] == ""


def test_changes_of_keys_stand_in_the_audit_log(tmp_path: Path) -> None:
    config = write_config(tmp_path, tmp_path / "home", "audit: {mode: required}\n")
    code, written, _ = run("keys", "create", "nightly", "--config", config)
    assert code == 0
    run("keys", "revoke", written.strip(), "--config", config)
    with sqlite3.connect(tmp_path / "home" / "serving.db") as connection:
        kinds = [row[0] for row in connection.execute("SELECT kind FROM audit_rows ORDER BY sequence")]
    assert kinds == ["key.created", "key.revoked"]


def test_forgetting_a_user_revokes_the_keys_in_that_name_and_no_others(tmp_path: Path) -> None:
    config = write_config(tmp_path, tmp_path / "home", "audit: {mode: required}\n")
    users = {"one": "ann", "two": "ann", "three": "bob", "four": None}
    for name, user in users.items():
        assert run("keys", "create", name, *(["--user", user] if user else []), "--config", config)[0] == 0
    listed = {key["name"]: key for key in json.loads(run("keys", "list", "--json", "--config", config)[1])}
    run("keys", "revoke", listed["two"]["id"], "--config", config)
    code, told, _ = run("forget", "--user", "ann", "--config", config)
    assert (code, "; revoked 1 keys" in told) == (0, True)
    keys = {key["name"]: key for key in json.loads(run("keys", "list", "--json", "--config", config)[1])}
    assert {name: (key["state"], key["user"]) for name, key in keys.items()} == {
        "one": ("revoked", None),
        "two": ("revoked", None),
        "three": ("in force", "bob"),
        "four": ("in force", None),
    }
    again = json.loads(run("forget", "--user", "ann", "--json", "--config", config)[1])
    assert again["keys"] == 0
    with sqlite3.connect(tmp_path / "home" / "serving.db") as connection:
        kinds = connection.execute("SELECT kind, subject FROM audit_rows ORDER BY sequence").fetchall()
        assert b"ann" not in b"".join(str(row).encode() for row in connection.execute("SELECT * FROM api_keys"))
    assert [row for row in kinds if row[0] == "key.revoked"] == [
        ("key.revoked", listed["two"]["id"]),
        ("key.revoked", listed["one"]["id"]),
    ]
