"""The command `citelock` in this process, and its configuration file."""

from __future__ import annotations

import sys
from pathlib import Path

from typer.testing import CliRunner

from rag_serving.cli.main import app

QUESTION = "May I restart a broker while partitions are under-replicated?"
CITELOCK = [sys.executable, "-c", "from rag_serving.cli.main import main; main()"]  # in a process of its own


def write_config(folder: Path, home: Path, more: str = "") -> str:
    """Write a configuration of the tenant `acme` and return its path."""
    path = folder / "app.yaml"
    path.write_text(f"home: {home}\ntenants: {{acme: {{}}}}\n{more}", encoding="utf-8")
    return str(path)


def run(*arguments: str) -> tuple[int, str, str]:
    """Run the command and return its exit code, standard output and standard error."""
    result = CliRunner().invoke(app, list(arguments), prog_name="citelock")
    return result.exit_code, result.stdout, result.stderr
