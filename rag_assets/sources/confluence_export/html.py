"""A space export in HTML: a file for each page, and an index that names them all.

Belongs here: the files of such a zip, and what becomes of them as rows and attached files.
Does not belong here: exports in XML (`source`), what a file tells (`rag_assets.steps.formats.exported_page`).

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
from urllib.parse import quote, unquote

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.attachments import Attached
from rag_assets.sources.base import Progress, Row, SourceError
from rag_assets.sources.dump_files import read_entry
from rag_assets.sources.envelope import EnvelopeError, Origin, content_hash, row_of
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.exported_page import ExportedPage, page_id_in
from rag_assets.steps.readers.readers import UNNAMED, Grants
from rag_serving.config.sources import ConfluenceExport as Settings

INDEX = "index.html"

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
    """Return the name of the index; the topmost where there are several."""
    indexes = [name for name in archive.namelist() if PurePosixPath(name).name == INDEX]
    return min(indexes, key=lambda name: (name.count("/"), name), default=None)


def read_html(
    archive: zipfile.ZipFile,
    index: str,
    settings: Settings,
    origin: Origin,
    progress: Progress | None,
    reader: LimitedReader,
) -> HtmlReading:
    """Return every page beside the index. One whose file is broken or missing is a failure of its own.

    Raises:
        SourceError: the index is not one of a Confluence export, or does not tell the space.
    """
    folder = index.removesuffix(INDEX)
    try:
        exported = reader.exported_index(read_entry(archive, archive.getinfo(index)))
    except (EnvelopeError, PageError) as error:
        raise SourceError(f"{index}: {error}") from None
    space = settings.space or exported.key
    if space is None:
        raise SourceError(f"{INDEX} does not tell the key of the space; set the source's space")
    files = {page_id: name for name in archive.namelist() if (page_id := _page_id(name, folder))}
    if not files:
        raise SourceError("it has no page with an id in its file's name; export the space again")
    reading = HtmlReading()
    for page_id in sorted(set(exported.page_ids) - files.keys()):
        reading.failures[page_id] = f"{INDEX} names it, and its file is not in the export"
    for done, (page_id, name) in enumerate(sorted(files.items()), start=1):
        try:
            page = reader.exported_page(read_entry(archive, archive.getinfo(name)))
            reading.rows[page_id] = row = _row(page, page_id, space, settings, origin)
            reading.attached += _files_of(archive, folder, page, page_id, settings)
        except (EnvelopeError, PageError) as error:
            reading.failures[page_id] = f"{name}: {error}"
            continue
        above = tuple(one.removeprefix(settings.id_prefix) for one in row["ancestors"])
        reading.grants[page_id] = Grants(above, None)
        if progress is not None:
            progress(done, len(files))
    return reading


def _row(page: ExportedPage, page_id: str, space: str, settings: Settings, origin: Origin) -> Row:
    above = [(one or UNNAMED, title) for one, title in page.crumbs]
    envelope = {
        "id": page_id,
        "title": page.title.removeprefix(f"{above[0][1]} : ") if above and above[0][1] else page.title,
        "space": {"key": space},
        "version": {"number": 1, "when": _moment(page.changed)},
        "ancestors": [{"id": one, "title": title} for one, title in above[1:]],
        "body": {"storage": {"value": page.body}},
        "_links": {"base": settings.base_url},
    }
    row = row_of(envelope, origin)
    format_columns = {"body_format": "html", "anchor_flavor": "html"}
    return {**row, **format_columns, "content_hash": content_hash(row["title"], row["body"], "html", "html")}


def _page_id(name: str, folder: str) -> str | None:
    """Return the id of a page's file; files of folders below are no pages."""
    rest = name.removeprefix(folder)
    return page_id_in(rest) if name.startswith(folder) and "/" not in rest else None


def _moment(changed: str) -> str | None:
    """Return the day of the last change, where it is told in English."""
    match = _DATE.search(changed)
    try:
        return datetime.strptime(match[1], "%b %d, %Y").replace(tzinfo=UTC).isoformat() if match else None
    except ValueError:
        return None


def _files_of(
    archive: zipfile.ZipFile, folder: str, page: ExportedPage, page_id: str, settings: Settings
) -> Iterator[Attached]:
    """Yield the files that a page lists below its text; the list alone knows their names."""
    entries: Mapping[str, zipfile.ZipInfo] = archive.NameToInfo
    for href, name in page.links:
        path = unquote(href)
        match, entry = _FILE.search(path), entries.get(folder + path)
        if match is None or entry is None or match[1] != page_id:
            continue
        yield Attached(
            id=match[2],
            page_id=f"{settings.id_prefix}{page_id}",
            name=name,
            read=partial(read_entry, archive, entry),
            size=entry.file_size,
            url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
        )
