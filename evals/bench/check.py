"""`python -m evals.bench.check`: how often a check of sentences against the pages is right.

`--home DIR` has the published corpora, which are built if they are missing. Of the half that is only measured no
claim is printed.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import yaml

from evals.bench.corpora import DATA, ROOT, build, sample_pages
from evals.bench.set_questions import folder_config, folder_pages
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.checking.verdicts import CheckedPassage, claims_of, finding
from rag_serving.config.loading import Config, load_config
from rag_serving.records.answers import CheckedClaim
from rag_serving.records.passages import Chunk

GOLD = ROOT / "evals" / "gold" / "claims"
FOLDERS: Mapping[str, tuple[str, ...]] = {"sample": (), "cwiki": ("KAFKA", "FLINK"), "kafka-docs": ("kafka-docs",)}
Kind = Literal["verbatim", "otherwise", "absent"]
_BEFORE_BREAK = re.compile(r"(?<= )([a-z]{4})(?=[a-z]{3})")
TYPOGRAPHIES: Mapping[str, Callable[[str], str]] = {
    "bold": lambda text: re.sub(r"^(\S+ \S+ \S+)", r"**\1**", text),
    "bullet": lambda text: f"• {text}",
    "case": lambda text: text[0].swapcase() + text[1:],
    "cells": lambda text: text.strip("| ").replace(" | ", "\t"),
    "code": lambda text: re.sub(r"\w+(?:[._]\w+)+", r"`\g<0>`", text),
    "dashes": lambda text: re.sub(r"(?<=\w)-(?=\w)", "\u2011", text.replace("--", "—")).replace("\u2013", "-"),
    "hyphenation": lambda text: _BEFORE_BREAK.sub(r"\1-\n", text, count=1),
    "ligature": lambda text: text.replace("fi", "\ufb01").replace("fl", "\ufb02"),
    "link": lambda text: re.sub(r"(?<= )(\S+ \S+)", r"[\1](https://wiki.example/pages/1)", text, count=1),
    "nbsp": lambda text: re.sub(r" (\S+) ", "\u00a0\\1 ", text),
    "quotes": lambda text: text.translate(str.maketrans(*("“”\u2019", '""\'') if "“" in text else ("'", "\u2019"))),
    "soft": lambda text: _BEFORE_BREAK.sub("\\1\u00ad", text),
    "spaces": lambda text: text.replace(" ", "  "),
    "stop": lambda text: text[:-1] if text.endswith(".") else f"{text}.",
}


@dataclass(frozen=True)
class Claim:
    """Hold a sentence, whether a page says it, says otherwise or does not say it, and that page and value."""

    id: str
    corpus: str
    kind: Kind
    text: str
    page: str | None = None
    page_says: str | None = None


def read_claims(half: Literal["build", "measured"], corpus: str, data: Path = DATA) -> list[Claim]:
    """Return the claims about a corpus. ValueError: a sentence is not on its page exactly once."""
    shapes = yaml.safe_load((GOLD / f"{half}.yaml").read_text(encoding="utf-8"))["claims"]
    texts = page_texts(corpus, data)
    return [_claim(shape, texts) for shape in shapes if shape["corpus"] == corpus]


@cache
def page_texts(corpus: str, data: Path = DATA) -> Mapping[str, str]:
    """Return the stored text of each page by its title and, if it is a file, by its path."""
    tables = [folder_pages(folder_config(name, data)) for name in FOLDERS[corpus]] or [sample_pages()]
    pages = pa.concat_tables(tables)
    texts: dict[str, list[str]] = {page: [] for page in pages["page_id"].to_pylist()}
    for section in build_sections(pages).sections.select(["page_id", "text"]).to_pylist():
        texts[section["page_id"]].append(section["text"])
    names = pages.select(["page_id", "title", "source_file"]).to_pylist()
    return {row["source_file"] or row["title"]: "\n".join(texts[row["page_id"]]) for row in names}


def _claim(shape: Mapping[str, Any], texts: Mapping[str, str]) -> Claim:
    text = shape["text"] if "text" in shape else _sentence(texts[shape["page"]], shape)
    if typography := shape.get("typography"):
        plain, text = text, TYPOGRAPHIES[typography](text)
        if text == plain:
            raise ValueError(f"{shape['id']}: {typography!r} changes nothing in {text!r}")
    return Claim(shape["id"], shape["corpus"], shape["kind"], text, shape.get("page"), shape.get("page_says"))


def _sentence(text: str, shape: Mapping[str, Any]) -> str:
    sentences = re.findall(f"{re.escape(shape['starts'])}.*?{re.escape(shape['ends'])}", text)
    if len(sentences) != 1:
        raise ValueError(f"{shape['id']}: {len(sentences)} sentences of {shape['page']!r} are so")
    return str(sentences[0])


Judged = tuple[Claim, CheckedClaim]


def main(arguments: list[str] | None = None) -> int:
    """Print the confusion of claims and verdicts, precision and recall, and how many lies are called verbatim."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.check", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--home", type=Path, default=ROOT / ".citelock" / "bench-check", help="of the built corpora")
    parser.add_argument("--measured", action="store_true", help="check the half that is only measured")
    parser.add_argument("--show", action="store_true", help="print the wrong ones of the half to build with")
    options = parser.parse_args(arguments)
    judged = list[Judged]()
    for corpus in FOLDERS:
        claims = read_claims("measured" if options.measured else "build", corpus, options.data)
        began = time.perf_counter()
        judged += (found := list(_judged(_config(corpus, options.home, options.data), claims)))
        print(f"{corpus}: {len(found)} claims in {time.perf_counter() - began:.1f} s, the model opened")
    print("\n".join(_figures(judged)))
    for name in ("lies", "true"):
        print(f"{name}: {dict(_lies(options.data / 'lies' / f'{name}.jsonl'))}")
    if options.show and not options.measured:
        for claim, checked in judged:
            if not _is_right(claim, checked):
                said = f"{claim.page}: {claim.page_says}; {checked.page_says!r}"
                print(f"{claim.id} {checked.verdict}: {claim.text!r}; {said}")
    return 0


def _config(corpus: str, home: Path, data: Path) -> Config:
    if corpus == "sample":
        config = load_config(ROOT / "config" / "app.yaml")
    else:
        configs = [folder_config(name, data) for name in FOLDERS[corpus]]
        sources = {key: source for each in configs for key, source in each.sources.items()}
        config = configs[0].model_copy(update={"sources": sources})
    config = config.model_copy(update={"home": home / corpus})
    if not any((config.home / "tenants").glob("*/current")):
        path = home / f"{corpus}.yaml"
        home.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(config.model_dump(mode="json", exclude_unset=True) | {"home": str(config.home)}))
        build(path, Path(config.home).resolve())
    return config


def _judged(config: Config, claims: Sequence[Claim]) -> Iterator[Judged]:
    """Yield each claim with its verdict, checked one by one: a text of all would lend them a context."""
    pipeline = Pipeline.open(config, next(iter(config.tenants)))
    for claim in claims:
        checked = pipeline.check(Principal(pipeline.tenant), claim.text).claims
        yield claim, min(checked, key=lambda each: (each.verdict == "no_claim", each.verdict == "verbatim"))
    pipeline.close()


def _is_right(claim: Claim, checked: CheckedClaim) -> bool:
    return checked.verdict == claim.kind or (claim.kind == "absent" and checked.verdict == "closest")


def _figures(judged: Sequence[Judged]) -> Iterator[str]:
    for kind in ("verbatim", "otherwise", "absent"):
        verdicts = Counter(checked.verdict for claim, checked in judged if claim.kind == kind)
        yield f"{kind}: {dict(verdicts.most_common())}"
    for verdict in ("verbatim", "otherwise"):
        given = [claim for claim, checked in judged if checked.verdict == verdict]
        right, wanted = sum(c.kind == verdict for c in given), sum(c.kind == verdict for c, _ in judged)
        yield f"{verdict}: precision {right}/{len(given)}, recall {right}/{wanted}"


def _lies(path: Path) -> Counter[str]:
    verdicts = Counter[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        shape = json.loads(line)
        text, heading = shape["passage"], shape["heading"]
        place = ("Handbook", ("Handbook", heading), "a", "https://wiki.example/1#a", text, 0, len(text), "paragraph")
        passage = CheckedPassage(Chunk("1:1:0", "1", 1, 0, "HB", *place))
        verdicts.update(finding(each, [passage], {}).verdict for each in claims_of(shape["sentence"]) if each.claims)
    return verdicts


if __name__ == "__main__":
    raise SystemExit(main())
