"""`citelock mcp` says in a line what it cannot be told, and what it lacks."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import run, write_config


@pytest.mark.parametrize("option", [("--user", "ann"), ("--group", "hr"), ("--tenant", "acme"), ("--editor",)])
def test_over_http_nobody_says_who_calls_but_their_token(option: tuple[str, ...], tmp_path: Path) -> None:
    code, _, error = run("mcp", "--http", "0", "--config", write_config(tmp_path, tmp_path), *option)
    assert (code, "serving.auth" in error) == (2, True), error


def test_without_the_package_a_line_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rag_serving.plugins.find_spec", lambda _: None)
    code, out, error = run("mcp", "--config", write_config(tmp_path, tmp_path))
    assert (code, out, error.count("\n")) == (2, "", 1)
    assert "pip install 'citelock[mcp]'" in error
