"""Text that a model wrote, without anything that could act on who reads it: HTML, script, links, control characters.

Belongs here: what is taken out. Does not belong here: what the text claims (`parse`, `verify`).
"""

from __future__ import annotations

import html
import re
import unicodedata
from urllib.parse import unquote

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[A-Za-z][A-Za-z0-9]{1,31});")
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\U000e0000-\U000e0fff\ue000-\uf8ff\U000f0000-\U0010ffff]"
)
_THOUGHT = re.compile(
    r"<(think|thinking|thought|reasoning|reflection)>.*?(?:</\1>|\Z)"
    r"|\A.*</(?:think|thinking|thought|reasoning)>"
    r"|<\|channel\|>\s*(?:analysis|commentary).*?(?=<\|channel\|>\s*final|\Z)|<\|channel\|>\s*final\s*<\|message\|>",
    re.DOTALL | re.IGNORECASE,
)
_TURN_MARK = re.compile(r"<[|｜][^|｜<>\n]{1,40}[|｜]>|\[/?INST\]|<</?SYS>>|</?s>")
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)|<[!?][^>]*(?:>|\Z)", re.DOTALL)
_ACTIVE = re.compile(
    r"<\s*(script|style|iframe|frame|object|embed|applet|svg|math|template|noscript|textarea|xmp|title|head)\b"
    r".*?(?:<\s*/\s*\1\s*>|\Z)",
    re.DOTALL | re.IGNORECASE,
)
_TAG = re.compile(r"<\s*/?\s*([A-Za-z][\w:.-]*)([^<>]*)>?")
_NAMES = """
    a abbr acronym address applet area article aside audio b base basefont bdi bdo bgsound big blink blockquote body br
    button canvas caption center cite code col colgroup content data datalist dd del details dfn dialog dir div dl dt em
    embed fencedframe fieldset figcaption figure font footer form frame frameset h1 h2 h3 h4 h5 h6 head header hgroup hr
    html i iframe image img input ins isindex kbd keygen label legend li link listing main map mark marquee math menu
    menuitem meta meter nav nobr noembed noframes noscript object ol optgroup option output p param picture plaintext
    portal pre progress q rb rp rt rtc ruby s samp script search section select shadow slot small source spacer span
    strike strong style sub summary sup svg table tbody td template textarea tfoot th thead time title tr track tt u ul
    var video wbr xmp
"""
_ELEMENTS = frozenset(_NAMES.split())

_MARKDOWN_LINK = re.compile(r"!?\[((?:[^\[\]\n]|\[[^\[\]\n]*\])*)\]\((?:[^()\n]|\([^()\n]*\))*\)?")
_REFERENCE = re.compile(r"(?m)^\s{0,3}\[[^\]\n]+\]:\s*\S.*$|(?<=\])\[[^\]\n\d][^\]\n]*\]")
_AUTOLINK = re.compile(r"<[^<>\s]*(?:[:.@/][^<>\s]*)+>")
_SPELLED = re.compile(
    r"\S*\w\s*[\[({]\s*(?:dot|punkt|point|\.)\s*[\])}]\s*\w\S*|\S+\s+dot\s+(?:com|net|org|io)\b\S*", re.I
)
_SCHEME = re.compile(
    r"(?:h[tx]{2}ps?|ftps?|file|wss?|ssh|git|ldap|gopher|irc|magnet|blob|view-source)\W{0,3}(?:/|\\){2}"
    r"|\b(?:javascript|vbscript|data|mailto|tel|sms|ms-\w+|intent)\s*:(?=\S)|^\W*(?:/|\\){2}\w[\w-]*\.",
    re.IGNORECASE,
)
# Ends of host names, without those that files have, too (`main.pl`, `lib.so`, `config.in`).
_TOP_LEVEL = (
    "com|net|org|io|dev|app|ai|co|info|biz|xyz|site|online|shop|top|club|link|click|live|store|tech|cloud|page|"
    "edu|gov|mil|int|eu|de|ch|uk|fr|es|nl|be|ru|cn|jp|br|us|au|tv|ly|gg|su|tk|onion"
)
_HOST = re.compile(
    rf"(?<![\w@.])(?:www\d?\.|(?:[\w-]+\.)+(?:{_TOP_LEVEL})(?![\w-]|\.\w))\S*"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?/\S+|[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    re.IGNORECASE,
)
_PIECE = re.compile(r"\S+")
_DISGUISED = re.compile(r"[\[({<]\s*([.:/]+|dot)\s*[\])}>]", re.IGNORECASE)
_GAP = "\ue000"
_AROUND_GAP = re.compile(rf"[(\[{{<]\s*{_GAP}\s*[)\]}}>]|[ \t]*{_GAP}(?=[ \t.,;:!?]|$)|{_GAP}")


def visible(text: str) -> str:
    """The text without a model's thoughts, turn marks, entities and characters that are not seen."""
    text = _TURN_MARK.sub("", _THOUGHT.sub("", text))
    for _ in range(3):
        text, before = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text), text
        if text == before:
            break
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def without_html(text: str) -> tuple[str, int]:
    """The text without HTML, with the content of scripts and the like gone too, and how many pieces were taken out.

    `<placeholder>` and `List<String>` stay: names without attributes that are not those of elements.
    """
    count, found = 0, 1
    while found and "<" in text:
        text, comments = _COMMENT.subn("", text)
        text, active = _ACTIVE.subn("", text)
        found = comments + active
        if not found:
            tags = [tag for tag in _TAG.finditer(text) if _is_element(tag)]
            for tag in reversed(tags):
                text = text[: tag.start()] + text[tag.end() :]
            found = len(tags)
        count += found
    return text, count


def _is_element(tag: re.Match[str]) -> bool:
    """Whether a browser would make something of it: a known element, or any with attributes."""
    name, more = tag[1].lower(), tag[2]
    closed = tag[0].endswith(">")
    if name in _ELEMENTS:
        return closed or bool(re.match(r"[\s/]", more))
    return "=" in more and bool(re.match(r"[\s/]", more))


def without_links(text: str, source: str) -> tuple[str, int]:
    """The text without links that `source` does not hold itself, and how many were taken out.

    Markdown links leave their text. Addresses are recognized in disguise: escaped, spelled, in full-width letters, with
    brackets around their dots.
    """
    count = found = 0
    while (text := (replaced := _MARKDOWN_LINK.subn(r"\1", text))[0]) and (found := replaced[1]):
        count += found
    for pattern in (_REFERENCE, _AUTOLINK, _SPELLED):
        text = pattern.sub(lambda link: link[0] if link[0].strip("<> ") in source else _GAP, text)
    text = _PIECE.sub(lambda piece: _without_address(piece[0], source), text)
    count += text.count(_GAP)
    return _AROUND_GAP.sub("", text).strip() if _GAP in text else text, count


def _without_address(piece: str, source: str) -> str:
    """A piece of text between spaces, with a gap for the address in it that `source` does not hold."""
    bare = piece.strip("\"'“”„‘’«»`*_()[]{}<>.,;:!?")
    if not bare or bare in source:
        return piece
    plain = unicodedata.normalize("NFKC", unquote(unquote(piece)))
    plain = _DISGUISED.sub(lambda mark: "." if mark[1].lower() == "dot" else mark[1], plain)
    if not _SCHEME.search(plain) and not _HOST.search(plain):
        return piece
    end = re.search(r"[.,;:!?]*$", piece)
    return _GAP + (end[0] if end else "")
