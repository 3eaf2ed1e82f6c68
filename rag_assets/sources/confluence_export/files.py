"""What hangs on the pages of a space export: files at `attachments/<page id>/<attachment id>/<version>`, and comments.

Belongs here: from the object of an attachment or a comment to its content and its link.
Does not belong here: which files are read (`attachments`), what a row of comments is (`comments`).
"""

from __future__ import annotations

import zipfile
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from functools import partial
from urllib.parse import quote

from rag_assets.sources.attachments import Attached
from rag_assets.sources.base import Row
from rag_assets.sources.comments import Comment, comments_row, moment_of
from rag_assets.sources.confluence_export.space import ExportedSpace, number_of
from rag_assets.sources.dump_files import is_link
from rag_assets.sources.envelope import EnvelopeError
from rag_serving.config.sources import ConfluenceExport as Settings


def attached_files(archive: zipfile.ZipFile, space: ExportedSpace, settings: Settings) -> Iterator[Attached]:
    """Yield the files of the space's pages in their current versions; a deleted one is none."""
    for one in space.attachments:
        page_id = one.ref("containerContent", "content")
        if page_id in space.contents and one.text("contentStatus") in ("current", ""):
            name = one.text("title", "fileName")
            path = f"attachments/{page_id}/{one.id}/{number_of(one) or 1}"
            yield Attached(
                id=one.id,
                page_id=f"{settings.id_prefix}{page_id}",
                name=name,
                read=partial(_bytes_of, archive, path, settings.max_attachment_bytes),
                version=number_of(one),
                updated_at=moment_of(space.moment(one)),
                size=_size(archive, path),
                url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
            )


def comment_rows(
    space: ExportedSpace, bodies: Mapping[str, str], pages: Mapping[str, Row], prefix: str
) -> dict[str, Row]:
    """Return the rows of the comments on these pages; `bodies` are theirs by id."""
    said: dict[str, list[Comment]] = defaultdict(list)
    for one in space.comments:
        if one.id in bodies and one.text("contentStatus") in ("current", ""):
            page_id = f"{prefix}{one.ref('containerContent', 'owner', 'page')}"
            said[page_id].append(Comment(one.id, bodies[one.id], number_of(one) or 1, moment_of(space.moment(one))))
    rows = (comments_row(pages[page_id], comments, prefix) for page_id, comments in said.items() if page_id in pages)
    return {row["page_id"]: row for row in rows if row}


def _size(archive: zipfile.ZipFile, path: str) -> int | None:
    try:
        return archive.getinfo(path).file_size
    except KeyError:
        return None


def _bytes_of(archive: zipfile.ZipFile, path: str, limit: int) -> bytes:
    """Return a file's bytes, one more than the limit at most: what the zip says of sizes need not be true."""
    try:
        if is_link(archive.getinfo(path)):
            raise EnvelopeError(f"{path} is a link")
        with archive.open(path) as stream:
            return stream.read(limit + 1)
    except KeyError:
        raise EnvelopeError(f"{path} is not in the export; export the space with attachments") from None
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise EnvelopeError(f"{path} cannot be unpacked: {error}") from None
