"""Test collections in BEIR layout: corpus.jsonl, queries.jsonl, qrels/SPLIT.tsv.

Layout: https://github.com/beir-cellar/beir/wiki/Load-your-custom-dataset
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

Ranking = Sequence[tuple[str, float]]  # document ids with their scores, best first


class BeirError(Exception):
    """The folder is not a test collection; the message names file and line."""


@dataclass(frozen=True)
class BeirDocument:
    """A document of the corpus; `page` and `position` place it among the parts of one file.

    Of a wiki also `headings`, those above it, and `parent`, the page above its own.
    """

    id: str
    title: str
    text: str
    page: str
    position: int
    headings: tuple[str, ...] = ()
    parent: str = ""


@dataclass(frozen=True)
class BeirCollection:
    """Documents in the order of the file, and the judged queries: text and grades by query id.

    Either documents are judged, or the pages that they are parts of.
    """

    documents: tuple[BeirDocument, ...]
    queries: Mapping[str, str]
    judgements: Mapping[str, Mapping[str, int]]
    of_pages: bool = False


def read_collection(folder: Path, split: str = "test") -> BeirCollection:
    """Read a folder; only queries with a relevant document are kept.

    Raises:
        BeirError: a file is missing or cannot be read, or the judgements name entries missing from the other files.
    """
    documents = tuple(read_documents(folder / "corpus.jsonl"))
    if not documents:
        raise BeirError(f"{folder / 'corpus.jsonl'} has no document")
    queries = {str(row["_id"]): str(row["text"]) for _, row in json_rows(folder / "queries.jsonl")}
    path = folder / "qrels" / f"{split}.tsv"
    judged = _judgements(path)
    _compare(path, "query", judged, queries)
    grades = {document: grade for each in judged.values() for document, grade in each.items()}
    pages = {document.page for document in documents}
    of_pages = pages.issuperset(grades) and pages.isdisjoint(document.id for document in documents)
    _compare(path, "document", grades, pages if of_pages else {document.id for document in documents})
    kept = {query: each for query, each in judged.items() if max(each.values()) > 0}
    if not kept:
        raise BeirError(f"{path} judges no document relevant")
    return BeirCollection(documents, {query: queries[query] for query in kept}, kept, of_pages)


def check_run_path(path: Path) -> None:
    """Refuse, before the work is done, a run file that could not be written after it.

    Raises:
        BeirError: its folder does not exist, or it is a folder itself.
    """
    if path.is_dir() or not path.absolute().parent.is_dir():
        raise BeirError(f"the run file {path} cannot be written: name a file in an existing folder")


def write_run(path: Path, rankings: Mapping[str, Ranking]) -> None:
    """Write `query Q0 document rank score citelock` lines, scores strictly falling within a query.

    Programs that read a run order it by score, in single precision, and break ties by document id
    (https://github.com/usnistgov/trec_eval): a tied score is lowered to the next smaller number.

    Raises:
        BeirError: an id has white space, which the format does not allow, or the file cannot be written.
    """
    lines: list[str] = []
    for query, ranking in rankings.items():
        last = np.float32(np.inf)
        for rank, (document, score) in enumerate(ranking, start=1):
            if any(len(name.split()) != 1 for name in (query, document)):
                raise BeirError(f"id {document!r} or {query!r} has white space, which a TREC run cannot hold")
            last = min(np.float32(score), np.nextafter(last, np.float32(-np.inf)))
            lines.append(f"{query} Q0 {document} {rank} {last:.9g} citelock\n")
    try:
        path.write_text("".join(lines), encoding="utf-8")
    except OSError as error:
        raise BeirError(f"the run file {path} cannot be written ({error.strerror})") from error


def read_documents(path: Path) -> Iterator[BeirDocument]:
    """Yield the documents of a `corpus.jsonl`.

    Raises:
        BeirError: it cannot be read, or a document is repeated.
    """
    seen: set[str] = set()
    for number, row in json_rows(path):
        document = str(row["_id"])
        if document in seen:
            raise BeirError(f"{path}:{number}: document {document!r} stands twice")
        seen.add(document)
        place = row.get("metadata") or {}
        position = place.get("position", 0)
        yield BeirDocument(
            id=document,
            title=str(row.get("title") or ""),
            text=str(row["text"] or ""),
            page=str(place.get("doc_id") or document),
            position=position if isinstance(position, int) else 0,
            headings=tuple(map(str, place.get("headings") or ())),
            parent=str(place.get("parent") or ""),
        )


def json_rows(path: Path, needed: Sequence[str] = ("_id", "text")) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of a file of JSON lines with the numbers of their lines.

    Raises:
        BeirError: it cannot be read, or an object lacks a key.
    """
    for number, line in _lines(path):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise BeirError(f"{path}:{number}: not valid JSON ({error})") from None
        if not isinstance(row, dict) or not set(needed) <= set(row):
            raise BeirError(f"{path}:{number}: an object with {' and '.join(f'`{key}`' for key in needed)} is needed")
        yield number, row


def _judgements(path: Path) -> dict[str, dict[str, int]]:
    judged: dict[str, dict[str, int]] = {}
    for number, line in _lines(path):
        fields = line.split("\t")
        try:
            query, document, grade = fields[0], fields[1], int(fields[2])
        except (IndexError, ValueError):
            if number == 1:
                continue  # the header
            raise BeirError(
                f"{path}:{number}: query-id, corpus-id and whole score, tab separated, are needed"
            ) from None
        judged.setdefault(query, {})[document] = grade
    return judged


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, start=1):
                if line.strip():
                    yield number, line.rstrip("\r\n")
    except FileNotFoundError:
        raise BeirError(f"{path} does not exist; a folder in BEIR layout has it") from None
    except (OSError, UnicodeDecodeError) as error:
        raise BeirError(f"{path} cannot be read ({error})") from None


def _compare(path: Path, kind: str, named: Mapping[str, object], known: Mapping[str, object] | set[str]) -> None:
    missing = [name for name in named if name not in known]
    if missing:
        raise BeirError(
            f"{path} names {len(missing)} of {len(named)} {kind} ids that are not there, such as {missing[0]!r}; "
            f"remove their lines or add the {kind}s"
        )
