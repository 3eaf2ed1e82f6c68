"""The stand-alone verifier finds whatever was changed in a receipt or in its generation."""

from __future__ import annotations

import copy
import hashlib
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from support.set_tables import PAGES, TEXTS, Piece, page_facts, passages

from evals import verify_receipt
from rag_serving.receipts.receipt import canonical, receipt_id, text_hash
from rag_serving.records.sets import Condition, SetQuery, SetTables
from rag_serving.sets.execute import certificate, execute

ROOMS = "| Room | Office | Seats |\n|---|---|---|\n| Fjord | Trondheim | 12 |\n| Elv | Trondheim | 8 |"
CLASSES = frozenset({"everyone", "group:a"})
READERS = {"1": "everyone", "2": "group:a", "3": "group:b"}
Change = Callable[[dict[str, Any]], object]


def corpus() -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    texts = {
        "1": [Piece(ROOMS, ("Rooms",)), Piece("| Kai | Gdańsk | 20 |", ("Rooms",), "| Room | Office | Seats |")],
        "2": ["Owner: Rosa\n\nThe desk is in Gdańsk."],
        "3": ["Gdańsk is hidden."],
    }
    pages = [page_facts(page, readers=READERS[page], labels=["map"]) for page in texts]
    return pages, [{**row, "readers": READERS[page["page_id"]], "text_hash": text_hash(row["text"])}
                   for page in pages for row in passages(page, texts[page["page_id"]])]  # fmt: skip


QUERIES = {
    "rows": SetQuery("rows", (Condition("Seats", "gt", "7"),), "sum", "Seats", sections=(("1", "Rooms"),)),
    "pages": SetQuery("pages", (Condition("mentions", "contains", "gdańsk"),), "count", group="label"),
}


class Case:
    """A generation in a folder, and a receipt of it."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.folder, (self.pages, self.chunks) = folder, corpus()
        self.write()
        pages, texts = ([{n: v for n, v in row.items() if n not in ("readers", "text_hash")} for row in rows
                         if row["readers"] in CLASSES] for rows in (self.pages, self.chunks))  # fmt: skip
        tables = SetTables(pa.Table.from_pylist(pages, PAGES), pa.Table.from_pylist(texts, TEXTS), CLASSES)
        proof = certificate(execute(QUERIES[kind], tables, self.manifest["id"]), CLASSES)
        chunk = self.chunks[2]
        quote = "The desk is in Gdańsk."
        start = chunk["text"].index(quote)
        self.receipt: dict[str, Any] = {
            "version": 10, "tenant": "acme", "generation": self.manifest["id"], "question": None, "sealed": "c2VhbA==",
            "asker": "7" * 32, "question_hash": "8" * 32, "status": "answered", "answer": f"{quote} [1]",
            "readers": proof.pop("readers"), "set": proof,
            "passages": [{"index": 1, "chunk_id": chunk["chunk_id"], "page_id": "2", "page_version": 1,
                          "text_hash": text_hash(chunk["text"])}],
            "citations": [{"index": 1, "passage": 1, "chunk_id": chunk["chunk_id"], "page_id": "2", "page_version": 1,
                           "quote": quote, "start": start, "end": start + len(quote)}],
        }  # fmt: skip
        self.id = receipt_id(self.receipt)

    def write(self, has_manifest: bool = False) -> None:
        """Write the files; a manifest that is there gets their digests and keeps its id."""
        readers = pa.field("readers", pa.string())
        chunks = pa.Table.from_pylist(self.chunks, TEXTS.append(readers).append(pa.field("text_hash", pa.string())))
        parquet.write_table(chunks.take([0, 2, 3]), self.folder / "chunks.parquet")
        parquet.write_table(chunks.take([1]), self.folder / "duplicates.parquet")
        parquet.write_table(pa.Table.from_pylist(self.pages, PAGES.append(readers)), self.folder / "page_facts.parquet")
        if not has_manifest:
            covered = {"format": 1, "tenant": "acme", "inputs_digest": "1" * 64}
            self.manifest = {**covered, "id": hashlib.sha256(canonical(covered).encode()).hexdigest()[:16]}
        names = ("chunks.parquet", "duplicates.parquet", "page_facts.parquet")
        digests = {name: hashlib.sha256((self.folder / name).read_bytes()).hexdigest() for name in names}
        self.manifest["files"] = {name: {"sha256": one} for name, one in digests.items()}
        (self.folder / "manifest.json").write_text(json.dumps(self.manifest))

    def faults(self, identifier: str | None = None) -> list[str]:
        return verify_receipt.faults_of(self.receipt, self.folder, identifier)


@pytest.fixture(params=["rows", "pages"])
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return Case(tmp_path, request.param)


def test_a_receipt_that_holds(case: Case) -> None:
    assert case.faults(case.id) == []
    assert case.faults() == []


def test_the_script_alone(case: Case) -> None:
    path = case.folder / "receipt.json"
    script = Path(verify_receipt.__file__)

    def verify(receipt: dict[str, Any]) -> tuple[int, str]:
        path.write_text(json.dumps(receipt))
        command = [sys.executable, "-I", str(script), str(path), str(case.folder), case.id]
        done = subprocess.run(command, capture_output=True, text=True, cwd=case.folder, check=False)
        return done.returncode, done.stdout

    assert verify({**case.receipt, "question": "Which pages mention Gdańsk?"})[0] == 0  # as the asker is shown it
    assert verify({n: v for n, v in case.receipt.items() if n not in ("asker", "sealed")})[0] == 0
    assert verify({**case.receipt, "answer": "Nobody."}) == (1, f"id: the receipt has "
        f"{receipt_id({**case.receipt, 'answer': 'Nobody.'})}, not {case.id}\n")  # fmt: skip


def _set(*path: Any, to: Any) -> Change:
    def change(receipt: dict[str, Any]) -> None:
        for name in path[:-1]:
            receipt = receipt[name]
        receipt[path[-1]] = to(receipt[path[-1]]) if callable(to) else to

    return change


OF_RECEIPTS: dict[str, Change] = {
    "another generation": _set("generation", to="0" * 16),
    "a passage of another text": _set("passages", 0, "text_hash", to="0" * 32),
    "a passage of another version": _set("passages", 0, "page_version", to=2),
    "a passage of another page": _set("passages", 0, "page_id", to="1"),
    "a passage that is none": _set("passages", 0, "chunk_id", to="9:1:0"),
    "another passage": _set("passages", 0, "chunk_id", to="1:1:0"),
    "no passages": _set("passages", to=[]),
    "another quote": _set("citations", 0, "quote", to="The desk is in Oslo."),
    "no quote": _set("citations", 0, "quote", to=""),
    "a longer quote": _set("citations", 0, "quote", to=lambda quote: quote + "!"),
    "a quote from further on": _set("citations", 0, "start", to=lambda start: start + 1),
    "a quote that ends earlier": _set("citations", 0, "end", to=lambda end: end - 1),
    "a citation of another chunk": _set("citations", 0, "chunk_id", to="1:1:0"),
    "a citation of no passage": _set("citations", 0, "passage", to=2),
    "a citation of another page": _set("citations", 0, "page_id", to="1"),
    "a citation of another version": _set("citations", 0, "page_version", to=7),
    "a member less": _set("set", "members", to=lambda members: members[1:]),
    "the last member less": _set("set", "members", to=lambda members: members[:-1]),
    "no members": _set("set", "members", to=[]),
    "a member more": _set("set", "members", to=lambda members: [*members, ["3", "0" * 64]]),
    "a member twice": _set("set", "members", to=lambda members: [*members, members[0]]),
    "another order": _set("set", "members", to=lambda members: members[::-1]),
    "another key": _set("set", "members", 0, 0, to="9"),
    "other cells": _set("set", "members", 0, 1, to="0" * 64),
    "cells of another member": _set("set", "members", 0, 1, to=lambda _: _),
    "another value": _set("set", "value", to="41"),
    "no value": _set("set", "value", to=None),
    "another digest": _set("set", "digest", to="0" * 64),
    "a set of another generation": _set("set", "generation", to="0" * 16),
    "more conditions": _set("set", "query", "where", to=lambda where: [*where, ["title", "eq", "x"]]),
    "no conditions": _set("set", "query", "where", to=[]),
    "another comparison": _set("set", "query", "where", 0, 1, to="eq"),
    "another value asked for": _set("set", "query", "where", 0, 2, to="9"),
    "another operation": _set("set", "query", "operation", to="list"),
    "another group": _set("set", "query", "group", to="title"),
    "a group more": _set("set", "groups", to=lambda groups: [*groups, ["bay", 1, None]]),
    "another count of a group": _set("set", "groups", to=lambda groups: [[g[0], 7, None] for g in groups or ["x"]]),
    "another order asked for": _set("set", "query", "order", to=["title", True]),
    "less rights": _set("readers", to=[]),
    "rights of another": _set("readers", to=["group:b"]),
}  # fmt: skip
del OF_RECEIPTS["cells of another member"]


@pytest.mark.parametrize("name", OF_RECEIPTS)
def test_a_receipt_that_was_changed(case: Case, name: str) -> None:
    kept = copy.deepcopy(case.receipt)
    OF_RECEIPTS[name](case.receipt)
    assert case.receipt != kept
    assert case.faults()
    assert any(line.startswith("id:") for line in case.faults(case.id))


@pytest.mark.parametrize("name", ["tenant", "status", "answer", "sealed", "asker", "question_hash", "version", "more"])
def test_a_receipt_has_the_id_that_it_was_given(case: Case, name: str) -> None:
    case.receipt[name] = "another"
    assert case.faults(case.id)


def _row(table: str, place: int, name: str, to: Any) -> Callable[[Case], None]:
    def change(case: Case) -> None:
        row = getattr(case, table)[place]
        row[name] = to(row[name]) if callable(to) else to

    return change


OF_GENERATIONS: dict[str, Callable[[Case], None]] = {
    "a quote's text": _row("chunks", 2, "text", lambda text: text.replace("desk", "dusk")),
    "a quote's version": _row("chunks", 2, "version", 2),
    "a quote's page": _row("chunks", 2, "page_id", "1"),
    "a quote's chunk": _row("chunks", 2, "chunk_id", "2:1:7"),
    "a text that is hidden": _row("chunks", 2, "readers", "group:b"),
    "a row's cell and a phrase": lambda case: [_row("chunks", at, "text", lambda text: text.replace("Gdańsk", "Oslo")
                                               .replace("Elv", "Elb"))(case) for at in (0, 1, 2)] and None,
    "places of units": lambda case: [_row("chunks", at, "structure", "[[],\"\",\"\"]")(case) for at in (0, 1)] and
    _row("chunks", 2, "text", "")(case),
    "pages that are hidden": lambda case: [_row("pages", at, "readers", "group:b")(case) for at in (0, 1)] and
    [_row("chunks", at, "readers", "group:b")(case) for at in (0, 1)] and None,
    "texts that were hidden": lambda case: ([_row("chunks", at, "page_id", "2")(case) for at in (0, 1, 3)] and
    _row("chunks", 3, "readers", "everyone")(case)) or _row("pages", 1, "title", "Other")(case),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_GENERATIONS)
@pytest.mark.parametrize("has_digests", [True, False])
def test_a_generation_that_was_changed(case: Case, name: str, has_digests: bool) -> None:
    """`has_digests`: whoever changed it wrote the files' digests into its manifest, too."""
    noted = (case.folder / "manifest.json").read_bytes()
    OF_GENERATIONS[name](case)
    case.write(has_manifest=True)
    if not has_digests:
        (case.folder / "manifest.json").write_bytes(noted)
    faults = case.faults()
    assert any(not line.startswith("generation:") for line in faults)
    assert has_digests != any(line.startswith("generation:") for line in faults)


@pytest.mark.parametrize("name", ["id", "tenant", "inputs_digest"])
def test_a_manifest_that_was_changed(case: Case, name: str) -> None:
    case.manifest[name] = "0" * 16
    (case.folder / "manifest.json").write_text(json.dumps(case.manifest))
    assert [line.split(":")[0] for line in case.faults()] == ["generation"]
