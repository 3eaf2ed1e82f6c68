"""What a reply quotes of the mail before it: somebody else's words, and no statement of the sender.

Belongs here: how programs mark quoted mail in plain text and HTML. Does not belong here: parts of a message
(`email_message`).
"""

from __future__ import annotations

import re

from rag_assets.steps.formats.element_tree import Element, PageError, parse_html

_ATTRIBUTION = re.compile(
    r"[^\n]{0,300}\b(?:wrote|writes|schrieb|schreibt|a écrit|escribió|ha scritto|schreef|escreveu|napisał)\b"
    r"[^\n]{0,200}:\s*\Z"
)
_ORIGINAL = re.compile(
    r"^[ \t]*-{2,20} ?(?:Original(?: Message|nachricht| Appointment)|Ursprüngliche Nachricht|Message d.origine"
    r"|Mensaje original|Messaggio originale|Oorspronkelijk bericht)[^\n]{0,80}$"
    r"|^[ \t]*\*?(?:From|Von|De|Da|Van):\*? [^\n]{1,300}\n"
    r"[ \t]*\*?(?:Sent|Date|Gesendet|Datum|Envoyé|Enviado|Inviato|Verzonden)(?: [a-z]{1,3})?:\*? ",
    re.MULTILINE,
)
_FORWARDED = re.compile(r"\s*(?:fwd?|wg|tr|rv|i|enc)\s*:", re.IGNORECASE)
_MARKED = ("gmail_quote", "yahoo_quoted", "moz-cite-prefix", "protonmail_quote", "zmail_extra")
_QUOTED = "//blockquote[@type='cite' or @cite]" + "".join(f"|//*[contains(@class, '{name}')]" for name in _MARKED)
_BEGINS = (  # Outlook's: what follows is quoted
    "//*[@id='divRplyFwdMsg' or @id='appendonsend' or contains(@class, 'OutlookMessageHeader')]"
    "|//div[contains(@style, 'border-top:solid')]"
    "[.//b[normalize-space()][contains('From:|Von:|De:|De :|Da:', normalize-space())]]"
)
_MAY_QUOTE = re.compile(r"<blockquote|border-top:solid|_quote|divRplyFwdMsg|appendonsend|moz-cite|Outlook|zmail_extra")


def is_forwarded(subject: str) -> bool:
    """Return whether a message passes another one on, which is then what it says."""
    return bool(_FORWARDED.match(subject))


def without_quoted_lines(text: str) -> tuple[str, int]:
    """Return the sender's own lines of a plain text, and how many quotes were left out."""
    text = text.replace("\r\n", "\n")
    original = _ORIGINAL.search(text)
    own, count = (text[: original.start()], 1) if original else (text, 0)
    kept: list[str] = []
    is_quoted = False
    for line in own.split("\n"):
        if line.startswith(">"):
            count += not is_quoted
            _drop_attribution(kept)
            is_quoted = True
        elif line.strip() or not is_quoted:
            kept.append(line)
            is_quoted = False
    return "\n".join(kept), count


def _drop_attribution(kept: list[str]) -> None:
    """Take the line that says who wrote what follows, which may be broken in two, from the end of a text."""
    while kept and not kept[-1].strip():
        kept.pop()
    for lines in (1, 2):
        if _ATTRIBUTION.fullmatch(" ".join(kept[-lines:])):
            del kept[-lines:]
            return


def without_quoted_elements(html: str) -> tuple[str, int]:
    """Return HTML without what the program of its sender marks as quoted, and how many quotes were left out."""
    from lxml import etree

    if not _MAY_QUOTE.search(html):
        return html, 0
    try:
        root = parse_html(html, huge=False)
    except PageError:
        return html, 0
    begins = root.xpath(_BEGINS)[:1]
    for begin in begins:
        _drop_rest(begin)
    found = root.xpath(_QUOTED)
    inner = {one for each in found for one in each.iterdescendants()}
    outer = [one for one in found if one not in inner]
    for element in outer:
        element.drop_tree()
    said = [one for one in outer if "moz-cite-prefix" not in (one.get("class") or "")]
    return str(etree.tostring(root, encoding="unicode", method="html")), len(begins) + len(said)


def _drop_rest(begin: Element) -> None:
    """Take an element and all that follows it from its tree."""
    node = begin
    while (above := node.getparent()) is not None:
        for later in list(node.itersiblings()):
            above.remove(later)
        node.tail = None
        node = above
    begin.drop_tree()
