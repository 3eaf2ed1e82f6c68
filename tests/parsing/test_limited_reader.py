"""Small documents that ask for much: what they may cost is bounded, and what is left out has its reason."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from parsing.hostile_pdf import forms_within_forms, pages_of_one_stream, stream_within_stream
from support.constants import section_of

from rag_assets.parsing.reader import HERE_MAX, WORKER, LimitedReader
from rag_assets.steps.files.file_text import FileError, PagesDone
from rag_assets.steps.formats.blocks import blocks_content, content_of_json, content_to_json, without_note
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.html import exported_index, exported_page
from rag_assets.steps.sections.reading import DirectReader
from rag_serving.config.sections import Documents
from rag_serving.isolation.child import Child, Limits

MEMORY_MB, IMPORTS_MB = 136, 60
SMALL = section_of(Documents, max_seconds=20, max_memory_mb=MEMORY_MB, max_text_chars=100_000, max_headings=500)
SIZE = 2 * HERE_MAX  # so that it goes to the child


class Watched(LimitedReader):
    """A reader that knows how much memory its parser had at most."""

    peak_mb = 0

    def _asked(self, facts: dict[str, Any], content: bytes, pages_done: PagesDone | None = None) -> Any:
        with self._watched():
            return super()._asked(facts, content, pages_done)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        done = threading.Event()

        def watch() -> None:
            while not done.wait(0.005):
                process = self._child._process
                try:
                    status = Path(f"/proc/{process.pid if process else 0}/status").read_text(encoding="ascii")
                    peak = int(status.partition("VmHWM:")[2].split()[0]) // 1024
                    self.peak_mb = max(self.peak_mb, peak)
                except (OSError, IndexError):
                    continue

        watching = threading.Thread(target=watch)
        watching.start()
        try:
            yield
        finally:
            done.set()
            watching.join()


@pytest.fixture
def reader() -> Iterator[Watched]:
    with Watched(SMALL) as one:
        yield one


def test_a_wide_table_is_cut_before_its_empty_cells_are_made(reader: Watched) -> None:
    file = ("," * 4000 + "x\n" + "a\n" * 24_000).encode()
    assert len(file) < 53_000
    body, reason = without_note(reader.attachment("wide.csv", file).body)
    assert reason == "cut at 200,000 table cells (documents.max_cells)"
    assert len(body) < 700_000
    assert len(body.splitlines()) == 200_000 // 4001 + 1


PDFS = {
    "pages of one stream": (lambda: pages_of_one_stream(1500, 1500), None),
    "a stream in a stream": (lambda: stream_within_stream(3_000_000), "MB of memory"),
    "forms in forms": (lambda: forms_within_forms(6, 30), "MB of memory|s of parsing"),
}


@pytest.mark.parametrize("kind", PDFS)
def test_a_pdf_that_unfolds_is_cut_or_left_out(kind: str, reader: Watched) -> None:
    made, reason = PDFS[kind]
    file = made()
    assert len(file) < 400_000
    if reason is None:
        body, cut = without_note(reader.attachment("a.pdf", file).body)
        assert cut == "cut at 100,000 characters of text (documents.max_text_chars)"
        assert len(body) < 101_000
        assert blocks_content(body).blocks[-1].text.startswith("word word word")
    else:
        with pytest.raises(FileError, match=reason):
            reader.attachment("a.pdf", file)
    assert 0 < reader.peak_mb < MEMORY_MB + IMPORTS_MB
    good = blocks_content(reader.attachment("good.pdf", pages_of_one_stream(1, 2)).body)
    assert [block.text for block in good.blocks] == ["word word word word word word"]


MERGED = '<td rowspan="65534" colspan="65534">abc</td>'
PAGES: dict[str, tuple[Callable[[], str], str, str | None]] = {
    "one paragraph": (lambda: f"<p>{'word ' * (SIZE // 5)}</p>", "storage", "100,000 characters"),
    "one word": (lambda: f"<p>{'w' * SIZE}</p>", "storage", "100,000 characters"),
    "headings": (lambda: "<h1>a</h1>" * (SIZE // 10), "storage", "500 headings"),
    "headings of HTML": (lambda: "<h1 id=a>a</h1>" * (SIZE // 15), "html", "500 headings"),
    "one long heading": (lambda: f"<h1>{'h' * SIZE}</h1><h2>a</h2>b", "storage", "100,000 characters"),
    "paragraphs": (lambda: "a\n\n" * SIZE, "text", "100,000 blocks|100,000 characters"),
    "links": (lambda: "<p>" + '<a href="h">x</a>' * (SIZE // 5) + "</p>", "storage", None),
    "macros": (lambda: '<ac:structured-macro ac:name="x"/>' * (SIZE // 10), "storage", None),
    "merged cells": (
        lambda: f"<table><tr>{MERGED * 3000}</tr>{'<tr/>' * 60_000}</table>",
        "storage",
        "100,000 characters|200,000 table cells",
    ),
}


@pytest.mark.parametrize("kind", PAGES)
def test_a_page_that_is_too_much_keeps_its_first_part(kind: str, reader: Watched) -> None:
    made, body_format, cut = PAGES[kind]
    found = reader.content(made(), body_format)
    assert sum(len(block.text) + 2 for block in found.blocks) <= 100_000
    assert 0 < reader.peak_mb < MEMORY_MB + IMPORTS_MB
    if cut is not None:
        assert found.cut is not None
        assert any(one in found.cut for one in cut.split("|"))
        assert any(block.text for block in found.blocks)


FAILING = {
    "deep nesting": ("<div>" * 100_000 + "x" + "</div>" * 100_000, "storage", "Excessive depth"),
    "deep lists": ("<ul><li>" * 100_000 + "x" + "</li></ul>" * 100_000, "storage", "Excessive depth|nested"),
    "deep HTML": ("<b><i>" * 100_000, "html", "Excessive depth"),
    "attributes": ("<p " + " ".join(f'a{n}=""' for n in range(200_000)) + ">x", "storage", "1 s of parsing"),
    "markdown": ("![[]()" * 200_000, "markdown", "1 s of parsing|MB of memory"),
    "references": ("[a]: http://x/" + "y" * 90_000 + "\n\n" + "[a] " * 20_000, "markdown", "repeat addresses"),
}


@pytest.mark.parametrize("kind", FAILING)
def test_a_page_that_cannot_be_read_within_the_limits_fails_alone(kind: str) -> None:
    body, body_format, reason = FAILING[kind]
    seconds = 1 if "s of parsing" in reason else 20
    with Watched(SMALL.model_copy(update={"max_seconds": seconds})) as reader:
        with pytest.raises(PageError, match=reason):
            reader.content(body, body_format)
        assert reader.peak_mb < MEMORY_MB + IMPORTS_MB
        assert [block.text for block in reader.content("good" + " " * SIZE, "text").blocks] == ["good"]


def test_entities_of_a_document_type_are_never_expanded(reader: Watched) -> None:
    entities = "".join(f'<!ENTITY {chr(98 + n)} "{f"&{chr(97 + n)};" * 10}">' for n in range(12))
    laughs = f'<!DOCTYPE l [<!ENTITY a "ha"><!ENTITY file SYSTEM "file:///etc/passwd">{entities}]>'
    for body in (f"{laughs}<p>&m; &file; end</p>", f"{laughs}<p>&m; &file; end"):
        text = " ".join(block.text for block in reader.content(body + " " * SIZE, "storage").blocks)
        assert len(text) < 1000
        assert "root:" not in text


def test_with_too_little_memory_nothing_is_lost_unsaid() -> None:
    """A parser in C may go on with a part of the document when it gets no more memory."""
    parts = "".join(f"<h2>{n}</h2><p>{n} <b>x</b></p><table><tr><td>{n}</td></tr></table>" for n in range(4000))
    bodies = [(parts, "storage"), (parts.replace("</p>", "", 1), "storage"), (parts, "html")]
    whole = [DirectReader().content(*body) for body in bodies]
    outcomes = set()
    for memory_mb in (4, 16, 48):
        reader = LimitedReader(Documents())
        reader.limits = Limits(30, memory_mb)
        reader._child = Child(reader.limits, WORKER)
        with reader:
            for body, expected in zip(bodies, whole, strict=True):
                try:
                    outcomes.add("whole" if reader.content(*body) == expected else "a part")
                except PageError as error:
                    outcomes.add(str(error).replace(f"{memory_mb} MB", "N MB"))
    assert outcomes == {"whole", "it exceeds N MB of memory while it is parsed (documents.max_memory_mb)"}


def test_a_body_reads_the_same_here_and_in_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    bare = '<ac:parameter ac:name="">{}</ac:parameter>'
    macro = '<ac:structured-macro ac:name="{}">{}</ac:structured-macro>'
    body = (
        f"<h1>A{macro.format('anchor', bare.format('z'))}</h1>"
        '<p>B <a href="#z">c</a> <ac:link><ri:page ri:content-title="T" ri:space-key="S"/></ac:link></p>'
        + macro.format("include", bare.format('<ac:link><ri:page ri:content-title="T"/></ac:link>'))
        + macro.format("children", '<ac:parameter ac:name="all">true</ac:parameter>')
        + macro.format("excerpt", "<ac:rich-text-body><p>E</p></ac:rich-text-body>")
        + macro.format("details", "<ac:rich-text-body><table><tr><th>k</th><td>v</td></tr></table></ac:rich-text-body>")
        + macro.format("code", "<ac:plain-text-body><![CDATA[x = 1]]></ac:plain-text-body>")
        + "<ul><li>a<ul><li>b</li></ul></li></ul><table><tr><td>1</td><td>2</td></tr></table>"
    )
    direct = DirectReader()
    monkeypatch.setattr("rag_assets.parsing.reader.HERE_MAX", 0)
    with LimitedReader(Documents()) as reader:
        for lists in (False, True):
            there, here = reader.content(body, "storage", lists), direct.content(body, "storage", lists)
            assert (there, there.blocks) == (here, here.blocks)
            assert [type(block.reference) for block in there.blocks] == [type(block.reference) for block in here.blocks]
            assert [*map(type, there.blocks)] == [*map(type, here.blocks)]
        assert reader.excerpt(body, "") == direct.excerpt(body, "") is not None
        assert reader.excerpt(body, "no") is direct.excerpt(body, "no") is None
        assert reader.properties(body) == direct.properties(body) != []
        assert reader.attachment("a.csv", b"a,b\n1,2\n").body == "| a | b |\n|---|---|\n| 1 | 2 |"
        page = (
            b'<title>S : T</title><p id="breadcrumbs"><a href="index.html">S</a><a href="U_7.html">U</a></p>'
            b'<p class="page-metadata">on May 01, 2026</p><div id="main-content"><p>x</p></div>'
            b'<div class="greybox"><a href="attachments/1/2.txt">a.txt</a></div>'
        )
        index = b'<table><tr><th>Key</th><td>ENG</td></tr></table><a href="T_7.html#a">T</a>'
        assert reader.exported_page(page) == exported_page(page)
        assert reader.exported_index(index) == exported_index(index) == ("ENG", ["7"])
        with pytest.raises(PageError, match="no page of an export"):
            reader.exported_page(index)
        with pytest.raises(PageError, match="body format 'x' is not known"):
            reader.content(body, "x")
    assert content_of_json(content_to_json(None)) is None


def test_a_reason_that_names_another_limit_is_worth_another_try() -> None:
    small, usual = LimitedReader(SMALL), LimitedReader(Documents())
    for reason in (
        Limits(20, MEMORY_MB).too_slow(),
        Limits(20, MEMORY_MB).too_large(),
        small._budget.reason("headings"),
    ):
        assert not small.is_past(f"a.pdf: {reason}")
        assert usual.is_past(f"a.pdf: {reason}")
    assert not usual.is_past("it is not text, whatever its name says")
