"""Text that a model wrote, without anything that could act on who reads it: HTML, script, links, control characters."""

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
_TAG = re.compile(r"<\s*+/?\s*+([A-Za-z][\w:.-]*)([^<>]*)>?")
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
# `[text][label]` and `[label]: address` (CommonMark, 4.7 and 6.3); a label that is a number may be a citation.
_LABEL = r"\[(?P<{0}>[^\[\]\n]{{1,80}})\]"
_ADDRESS = r"<?(?:[A-Za-z][\w+.-]{0,20}:|[/\\]|\.{1,2}/|#|www\.|[\w-]{1,63}(?:\.[\w-]{1,63}){1,8}(?:[/:?#]|[ \t]*$))"
_DEFINITION = re.compile(rf"(?m)^[ \t]{{0,3}}{_LABEL.format('label')}:[ \t]*{_ADDRESS}.*$")
_REFERENCE = re.compile(rf"!?{_LABEL.format('text')}\[(?P<label>[^\[\]\n]{{0,80}})\]")
_LINKED_CITATION = re.compile(r"(?<![\w\])])\[([^\[\]\n]{2,300})\](\[\^?\d{1,3}\])")
_SHORTCUT = re.compile(rf"!?{_LABEL.format('label')}(?![\[(:])")
_IMAGE = re.compile(
    r"!\[[^\[\]\n]{0,300}\](?:\([^()\n]{0,2000}(?:\([^()\n]{0,300}\)[^()\n]{0,300})?\)|\[[^\[\]\n]{0,80}\])"
)
_CITATION = re.compile(
    r"\^?\s?(?:(?:passages?|sources?|docs?|documents?|refs?|no|nr)\.? ?)?#?\d{1,3}[\d\s,;&–-]*", re.I
)
_AUTOLINK = re.compile(r"<(?=[^<>\s]*[:.@/])[^<>\s]+>")
_SPELLED = re.compile(
    r"(?<!\S)\S*\w\s*[\[({]\s*(?:dot|punkt|point|\.)\s*[\])}]\s*\w\S*|(?<!\S)\S+\s+dot\s+(?:com|net|org|io)\b\S*", re.I
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
    rf"(?<![\w@.-])(?:www\d?\.|(?:[\w-]+\.)+(?:{_TOP_LEVEL})(?![\w-]|\.\w))"
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?/|[\w.+-]{1,64}@[\w-]+\.[\w-]",
    re.IGNORECASE,
)
# An address goes on to a space, or to text without spaces.
_ADDRESSES = re.compile(
    rf"(?:{_SCHEME.pattern}|{_HOST.pattern})[^\s\u3000-\u30ff\u3400-\u9fff\uac00-\ud7af\uff0c\uff1b\uff08\uff09]*",
    re.IGNORECASE,
)
_SIGNS = "\"'“”„‘’«»`*_()[]{}<>.,;:!?|"
_CITED = re.compile(r"(?:\[\^?\d{1,3}\]|【[^【】\n]{1,30}】)\Z")
_LONGEST_CITED = 32
_DEEPEST_LINK = 8
_DEEPEST_HTML = 10  # of tags that only show when others are gone: nobody but an attacker writes them
_PIECE = re.compile(r"\S+")
_DISGUISED = re.compile(r"[\[({<]\s*([.:/]+|dot)\s*[\])}>]", re.IGNORECASE)
_GAP = "\ue000"
_LEAD = (
    r"(?:(?:see|cf|via|read|visit|at|on|from|under|here|source|sources|refs?|references?|links?|url|docs?|documentation"
    r"|details?|information|more|further|also|the|our|page|website|for|and|or|e\.g|i\.e)\b[\s.:]{1,3}){1,6}"
)
_LEADS = re.compile(rf"[,;(–—][ \t]{{0,4}}{_LEAD}\Z", re.I)
_NAMES_NO_MORE = re.compile(rf"{_LEAD}", re.I)
_LONGEST_LEAD = 60
_ACCORDING = r"(?:according to|as (?:per|(?:stated|described|documented|explained|shown|said) (?:at|on|in|by)))"
# Words that led to a link, meaningless without it.
_LED_TO_GAP = (
    re.compile(
        rf"(?m)^[ \t>*+-]*(?:\[[^\[\]\n]{{1,20}}\][ \t:]*)?(?:(?:sources?|links?|urls?|refs?|see)[ \t]?:[ \t]?)?"
        rf"{_GAP}[ \t.,;]*(?:\n|\Z)",
        re.I,
    ),
    re.compile(rf"[ \t]{{0,4}}[(\[{{<]\s?(?:{_LEAD})?{_GAP}\s?[)\]}}>]", re.I),
    re.compile(rf"[ \t]{{0,4}}[,;–—][ \t]{{0,4}}{_LEAD}{_GAP}", re.I),
    re.compile(rf"(?<![^\s])(?:source|sources|refs?|references?|links?|url|see|more|details)[ \t]?:[ \t]?{_GAP}", re.I),
)
_SAID_BY_GAP = re.compile(rf"\b(?:{_ACCORDING} {_GAP}|as {_GAP} \w+)[ \t]?,?[ \t]?(\w?)", re.I)
_AROUND_GAP = re.compile(rf"(?:(?<=[\"“„«‘'(\[])|^){_GAP}[ \t]?|[ \t]{{0,4}}{_GAP}")
# An address of the source that goes on here, or began before, is another one.
_BEFORE, _BEHIND = re.compile(r"[\w@.-]\Z"), re.compile(r"[\w@-]|[.:%]\w")


def visible(text: str) -> str:
    """Return the text without a model's thoughts, turn marks, entities and characters that are not seen."""
    text = _TURN_MARK.sub("", _THOUGHT.sub("", text))
    for _ in range(3):
        text, before = _ENTITY.sub(lambda entity: html.unescape(entity[0]), text), text
        if text == before:
            break
    return _UNSEEN.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def without_html(text: str) -> tuple[str, int]:
    """Return the text without HTML, with the content of scripts and the like gone too, and how many pieces were taken
    out. `<placeholder>` and `List<String>` stay: names without attributes that are not those of elements."""
    count, found, turns = 0, 1, 0
    while found and "<" in text:
        turns += 1
        if turns > _DEEPEST_HTML:
            return text.replace("<", ""), count + text.count("<")
        text, comments = _COMMENT.subn("", text)
        text, active = _ACTIVE.subn("", text)
        found = comments + active
        if not found:
            text, found = _without_tags(text)
        count += found
    return text, count


def _without_tags(text: str) -> tuple[str, int]:
    kept, end, count = [], 0, 0
    for tag in _TAG.finditer(text):
        if _is_element(tag):
            kept.append(text[end : tag.start()])
            end, count = tag.end(), count + 1
    return "".join((*kept, text[end:])), count


def _is_element(tag: re.Match[str]) -> bool:
    """Return whether a browser would make something of it: a known element, or any with attributes."""
    name, more = tag[1].lower(), tag[2]
    closed = tag[0].endswith(">")
    if name in _ELEMENTS:
        return closed or bool(re.match(r"[\s/]", more))
    return "=" in more and bool(re.match(r"[\s/]", more))


def without_images(text: str) -> tuple[str, int]:
    """Return the text without images in Markdown and their alternatives, and the number removed."""
    return _IMAGE.subn("", text)


def without_brackets(text: str) -> str:
    """Return the text with `words [1]` for `[words][1]`: a reference whose label is a number cites a passage."""
    return _LINKED_CITATION.sub(lambda link: link[0] if _CITATION.fullmatch(link[1]) else f"{link[1]} {link[2]}", text)


def without_links(text: str, source: str) -> tuple[str, int]:
    """Return the text without links missing from `source`, and the number removed. Markdown links leave their text,
    linked citations (`[1](…)`) their mark. Addresses are recognized in disguise: escaped, spelled out, in full-width
    letters, with brackets around their dots. Mere pointers go as well: `(see …)`."""
    count, found = 0, 1
    for _ in range(_DEEPEST_LINK):
        text, found = _MARKDOWN_LINK.subn(_label, text)
        count += found
        if not found:
            break
    count -= text.count(_GAP)
    text = _without_references(text)
    for pattern in (_AUTOLINK, _SPELLED):
        text = pattern.sub(lambda link: link[0] if _stands(link[0].strip("<> "), source) else _GAP, text)
    text = _PIECE.sub(lambda piece: _without_address(piece[0], source), text)
    count += text.count(_GAP)
    return _closed(text) if _GAP in text else text, count


def _label(link: re.Match[str]) -> str:
    """Return the text of a Markdown link; a number keeps its brackets, and of `(see [the docs](…))` nothing is left."""
    if _CITATION.fullmatch(link[1]):
        return f"[{link[1]}]"
    before = link.string[max(0, link.start() - _LONGEST_LEAD) : link.start()]
    leads = _LEADS.search(before) or (before.endswith("(") and _NAMES_NO_MORE.fullmatch(f"{link[1]} "))
    return _GAP if leads else link[1]


def _without_references(text: str) -> str:
    """Return the text with gaps for definitions of links, and links that name one as their text alone."""
    labels = {definition["label"].casefold() for definition in _DEFINITION.finditer(text)}
    text = _DEFINITION.sub(_GAP, text)

    def resolved(link: re.Match[str]) -> str:
        label = link["label"] or link["text"]
        if _CITATION.fullmatch(link["text"]) or _CITATION.fullmatch(label):
            return link[0]
        return link["text"] if label.casefold() in labels else link[0]

    def shortened(link: re.Match[str]) -> str:
        label = link["label"]
        return label if label.casefold() in labels and not _CITATION.fullmatch(label) else link[0]

    text = _REFERENCE.sub(resolved, text)
    return _SHORTCUT.sub(shortened, text) if labels else text


def _closed(text: str) -> str:
    """Return the text without its gaps, and without words that only led to them."""
    for pattern in _LED_TO_GAP:
        text = pattern.sub("", text)
    text = _SAID_BY_GAP.sub(lambda said: said[1].upper() if said[0][0].isupper() else said[1], text)
    return _AROUND_GAP.sub("", text).strip()


def _stands(link: str, source: str) -> bool:
    """Return whether a source has a link as a whole: neither a part of a longer address nor one that goes on."""
    at = source.find(link) if link else -1
    while at >= 0:
        if not _BEFORE.search(source[max(0, at - 1) : at]) and not _BEHIND.match(source, at + len(link)):
            return True
        at = source.find(link, at + 1)
    return False


def _without_address(piece: str, source: str) -> str:
    """Return a run of text without spaces, with gaps for addresses missing from `source`. From a run with a disguised
    address only the surrounding punctuation and citations stay."""
    if piece.isascii() and piece.isalpha():  # most are: a word alone is no address
        return piece
    start, end = _inner(piece)
    bare = piece[start:end]
    if not bare or _stands(bare, source) or not _has_address(bare):
        return piece
    left = _ADDRESSES.sub(_GAP, bare)
    left = _GAP if left == bare or _has_address(left) else left
    return piece[:start] + left + piece[end:]


def _inner(piece: str) -> tuple[int, int]:
    """Return the range of a piece without quotation marks, brackets, stops and citations around it."""
    start, end = len(piece) - len(piece.lstrip(_SIGNS)), len(piece)
    while end > start:
        citation = _CITED.search(piece, max(start, end - _LONGEST_CITED), end)
        if citation is None and piece[end - 1] not in _SIGNS:
            break
        end = citation.start() if citation else end - 1
    if piece[end : end + 1] == ")" and piece.count("(", start, end) > piece.count(")", start, end):
        end += 1
    return start, end


def _has_address(text: str) -> bool:
    plain = unicodedata.normalize("NFKC", unquote(unquote(text)))
    plain = _DISGUISED.sub(lambda mark: "." if mark[1].lower() == "dot" else mark[1], plain)
    return _SCHEME.search(plain) is not None or _HOST.search(plain) is not None
