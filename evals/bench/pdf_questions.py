"""`python -m evals.bench.pdf_questions`: whether search finds the passages that answer questions about real PDF files.

A passage answers if it is on a judged page of the judged file and has the judged words. Ten of the questions come with
the files, the others were written before anything was tuned.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import yaml

from evals.bench.corpora import cut
from evals.bench.people import published
from evals.bench.real_text import DATA
from evals.evaluation.bench import TENANT
from rag_assets.parsing.reader import LimitedReader, opened_scans
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.documents.folder import DocumentFolder
from rag_serving.access.principals import Principal
from rag_serving.config.sections import Documents
from rag_serving.config.sources import Files
from rag_serving.records.passages import Chunk
from rag_serving.text.structure import decode, pages_of

QUESTIONS = "questions.jsonl"
JUDGED = Path(__file__).with_suffix(".yaml")
DEPTH = 50


class PdfQuestion(NamedTuple):
    """A question, the file that answers it, and the page and words of each passage that does."""

    question: str
    file: str
    places: tuple[tuple[int, str], ...]
    is_given: bool  # whether it came with the files


def judged_questions(data: Path) -> list[PdfQuestion]:
    """Return the questions; those that came with the files are read from them."""
    given = [json.loads(line) for line in (data / QUESTIONS).read_text(encoding="utf-8").splitlines()]
    questions = []
    for entry in yaml.safe_load(JUDGED.read_text(encoding="utf-8")):
        said = given[entry["line"] - 1] if "line" in entry else entry
        places = tuple((page, str(words)) for page, words in entry["places"])
        questions.append(PdfQuestion(said["question"].strip(), said["file"], places, "line" in entry))
    return questions


def read_pages(folder: Path, names: Sequence[str], cache: Path) -> pa.Table:
    """Return files of a folder as rows of PAGES; scanned pages are recognized, and that is kept in `cache`."""
    with tempfile.TemporaryDirectory() as chosen:
        for name in names:
            (Path(chosen) / name).write_bytes((folder / name).read_bytes())
        settings = Files(kind="files", tenant=TENANT, path=Path(chosen), readers="everyone")
        documents = Documents(max_seconds=600)
        scans = opened_scans(documents, cache / "sources" / "bench" / "ocr")
        with LimitedReader(documents, scans=scans) as reader:
            return DocumentFolder("bench", settings, DocumentReading(reader)).sync(None, {}).pages


def ranks(questions: Sequence[PdfQuestion], pages: pa.Table, home: Path) -> list[int | None]:
    """Return the rank of the first passage that answers each question; None: none of the first `DEPTH`."""
    asker = Principal(TENANT, "bench", frozenset())
    file_of = dict(zip(pages["page_id"].to_pylist(), pages["title"].to_pylist(), strict=True))
    found: list[int | None] = []
    with published(cut("pdf", pages), home) as pipeline:
        for question in questions:
            chunks = [result.chunk for result in pipeline.search(asker, question.question, DEPTH).results]
            right = (rank for rank, chunk in enumerate(chunks, 1) if _answers(chunk, file_of[chunk.page_id], question))
            found.append(next(right, None))
    return found


def _answers(chunk: Chunk, title: str, question: PdfQuestion) -> bool:
    if Path(question.file).stem not in title:
        return False
    on = pages_of(decode(chunk.structure).marks, 0, len(chunk.text))
    said = _bare(chunk.text)
    return any(page in on and _bare(words) in said for page, words in question.places)


def _bare(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())


def main(arguments: list[str] | None = None) -> int:
    """Print the rank of each question's first right passage and the share among the first five."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.pdf_questions", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA / "pdf", help="folder of the PDF files and their questions")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench-pdf"), help="where indexes are kept")
    options = parser.parse_args(arguments)
    if not (options.data / QUESTIONS).is_file():
        print(f"bench: {options.data} has no {QUESTIONS}", file=sys.stderr)
        return 1
    questions = judged_questions(options.data)
    names = sorted(path.name for path in options.data.glob("*.pdf"))
    found = ranks(questions, read_pages(options.data, names, options.cache), options.cache)
    for question, rank in zip(questions, found, strict=True):
        print(f"{rank or '-':>3}  {question.file}: {question.question}")
    for name, is_given in (("given", True), ("own", False)):
        of_kind = [
            rank or DEPTH + 1 for question, rank in zip(questions, found, strict=True) if question.is_given == is_given
        ]
        told = ", ".join(f"{k}: {sum(rank <= k for rank in of_kind)}" for k in (1, 3, 5, 10))
        print(f"{name}: of {len(of_kind)} questions a right passage among the first {told}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
