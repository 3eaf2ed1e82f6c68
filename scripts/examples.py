"""The example questions in README, docs and help texts, and what the product prints for them on the samples.

`python scripts/examples.py` runs those whose output is shown and tells which is not what it says; `--write` writes what
the product prints now. The samples have to be built before (`make demo demo-documents`). The tests run all of them.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_COMMAND = re.compile(r"^\s*(?:\$ |@)?(?P<command>(?:citelock (?:ask|search) [^-\[{].*|curl .*/v1/\w+ .*))$")
_EPILOG = re.compile(r"then: (?P<command>citelock ask '[^']+')$")
_BLOCK = re.compile(r"^```console\n(?P<content>.*?)^```$", re.MULTILINE | re.DOTALL)
DOCUMENTS = "config/documents.yaml"
"""The configuration that the examples of docs/documents.md name; the tests have it built elsewhere."""
_ID = re.compile(r"\b[0-9a-f]{32}\b")
_URL = re.compile(r"\S+(?P<path>/v1/\w+)")


@dataclass(frozen=True)
class Example:
    """A command that somebody may copy; `shown` is the output beside it, None where there is none."""

    path: Path
    command: str
    shown: str | None = None

    @property
    def where(self) -> str:
        return str(self.path.relative_to(ROOT))


def examples() -> list[Example]:
    """Return the commands that ask or search in README, docs (the help texts among them) and Makefile."""
    found = []
    for path in (ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").glob("*.md"))):
        text = path.read_text(encoding="utf-8")
        shown = {example.command: example for example in _shown(path, text)}
        for line in text.replace("\\\n", " ").splitlines():
            if match := _COMMAND.match(line) or _EPILOG.search(line):
                command = " ".join(match["command"].split())
                found.append(shown.get(command, Example(path, command)))
    return found


def _shown(path: Path, text: str) -> Iterator[Example]:
    for block in _BLOCK.finditer(text):
        for part in re.split(r"^\$ ", block["content"], flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if _COMMAND.match(command):
                yield Example(path, command, output.rstrip("\n"))


def printed(command: str, config: Path, documents: Path = ROOT / DOCUMENTS) -> str:
    """Return what the product prints for a command, without the line break at its end.

    Args:
        command: as it is shown.
        config: of the sample wiki.
        documents: what `--config config/documents.yaml` stands for.

    Raises:
        ValueError: this program cannot run such a command.
    """
    lexer = shlex.shlex(command, posix=True, punctuation_chars="|>")
    lexer.whitespace_split = True
    tokens = [str(documents) if token == DOCUMENTS else token for token in lexer]
    ends = [at for at, token in enumerate(tokens) if token in ("|", ">>")]
    own, rest = (tokens[: ends[0]], tokens[ends[0] :]) if ends else (tokens, [])
    text = _posted(own, config) if own[0] == "curl" else _invoked(own[1:], config)
    if rest[:2] == ["|", "jq"]:
        arguments = rest[2:]
        raw, path = arguments[0] == "-r", arguments[-1]
        value: Any = json.loads(text)[path.removeprefix(".").removesuffix("[]")]
        if raw and path.endswith("[]"):
            return "\n".join(value)
        return json.dumps(value, ensure_ascii=False, indent=2)
    return text.rstrip("\n")


def _invoked(arguments: list[str], config: Path) -> str:
    from typer.testing import CliRunner

    from rag_serving.cli.main import app

    result = CliRunner().invoke(app, arguments, prog_name="citelock", env={"CITELOCK_CONFIG": str(config)})
    if result.exit_code:
        raise ValueError(f"exit code {result.exit_code}: {result.stderr.strip()}")
    return result.stdout


def _posted(arguments: list[str], config: Path) -> str:
    from fastapi.testclient import TestClient

    from rag_serving.api.app import create_app
    from rag_serving.config.loading import load_config

    path = next(match["path"] for argument in arguments if (match := _URL.fullmatch(argument)))
    body = json.loads(arguments[arguments.index("-d") + 1])
    app = create_app(load_config(config))
    with TestClient(app, "http://127.0.0.1:8088", client=("127.0.0.1", 50000)) as client:
        return client.post(path, json=body).raise_for_status().text


def comparable(text: str) -> str:
    """Return the same for every run: ids of receipts are not."""
    return _ID.sub("ID", text)


def main() -> int:
    config, stale = ROOT / "config" / "app.yaml", 0
    for example in examples():
        now = printed(example.command, config) if example.shown is not None else ""
        if example.shown is None or comparable(now) == comparable(example.shown):
            continue
        stale += 1
        print(f"{example.where}: {example.command}\n{now}\n", file=sys.stderr)
        if "--write" in sys.argv:
            text, before = example.path.read_text(encoding="utf-8"), f"$ {example.command}\n"
            example.path.write_text(text.replace(before + example.shown, before + now, 1), encoding="utf-8")
    return int(bool(stale) and "--write" not in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
