"""`citelock build` of a tiny wiki, in this process and in one of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import typer
from typer.testing import CliRunner, Result

from rag_assets.build.command import command
from support.envelopes import Wiki

BuiltAs = Callable[[str, Callable[[Wiki], object]], Wiki]
"""Gives a copy of the wiki of this name, which the function prepared before it was built for the first time."""

COMMAND = [sys.executable, "-c", "import typer; from rag_assets.build.command import command; typer.run(command)"]


def build(wiki: Wiki, *arguments: str, code: int = 0) -> Result:
    """The command in this process."""
    app = typer.Typer()
    app.command()(command)
    result = CliRunner().invoke(app, [*arguments, "--config", str(wiki.config_path)])
    assert result.exit_code == code, result.output
    return result


def build_json(wiki: Wiki, *arguments: str, code: int = 0) -> dict[str, Any]:
    summary = json.loads(build(wiki, "--json", *arguments, code=code).stdout)
    assert isinstance(summary, dict)
    return summary


def start(wiki: Wiki, **streams: int) -> subprocess.Popen[str]:
    """The command in a process of its own."""
    return subprocess.Popen([*COMMAND, "--config", str(wiki.config_path)], text=True, **streams)  # type: ignore[call-overload, no-any-return]
