"""Measure whether the right thing is done (`python -m evals.bench.assistant`) with what people ask an assistant.

Belongs here: building the samples, asking in the phase that is named, printing. Does not belong here: the questions
(`evals/gold/assistant`), judging an answer (`evals.bench.assistant.judging`).

The tenants are built by `citelock build` under their own configuration, in a home of the bench. A chain is asked as one
conversation. Of the half that is only measured no question is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import cast, get_args

from evals.bench.assistant.gold import FOLDER, HALVES, Asked, read_half
from evals.bench.assistant.judging import JudgedChain, judge, misses, shares, table
from evals.bench.passages.corpora import ROOT
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.config.loading import load_config
from rag_serving.conversations.turns import Conversation, turn_of
from rag_serving.retrieval.hybrid import Mode

CONFIGS = {"demo": ROOT / "config" / "app.yaml", "port": ROOT / "config" / "documents.yaml"}
MODES = {1: "keyword_documents", 2: "keyword_chunks", 3: "hybrid"}


def main(arguments: list[str] | None = None) -> int:
    """Ask one half of the questions and print what came of them; 2 where the phase does not exist."""
    options = _options(arguments)
    if MODES[options.phase] not in get_args(Mode):
        print(f"bench: this version has no mode {MODES[options.phase]!r}", file=sys.stderr)
        return 2
    judged: list[JudgedChain] = []
    questions = read_half(options.half, options.gold)
    for tenant in dict.fromkeys(each.principal.tenant for each in questions):
        home = (options.home / tenant).resolve()
        if not options.no_build:
            build(CONFIGS[tenant], home)
        config = load_config(CONFIGS[tenant]).model_copy(update={"home": home})
        pipeline = Pipeline.open(config, tenant)
        pipeline.mode = cast(Mode, MODES[options.phase])
        try:
            judged += ask(pipeline, [each for each in questions if each.principal.tenant == tenant])
        finally:
            pipeline.close()
    found = shares(judged)
    if options.json:
        print(json.dumps({"half": options.half, "phase": options.phase, "kinds": found}, indent=2))
    else:
        print(f"half {options.half}, phase {options.phase}\n\n{table(found)}")
    if not options.json and options.half != "measured":
        print("\n".join(("", "misses:", *misses(judged))))
    return 0


def build(config: Path, home: Path) -> None:
    """Build all sources of a configuration under a home of its own.

    Raises:
        subprocess.CalledProcessError: the build failed.
    """
    home.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-c", "from rag_serving.cli.main import main; main()", "build", "--config", str(config)]
    surroundings = {**os.environ, "CITELOCK_HOME": str(home)}
    subprocess.run(command, check=True, cwd=ROOT, env=surroundings, stdout=subprocess.DEVNULL)


def ask(pipeline: Pipeline, questions: Sequence[Asked]) -> list[JudgedChain]:
    """Return what was done with each question of the pipeline's tenant; a chain is one conversation."""
    judged = []
    for asked in questions:
        titles = page_titles(pipeline, asked.principal)
        said, turns = Conversation(), []
        for turn in asked.turns:
            answer = pipeline.ask(asked.principal, turn.question, conversation=said)
            turns.append(judge(turn, answer, titles))
            said = Conversation((*said.turns, turn_of(turn.question, answer)))
        judged.append(JudgedChain(asked, tuple(turns)))
    return judged


def page_titles(pipeline: Pipeline, principal: Principal) -> dict[str, str]:
    """Return the titles of all pages that a principal may read, by their id and by their address without fragment."""
    with pipeline.reading(principal) as view:
        chunks = view.chunks(view.sample(len(view)).tolist())
    return {key: chunk.title for chunk in chunks for key in (chunk.page_id, chunk.url.partition("#")[0])}


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.bench.assistant", description=__doc__.splitlines()[0])
    parser.add_argument("--half", choices=HALVES, default="build")
    parser.add_argument("--phase", type=int, choices=sorted(MODES), default=3)
    parser.add_argument("--home", type=Path, default=Path(".citelock/bench-assistant"), help="where tenants are built")
    parser.add_argument("--no-build", action="store_true", help="ask what is built already")
    parser.add_argument("--gold", type=Path, default=FOLDER, help="folder of the questions")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
