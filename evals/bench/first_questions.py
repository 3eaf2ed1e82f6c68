"""`python -m evals.bench.first_questions GOLD FOLDER`: what the first questions to a folder come to."""

from __future__ import annotations

import argparse
import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

_MARKUP = re.compile(r"<[^<>]*>|[_*`>]")


def plain(text: str) -> str:
    """Return a text as its readers see it, without marks and line breaks."""
    return " ".join(_MARKUP.sub("", text).split())


def judged(question: dict[str, str], answer: dict[str, Any]) -> str:
    """Return the place of the right sentence in an answer; of a question without one, whether it says so."""
    told = answer["outcome"] == "told"
    if "page" not in question:
        return {"told": "told wrongly", "closest": "closest passages, not told", "none": "not found"}[answer["outcome"]]
    text, starts = plain(answer["answer"]), question["starts"]
    if starts in text.partition("[1]")[0]:
        return "told" if told else "first of the closest"
    return "among those shown" if starts in text else "told by other words" if told else "not shown"


def main(arguments: list[str] | None = None) -> int:
    """Ask all questions of a gold file and print what came of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("gold", type=Path, help="such as evals/gold/folder/rust_book.yaml")
    parser.add_argument("folder", type=Path, help="where its pages are, such as ../shared/data/rust-book/src")
    parser.add_argument("--wait", action="store_true", help="ask by words and meaning, not as the first question is")
    options = parser.parse_args(arguments)
    counts = Counter[str]()
    for question in yaml.safe_load(options.gold.read_text(encoding="utf-8"))["questions"]:
        command = ["citelock", "ask", "--json", *(["--wait"] if options.wait else []), "--docs", str(options.folder)]
        with subprocess.Popen([*command, question["question"]], stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            answer = json.loads(process.stdout.readline())
            process.terminate()  # it would go on to make vectors
        verdict = judged(question, answer)
        counts[verdict] += 1
        print(f"{question['id']}  {verdict}: {question['question']}\n    {plain(answer['answer'])[:300]}", flush=True)
    print(", ".join(f"{count} {verdict}" for verdict, count in counts.most_common()))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
