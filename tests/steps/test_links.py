"""Where links lead is kept beside the text of their section; an account is never told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.section_pages import sections

from rag_assets.steps.formats.element_tree import AC, RI, parse_storage
from rag_serving.artifacts.schema import SECTIONS

REAL = sorted((Path(__file__).parents[3] / "shared" / "data" / "cwiki").glob("*/*.json"))


def links(body: str) -> list[dict[str, Any]]:
    found = sections(body)
    SECTIONS.table(found)
    return [{"under": row["heading"], **{k: v for k, v in link.items() if v}} for row in found for link in row["links"]]


def test_each_kind_of_target_is_kept() -> None:
    body = """<p>
    <ac:link ac:anchor="Setup"><ri:page ri:content-title="Deploy guide" ri:space-key="OPS"/>
      <ac:link-body>deploy it</ac:link-body></ac:link>
    <ac:link><ri:attachment ri:filename="plan.pdf"/></ac:link>
    <ac:link><ri:space ri:space-key="ENG"/></ac:link>
    <ac:link ac:anchor="Limits"><ac:plain-text-link-body><![CDATA[limits]]></ac:plain-text-link-body></ac:link>
    <a href="https://kafka.example/docs">the docs</a></p>"""
    assert [{**link, "under": None} for link in links(body)] == [
        {
            "under": None,
            "text": "deploy it",
            "kind": "page",
            "target": "Deploy guide",
            "space": "OPS",
            "anchor": "Setup",
        },
        {"under": None, "text": "plan.pdf", "kind": "file", "target": "plan.pdf"},
        {"under": None, "text": "ENG", "kind": "space", "target": "ENG"},
        {"under": None, "text": "limits", "kind": "anchor", "anchor": "Limits"},
        {"under": None, "text": "the docs", "kind": "url", "target": "https://kafka.example/docs"},
    ]


def test_links_stay_with_their_section_in_tables_and_headings_too() -> None:
    to = '<ac:link><ri:page ri:content-title="{0}"/></ac:link>'
    body = (
        f"<p>{to.format('above')}</p><h1>One {to.format('one')}</h1>"
        f"<table><tbody><tr><td>{to.format('cell')}</td></tr></tbody></table>"
        f"<h2>Two</h2><ul><li>{to.format('item')}</li></ul>"
    )
    assert [(link["under"], link["target"]) for link in links(body)] == [
        ("My Page", "above"), ("One one", "one"), ("One one", "cell"), ("Two", "item"),
    ]  # fmt: skip


def test_an_account_is_no_target() -> None:
    people = (
        '<ac:link><ri:user ri:account-id="712020:ab"/></ac:link> '
        '<ac:link><ri:space ri:space-key="~712020ab"/></ac:link>'
    )
    assert links(f"<p>{people} came.</p>") == []


def test_links_leave_the_text_as_it_was() -> None:
    body = '<p>See <ac:link><ri:page ri:content-title="Deploy guide"/></ac:link> first.</p>'
    assert [row["text"] for row in sections(body)] == ["See Deploy guide first."]


@pytest.mark.skipif(not REAL, reason="the real pages at ../shared/data/cwiki are absent")
def test_the_links_of_real_pages_are_all_kept() -> None:
    wanted = kept = 0
    for file in REAL:
        body = json.loads(file.read_text())["body"]["storage"]["value"]
        tree = parse_storage(body)
        wanted += sum(1 for node in tree.iter(f"{AC}link") if node.find(f"{RI}page") is not None)
        kept += sum(link["kind"] == "page" for row in sections(body) for link in row["links"])
    assert wanted > 500
    assert kept >= 0.97 * wanted  # the rest stands in macros that show nothing, or under headings without text
