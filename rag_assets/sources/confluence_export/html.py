"""A space export in HTML: a file for each page, and an index that names them all.

Belongs here: the files of such a zip, and what they tell of a page: title, ancestors, date, body, attached files.
Does not belong here: exports in XML (`confluence_export`), what is text in HTML (`rag_assets.steps.formats.html`).

HTML tells neither versions, labels nor restrictions, and an administrator's export holds restricted pages, too. So its
pages are hidden unless the settings say that none of them is restricted.
"""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote, unquote

from rag_assets.sources.attachments import Attached
from rag_assets.sources.base import Progress, Row, SourceError
from rag_assets.sources.dump_files import read_entry
from rag_assets.sources.envelope import EnvelopeError, Origin, content_hash, row_of
from rag_assets.steps.readers.readers import UNNAMED, Grants
from rag_serving.config.sources import ConfluenceExport as Settings

INDEX = "index.html"

_PAGE = re.compile(r"(?:^|_)([0-9]+)\.html\Z")
_FILE = re.compile(r"(?:^|/)attachments/([0-9]+)/([0-9]+)\.\w+\Z")
_DATE = re.compile(r"\bon ([A-Z][a-z]{2} [0-9]{2}, [0-9]{4})\s*$")


@dataclass
class HtmlReading:
    """What the files said; pages by raw id."""

    rows: dict[str, Row] = field(default_factory=dict)
    grants: dict[str, Grants] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    attached: list[Attached] = field(default_factory=list)


def index_of(archive: zipfile.ZipFile) -> str | None:
    """The name of the index; the topmost where there are several."""
    found = [name for name in archive.namelist() if PurePosixPath(name).name == INDEX]
    return min(found, key=lambda name: (name.count("/"), name), default=None)


def read_html(
    archive: zipfile.ZipFile, index: str, settings: Settings, origin: Origin, progress: Progress | None
) -> HtmlReading:
    """Every page beside the index. One whose file is broken or missing is a failure of its own.

    Raises:
        SourceError: the index is not one of a Confluence export, or does not tell the space.
    """
    folder = index.removesuffix(INDEX)
    try:
        tree = _parsed(read_entry(archive, archive.getinfo(index)))
    except EnvelopeError as error:
        raise SourceError(f"{index}: {error}") from None
    space = settings.space or _key_of(tree)
    files = {page_id: name for name in archive.namelist() if (page_id := _page_id(name, folder))}
    named = {page_id for link in tree.iter("a") if (page_id := _linked(link))}
    if not files:
        raise SourceError("it has no page with an id in its file's name; export the space again")
    reading = HtmlReading()
    for page_id in sorted(named - files.keys()):
        reading.failures[page_id] = f"{INDEX} names it, and its file is not in the export"
    for done, (page_id, name) in enumerate(sorted(files.items()), start=1):
        try:
            page = _parsed(read_entry(archive, archive.getinfo(name)))
            reading.rows[page_id] = row = _row(page, page_id, space, settings, origin)
            reading.attached += _files_of(archive, folder, page, page_id, settings)
        except EnvelopeError as error:
            reading.failures[page_id] = f"{name}: {error}"
            continue
        above = tuple(one.removeprefix(settings.id_prefix) for one in row["ancestors"])
        reading.grants[page_id] = Grants(above, None)
        if progress is not None:
            progress(done, len(files))
    return reading


def _row(page: Any, page_id: str, space: str, settings: Settings, origin: Origin) -> Row:
    main = page.get_element_by_id("main-content", None)
    if main is None:
        raise EnvelopeError("it has no element main-content, so it is no page of an export")
    above = _breadcrumbs(page)
    envelope = {
        "id": page_id,
        "title": _title(page, above[0][1] if above else ""),
        "space": {"key": space},
        "version": {"number": 1, "when": _moment(page)},
        "ancestors": [{"id": one, "title": title} for one, title in above[1:]],
        "body": {"storage": {"value": _inner(main)}},
        "_links": {"base": settings.base_url},
    }
    row = row_of(envelope, origin)
    told = {"body_format": "html", "anchor_flavor": "html"}
    return {**row, **told, "content_hash": content_hash(row["title"], row["body"], "html", "html")}


def _parsed(content: bytes) -> Any:
    """The tree of an HTML file; nothing is fetched."""
    from lxml import etree, html

    try:
        return html.document_fromstring(
            content, parser=html.HTMLParser(encoding="utf-8", no_network=True, huge_tree=True)
        )
    except (etree.ParserError, etree.XMLSyntaxError) as error:
        raise EnvelopeError(f"it is not HTML: {error}") from None


def _inner(element: Any) -> str:
    from html import escape

    from lxml import html

    parts = [html.tostring(child, encoding="unicode") for child in element]
    return "".join([escape(element.text or "", quote=False), *parts])


def _key_of(index: Any) -> str:
    """The space's key from the details in the index."""
    for head in index.iter("th"):
        cell = head.getnext()
        if head.text_content().strip() == "Key" and cell is not None and (key := cell.text_content().strip()):
            return str(key)
    raise SourceError(f"{INDEX} does not tell the key of the space; set the source's space")


def _page_id(name: str, folder: str) -> str | None:
    """The id of a page's file; files of folders below are no pages."""
    rest = name.removeprefix(folder)
    found = _PAGE.search(rest) if name.startswith(folder) and "/" not in rest else None
    return found[1] if found else None


def _linked(link: Any) -> str | None:
    found = _PAGE.search(unquote(link.get("href", "")).partition("#")[0])
    return found[1] if found else None


def _breadcrumbs(page: Any) -> list[tuple[str, str]]:
    """(page id, title) of what stands above, the space itself first, without an id."""
    crumbs = page.get_element_by_id("breadcrumbs", None)
    links = crumbs.iter("a") if crumbs is not None else ()
    return [(_linked(link) or UNNAMED, " ".join(link.text_content().split())) for link in links]


def _title(page: Any, space: str) -> str:
    """The title without the name of the space that stands before it."""
    found = page.get_element_by_id("title-text", None)
    found = page.find(".//title") if found is None else found
    title = " ".join(found.text_content().split()) if found is not None else ""
    return title.removeprefix(f"{space} : ") if space else title


def _moment(page: Any) -> str | None:
    """The day of the last change, where it is told in English."""
    told = next((" ".join(one.text_content().split()) for one in page.find_class("page-metadata")), "")
    found = _DATE.search(told)
    try:
        return datetime.strptime(found[1], "%b %d, %Y").replace(tzinfo=UTC).isoformat() if found else None
    except ValueError:
        return None


def _files_of(archive: zipfile.ZipFile, folder: str, page: Any, page_id: str, settings: Settings) -> Iterator[Attached]:
    """The files that a page lists below its text; the list alone knows their names."""
    entries: Mapping[str, zipfile.ZipInfo] = archive.NameToInfo
    for box in page.find_class("greybox"):
        for link in box.iter("a"):
            path = unquote(link.get("href", ""))
            found, entry = _FILE.search(path), entries.get(folder + path)
            if found is None or entry is None or found[1] != page_id:
                continue
            name = " ".join(link.text_content().split())
            yield Attached(
                id=found[2],
                page_id=f"{settings.id_prefix}{page_id}",
                name=name,
                read=partial(read_entry, archive, entry),
                size=entry.file_size,
                url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
            )
