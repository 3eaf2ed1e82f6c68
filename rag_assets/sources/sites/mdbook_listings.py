"""`<Listing>` of the Rust book: code with a number, a caption and the name of its file.

Belongs here: what the book's own preprocessor `trpl-listing` makes of it. Does not belong here: code itself (`mdbook`).
"""

from __future__ import annotations

import re
from html import escape

from rag_assets.sources.sites.fences import outside
from rag_assets.sources.sites.markdown_page import markdown_main, words_of

_OPEN, _CLOSE = "<Listing", "</Listing>"
_ATTRIBUTE = re.compile(r"""\b(number|caption|file-name|id)\s{0,9}=\s{0,9}(?:"([^"]{0,5000})"|'([^']{0,5000})')""")
_WHOLE = re.compile(r"""<Listing\b(?:[^"'>]|"[^"]*"|'[^']*')*>\s*""")
_LINES = 20  # that a tag may stand on


def with_listings(text: str) -> str:
    """Return Markdown with each listing as the figure that its readers see: file name, code, number and caption.

    A listing is reached by `#listing-8-11` where it has the number 8-11, unless it names an id.
    """
    if _OPEN not in text:
        return text
    lines, made = text.split("\n"), list[str]()
    text_lines = {index for begin, end, is_code in outside(lines) if not is_code for index in range(begin, end)}
    caption, index = "", 0
    while index < len(lines):
        line = lines[index].strip()
        if index in text_lines and line.startswith(_OPEN) and (tag := _tag(lines, index)):
            length, attributes = tag
            opening, caption = _figure(attributes)
            made.append(opening)
            index += length
        elif index in text_lines and line == _CLOSE:
            made.append(f"{caption}</figure>")
            index += 1
        else:
            made.append(lines[index])
            index += 1
    return "\n".join(made)


def _tag(lines: list[str], index: int) -> tuple[int, dict[str, str]] | None:
    """Return the number of lines of an opening tag and its attributes; None where it does not end."""
    for length in range(1, _LINES + 1):
        written = "\n".join(lines[index : index + length]).strip()
        if _WHOLE.fullmatch(written):
            return length, {match[1]: match[2] or match[3] or "" for match in _ATTRIBUTE.finditer(written)}
    return None


def _figure(attributes: dict[str, str]) -> tuple[str, str]:
    """Return how a listing opens, and its caption."""
    number, caption = attributes.get("number", ""), attributes.get("caption", "")
    name = attributes.get("id") or (f"listing-{number}" if number else "")
    opening = f'<figure class="listing" id="{escape(name)}">' if name else '<figure class="listing">'
    if file := attributes.get("file-name"):
        opening += f'\n<p><span class="file-name">Filename: {escape(file)}</span></p>'
    told = f'<a href="#{escape(name)}">Listing {escape(number)}</a>' if number else ""
    if caption:
        told += (": " if told else "") + _inline(caption)
    return opening, f"<figcaption>{told}</figcaption>\n" if told else ""


def _inline(caption: str) -> str:
    """Return the caption's Markdown as HTML of one line."""
    from lxml import etree

    main = markdown_main(" ".join(caption.split()))
    paragraph = main.find("p")
    if paragraph is None or len(main) != 1:
        return escape(words_of(main))
    html = str(etree.tostring(paragraph, encoding="unicode", method="html", with_tail=False))
    return html.removeprefix("<p>").removesuffix("</p>")
