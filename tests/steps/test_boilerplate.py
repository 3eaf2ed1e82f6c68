"""Sections that answer nothing, and those that only look so."""

from __future__ import annotations

import pytest

from rag_assets.steps.sections.splitting import sections_of_page


def flags(body: str) -> dict[str, bool]:
    row = {"page_id": "1", "version": 1, "title": "T", "body": body, "body_format": "storage"}
    sections = sections_of_page({**row, "anchor_flavor": "cloud", "content_hash": "h"}).sections
    return {section["heading"]: section["is_boilerplate"] for section in sections}


@pytest.mark.parametrize(
    "body",
    [
        "<p>Back to top</p>",
        "<p><a href='#top'>↑ Top</a></p><p>Home | <br/></p>",
        "<p>TBD</p>",
        "<p>...</p>",
        "<p>[One of: draft, accepted]</p>",
        "<p>Last modified by Ann on May 1, 2024</p>",
        "<p>Copyright © 2024 Example Ltd. All rights reserved.</p>",
        "<p>Edit this page</p>",
    ],
)
def test_leftovers_are_boilerplate(body: str) -> None:
    assert flags(body) == {"T": True}


@pytest.mark.parametrize(
    "body",
    [
        "<p>Yes.</p>",
        "<p>None.</p>",
        "<p>No backward compatibility issue.</p>",
        "<pre>TBD</pre>",
        "<table><tbody><tr><td>TBD</td></tr></tbody></table>",
        "<p>TBD</p><p>But the broker keeps its log.</p>",
        "<p><a href='x'>Client library overview</a></p>",
    ],
)
def test_what_says_something_is_not(body: str) -> None:
    assert flags(body) == {"T": False}


def test_links_under_a_navigation_heading_are_boilerplate_and_prose_there_is_not() -> None:
    links = "<ul><li><a href='a'>Setup</a></li><li><ac:link><ri:page ri:content-title='Teardown'/></ac:link></li></ul>"
    prose = "<p>The contents of the archive are checked against their digests before they are unpacked.</p>"
    assert flags(f"<h2>Contents</h2>{links}<h2>Content</h2>{prose}<h2>Clients</h2>{links}") == {
        "Contents": True,
        "Content": False,
        "Clients": False,
    }


def test_a_bare_heading_is_boilerplate_beside_text_and_not_alone() -> None:
    assert flags("<p>text of the page</p><h2>Later</h2>") == {"T": False, "Later": True}
    assert flags("<h2>Release 2.4 of the mirror</h2>") == {"Release 2.4 of the mirror": False}
