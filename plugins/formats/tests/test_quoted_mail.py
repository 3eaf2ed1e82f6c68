"""What a reply quotes is not what its sender says; what a message forwards is."""

from __future__ import annotations

import pytest

from citelock_formats.email_message import without_quoted_elements, without_quoted_lines
from rag_assets.steps.files.file_text import file_text
from rag_assets.steps.formats.blocks import blocks_content, joined

OLD = "The gate closes at 18:00."
NEW = "No, it closes at 20:30."
PLAIN = [
    f"{NEW}\n\nOn Mon, 2 Mar 2026 at 10:00, Ann Gray <ann@x.example>\nwrote:\n\n> {OLD}\n>> older\n",
    f"Am 02.03.2026 um 10:00 schrieb Ann:\n> {OLD}\n\n{NEW}\n",
    f"{NEW}\n\n-----Original Message-----\nFrom: Ann\n\n{OLD}\n",
    f"{NEW}\n\nVon: Ann Gray\nGesendet: Montag, 2. März 2026 10:00\nAn: Bo\n\n{OLD}\n",
]
HTML = [
    f'<p>{NEW}</p><div class="gmail_quote"><div>Ann wrote:</div><blockquote>{OLD}</blockquote></div>',
    f'<p>{NEW}</p><div class="moz-cite-prefix">Ann wrote:</div><blockquote type="cite">{OLD}</blockquote>',
    f'<div><p>{NEW}</p><div id="divRplyFwdMsg"><b>From:</b> Ann</div><div>{OLD}</div></div><p>{OLD}</p>',
    f"<p>{NEW}</p><div><div style='border:none;border-top:solid #E1E1E1 1.0pt'><p><b>Von:</b> Ann</p></div></div>"
    f"<p>{OLD}</p>",
]


def read(body: str, kind: str, subject: str = "Re: gate") -> tuple[str, int]:
    mail = f"From: bo@x.example\nSubject: {subject}\nContent-Type: text/{kind}; charset=utf-8\n\n{body}"
    content = blocks_content(file_text("a.eml", mail.encode()).body)
    return joined(content.blocks)[0], content.ledger["quoted mail", "hidden"]


@pytest.mark.parametrize(("kind", "body"), [*(("plain", one) for one in PLAIN), *(("html", one) for one in HTML)])
def test_a_reply_says_only_what_its_sender_wrote(kind: str, body: str) -> None:
    text, count = read(body, kind)
    assert NEW in text
    assert OLD not in text
    assert "wrote" not in text
    assert count == 1


@pytest.mark.parametrize(("kind", "body"), [("plain", PLAIN[2]), ("html", HTML[0])])
def test_a_forwarded_message_says_what_it_forwards(kind: str, body: str) -> None:
    text, count = read(body, kind, "Fwd: gate")
    assert OLD in text
    assert count == 0


def test_a_quotation_that_is_no_mail_stays() -> None:
    text, count = read(f"<p>The manual says:</p><blockquote>{OLD}</blockquote>", "html")
    assert OLD in text
    assert count == 0


@pytest.mark.parametrize("piece", [">\n", "> a\n", "a wrote:\n", "From: a\n", "----- Original\n"])
def test_long_mails_end(piece: str) -> None:
    assert len(without_quoted_lines(piece * 50_000)[0]) <= len(piece) * 50_000


def test_deep_quotes_end() -> None:
    assert without_quoted_elements('<blockquote type="cite">a' * 200)[1] == 1
