"""`python -m evals.bench.set_questions`: whole sets that questions ask for, and ordinary questions taken for such.

Of the half that is only measured no question and no result is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import yaml

from evals.bench.corpora import DATA, ROOT, cut, sample_pages
from rag_assets.making.selections import SourceTables, gathered_facts
from rag_assets.sources import open_source
from rag_serving.access.principals import EVERYONE
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.loading import Config, load_config, parse_config
from rag_serving.indexes.set_tables import SetTablesOfReaders
from rag_serving.records.sets import SetError, SetMember, SetResult, SetTables
from rag_serving.sets.cells import normalized
from rag_serving.sets.execute import execute
from rag_serving.sets.reading import read_set

GOLD = ROOT / "evals" / "gold" / "sets"
_ORDINARY = 1_000
_INTEGER = re.compile(r"\d[\d,]*(?:\.\d+)?")

Shape = Mapping[str, Any]


@dataclass(frozen=True)
class SetCorpus:
    """Hold what everybody may read of a corpus, and the file of each page."""

    tables: SetTables
    files: Mapping[str, str]


def main(arguments: list[str] | None = None) -> int:
    """Print how many questions are taken and their results, and how many ordinary ones are taken."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.set_questions", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--ordinary", type=int, default=_ORDINARY, help="how many ordinary questions are asked")
    parser.add_argument("--details", action="store_true", help="print each question of the half to build with")
    options = parser.parse_args(arguments)
    corpora = {name: set_corpus(name, options.data) for name in ("sample", "KAFKA", "FLINK", "kafka-docs")}
    judged = [(question, judge(question, corpora[question["corpus"]])) for question in read_questions(GOLD)]
    for half in ("build", "measured"):
        print(half, _figures([each for each in judged if each[0]["half"] == half]))
    for each, outcome in judged if options.details else ():
        if each["half"] == "build":
            print(f"{outcome}: {each['id']}: {each['question']}")
    ordinary = ordinary_questions(options.data, options.ordinary)
    taken = [
        (question, name, query)
        for question in ordinary
        for name in ("sample", "KAFKA")
        if (query := read_set(question, corpora[name].tables)) is not None
    ]
    print(f"ordinary: {len({question for question, *_ in taken})} of {len(ordinary)} taken")
    for question, name, query in taken:
        print(f"  {name}: {question} -> {query.payload()}")
    return 0


def set_corpus(name: str, data: Path = DATA) -> SetCorpus:
    """Return a corpus as everybody may read it, cut into passages by the default settings."""
    config = load_config(ROOT / "config" / "app.yaml") if name == "sample" else folder_config(name, data)
    pages = sample_pages() if name == "sample" else folder_pages(config)
    made = cut(name, pages, drops_boilerplate=False)
    source = dict(zip(pages["page_id"].to_pylist(), pages["source"].to_pylist(), strict=True))
    sources = pa.array([source[page] for page in made.chunks["page_id"].to_pylist()])
    kinds = pa.array(["page"] * len(made.chunks))
    texts = made.chunks.append_column("source", sources).append_column("kind", kinds)
    tables = {
        key: SourceTables(
            own := pages.filter(pc.equal(pages["source"], key)),
            made.sections.filter(pc.is_in(made.sections["page_id"], value_set=own["page_id"].combine_chunks())),
        )
        for key in pages["source"].unique().to_pylist()
    }
    facts = gathered_facts(tables, config, texts, ())
    readable = SetTablesOfReaders(texts, lambda: facts).of(frozenset({EVERYONE}))
    assert readable is not None
    return SetCorpus(readable, dict(zip(pages["page_id"].to_pylist(), pages["source_file"].to_pylist(), strict=True)))


def folder_config(name: str, data: Path) -> Config:
    kind, folder = ("docs_folder", "kafka-docs/39") if name == "kafka-docs" else ("confluence_dump", f"cwiki/{name}")
    source = {"kind": kind, "tenant": "bench", "path": str(data / folder), "readers": "everyone"}
    return parse_config({"tenants": {"bench": {}}, "sources": {name.lower(): source}})


def folder_pages(config: Config) -> pa.Table:
    [(key, source)] = config.sources.items()
    return open_source(key, source, Path("unused")).sync(None, {}).pages.select(PAGES.columns.names)


def read_questions(gold: Path) -> list[Shape]:
    """Return the questions, each with its truth."""
    truth = {line["id"]: line for line in _lines(gold / "truth.jsonl")}
    return [{**question, "truth": truth[question["id"]]} for question in _lines(gold / "questions.jsonl")]


def judge(question: Shape, corpus: SetCorpus) -> str:
    """Return `right` if the set or the value is exactly one of those that are right, else `wrong`; `left`: it goes the
    ordinary way."""
    query, truth = read_set(question["question"], corpus.tables), question["truth"]
    if query is None:
        return "left"
    try:
        result = execute(query, corpus.tables, "bench")
    except SetError:
        return "left"
    is_answerable, readings = truth["status"] != "unanswerable", truth.get("readings") or [truth]
    is_right = is_answerable and any(_is_right(result, each, corpus) for each in readings)
    return "right" if is_right else "wrong"


def _is_right(result: SetResult, truth: Shape, corpus: SetCorpus) -> bool:
    query, value, members = result.query, str(truth.get("value", "")), list(result.members)
    if query.group:
        return bool(value) and all(f"{group.name} {group.count}" in value for group in result.groups)
    if query.operation != "list":
        return _numbers(result.value or "")[:1] == (_numbers(value)[:1] or [str(len(truth.get("set", ())))])
    if query.column:
        column = query.column.removeprefix("property:")
        return len(members) == 1 and normalized(dict(members[0].cells)[column]) in normalized(value)
    if "set" not in truth:
        return len(members) == 1 and any(normalized(value).startswith(name) for name in _names(members[0], corpus))
    return _is_same([normalized(name) for name in truth["set"]], [_names(member, corpus) for member in members])


def _is_same(wanted: Sequence[str], found: list[set[str]]) -> bool:
    """Return whether each name is that of one member, and no member is left."""
    left = list(found)
    for name in wanted:
        place = next((at for at, names in enumerate(left) if name in names or name.rpartition(" (")[0] in names), None)
        if place is None:
            return False
        del left[place]
    return not left


def _names(member: SetMember, corpus: SetCorpus) -> set[str]:
    """Return the true names of a member: a page's title or file, or a cell."""
    cells = dict(member.cells)
    if ":" in member.key:
        return set(map(normalized, cells.values()))
    names = (member.title, f"{cells['space']}: {member.title}", corpus.files[member.page_id] or member.title)
    return set(map(normalized, names))


def _numbers(text: str) -> list[str]:
    return [number.replace(",", "") for number in _INTEGER.findall(text)]


def _figures(judged: Sequence[tuple[Shape, str]]) -> str:
    outcomes = Counter(outcome for _, outcome in judged)
    taken = outcomes["right"] + outcomes["wrong"]
    unanswerable = sum(each["truth"]["status"] == "unanswerable" for each, outcome in judged if outcome == "wrong")
    return (
        f"{len(judged)} questions: {taken} taken, {outcomes['right']} exactly right, {outcomes['wrong']} wrong "
        f"(of these {unanswerable} without an answer), {outcomes['left']} left to the ordinary way"
    )


def ordinary_questions(data: Path, count: int) -> list[str]:
    """Return questions of other sets, each set's evenly from its beginning to its end, a quarter each at most."""
    gold = ROOT / "evals" / "gold"
    squad = json.loads((data / "squad2" / "dev-8-articles.json").read_text("utf-8"))["data"]
    paragraphs = [paragraph for article in squad for paragraph in article["paragraphs"]]
    sets = [
        _asked(gold / "assistant" / "build.yaml"),
        [question for path in sorted((gold / "people").glob("*_build.yaml")) for question in _asked(path)],
        [question["question"] for paragraph in paragraphs for question in paragraph["qas"]],
        [str(line["question"]) for line in _lines(data / "reader" / "questions.jsonl")],
    ]
    chosen: dict[str, None] = {}
    for number, questions in enumerate(sets):
        share = min(len(questions), (count - len(chosen)) // (len(sets) - number))
        chosen.update(dict.fromkeys(questions[at * len(questions) // share] for at in range(share)))
    return list(chosen)


def _asked(path: Path) -> list[str]:
    shapes = yaml.safe_load(path.read_text("utf-8"))["questions"]
    return [str(shape["question"]) for shape in shapes if "question" in shape]


def _lines(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


if __name__ == "__main__":
    sys.exit(main())
