"""`python -m evals.training.wiki_pairs`: the questions that wikis bring themselves, as files of JSON lines.

Belongs here: the corpora, how many questions a page may give, the counts that are printed.
Does not belong here: how questions are made.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

import pyarrow as pa

from evals.bench.passages.corpora import cut, file_pages
from evals.bench.people import read_pages
from evals.bench.real_text import DATA
from evals.training.code_questions import code_pairs
from evals.training.heading_questions import heading_pairs
from evals.training.line_questions import definition_pairs, faq_pairs, key_value_pairs, list_pairs
from evals.training.link_questions import link_pairs
from evals.training.near_misses import near_misses, removed
from evals.training.pairs import Pair, write_pairs
from evals.training.rewordings import rewordings
from evals.training.table_questions import table_pairs
from evals.training.version_questions import version_pages, version_pairs
from evals.training.wiki import Wiki

VERSIONS = "kafka-docs-versions"
CORPORA = ("sample", "cwiki", "rust-book", "kafka-docs", VERSIONS)
KAFKA_DOCS = "39"
PER_PAGE = 12  # questions of one source that a page may give, other wordings aside
WORDINGS = 2  # other wordings of a question
_MISSPELT = "misspelt"


def main(arguments: list[str] | None = None) -> int:
    """Write a file for each corpus that is there, and print how many questions there are."""
    options = _options(arguments)
    counts: Counter[tuple[str, str, str]] = Counter()
    for name in options.corpora:
        pages = pages_of(name, options.data)
        if pages is None:
            print(f"training: {options.data} has no pages of {name}", file=sys.stderr)
            continue
        pairs = wiki_pairs(open_wiki(name, pages), options.seed, options.per_page)
        counts += write_pairs(pairs, options.out / f"{name}.jsonl")
    print(table(counts))
    return 0


def pages_of(name: str, data: Path) -> pa.Table | None:
    """Return rows of PAGES of a corpus; None where its real data are not there."""
    folder = data / "kafka-docs"
    if not name.startswith("kafka-docs"):
        return read_pages(name, data)
    if not folder.is_dir():
        return None
    return version_pages(folder) if name == VERSIONS else file_pages(folder / KAFKA_DOCS, "html")


def open_wiki(name: str, pages: pa.Table) -> Wiki:
    """Return pages as sections that questions are made of."""
    titles = dict(zip(pages["page_id"].to_pylist(), pages["title"].to_pylist(), strict=True))
    return Wiki(cut(name, pages), titles)


def wiki_pairs(wiki: Wiki, seed: int = 0, per_page: int = PER_PAGE) -> Iterator[Pair]:
    """Yield a corpus' questions: what its structure asks, in several wordings, and what none of its pages answers."""
    first = version_pairs(wiki, seed) if wiki.name == VERSIONS else _first_wordings(wiki, seed)
    for pair in bounded(first, per_page, seed):
        yield from _wordings(pair, seed)
        for other in (removed(wiki, pair), *near_misses(wiki, pair, seed)):
            if other:
                yield from _wordings(other, seed, 1)


def bounded(pairs: Iterable[Pair], most: int, seed: int) -> Iterator[Pair]:
    """Yield at most so many pairs of each page and source, chosen by hash, in their order."""
    found: dict[tuple[str, str], list[Pair]] = defaultdict(list)
    for pair in pairs:
        found[pair.page_id, pair.source].append(pair)
    for those in found.values():
        kept = {id(pair) for pair in sorted(those, key=lambda pair: _drawn(f"{seed}:{pair.id}"))[:most]}
        yield from (pair for pair in those if id(pair) in kept)


def _first_wordings(wiki: Wiki, seed: int) -> Iterator[Pair]:
    return chain(
        table_pairs(wiki, seed),
        key_value_pairs(wiki),
        definition_pairs(wiki),
        list_pairs(wiki),
        code_pairs(wiki),
        faq_pairs(wiki),
        heading_pairs(wiki),
        link_pairs(wiki),
    )


def _wordings(pair: Pair, seed: int, most: int = WORDINGS) -> Iterator[Pair]:
    """Yield a pair and a few of its other wordings; those of a heading also for a section whose heading is masked."""
    others = sorted(rewordings(pair.question, seed), key=lambda other: _drawn(f"{seed}:{pair.id}:{other[0]}"))
    for wording in (pair, *(pair.reads(text, how, _kind(pair, how)) for how, text in others[:most])):
        yield wording
        if wording.source == "heading" and wording.answerable:
            yield wording.with_heading_masked()


def _kind(pair: Pair, how: str) -> str:
    return _MISSPELT if how == _MISSPELT and pair.answerable else ""


def _drawn(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def table(counts: Counter[tuple[str, str, str]]) -> str:
    """Return the counts as a Markdown table, a row for each source and kind, a column for each corpus."""
    corpora = sorted({corpus for corpus, _, _ in counts})
    rows = [("source", "kind", *corpora), ("---", "---", *["---:"] * len(corpora))]
    for source, kind in sorted({(source, kind) for _, source, kind in counts}):
        rows.append((source, kind, *(str(counts[corpus, source, kind]) for corpus in corpora)))
    totals = (str(sum(count for (of, _, _), count in counts.items() if of == corpus)) for corpus in corpora)
    rows.append(("all", "", *totals))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m evals.training.wiki_pairs", description=__doc__.splitlines()[0])
    parser.add_argument("--corpora", nargs="+", choices=CORPORA, default=CORPORA, help="all that are there by default")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--out", type=Path, required=True, help="folder that the files are written to")
    parser.add_argument("--per-page", type=int, default=PER_PAGE, help="questions of one source that a page may give")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
