"""Files in the zip of a space export: `attachments/<page id>/<attachment id>/<version>`.

Belongs here: from an attachment's object to its bytes and its link.
Does not belong here: which files are read and what becomes of them (`attachments`).
"""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from urllib.parse import quote

from rag_assets.sources.attachments import Attached
from rag_assets.sources.entities_xml import Entity
from rag_assets.sources.envelope import EnvelopeError
from rag_assets.sources.export_space import ExportedSpace, number_of
from rag_serving.config import ConfluenceExport as Settings


def attached_files(archive: zipfile.ZipFile, space: ExportedSpace, settings: Settings) -> Iterator[Attached]:
    """The files of the space's pages in their current versions; a deleted one is none."""
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
                updated_at=_moment(space, one),
                size=_size(archive, path),
                url=f"{settings.base_url.rstrip('/')}/download/attachments/{page_id}/{quote(name, safe='')}",
            )


def _moment(space: ExportedSpace, one: Entity) -> datetime | None:
    try:
        moment = datetime.fromisoformat(space.moment(one) or "").astimezone(UTC)
    except ValueError:
        return None
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


def _size(archive: zipfile.ZipFile, path: str) -> int | None:
    try:
        return archive.getinfo(path).file_size
    except KeyError:
        return None


def _bytes_of(archive: zipfile.ZipFile, path: str, limit: int) -> bytes:
    """A file's bytes, one more than the limit at most: what the zip says of sizes need not be true."""
    try:
        with archive.open(path) as stream:
            return stream.read(limit + 1)
    except KeyError:
        raise EnvelopeError(f"{path} is not in the export; export the space with attachments") from None
    except (OSError, EOFError, RuntimeError, NotImplementedError, zipfile.BadZipFile, zlib.error) as error:
        raise EnvelopeError(f"{path} cannot be unpacked: {error}") from None
