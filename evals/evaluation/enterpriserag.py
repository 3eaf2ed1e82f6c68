"""EnterpriseRAG-Bench (Sun et al. 2026, https://arxiv.org/abs/2605.05253): ten kinds of questions about a company.

Layout (https://github.com/onyx-dot-app/EnterpriseRAG-Bench): `questions.jsonl`, and below the same folder documents as
they are generated (`*.json`, which name their own fields of title and text) or exported (`ID__name.txt`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pyarrow as pa

from evals.evaluation.beir import BeirCollection, BeirDocument, BeirError, json_rows
from evals.evaluation.bench import TENANT, Report, indexed, with_column
from evals.evaluation.candidate import CandidateGeneration, candidate_pipeline
from evals.evaluation.evaluate import page_of
from evals.evaluation.metrics import recall_at_k
from rag_assets.steps.chunks.chunking import build_chunks
from rag_assets.steps.sections.splitting import build_sections
from rag_serving.access.principals import EVERYONE, Principal
from rag_serving.artifacts.schema import PAGES
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config
from rag_serving.models import Tokenizer, open_tokenizer
from rag_serving.text.analyzer import analyze

DEPTH = 10
_AT_ONCE = 1000  # documents
_SHOWN = 0.8  # of a fact's words


Values = Mapping[str, float | None]
"""Measures of one question, or their means over several; None where a question names no document or no fact."""


def run_enterprise(
    folder: Path, home: Path, config: Config, report: Report | None = None, answers: Path | None = None
) -> dict[str, Values]:
    """Index the documents under `home`, ask every question, and return figures by kind and in all.

    `answers`: where each question's answer and cited documents are written, as the benchmark's own judges read them.

    Raises:
        BeirError: the folder is of another layout.
    """
    questions = [row for _, row in json_rows(folder / "questions.jsonl", ("question_id", "question"))]
    places: dict[str, Mapping[str, Any]] = {}
    documents = tuple(_passages(folder, open_tokenizer(config.embedding), places))
    if not documents or not questions:
        raise BeirError(f"{folder} has no {'questions' if documents else 'documents (*.json or ID__name.txt)'}")
    lines, kinds = list[str](), dict[str, list[Values]]()

    def placed(table: pa.Table) -> pa.Table:
        """Return the rows with the data that answers need beyond rankings: links, and the parts of passages."""
        for column in ("anchor", "url", "structure"):
            table = with_column(table, column, [places[name][column] for name in table["chunk_id"].to_pylist()])
        return table

    with indexed(BeirCollection(documents, {}, {}, of_pages=True), home, config, report, placed) as index:
        candidate = CandidateGeneration(Store(home), TENANT, index.generation.id, config, index.embedder)
        with candidate_pipeline(candidate) as pipeline:
            for done, question in enumerate(questions, start=1):
                values, line = _asked(pipeline, question)
                kinds.setdefault(str(question.get("question_type", "")), []).append(values)
                lines.append(line)
                if report:
                    report("questions asked", done, len(questions))
    if answers:
        answers.write_text("".join(lines), encoding="utf-8")
    every = {"all": [values for each in kinds.values() for values in each], **kinds}
    return {kind: {"questions": len(each), **_means(each)} for kind, each in every.items()}


def _asked(pipeline: Pipeline, question: Mapping[str, Any]) -> tuple[Values, str]:
    reader, text = Principal(TENANT), str(question["question"])
    found = [result.chunk.page_id for result in pipeline.search(reader, text, k=5 * DEPTH).results]
    answer = pipeline.ask(reader, text)
    cited = list(dict.fromkeys(map(page_of, answer.citations)))
    named = dict.fromkeys(map(str, question.get("expected_doc_ids") or ()), 1)
    shown = {*analyze("\n".join([answer.answer, *(citation.quote for citation in answer.citations)]))}
    facts = [_is_shown(fact, shown) for fact in question.get("answer_facts") or ()]
    values = {
        f"recall@{DEPTH}": recall_at_k(list(dict.fromkeys(found)), named, DEPTH) if named else None,
        "recall_cited": recall_at_k(cited, named, len(cited)) if named else None,
        "extra_cited": len(set(cited) - set(named)) if named else None,
        "facts_shown": fmean(facts) if facts else None,
        "answered": answer.status == "answered",
    }
    line = {"question_id": question["question_id"], "answer": answer.answer, "document_ids": cited}
    return values, json.dumps(line, ensure_ascii=False) + "\n"


def _means(outcomes: Sequence[Values]) -> Values:
    columns = {name: [value for each in outcomes if (value := each[name]) is not None] for name in outcomes[0]}
    return {name: round(fmean(values), 4) if values else None for name, values in columns.items()}


def _is_shown(fact: str, shown: set[str]) -> bool:
    """Return whether a text's terms have a fact's numbers and most of its words: no judgement of its sense."""
    terms = {*analyze(fact)}
    numbers = {term for term in terms if any(character.isdigit() for character in term)}
    return numbers <= shown and len(terms & shown) >= _SHOWN * len(terms)


def _passages(folder: Path, tokenizer: Tokenizer, places: dict[str, Mapping[str, Any]]) -> Iterator[BeirDocument]:
    """Yield the documents' passages, cut by the product's own steps; `places` gets their other columns."""
    paths = sorted(path for ending in ("json", "txt") for path in folder.rglob(f"*.{ending}"))
    for start in range(0, len(paths), _AT_ONCE):
        pages = PAGES.table([row for path in paths[start : start + _AT_ONCE] for row in _page(path)])
        for chunk in build_chunks(build_sections(pages).sections, pages, tokenizer).to_pylist():
            headings = tuple(chunk["heading_path"][1:])
            place = chunk["page_id"], chunk["chunk_idx"]
            places[chunk["chunk_id"]] = {name: chunk[name] for name in ("anchor", "url", "structure")}
            yield BeirDocument(chunk["chunk_id"], chunk["title"], chunk["text"], *place, headings)


def _page(path: Path) -> Iterator[dict[str, Any]]:
    """Yield a file's document as a row of PAGES; none if it is not one."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".txt":
        page, mark, _ = path.name.partition("__")
        title, _, body = text.partition("\n")
        if not mark:
            return
    else:
        content = json.loads(text)
        if not isinstance(content, dict) or "dataset_doc_uuid" not in content:
            return
        page, title = content["dataset_doc_uuid"], content.get(content["title_field_name"], "")
        parts = [content.get(name, "") for name in content["content_field_names"]]
        body = "\n\n".join("\n".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts)
    row = dict.fromkeys(PAGES.columns.names, "") | {"page_id": page, "title": str(title), "body": body, "version": 1}
    row["url"] = f"https://enterpriserag.example/{page}"
    none = dict.fromkeys((*PAGES.optional, "updated_at", "position", "original"))
    lists: dict[str, list[str]] = {"labels": [], "ancestors": [], "ancestor_titles": []}
    yield row | none | lists | {"readers": EVERYONE, "body_format": "markdown", "anchor_flavor": "markdown"}
