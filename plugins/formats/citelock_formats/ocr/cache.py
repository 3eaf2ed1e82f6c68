"""The OCR results of pages, cached by their digest: safe to delete, safe to kill at any moment."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable
from pathlib import Path

from citelock_formats.ocr.records import PagePicture, RecognizedPage, words_of_json
from rag_serving.artifacts.secret import SEAL_BYTES, Seal, SecretError
from rag_serving.artifacts.store import open_file, write_bytes

_PAGES, _DOCUMENTS = "pages", "documents"
_PURPOSE = "ocr"
_LARGEST = 16 * 1024**2
_VERSION = 1
"""Of what is kept, and of how pictures are read."""
_log = logging.getLogger(__name__)


def picture_key(picture: PagePicture, engine: str, languages: Iterable[str]) -> str:
    """Return the name of an engine's result for a picture in some languages."""
    facts = [_VERSION, engine, [*languages], picture.width, picture.height, round(picture.dpi, 3)]
    return hashlib.sha256(json.dumps(facts).encode() + b"\n" + picture.pixels).hexdigest()


class OcrCache:
    """The files of one source. Threads may use it at once."""

    def __init__(self, folder: Path) -> None:
        """`folder`: `Store.source(key) / FOLDER`; made when something is kept."""
        self._folder = folder

    def words(self, key: str) -> RecognizedPage | None:
        """Return the cached result; None if there is none, or it was altered."""
        content = self._read(_PAGES, key)
        try:
            return None if content is None else words_of_json(json.loads(content))
        except ValueError:
            return None

    def keep(self, key: str, words: RecognizedPage) -> None:
        """Store the result of a picture; an unwritable folder costs time alone."""
        self._write(_PAGES, key, json.dumps(words, ensure_ascii=False).encode())

    def name_pages(self, sha256: str, keys: Collection[str]) -> None:
        """Note which pictures a document has. `sha256`: of the file as it was received."""
        self._write(_DOCUMENTS, sha256, json.dumps(sorted(keys)).encode())

    def _read(self, kind: str, name: str) -> bytes | None:
        try:
            with open_file(self._folder / kind / name) as file:
                content = file.read(_LARGEST)
            seal, content = content[:SEAL_BYTES], content[SEAL_BYTES:]
            return content if self._seal().holds(seal, f"{kind}/{name}".encode(), content) else None
        except (OSError, SecretError):
            return None

    def _write(self, kind: str, name: str, content: bytes) -> None:
        try:
            write_bytes(self._folder / kind / name, self._seal().of(f"{kind}/{name}".encode(), content) + content)
        except (OSError, SecretError) as error:
            _log.warning("what OCR read is not kept: %s", error)

    def _seal(self) -> Seal:
        return Seal(self._folder.parents[2], _PURPOSE)

    def remove_unnamed(self, documents: Collection[str]) -> None:
        """Remove results of other documents than these [SHA-256 as received], and the remains of a killed writer.

        Pages of a document whose list cannot be read are removed as well: they can be read again.
        """
        if not self._folder.is_dir():
            return
        named = {key for name in documents for key in self._keys(name)}
        for kind, kept in ((_DOCUMENTS, frozenset(documents)), (_PAGES, named)):
            folder = self._folder / kind
            for path in folder.iterdir() if folder.is_dir() else ():
                if path.name not in kept:
                    path.unlink(missing_ok=True)

    def _keys(self, name: str) -> list[str]:
        content = self._read(_DOCUMENTS, name)
        try:
            keys = json.loads(content) if content else []
        except ValueError:
            return []
        return [key for key in keys if isinstance(key, str)]
