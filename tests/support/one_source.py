"""A home that one source is built into, read and asked as people do: for small inputs of any kind."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer
import yaml
from typer.testing import CliRunner

from rag_assets.build.command import command
from rag_serving.artifacts.schema import CHUNKS, MACRO_LEDGER
from rag_serving.artifacts.store import Store, read_table
from support.command_line import run


@dataclass(frozen=True)
class OneSource:
    """The home of the tenant `demo`, whose only source is `docs`."""

    folder: Path

    @property
    def config(self) -> str:
        return str(self.folder / "app.yaml")

    def configure(self, **source: Any) -> None:
        """Write the configuration: keys of the source over a kind and a path."""
        settings = {"tenant": "demo", "readers": "everyone", **source}
        content = {"home": str(self.folder / "home"), "tenants": {"demo": {}}, "sources": {"docs": settings}}
        self.folder.mkdir(parents=True, exist_ok=True)
        Path(self.config).write_text(yaml.safe_dump(content), encoding="utf-8")

    def build(self, code: int = 0) -> dict[str, Any]:
        """Build, and return the summary that `citelock build --json` prints."""
        build_app = typer.Typer()
        build_app.command()(command)
        result = CliRunner().invoke(build_app, ["--json", "--config", self.config])
        assert result.exit_code == code, result.output
        return dict(json.loads(result.stdout)) if result.stdout.strip().startswith("{") else {"error": result.output}

    def rows(self, kind: str = "chunks") -> list[dict[str, Any]]:
        """Return the rows of a table of the source: `chunks` or `macro_ledger`."""
        schema = {"chunks": CHUNKS, "macro_ledger": MACRO_LEDGER}[kind]
        path = Store(self.folder / "home").source("docs") / f"{kind}.parquet"
        return list(read_table(path, schema).to_pylist())

    def text(self) -> str:
        """Return the text of all chunks."""
        return "\n".join(row["text"] for row in self.rows())

    def ask(self, question: str, *arguments: str) -> dict[str, Any]:
        """Return what `citelock ask --json` prints."""
        code, out, error = run("ask", question, "--json", "--config", self.config, *arguments)
        assert code == 0, error
        return dict(json.loads(out))


def built(folder: Path, **source: Any) -> OneSource:
    """Return the home that a source with these keys (`kind=`, `path=` …) was built into."""
    home = OneSource(folder)
    home.configure(**{key: str(value) if isinstance(value, Path) else value for key, value in source.items()})
    home.build()
    return home


def shown(answer: dict[str, Any]) -> str:
    """Return what an answer says, with the quotes of its citations."""
    quotes: Sequence[str] = [citation["quote"] for citation in answer["citations"]]
    return "\n".join([answer["answer"], *quotes])
