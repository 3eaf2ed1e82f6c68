"""The agents of `examples/` answer over the tools, by a scripted model, and refuse what the pages do not tell."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = ("agent_loop.py", "langgraph_agent.py")
ASKED = "How long does each broker keep logs by default?"


def run(example: str, question: str, home: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    config = folder / "app.yaml"
    config.write_text(f"home: {home}\ntenants: {{acme: {{}}}}\n")
    command = [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "mcp", "--config", str(config)]
    environment = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    environment |= {
        "MCP_COMMAND": shlex.join(command),
        "PYTHONPATH": str(ROOT),
        "AUDIT_LOG": str(folder / "audit.jsonl"),
    }
    return subprocess.run(
        [sys.executable, str(ROOT / "examples" / example), question],
        env=environment, capture_output=True, text=True, check=False, timeout=120, cwd=folder,
    )  # fmt: skip


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_agent_answers_with_the_page(example: str, wiki_home: Path, tmp_path: Path) -> None:
    done = run(example, ASKED, wiki_home, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "168 hours" in done.stdout
    assert "https://wiki.example/pages/12#Log-retention" in done.stdout
    assert "pony" not in done.stdout
    if example == "langgraph_agent.py":
        audit = json.loads((tmp_path / "audit.jsonl").read_text())
        assert (audit["query"], audit["claims_kept"], audit["claims_dropped"]) == (ASKED, 1, 1)
        assert "12:1:0" in audit["retrieved_ids"]
    else:
        assert done.stderr.count("search(") == done.stderr.count("get_passage(") == 1


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_agent_refuses_what_no_page_tells(example: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    from support.wiki import Passage, publish

    home = tmp_path_factory.mktemp("empty")
    publish(home, (Passage("14", "Salaries", "A bonus of 4,000 euros.", readers="group:hr"),))
    done = run(example, ASKED, home, tmp_path_factory.mktemp("run"))
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "This information cannot be verified from the pages."
