"""`evals.bench.claims`: sentences to check against the pages of three corpora, and what each is to them."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa
import yaml

from evals.bench.corpora import ROOT, sample_pages
from evals.bench.real_text import DATA
from evals.bench.set_questions import folder_config, folder_pages
from rag_assets.steps.sections.splitting import build_sections

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
