"""300 real pages of a public wiki, cut by the real tokenizer."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rag_assets.steps.chunks.chunking import MAX_BLOCK_CHARS, build_chunks
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.artifacts.schema import PAGES
from rag_serving.config.models import Embedding
from rag_serving.models import open_tokenizer

DATA = Path(__file__).parents[3] / "shared" / "data"
FILES = sorted((DATA / "cwiki").glob("*/*.json"))
pytestmark = pytest.mark.skipif(not FILES, reason="the real pages at ../shared/data/cwiki are absent")

CODE = re.compile(r"<ac:plain-text-body>(.*?)</ac:plain-text-body>", re.DOTALL)
CDATA = re.compile(r"<!\[CDATA\[(.*?)\]\]>", re.DOTALL)
MARKUP = re.compile(
    r'<ac:structured-macro[^>]*ac:name="(?:markdown|html|unmigrated-wiki-markup)".*?</ac:structured-macro>', re.DOTALL
)


@functools.cache
def pages() -> pa.Table:
    blank = dict.fromkeys(PAGES.columns.names, "") | {"updated_at": None, "version": 1, "body_format": "storage"}
    blank |= {"labels": [], "ancestors": [], "ancestor_titles": [], "position": None, "readers": "everyone"}
    rows: list[dict[str, Any]] = []
    for file in FILES:
        envelope = json.loads(file.read_text())
        facts = {"page_id": envelope["id"], "title": envelope["title"], "body": envelope["body"]["storage"]["value"]}
        rows.append(blank | facts | {"url": envelope["_links"]["webui"], "anchor_flavor": "datacenter"})
    return PAGES.table(rows)


@functools.cache
def chunks() -> list[dict[str, Any]]:
    return build_chunks(sections(), pages(), open_tokenizer(Embedding())).to_pylist()


@functools.cache
def sections() -> pa.Table:
    return build_sections(pages()).sections


def code_bodies() -> list[str]:
    found = (
        "".join(CDATA.findall(body))
        for page in pages()["body"].to_pylist()
        for body in CODE.findall(MARKUP.sub("", page))
    )
    return [code for code in found if code.strip()]


def test_every_code_body_stands_to_the_letter_in_some_chunk() -> None:
    bodies, texts = code_bodies(), [chunk["text"] for chunk in chunks() if "```" in chunk["text"]]
    assert len(bodies) == 679
    whole = [code for code in bodies if len(code) < MAX_BLOCK_CHARS - 200]
    assert [code[:60] for code in whole if not any(code in text for text in texts)] == []


def test_code_that_is_too_long_for_a_chunk_stands_to_the_letter_across_windows() -> None:
    lines = {line for chunk in chunks() for line in chunk["text"].split("\n")}
    long = [code for code in code_bodies() if len(code) >= MAX_BLOCK_CHARS - 200]
    assert len(long) == 5
    assert [line for code in long for line in code.rstrip().split("\n") if line.strip() and line not in lines] == []


def test_every_chunk_is_a_slice_of_its_section_and_has_an_anchor() -> None:
    text_of = dict(zip(sections()["section_id"].to_pylist(), sections()["text"].to_pylist(), strict=True))
    for chunk in chunks():
        assert chunk["text"] == text_of[chunk["section_id"]][chunk["start"] : chunk["end"]]
        assert chunk["anchor"]
        assert chunk["url"].partition("#")[2]


def test_chunks_have_the_size_they_aim_at_but_for_code_that_is_never_cut() -> None:
    tokens = open_tokenizer(Embedding()).offsets(sections()["text"].to_pylist())
    whole = dict(zip(sections()["section_id"].to_pylist(), map(len, tokens), strict=True))
    fits = [120 <= chunk["token_count"] <= 320 or whole[chunk["section_id"]] < 120 for chunk in chunks()]
    has_code = ["```" in chunk["text"] or chunk["content_type"] == "code" for chunk in chunks()]
    without_code = [fit for fit, code in zip(fits, has_code, strict=True) if not code]
    assert sum(fits) / len(fits) > 0.96
    assert sum(without_code) / len(without_code) > 0.995
