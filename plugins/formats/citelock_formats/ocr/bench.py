"""`python -m citelock_formats.ocr.bench`: what OCR reads of pictures of real PDF files, in what time.

Words are compared as a bag for each page: in which order a table is read is not what an engine is judged by. Accuracy
is the share of the text layer's words that were read, or that appear as several words in a row. Which passages
answer the questions is judged (`pdf_questions`).
"""

from __future__ import annotations

import argparse
import io
import json
import re
import resource
import sys
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pypdfium2

from citelock_formats.ocr.engine import Tesseract
from citelock_formats.ocr.recognition import cores
from citelock_formats.ocr.records import PagePicture, RecognizedPage
from citelock_formats.ocr.scans import Scans
from evals.bench.pdf_questions import judged_questions, ranks, read_pages
from evals.bench.real_text import DATA
from rag_serving.config.sections import Documents, Ocr

_LEADERS = re.compile(r"[.·_]{3,}")
_LEAST_HEIGHT = 3.0  # points
_EDGES = re.compile(r"^\W+|\W+$")


@dataclass
class BenchPage:
    """The words and figures read of one file. Times in seconds; `engine_s`: of all pages one after the other."""

    name: str
    pages: int = 0
    words: int = 0
    right: int = 0
    figures: int = 0
    right_figures: int = 0
    read: int = 0
    unread: int = 0
    whole_s: float = 0.0
    engine_s: float = 0.0
    again_s: float = 0.0
    engine_cpu_s: float = 0.0
    whole_cpu_s: float = 0.0
    missed: Counter[str] = field(default_factory=Counter)

    def add(self, true: Counter[str], text: str) -> None:
        """Count a page, given its words and the text that was read."""
        found = bag(text)
        runs = joined_runs(text)
        glued = Counter({word: count for word, count in (true - found).items() if _letters(word) in runs})
        common = (true & found) + glued
        self.words += true.total()
        self.right += common.total()
        self.read += found.total()
        self.figures += sum(count for word, count in true.items() if word[0].isdigit())
        self.right_figures += sum(count for word, count in common.items() if word[0].isdigit())
        self.missed += true - common

    def payload(self) -> dict[str, object]:
        """Return the figures as JSON has them."""
        return {
            "file": self.name,
            "pages": self.pages,
            "words": self.words,
            "accuracy": round(self.right / max(self.words, 1), 4),
            "figures": round(self.right_figures / max(self.figures, 1), 4),
            "precision": round(self.right / max(self.read, 1), 4),
            "unread": self.unread,
            "whole_s": round(self.whole_s, 1),
            "engine_s": round(self.engine_s, 1),
            "whole_to_engine": round(self.whole_s / (self.engine_s / min(cores(), self.pages)), 3),
            "cpu_to_engine": round(self.whole_cpu_s / max(self.engine_cpu_s, 1e-9), 3),
            "again_s": round(self.again_s, 2),
        }


class TimedEngine(Tesseract):
    """Notes how long its processes take."""

    def __init__(self, settings: Ocr) -> None:
        super().__init__(settings)
        self.times: list[float] = []

    def words(self, picture: PagePicture, languages: Sequence[str]) -> RecognizedPage:
        """See `Tesseract`."""
        began = time.perf_counter()
        try:
            return super().words(picture, languages)
        finally:
            self.times.append(time.perf_counter() - began)


def main(arguments: list[str] | None = None) -> int:
    """Print the figures of each file and of all, and of the questions if requested."""
    options = _options(arguments)
    files = sorted(options.data.glob("*.pdf"))
    if not files:
        print(f"bench: {options.data} has no PDF files", file=sys.stderr)
        return 1
    every = []
    for path in files if not options.only_questions else ():
        every.append(read_file(path, options.pages, options.dpi))
        print(json.dumps(every[-1].payload()), flush=True)
    if every:
        print(json.dumps(summed(every).payload()))
        print("most often missed:", ", ".join(word for word, _ in summed(every).missed.most_common(20)))
    if options.questions or options.only_questions:
        print(json.dumps(ranks_of_questions(options.data, options.dpi, options.cache), indent=1))
    return 0


def read_file(path: Path, most: int, dpi: int) -> BenchPage:
    """Read pictures of some of a file's pages, spread over it, twice, and compare the first reading."""
    with pypdfium2.PdfDocument(path) as document:
        numbers = sampled(len(document), most)
        content = pictured(document, numbers, dpi)
        true = [bag(seen(document[number])) for number in numbers]
    result = BenchPage(path.name, pages=len(numbers))
    own, others = _cpu(resource.RUSAGE_SELF), _cpu(resource.RUSAGE_CHILDREN)
    with tempfile.TemporaryDirectory() as folder:
        settings = Documents()
        engine = TimedEngine(settings.ocr)
        scans = Scans(settings, Path(folder) / "sources" / "bench" / "ocr", engine)
        try:
            began = time.perf_counter()
            prepared = scans.prepared(content, False, None)
            result.whole_s, result.engine_s = time.perf_counter() - began, sum(engine.times)
            result.engine_cpu_s = _cpu(resource.RUSAGE_CHILDREN) - others  # of processes that have ended: the engine's
            began, before = time.perf_counter(), _cpu(resource.RUSAGE_SELF)
            scans.prepared(content, False, None)
            result.again_s = time.perf_counter() - began
            own += _cpu(resource.RUSAGE_SELF) - before
        finally:
            scans.close()
    result.whole_cpu_s = _cpu(resource.RUSAGE_SELF) - own + _cpu(resource.RUSAGE_CHILDREN) - others
    result.unread = len(prepared.unread)
    for place, words in enumerate(true, start=1):
        page = prepared.recognized.get(place)
        result.add(words, " ".join(word.text for word in page.words) if page else "")
    return result


def _cpu(whose: int) -> float:
    used = resource.getrusage(whose)
    return used.ru_utime + used.ru_stime


def summed(every: Sequence[BenchPage]) -> BenchPage:
    """Return the figures of all files together."""
    total = BenchPage("all")
    for read in every:
        for name, value in vars(read).items():
            if name != "name":
                setattr(total, name, getattr(total, name) + value)
    return total


def sampled(count: int, most: int) -> list[int]:
    """Return up to `most` places of `count`, spread evenly; all where `most` is 0."""
    return (
        [*range(count)]
        if most in (0, count) or most > count
        else [count * (2 * place + 1) // (2 * most) for place in range(most)]
    )


def pictured(document: pypdfium2.PdfDocument, numbers: Sequence[int], dpi: int) -> bytes:
    """Return a PDF of pictures of pages."""
    with pypdfium2.PdfDocument.new() as target:
        for number in numbers:
            shown = document[number]
            size = shown.get_size()
            image = pypdfium2.PdfImage.new(target)
            image.set_bitmap(shown.render(scale=dpi / 72, grayscale=True))
            image.set_matrix(pypdfium2.PdfMatrix().scale(*size))
            page = target.new_page(*size)
            page.insert_obj(image)
            page.gen_content()
        written = io.BytesIO()
        target.save(written)
        return written.getvalue()


def seen(page: pypdfium2.PdfPage) -> str:
    """Return the text of a page that people can read: some programs hide marks of a point's height."""
    layer = page.get_textpage()
    signs = []
    for index in range(layer.count_chars()):
        sign = layer.get_text_range(index, 1)
        _, bottom, _, top = layer.get_charbox(index, loose=True)
        if sign.isspace() or top - bottom >= _LEAST_HEIGHT:
            signs.append(sign)
    return "".join(signs)


def bag(text: str) -> Counter[str]:
    """Return the words of a page: typography folded, punctuation around them left out, hyphens of lines mended."""
    folded = unicodedata.normalize("NFKC", re.sub("[\ufffe\x02]\\s*", "", text))
    folded = folded.translate(str.maketrans("‘’“”–—−‐‑", "''\"\"-----"))
    folded = re.sub(r"(\w)-[^\S\n]*\n\s*(\w)", r"\1\2", folded)
    words = (_EDGES.sub("", word) for word in _LEADERS.sub(" ", folded).replace("-", " ").split())
    return Counter(word for word in words if word)


def joined_runs(text: str) -> set[str]:
    """Return the letters of up to four words in a row: text layers lack some spaces, and pictures show them."""
    words = [_letters(word) for word in text.split()]
    return {"".join(words[start : start + count]) for start in range(len(words)) for count in range(2, 5)}


def _letters(word: str) -> str:
    return "".join(sign for sign in unicodedata.normalize("NFKC", word) if sign.isalnum())


def ranks_of_questions(data: Path, dpi: int, cache: Path) -> list[dict[str, object]]:
    """Return the rank of the first passage that answers each question, in the text layer and in OCR's text."""
    questions = [question for question in judged_questions(data) if question.is_given]
    names = sorted({question.file for question in questions})
    with tempfile.TemporaryDirectory() as folder:
        scans = Path(folder)
        for name in names:
            with pypdfium2.PdfDocument(data / name) as document:
                (scans / name).write_bytes(pictured(document, range(len(document)), dpi))
        texts = {"text": read_pages(data, names, cache), "ocr": read_pages(scans, names, cache)}
    found = {kind: ranks(questions, pages, cache / kind) for kind, pages in texts.items()}
    return [
        {"question": question.question, **{kind: found[kind][place] for kind in found}}
        for place, question in enumerate(questions)
    ]


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m citelock_formats.ocr.bench", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "pdf", help="folder of the PDF files and their questions")
    parser.add_argument("--pages", type=int, default=3, help="pages of each file; 0: all")
    parser.add_argument("--dpi", type=int, default=200, help="resolution of the pictures that are made of pages")
    parser.add_argument("--questions", action="store_true", help="ask the questions of both, too")
    parser.add_argument("--only-questions", action="store_true", help="ask the questions alone")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench-ocr"), help="where indexes are kept")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
