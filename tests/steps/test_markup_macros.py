"""Macros whose bodies are markup, and those whose titles readers see."""

from __future__ import annotations

import time

import pytest
from support.macro_bodies import macro, outcomes, read, text

from rag_assets.steps.formats.element_tree import wiki_tree
from rag_serving.text.normalization import OMISSION

WIKI = """h2. Opening hours
The gate opens at *six* and closes at -eight- _nine_.
See [the plan|https://x.example/p] and {{gate}}.

* one
** deeper
# first
||day||hour||
|Mon|8|
{code:java}
int x = a*b*c;
{code}
{info:title=Mind}
10^6^ pulses, CO~2~
{info}
"""


@pytest.mark.parametrize("name", ["unmigrated-wiki-markup", "wiki-markup"])
def test_wiki_markup_is_read_as_what_it_shows(name: str) -> None:
    sections = read(macro(name, plain=WIKI)).sections
    assert [section["heading"] for section in sections] == ["Opening hours"]
    assert sections[0]["text"] == (
        "The gate opens at six and closes at nine. See the plan and gate.\n\n- one\n\n- deeper\n\n1. first\n\n"
        "| day | hour |\n|---|---|\n| Mon | 8 |\n\n```\nint x = a*b*c;\n```\n\nMind\n\n10⁶ pulses, CO₂"
    )


@pytest.mark.parametrize("name", ["markdown", "easy-markdown-macro", "markdown-from-text"])
def test_markdown_is_read_as_markdown(name: str) -> None:
    sections = read(macro(name, plain="# Parking\n\n- **four** hours\n\n| a | b |\n|---|---|\n| 1 | 2 |")).sections
    assert [(section["heading"], section["text"]) for section in sections] == [
        ("Parking", "- four hours\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    ]


def test_html_is_read_as_html_and_a_script_alone_is_lost() -> None:
    shown = macro("html", plain="<h3>Gate</h3><p>Opens at <b>six</b>.</p><script>track()</script>")
    assert text(shown) == "Opens at six."
    only_script = macro("html", plain="<script>track()</script><style>p {}</style>")
    assert (text(only_script), outcomes(only_script)) == ("", {"html": ("lost", 1)})


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("ui-tab", "title"),
        ("auitabspage", "title"),
        ("localtab", "title"),
        ("tabs-page", "label"),
        ("aura-tab", "tab-name"),
        ("card", "label"),
        ("tab-pane", "header"),
        ("horizontal-tab", "title"),
        ("ui-expand", "title"),
        ("accordion-item", "heading"),
    ],
)
def test_the_title_of_a_tab_or_card_stands_before_its_content(name: str, parameter: str) -> None:
    assert text(macro(name, "<p>Port 9443.</p>", **{parameter: "Debian"})) == "Debian\n\nPort 9443."


@pytest.mark.parametrize("name", ["table-plus", "tablefilter", "database-view", "multiexcerpt-macro", "scorecard"])
def test_names_that_readers_do_not_see_are_no_titles(name: str) -> None:
    assert text(macro(name, "<p>Port 9443.</p>", label="internal", MultiExcerptName="port")) == "Port 9443."


def test_a_sentence_that_lacks_the_words_of_a_macro_says_so() -> None:
    assert text(f"<p>The port is {macro('metadata-value', key='port')}.</p>") == f"The port is {OMISSION}."
    assert text(f"<p>{macro('metadata-value', key='port')}</p><p>Whole.</p>") == "Whole."
    shown = text(f"<p>The port is {macro('excerpt-include', page='P')} by default.</p>")
    assert shown.count(OMISSION) == 2


@pytest.mark.parametrize(
    "piece", ["{code}", "||", "*a ", "[a|", "{{", "!a", "-a", "^", "* x\n", "|a|\n", "{info:title=a}"]
)
def test_the_time_for_hostile_wiki_markup_is_linear(piece: str) -> None:
    started = time.process_time()
    wiki_tree(piece * 20_000)
    assert time.process_time() - started < 20
