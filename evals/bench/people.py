"""`python -m evals.bench.people`: the usefulness of answers to questions in people's own words.

Pages are cut and indexed by the product's own code with its default settings, each passage as it is; near-duplicates
are not joined. Questions of the held-out half are not printed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args
from urllib.parse import unquote

import pyarrow as pa

from evals.bench.corpora import DATA, ROOT, PassageCorpus, cut, file_pages, passages, sample_pages, wiki_pages
from evals.evaluation.bench import TENANT
from evals.evaluation.cli import BenchProgress
from evals.evaluation.evaluate import page_of
from evals.evaluation.gold import GoldPlace, GoldQuestion, GoldSet, plain, read_gold
from evals.evaluation.gold_collections import published_passages
from evals.evaluation.metrics import wilson_interval
from rag_serving.ask import Pipeline
from rag_serving.config.loading import parse_config
from rag_serving.models.embedding.weights import MODEL
from rag_serving.records.answers import Answer, Citation

Outcome = Literal["useful", "closest", "poor", "wrong", "declined"]
"""All facts, told with confidence under a link to a right section; the same, shown as what comes closest; some of the
facts, or all without a right section; none of them, or an answer where there is none; nothing told that would help."""
NOT_A_QUESTION = "not_a_question"
PEOPLE = ROOT / "evals" / "gold" / "people"
CORPORA = ("sample", "cwiki", "rust-book")
HALVES = ("build", "measured")

_MARKER = re.compile(r"\[\d{1,3}\]")


@dataclass(frozen=True)
class JudgedUse:
    """A question and what its answer is worth."""

    gold: GoldQuestion
    outcome: Outcome

    @property
    def is_right(self) -> bool:
        """Return whether it is the right outcome: a useful answer, or none if there is none."""
        return self.outcome == ("useful" if self.gold.answerable else "declined")

    @property
    def is_shown(self) -> bool:
        """Return whether the reader sees all facts under a link to a right section, or nothing if there is
        nothing."""
        return self.is_right or (self.gold.answerable and self.outcome == "closest")

    @property
    def group(self) -> str:
        if self.gold.kind == NOT_A_QUESTION:
            return NOT_A_QUESTION
        return "answerable" if self.gold.answerable else "unanswerable"


@dataclass(frozen=True)
class UseShares:
    """The outcomes of one kind of question."""

    name: str
    outcomes: Counter[Outcome]
    right: int
    shown: int  # right, or all facts among what comes closest

    def payload(self) -> dict[str, Any]:
        """Return counts, and the shares that are right, or right or shown as closest, with their 95 % intervals."""
        counts = {outcome: self.outcomes[outcome] for outcome in get_args(Outcome)}
        total = self.outcomes.total()
        shares = {
            name: {key: round(value, 4) for key, value in vars(wilson_interval(number, total)).items()}
            for name, number in (("right", self.right), ("right_or_closest", self.shown))
        }
        return {"questions": total, **counts, **shares}


def judge_use(gold: GoldQuestion, answer: Answer) -> JudgedUse:
    """Return the value of an answer."""
    is_told = answer.outcome == "told" and bool(answer.citations)
    if not gold.answerable:
        return JudgedUse(gold, "wrong" if is_told else "declined")
    said = facts_said(gold, answer)
    is_whole = all(said) and any(is_right_section(gold.places, citation) for citation in answer.citations)
    if is_told:
        return JudgedUse(gold, "useful" if is_whole else "poor" if any(said) else "wrong")
    return JudgedUse(gold, "closest" if is_whole else "declined")


def facts_said(gold: GoldQuestion, answer: Answer) -> list[bool]:
    """Return for each fact whether answer or quotes say it; without facts the gold quotes are the only one."""
    quotes = (citation.quote for citation in answer.citations)
    text = "\n".join([_MARKER.sub(" ", answer.answer), *quotes])
    return [any(holds(text, spelling) for spelling in fact) for fact in gold.facts or (gold.quotes,)]


def holds(text: str, fact: str) -> bool:
    """Return whether a text says a fact in whole words; white space, typography and case aside."""
    return bool(re.search(rf"(?<![^\W_]){re.escape(plain(fact))}(?![^\W_])", plain(text)))


def is_right_section(places: Sequence[GoldPlace], citation: Citation) -> bool:
    """Return whether a citation is of one of the sections: by its anchor, or where none is known by its heading."""
    page, anchor = page_of(citation), unquote(citation.url.partition("#")[2])
    heading = (citation.heading_path or ("",))[-1]
    return any(
        page == place.page
        and (unquote(place.anchor) == anchor if place.anchor else plain(place.heading) == plain(heading))
        for place in places
    )


def shares(judged: Sequence[JudgedUse]) -> list[UseShares]:
    """Return the outcomes of answerable questions, unanswerable ones, and non-questions; then of each kind."""
    groups = list(_by(judged, [case.group for case in judged]))
    known = {group.name for group in groups}
    kinds = _by(judged, [case.gold.kind for case in judged])
    return [*groups, *(kind for kind in kinds if kind.name and kind.name not in known)]


def _by(judged: Sequence[JudgedUse], names: Sequence[str]) -> Iterator[UseShares]:
    for name in sorted(set(names)):
        those = [case for case, own in zip(judged, names, strict=True) if own == name]
        outcomes = Counter(case.outcome for case in those)
        yield UseShares(name, outcomes, sum(case.is_right for case in those), sum(case.is_shown for case in those))


def use_payload(judged: Sequence[JudgedUse]) -> dict[str, Any]:
    """Return the JSON shape: counts and shares by name, without the questions."""
    return {group.name: group.payload() for group in shares(judged)}


def use_table(judged: Sequence[JudgedUse]) -> str:
    """Return the same as a Markdown table."""
    heads = ("kind", "questions", *get_args(Outcome), "right (95 %)", "right or closest (95 %)")
    rows = [heads, ("---", *["---:"] * (len(heads) - 1))]
    for group in shares(judged):
        found = group.payload()
        both = [found.pop(name) for name in ("right", "right_or_closest")]
        cells = (f"{share['mean']:.0%} ({share['low']:.0%} to {share['high']:.0%})" for share in both)
        rows.append((group.name.replace("_", " "), *map(str, found.values()), *cells))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def main(arguments: list[str] | None = None) -> int:
    """Run one half of the questions, of each available corpus, and print the results."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.people", description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, help="all that are there by default")
    parser.add_argument("--half", choices=HALVES, default="build")
    parser.add_argument("--gold", type=Path, help="questions of one corpus in place of a half")
    parser.add_argument("--embedding", default=MODEL, help="local embedding model: a name or a folder")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench-people"), help="where indexes are kept")
    parser.add_argument("--json", action="store_true", help="print JSON instead of Markdown tables")
    parser.add_argument("--details", action="store_true", help="print each outcome, not of the measured half")
    options = parser.parse_args(arguments)
    judged: dict[str, list[JudgedUse]] = {}
    found: dict[str, dict[int, float]] = {}
    for name in options.corpora or CORPORA:
        pages = read_pages(name, options.data)
        if pages is None:
            print(f"bench: {options.data} has no pages of {name}", file=sys.stderr)
            continue
        home = options.cache / name / Path(options.embedding).name
        with published(cut(name, pages), home, options.embedding) as pipeline:
            gold = read_gold(options.gold or questions_of(name, options.half))
            judged[name] = ask(pipeline, gold)
            found[name] = pages_found(pipeline, gold)
    together = [each for those in judged.values() for each in those]
    everything = judged if len(judged) == 1 else {**judged, "all": together}
    if options.json:
        print(json.dumps({name: use_payload(those) for name, those in everything.items()}, indent=2))
    else:
        print("\n\n".join(f"**{name}**\n\n{use_table(those)}" for name, those in everything.items()))
        for name, parts in found.items():
            told = ", ".join(f"{k}: {share:.0%}" for k, share in parts.items())
            print(f"\n{name}: a right page among the first {told}")
    if options.details and options.half != "measured":
        print("\n".join(f"{each.outcome}: {each.gold.id}: {each.gold.question}" for each in together))
    return 0


def questions_of(corpus: str, half: str) -> Path:
    """Return the gold set of half of a corpus' questions."""
    return PEOPLE / f"{corpus.replace('-', '_')}_{half}.yaml"


def read_pages(corpus: str, data: Path) -> pa.Table | None:
    """Return rows of PAGES; None if the real data are not there."""
    if corpus == "sample":
        return sample_pages()
    if corpus == "cwiki":
        return wiki_pages(data / "cwiki") if (data / "cwiki").is_dir() else None
    return file_pages(data / "rust-book" / "src", "md") if (data / "rust-book" / "src").is_dir() else None


@contextmanager
def published(corpus: PassageCorpus, home: Path, model: str = MODEL) -> Iterator[Pipeline]:
    """Yield the pipeline over the indexed and published pages; vectors are stored in the folder."""
    config = parse_config({"home": str(home), "tenants": {TENANT: {}}, "embedding": {"model": model}})
    report = partial(BenchProgress(), "sentences embedded")
    with published_passages(passages(corpus.chunks), config, report) as pipeline:
        yield pipeline


def ask(pipeline: Pipeline, gold: GoldSet) -> list[JudgedUse]:
    """Return the value of the answer to each question for a caller with everyone's access."""
    report = BenchProgress()
    judged = []
    for done, question in enumerate(gold.questions, start=1):
        judged.append(judge_use(question, pipeline.ask(question.asker(TENANT), question.question)))
        report("questions asked", done, len(gold.questions))
    return judged


def pages_found(pipeline: Pipeline, gold: GoldSet) -> dict[int, float]:
    """Return the share of answerable questions of which a right page is among the first k pages that search finds."""
    ranks = []
    for question in (each for each in gold.questions if each.answerable):
        results = pipeline.search(question.asker(TENANT), question.question, 50).results
        pages = list(dict.fromkeys(result.chunk.page_id for result in results))
        right = {place.page for place in question.places}
        ranks.append(next((rank for rank, page in enumerate(pages, start=1) if page in right), 99))
    return {k: sum(rank <= k for rank in ranks) / max(1, len(ranks)) for k in (1, 3, 10)}


if __name__ == "__main__":
    sys.exit(main())
