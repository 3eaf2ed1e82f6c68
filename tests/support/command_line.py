"""The command `citelock` in this process, and its configuration file."""

from __future__ import annotations

import json
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


def finding(folder: Path, name: str, more: str = "") -> tuple[str, str, str]:
    """Return state, detail and how to mend it of one line of `citelock doctor`."""
    out = run("doctor", "--config", write_config(folder, folder / "home", more), "--json")[1]
    found = {each["name"]: each for each in json.loads(out)}[name]
    return found["state"], found["detail"], found["mend"]
