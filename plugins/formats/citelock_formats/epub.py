"""EPUB books: the chapters in the order of the spine, under the titles of the navigation."""

from __future__ import annotations

import html
import posixpath
import re
from collections.abc import Iterator, Mapping
from typing import NamedTuple
from urllib.parse import unquote

from rag_assets.steps.files.composed import Composed
from rag_assets.steps.files.file_text import ZipMembers
from rag_assets.steps.files.records import FileError, FileText, PagesDone, decoded
from rag_assets.steps.formats.blocks import Block, Content, clean
from rag_assets.steps.formats.element_tree import Element, PageError, parse_html
from rag_assets.steps.formats.html import html_content

_CHAPTERS = frozenset({"application/xhtml+xml", "text/html", "application/xml"})
_FONTS = frozenset({"http://www.idpf.org/2008/embedding", "http://ns.adobe.com/pdf/enc#RC"})
_NCX = "application/x-dtbncx+xml"
_DOCTYPE = re.compile(r"<!DOCTYPE[^>\[]{0,2000}(?:\[[^\]]{0,20000}\]\s{0,100})?>", re.IGNORECASE)
_ENTITY = re.compile(r"&([A-Za-z][A-Za-z0-9]{1,31});")
_XML_ENTITIES = frozenset({"amp", "lt", "gt", "quot", "apos"})
_LEVELS = 6
_DEEPEST = 64  # elements of a navigation above an entry


class _Title(NamedTuple):
    """A chapter's entry in the navigation: words, and its depth, from 1."""

    words: str
    level: int


def epub_text(content: bytes, composed: Composed, pages_done: PagesDone | None = None) -> FileText:
    """Return the chapters of a book; `pages_done` receives the number of chapters read. Raises FileError: it is broken,
    protected against copying, or has no chapter."""
    members = ZipMembers(content)
    _refuse_protected(members)
    package, folder = _package(members)
    items = {item.get("id", ""): item for item in _named(package, "item")}
    titles = _titles(members, items, folder)
    chapters = list(dict.fromkeys(_chapters(package, items, folder)))
    for done, name in enumerate(chapters, start=1):
        if composed.is_full:
            break
        _take_chapter(members, name, titles.get(name), composed)
        if pages_done is not None:
            pages_done(done, len(chapters))
    if not composed.blocks:
        raise FileError("the book has no chapter that can be read")
    return composed.text()


def _take_chapter(members: ZipMembers, name: str, title: _Title | None, composed: Composed) -> None:
    try:
        found = html_content(_chapter_html(decoded(members.read(name))))
    except (FileError, PageError, KeyError):
        composed.lost("chapter")
        return
    if not found.blocks:
        return
    if title is None:
        composed.content(found)
        return
    found = _titled(found, title)
    levels = [block.level for block in found.blocks if block.kind == "heading" and block.level]
    if levels and _opens_with(found, title.words):
        composed.content(found, title.level - levels[0])
    else:
        composed.heading(title.words, title.level)
        composed.content(found, title.level - min(levels, default=1) + 1)


def _titled(content: Content, title: _Title) -> Content:
    """Return a chapter with its title paragraph turned into a heading: office programs write that."""
    first = content.blocks[0]
    if first.kind != "paragraph" or clean(first.text).casefold() != title.words.casefold():
        return content
    level = min((block.level for block in content.blocks if block.kind == "heading" and block.level), default=1)
    return content._replace(blocks=[Block("heading", first.text, level=level), *content.blocks[1:]])


def _opens_with(content: Content, title: str) -> bool:
    """Return whether a chapter opens with a heading that agrees with the navigation."""
    first = content.blocks[0]
    if first.kind != "heading":
        return False
    said, named = clean(first.text).casefold(), clean(title).casefold()
    return said in named or named in said


def _refuse_protected(members: ZipMembers) -> None:
    """Refuse a book whose chapters are encrypted; fonts may be."""
    if "META-INF/rights.xml" in members:
        raise FileError("the book is protected against copying (DRM); get a file without protection")
    if "META-INF/encryption.xml" not in members:
        return
    methods = {one.get("Algorithm", "") for one in _named(_xml(members, "META-INF/encryption.xml"), "EncryptionMethod")}
    if methods - _FONTS:
        raise FileError("the book is protected against copying (DRM); get a file without protection")


def _package(members: ZipMembers) -> tuple[Element, str]:
    for rootfile in _named(_xml(members, "META-INF/container.xml"), "rootfile"):
        path = rootfile.get("full-path", "")
        if path in members:
            return _xml(members, path), posixpath.dirname(path)
    raise FileError("the book has no package document")


def _chapters(package: Element, items: Mapping[str, Element], folder: str) -> Iterator[str]:
    """Yield the names of chapters in the order of the spine, without cover and navigation."""
    covers = {
        _address(folder, one.get("href", ""))
        for one in _named(package, "reference")
        if one.get("type", "").lower() in ("cover", "toc")
    }
    for itemref in _named(package, "itemref"):
        item = items.get(itemref.get("idref", ""))
        if item is None or item.get("media-type", "") not in _CHAPTERS:
            continue
        name = _address(folder, item.get("href", ""))
        if name not in covers and "nav" not in item.get("properties", "").split():
            yield name


def _titles(members: ZipMembers, items: Mapping[str, Element], folder: str) -> dict[str, _Title]:
    """Return the navigation's title of each chapter: its first entry there."""
    navs = [item for item in items.values() if "nav" in item.get("properties", "").split()]
    for item in (*navs, *(item for item in items.values() if item.get("media-type") == _NCX)):
        name = _address(folder, item.get("href", ""))
        try:
            entries = _of_ncx(_xml(members, name)) if item not in navs else _of_nav(_xhtml(decoded(members.read(name))))
            return _first(entries, posixpath.dirname(name))
        except (FileError, PageError, KeyError):
            continue
    return {}


def _first(entries: Iterator[tuple[str, str, int]], folder: str) -> dict[str, _Title]:
    titles: dict[str, _Title] = {}
    for href, words, level in entries:
        if words:
            titles.setdefault(_address(folder, href), _Title(words, min(max(level, 1), _LEVELS)))
    return titles


def _of_nav(root: Element) -> Iterator[tuple[str, str, int]]:
    """Yield address, words and level of the entries of an EPUB 3 navigation document."""
    navs = list(root.iter("nav"))
    tocs = [nav for nav in navs if "toc" in (nav.get("type") or "").split()] or navs[:1]
    for nav in tocs[:1]:
        for link in nav.iter("a"):
            yield link.get("href", ""), _words(link), _above(link, "ol")


def _of_ncx(root: Element) -> Iterator[tuple[str, str, int]]:
    """Yield address, words and level of the entries of an EPUB 2 navigation."""
    for point in _named(root, "navPoint"):
        own = next((one for one in point if _tag(one) == "navLabel"), None)
        link = next((one for one in point if _tag(one) == "content"), None)
        if own is not None and link is not None:
            yield link.get("src", ""), _words(own), _above(point, "navPoint") + 1


def _above(element: Element, tag: str) -> int:
    found = 0
    for depth, one in enumerate(element.iterancestors()):
        found += _tag(one) == tag
        if depth > _DEEPEST:
            break
    return found


def _words(element: Element) -> str:
    return clean("".join(element.itertext()))


def _chapter_html(text: str) -> str:
    """Return a chapter without non-text: notes stay, even outside the flow; pictures without words do not."""
    from lxml import etree

    root = _xhtml(text)
    for picture in list(root.iter("img", "image")):
        said = (picture.get("alt") or "").strip()
        if not said or posixpath.basename(said) == posixpath.basename(picture.get("src") or ""):
            picture.attrib.clear()  # counted where the chapter is read
    for link in root.iter("a"):
        if _is_note_mark(link):
            # Set a note's number in brackets, which no word has
            words = _words(link)
            for child in list(link):
                link.remove(child)
            link.text = f"[{words.strip('[]')}]" if words else None
    for element in root.iter("aside"):
        element.tag = "div"  # a box beside the text is text of a book
    body = root.find("body")
    return str(etree.tostring(root if body is None else body, encoding="unicode", method="html"))


def _is_note_mark(link: Element) -> bool:
    """Return whether a link is the number of a note, there or back: no part of the word beside it."""
    if "noteref" in f"{link.get('type') or ''} {link.get('role') or ''}":
        return True
    above = link.getparent()
    is_raised = (above is not None and above.tag == "sup") or any(one.tag == "sup" for one in link)
    return is_raised and (link.get("href") or "").rpartition("#")[1] == "#"


def _xhtml(text: str) -> Element:
    """Return the tree of an XHTML document without namespaces; one that is no XML is read as HTML."""
    root = _tree(_ENTITY.sub(_character, _without_prolog(text)))
    if root is None:
        return parse_html(text, huge=False)
    for element in root.iter():
        element.tag = _tag(element)
        for name in list(element.attrib):
            if name.startswith("{"):
                element.set(_local(name), element.attrib.pop(name))
    return root


def _character(match: re.Match[str]) -> str:
    return match[0] if match[1] in _XML_ENTITIES else html.unescape(match[0])


def _xml(members: ZipMembers, name: str) -> Element:
    """Return the tree of a member. Raises FileError: it is missing or no XML."""
    if name not in members:
        raise FileError(f"the book lacks {name}")
    root = _tree(_without_prolog(decoded(members.read(name))))
    if root is None:
        raise FileError(f"{name} of the book is broken")
    return root


def _tree(document: str) -> Element | None:
    from lxml import etree

    parser = etree.XMLParser(resolve_entities=False, no_network=True, remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(document.encode("utf-8", "replace"), parser)
    except (etree.XMLSyntaxError, ValueError):
        return None


def _without_prolog(text: str) -> str:
    """Return a document without the encoding that it was in, and without its document type declaration."""
    stripped = text.lstrip("\ufeff \t\r\n")
    document = stripped.partition("?>")[2].lstrip() if stripped.startswith("<?xml") else stripped
    doctype = _DOCTYPE.match(document)
    return document[doctype.end() :] if doctype else document


def _named(root: Element, name: str) -> list[Element]:
    return [element for element in root.iter() if _tag(element) == name]


def _tag(element: Element) -> str:
    return _local(element.tag) if isinstance(element.tag, str) else "span"


def _local(name: str) -> str:
    return str(name).rpartition("}")[2]


def _address(folder: str, href: str) -> str:
    """Return the name of the member that an address leads to."""
    return posixpath.normpath(posixpath.join(folder, unquote(href.partition("#")[0])))
