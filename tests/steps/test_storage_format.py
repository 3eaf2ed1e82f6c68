"""Parsing storage format: entities, hostile bodies, recovery of broken ones."""

from __future__ import annotations

import contextlib
import time
from typing import Any

import pytest

from rag_assets.steps.formats.element_tree import AC, parse_storage
from rag_assets.steps.sections.splitting import PageError, sections_of_page

CODE = '<ac:structured-macro ac:name="code"><ac:plain-text-body>{}</ac:plain-text-body></ac:structured-macro>'


def page(body: str, flavor: str = "cloud", title: str = "My Page") -> dict[str, Any]:
    row = {"page_id": "1", "version": 1, "title": title, "body": body, "body_format": "storage"}
    return {**row, "anchor_flavor": flavor, "content_hash": "h"}


def text(body: str) -> str:
    return "\n\n".join(section["text"] for section in sections_of_page(page(body)).sections)


def test_html_entities_become_their_characters() -> None:
    assert text("<p>a&nbsp;b &rarr; c &eacute; &#8211; &#x2019; &lt;x&gt; &amp;nbsp;</p>") == "a b → c é – ’ <x> &nbsp;"


def test_entities_inside_cdata_are_not_entities() -> None:
    assert "a &nbsp; b && c &rarr;" in text(CODE.format("<![CDATA[a &nbsp; b && c &rarr;]]>"))


def test_an_unknown_entity_and_a_bare_ampersand_stay_as_they_are_written() -> None:
    assert text("<p>AT&T &unknown; R&D; x &#0; &#99999999; y &</p>") == "AT&T &unknown; R&D; x y &"


def test_namespaces_and_a_declaration_in_the_body_are_no_matter() -> None:
    body = '<?xml version="1.0"?><ac:link xmlns:ac="http://elsewhere/"><ri:page ri:content-title="Other"/></ac:link>'
    assert text(body) == "Other"


@pytest.mark.parametrize(
    "body",
    [
        '<!DOCTYPE x [<!ENTITY a "lol"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;">]><p>kept &b;</p>',
        '<!DOCTYPE x [<!ENTITY secret SYSTEM "file:///etc/passwd">]><p>kept &secret;</p>',
        '<!DOCTYPE x SYSTEM "http://127.0.0.1:9/x.dtd"><p>kept</p>',
        '<p>kept</p><xi:include xmlns:xi="http://www.w3.org/2001/XInclude" href="file:///etc/passwd" parse="text"/>',
    ],
)
def test_entity_attacks_are_harmless(body: str) -> None:
    found = text(body)
    assert "kept" in found
    assert "root:" not in found
    assert "lollol" not in found


def test_a_code_body_with_split_cdata_is_whole() -> None:
    assert "x]]>y" in text(CODE.format("<![CDATA[x]]]]><![CDATA[>y]]>"))


BROKEN_CODE = (
    '<p>before<br>R&D <ac:structured-macro ac:name="code"><ac:parameter ac:name="language">java</ac:parameter>'
    "<ac:plain-text-body><![CDATA[List<String> a = b && c;\n\n\tx]]></ac:plain-text-body></ac:structured-macro><p>after"
)


def test_a_malformed_body_keeps_its_code_to_the_letter() -> None:
    found = text(BROKEN_CODE)
    assert "```java\nList<String> a = b && c;\n\n\tx\n```" in found
    assert found.startswith("before\nR&D")
    assert found.endswith("after")


def test_a_body_cut_inside_cdata_keeps_what_there_is() -> None:
    found = text(BROKEN_CODE[: BROKEN_CODE.index("c;") + 2])
    assert "List<String> a = b && c;" in found
    assert "CDATA" not in found


def test_cdata_without_its_end_does_not_swallow_the_rest_of_the_page() -> None:
    found = text(
        "<br>" + CODE.format("<![CDATA[one < two") + "<h2>Next</h2><p>prose</p>" + CODE.format("<![CDATA[three]]>")
    )
    assert "one < two" in found
    assert "\nthree\n" in found
    assert "prose" in found


def test_an_unclosed_parameter_neither_leaks_nor_hides_what_follows() -> None:
    body = '<ac:structured-macro ac:name="info"><ac:parameter ac:name="icon">false<ac:rich-text-body><p>shown</p>'
    assert text(body) == "> shown"


def test_characters_that_xml_forbids_are_dropped() -> None:
    assert text("<p>a\x00b\x0bc\ud800d\uffff</p>") == "abcd"


@pytest.mark.parametrize(
    "body", ["", "   ", "\x00", "<", "<!", "<![CDATA[", "]]>", "<!--", "</p>", "&", "<ac:", "<?", "<!DOCTYPE"]
)
def test_crumbs_are_no_error(body: str) -> None:
    assert "CDATA" not in text(body)


def test_a_thousand_spans_in_each_other_are_read() -> None:
    assert text("<p>" + "<span>" * 1000 + "deep" + "</span>" * 1000 + "</p>") == "deep"


@pytest.mark.parametrize(
    "body",
    [
        "<![CDATA[" * 100_000,
        "<ac:parameter>" * 50_000,
        "<p " * 100_000,
        "&" * 300_000,
        "<!DOCTYPE [" * 50_000,
        "<!--" * 100_000,
        "<a/" * 100_000,
        "<pre>a line of code</pre>" * 30_000,
        "<table><tr>" + "<td rowspan='99999'>x</td>" * 5_000 + "</tr>" + "<tr><td>y</td></tr>" * 5_000 + "</table>",
        "<td colspan='999999' rowspan='999999'>x</td>" * 1_000,
    ],
)
def test_hostile_repetition_ends_quickly(body: str) -> None:
    started = time.process_time()
    with contextlib.suppress(PageError):
        sections_of_page(page(body))
    assert time.process_time() - started < 5


def test_comments_and_processing_instructions_are_gone_and_the_text_around_them_is_not() -> None:
    assert text("<p>a<!-- no -->b<?php no ?>c</p>") == "abc"


def test_names_are_in_the_namespaces_of_storage_format_after_recovery_too() -> None:
    for body in ('<ac:link ac:anchor="x"/>', '<p><ac:link ac:anchor="x"/>'):
        links = list(parse_storage(body).iter(f"{AC}link"))
        assert [link.get(f"{AC}anchor") for link in links] == ["x"]
