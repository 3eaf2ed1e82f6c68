"""A question of the terminal imports no more than it needs: that is most of the time it takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.command_line import run

QUESTION = "May I restart a broker while partitions are under-replicated?"
LISTED = "What is the default of max.poll.records?"  # answered by a row of a table, under what leads it in
# Each of them takes as long to import as a question takes to answer, or longer.
HEAVY = {
    "chromadb", "dagster", "evals", "fastapi", "httpx", "huggingface_hub", "lxml", "pandas",
    "prometheus_client", "rag_assets", "scipy", "sqlalchemy", "starlette", "torch", "transformers",
    "uvicorn",
}  # fmt: skip
RUN = """
import sys
from rag_serving.cli.main import main
try:
    main()
finally:
    print("imported", *sorted({name.split(".")[0] for name in sys.modules}))
"""


def imported(*arguments: str, more: str = "") -> set[str]:
    done = subprocess.run([sys.executable, "-c", more + RUN, *arguments], capture_output=True, text=True, check=True)
    return set(done.stdout.splitlines()[-1].split()[1:])


def test_nothing_heavy_is_imported_for_a_question(wiki_home: Path, tmp_path: Path) -> None:
    config = tmp_path / "app.yaml"
    config.write_text(f"home: {wiki_home}\ntenants: {{acme: {{}}}}\n")
    run("ask", QUESTION, "--config", str(config))  # makes the tables of telemetry and the graphs
    run("ask", LISTED, "--config", str(config))
    modules = imported("ask", QUESTION, "--config", str(config), more="import wave\n")
    assert "wave" in modules, "what is imported is seen"
    assert modules & HEAVY == set()
    assert imported("ask", LISTED, "--config", str(config)) & HEAVY == set()
    assert imported("search", QUESTION, "--config", str(config)) & HEAVY == set()


def test_a_question_looks_for_no_garbage_and_neither_does_its_end(wiki_home: Path, tmp_path: Path) -> None:
    config = tmp_path / "app.yaml"
    config.write_text(f"home: {wiki_home}\ntenants: {{acme: {{}}}}\n")
    code = (
        "import gc, sys\nfrom rag_serving.cli.main import main\nstarted = []\n"
        "gc.callbacks.append(lambda phase, info: started.append(info['generation']))\n"
        "try: main()\nfinally: print('collected', started, gc.get_freeze_count() > 10_000)"
    )
    command = [sys.executable, "-c", code, "ask", QUESTION, "--config", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "collected [] True"
