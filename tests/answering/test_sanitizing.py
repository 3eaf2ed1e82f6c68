"""Nothing that a model writes acts on who reads it."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_serving.answering.writing.sanitizing import visible, without_html, without_links

PAGE = "Get it at https://good.example/z or from kafka.apache.org. Set log.retention.ms in server.properties."


@pytest.mark.parametrize(
    "link",
    [
        "http://evil.example/x",
        "https://evil.example:8080/a?b=c#d",
        "<https://evil.example>",
        "www.evil.example",
        "ftp://evil.example",
        "//evil.example/x",
        "hxxps://evil[.]example/login",
        "evil-host.com",
        "evil-host.com/path",
        "evil-host(dot)com",
        "evil-host [dot] com",
        "evil-host dot com",
        "ｈｔｔｐｓ://evil.example",
        "https%3A%2F%2Fevil.example",
        "https:\\\\evil.example",
        "javascript:alert(1)",
        "data:text/html,evil",
        "mailto:me@evil.example",
        "me@evil.example",
        "10.0.0.1:8080/evil",
        "HTTP://EVIL.EXAMPLE",
    ],
)
def test_links_are_taken_out_in_any_disguise(link: str) -> None:
    for text in (f"Read {link} first.", f"Read it ({link}).", f"Read {link}"):
        left, count = without_links(text, PAGE)
        assert "evil" not in left.lower()
        assert "alert" not in left
        assert left.startswith("Read")
        assert count >= 1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Read [the guide](https://evil.example/a_(b)) first.", "Read the guide first."),
        ("See ![a picture](//evil.example/p.png) here.", "See a picture here."),
        ("See [![i](http://evil.example/i)](http://evil.example) here.", "See i here."),
        ("See [the guide][1].\n\n[1]: http://evil.example", "See [the guide][1]."),
    ],
)
def test_markdown_links_leave_their_text(text: str, left: str) -> None:
    assert without_links(text, "")[0] == left


@pytest.mark.parametrize(
    "text",
    [
        "Get it at https://good.example/z now.",
        "Take it from kafka.apache.org.",
        "Set log.retention.ms in server.properties, e.g. to 5.3.4 of Node.js.",
        "Use args[0], a/b and C:\\temp or std::vector at 12:30.",
        "It is 3.5 GB. Then stop.",
    ],
)
def test_what_the_page_says_and_what_is_no_link_stays(text: str) -> None:
    assert without_links(text, PAGE) == (text, 0)


@pytest.mark.parametrize(
    ("html", "left"),
    [
        ("a <b>bold</b> word", "a bold word"),
        ("a <script>alert(1)</script> b", "a  b"),
        ("a <scr<script>x</script>ipt>alert(1)</script> b", "a  b"),
        ("a <img src=x onerror=alert(1)> b", "a  b"),
        ("a <img src=x onerror=alert(1) b", "a "),
        ("a <x onclick=alert(1)>y</x>", "a y</x>"),
        ("a <svg/onload=alert(1)> b", "a "),
        ("a <!-- hidden --> b", "a  b"),
        ("x <groupId> and List<String> if a < b", "x <groupId> and List<String> if a < b"),
    ],
)
def test_html_is_taken_out_and_placeholders_stay(html: str, left: str) -> None:
    assert without_html(html)[0] == left


def test_entities_and_unseen_characters_do_not_hide_anything() -> None:
    assert without_html(visible("a &lt;img src=x onerror=y&gt; &amp;lt;b&amp;gt; b")) == ("a   b", 2)
    assert visible("ev\u200bil \u202etxt\u202c \x1b]8;;http://e\x1b\\ \ue000\U000f0000") == "evil txt ]8;;http://e\\ "
    assert visible("R&D &not; and &copy") == "R&D ¬ and &copy"


@given(st.text(st.sampled_from(list("<>/ =abimgscript!-\n&;#\"'")), max_size=120))
def test_no_known_element_survives(text: str) -> None:
    left, _ = without_html(text)
    assert not re.search(r"<\s*/?\s*(?:b|a|i|s|img|script)(?:\s[^<>]*)?>", left)
