"""Documents with scanned pages, made readable: called by `LimitedReader` before it reads a PDF or an image.

The pages of one document are recognized several at once, in its language, each picture only once. Results are cached by
their digest: safe to delete, safe to kill at any moment.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from citelock_formats.ocr.child import PagePicture, PdfChild, PdfFile, RecognizedPage, ScannedPage, words_of_json
from citelock_formats.ocr.engine import EngineError, Tesseract
from rag_assets.monitoring.source_health import reads_pdf
from rag_assets.parsing.reader import READ, SETTINGS, Prepared
from rag_assets.steps.files.records import FileError, PagesDone
from rag_serving.artifacts.secret import SEAL_BYTES, Seal, SecretError
from rag_serving.artifacts.store import open_file, write_bytes
from rag_serving.cli.printing import Finding
from rag_serving.config.loading import Config
from rag_serving.config.sections import Documents, Ocr
from rag_serving.isolation.child import Limits
from rag_serving.models.language_detector import shares_of_languages

_PAGES, _DOCUMENTS = "pages", "documents"
_PURPOSE = "ocr"
_LARGEST = 16 * 1024**2
_VERSION = 1
"""Of what is kept, and of how pictures are read."""
_log = logging.getLogger(__name__)


def examine(config: Config) -> Iterator[Finding]:
    """Yield whether scanned pages can be read, and in which languages; nothing if no source reads PDF files."""
    settings = config.documents.ocr
    if not any(map(reads_pdf, config.sources.values())):
        return
    if settings.enabled is False:
        yield Finding("ocr", "ok", "off: scanned pages have no text")
        return
    engine = Tesseract(settings)
    if why := obstacle(settings, engine):
        lack, _, mend = why.partition(": ")
        yield Finding("ocr", "warn", f"{lack}; scanned pages have no text", mend)
        return
    languages = settings.languages or engine.languages
    yield Finding("ocr", "ok", f"tesseract {engine.version} reads scanned pages in {', '.join(languages)}")


MOST_PAGES = 2000
"""Of a document that is looked at."""


class Scans:
    """Fulfils `ScannedDocuments`: one engine, one process that looks at files."""

    def __init__(self, documents: Documents, folder: Path, child: PdfChild | None = None) -> None:
        """`folder`: `Store.source(key) / FOLDER`, where readings are kept."""
        self._settings = documents.ocr
        self._child = child or PdfChild(Limits(documents.max_seconds, documents.max_memory_mb))
        self._engine = Tesseract(documents.ocr)
        self._cache = OcrCache(folder)

    def remove_unnamed(self, documents: Collection[str]) -> None:
        """See `ScannedDocuments`."""
        self._cache.remove_unnamed(documents)

    def close(self) -> None:
        """End the process and the engine."""
        self._engine.close()
        self._child.close()

    def prepared(self, content: bytes, is_image: bool, pages_done: PagesDone | None) -> Prepared:
        """See `ScannedDocuments`."""
        received = hashlib.sha256(content).hexdigest()
        if is_image:
            content = self._child.ask({"do": "image_pdf", "dpi": self._settings.dpi}, content).content
        as_it_came = Prepared(content, received if is_image else None)
        file = PdfFile(self._child, content)
        try:
            count, pages = file.scanned_pages(MOST_PAGES)
        except FileError:  # whatever reads its text says why
            return as_it_came
        if not pages:
            return as_it_came
        if why := obstacle(self._settings, self._engine):
            return as_it_came._replace(unread=dict.fromkeys((page.page for page in pages), why))

        def done(finished: int) -> None:  # those that need no OCR are finished first
            if pages_done is not None:
                pages_done(count - len(pages) + finished, count)

        return self._recognized(file, as_it_came, received, pages, done)

    @property
    def manner(self) -> str:
        """See `ScannedDocuments`."""
        languages = f"in {'+'.join(self._settings.languages)}" if self._settings.languages else "in what is installed"
        return f"{languages} at {self._settings.dpi} dpi ({SETTINGS}languages, {SETTINGS}dpi)"

    def is_past(self, reason: str) -> bool:
        """See `ScannedDocuments`. Earlier results are kept while nothing can be recognized."""
        why = obstacle(self._settings, self._engine)
        if reason.startswith(READ):
            return reason != f"{READ} {self.manner}" and why is None
        now = [why, self._too_many(), f"{self._settings.timeout_s:g} s ({SETTINGS}timeout_s)"]
        return f"({SETTINGS}" in reason and not any(one in reason for one in now if one)

    def _recognized(
        self, file: PdfFile, as_it_came: Prepared, received: str, pages: list[ScannedPage], done: Callable[[int], None]
    ) -> Prepared:
        most = self._settings.max_pages
        result = Recognizer(self._settings, self._engine, self._cache, file).read(pages[:most], done)
        unread = {**result.unread, **dict.fromkeys((page.page for page in pages[most:]), self._too_many())}
        self._cache.name_pages(received, result.keys)
        if not result.words:
            return as_it_came._replace(unread=unread)
        try:
            content, recognized = file.searchable(result.words, self._settings.dpi)
        except FileError as error:
            lost: Mapping[int, str] = dict.fromkeys((page.page for page in result.words), str(error))
            return as_it_came._replace(unread={**unread, **lost})
        return Prepared(content, received, recognized, unread)

    def _too_many(self) -> str:
        return f"OCR reads {self._settings.max_pages:,} pages of a document ({SETTINGS}max_pages)"


def obstacle(settings: Ocr, engine: Tesseract) -> str | None:
    """Return why nothing can be recognized and how to mend that, None if it can."""
    if settings.enabled is False:
        return f"OCR is off ({SETTINGS}enabled)"
    if engine.version is None:
        return f"OCR needs tesseract: install tesseract-ocr, and see that PATH has it ({SETTINGS}enabled)"
    missing = [name for name in settings.languages if name not in engine.languages]
    if missing or not engine.languages:
        package = (missing or ["eng"])[0].replace("_", "-")
        return f"tesseract lacks a language: install tesseract-ocr-{package} ({SETTINGS}languages)"
    return None


NOTHING_LEGIBLE = "OCR finds no words in it that it is sure of"
_STRIKES = 3  # pages that fail one after the other, none read: the engine is broken, not the page
_LANGUAGE_PAGES = 2  # that are read in several languages, which show the document's own


@dataclass
class Recognized:
    """The outcome of scanned pages. Each is in `words`, in `unread` (with the reason), or empty."""

    words: dict[ScannedPage, RecognizedPage] = field(default_factory=dict)
    unread: dict[int, str] = field(default_factory=dict)
    keys: set[str] = field(default_factory=set)  # of their pictures


class Recognizer:
    """Reads the scanned pages of one document. `take` is called from several threads."""

    def __init__(self, settings: Ocr, engine: Tesseract, cache: OcrCache, file: PdfFile) -> None:
        self.recognized = Recognized()
        self._dpi = settings.dpi
        self._engine, self._cache, self._file = engine, cache, file
        self._installed = tuple(settings.languages) or engine.languages
        self._languages = self._installed if len(self._installed) <= AT_ONCE else ()
        self._lock = threading.Lock()
        self._strikes: list[str] = []

    def read(self, pages: Sequence[ScannedPage], done: Callable[[int], None]) -> Recognized:
        """Return the outcome of the pages. `done` is called with the number of finished ones."""
        first = pages[:_LANGUAGE_PAGES] if len(self._installed) > 1 else ()
        with ThreadPoolExecutor(min(cores(), max(len(pages), 1)), "ocr") as pool:
            try:
                finished = 0
                for some in (first, pages[len(first) :]):
                    for future in as_completed([pool.submit(self.take, page) for page in some]):
                        future.result()
                        finished += 1
                        done(finished)
                    if some is first and self._learn_language():
                        [*pool.map(self.take, first)]
            except BaseException:
                self._engine.close()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
        return self.recognized

    def _learn_language(self) -> bool:
        """Take the language of the text so far for all else; return whether it must be read again in it."""
        text = " ".join(words.text for words in self.recognized.words.values())
        language, before = language_of(text, self._installed), self._languages
        self._languages = language or before
        return not set(language) <= set(before)

    def take(self, page: ScannedPage) -> None:
        """Read a page, and record the outcome."""
        if len(self._strikes) >= _STRIKES and not self.recognized.words:
            self._leave_out(page, self._strikes[-1])
            return
        try:
            picture = self._file.picture(page.page, self._dpi)
            words = None if picture is None else self._words(picture, self._chosen(picture))
        except (EngineError, FileError) as error:
            self._strikes.append(str(error))
            self._leave_out(page, str(error))
            return
        if words is None:  # the page is empty
            return
        with self._lock:
            if words.confidence < ILLEGIBLE:
                self.recognized.unread[page.page] = NOTHING_LEGIBLE
            else:
                self.recognized.words[page] = words
                self.recognized.unread.pop(page.page, None)

    def _leave_out(self, page: ScannedPage, why: str) -> None:
        with self._lock:
            self.recognized.unread[page.page] = why

    def _chosen(self, picture: PagePicture) -> tuple[str, ...]:
        """Return the languages that pages are read in; those of a picture's script if nothing was chosen yet."""
        if not self._languages:
            self._languages = first_languages(self._installed, self._engine.orientation(picture).script)
        return self._languages

    def _words(self, picture: PagePicture, languages: tuple[str, ...]) -> RecognizedPage:
        """Return the result of a picture, new or cached. Raises EngineError."""
        key = picture_key(picture, self._engine.version or "", languages)
        with self._lock:
            self.recognized.keys.add(key)
        words = self._cache.words(key)
        if words is None:
            words = self._recognized(picture, languages)
            self._cache.keep(key, words)
        return words

    def _recognized(self, picture: PagePicture, languages: tuple[str, ...]) -> RecognizedPage:
        """Return the reading that the engine is most sure of: as the page lies, turned, in other languages."""
        best = self._engine.words(picture, languages)
        if best.confidence >= DOUBTFUL and not best.is_lying:
            return best
        turn = 0
        if degrees := self._engine.orientation(picture).turn:
            upright = turned(picture, degrees)
            again = self._engine.words(upright, languages)._replace(turn=degrees)
            if _certainty(again) >= _certainty(best) or (best.is_lying and not again.is_lying):
                picture, best, turn = upright, again, degrees
        others = tuple(self._installed[:AT_ONCE])
        if best.confidence < DOUBTFUL and not set(others) <= set(languages):
            again = self._engine.words(picture, others)
            best = max(best, again._replace(turn=turn), key=_certainty)
        return best


def turned(picture: PagePicture, degrees: int) -> PagePicture:
    """Return a picture turned clockwise by a multiple of 90 degrees."""
    import numpy as np

    shades = np.frombuffer(picture.pixels, np.uint8).reshape(picture.height, picture.width)
    shown = np.rot90(shades, -degrees // 90)
    height, width = shown.shape
    return PagePicture(width, height, np.ascontiguousarray(shown).tobytes(), picture.dpi)


def cores() -> int:
    """Return how many processor cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _certainty(words: RecognizedPage) -> float:
    return sum(len(word.text) * word.confidence for word in words.words if word.confidence >= DOUBTFUL)


def first_languages(installed: Sequence[str], script: str) -> tuple[str, ...]:
    """Return the languages that a document's first page is read in: of its script, English first, `AT_ONCE` at most."""
    others = frozenset[str]().union(*_SCRIPTS.values())
    of_script = _SCRIPTS.get(script)
    fitting = [name for name in installed if (name in of_script if of_script else name not in others)]
    return tuple(sorted(fitting or installed, key=lambda name: (name != "eng", name))[:AT_ONCE])


def language_of(text: str, installed: Sequence[str]) -> tuple[str, ...]:
    """Return the installed language of a text; nothing if it is none of them, or unknown."""
    likeliest = next(iter(shares_of_languages([text])), "")
    return tuple(name for name in _CODES.get(likeliest, ()) if name in installed)


DOUBTFUL, ILLEGIBLE = 65.0, 35.0
"""Mean confidence below which a page is read in other ways as well, and below which it counts as not read."""


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


AT_ONCE = 3
"""Languages that a page is read in while its own is not known; each makes it slower."""

_CODES = MappingProxyType(
    {
        **{"ar": ("ara",), "bg": ("bul",), "ca": ("cat",), "cs": ("ces",), "da": ("dan",), "de": ("deu",)},
        **{"el": ("ell",), "en": ("eng",), "es": ("spa",), "et": ("est",), "fa": ("fas",), "fi": ("fin",)},
        **{"fr": ("fra",), "he": ("heb",), "hi": ("hin",), "hr": ("hrv",), "hu": ("hun",), "id": ("ind",)},
        **{"it": ("ita",), "ja": ("jpn",), "ko": ("kor",), "lt": ("lit",), "lv": ("lav",), "nl": ("nld",)},
        **{"no": ("nor",), "pl": ("pol",), "pt": ("por",), "ro": ("ron",), "ru": ("rus",), "sk": ("slk",)},
        **{"sl": ("slv",), "sr": ("srp", "srp_latn"), "sv": ("swe",), "th": ("tha",), "tr": ("tur",)},
        **{"uk": ("ukr",), "vi": ("vie",), "zh": ("chi_sim", "chi_tra")},
    }
)
"""Tesseract's codes of a language of ISO 639-1."""
_SCRIPTS = MappingProxyType(
    {
        "Arabic": frozenset({"ara", "fas"}),
        "Cyrillic": frozenset({"bul", "rus", "srp", "ukr"}),
        "Devanagari": frozenset({"hin"}),
        "Greek": frozenset({"ell"}),
        "Han": frozenset({"chi_sim", "chi_tra", "jpn"}),
        "Hangul": frozenset({"kor"}),
        "Hebrew": frozenset({"heb"}),
        "Japanese": frozenset({"jpn"}),
        "Korean": frozenset({"kor"}),
        "Thai": frozenset({"tha"}),
    }
)
"""Tesseract's data for each script; every other one is read as Latin."""
