"""One value per question for every figure that compares generations, and an evaluation as JSON and CSV.

A question without a value in a measure, such as a ranking without a right page, is left out of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from statistics import fmean
from typing import Any

from evals.evaluation import entailment
from evals.evaluation.entailment import Entails
from evals.evaluation.evaluate import GoldEvaluation, Judged, rank_pages
from evals.evaluation.gold import GoldSet
from evals.evaluation.metrics import average_precision, bootstrap_interval, mrr_at_k, ndcg_at_k, recall_at_k, to_csv
from rag_serving.ask import Pipeline
from rag_serving.models.protocols import Embedder

DEPTH = 10
"""Pages of a ranking that are looked at."""

_MARK = re.compile(r"(?<!\s)\s*\[\d{1,3}\]")

Values = Mapping[str, float]  # by question id


def citation_precision(judged: Judged) -> float | None:
    """Right citations over all citations of an answer: a citation is right when its quote, which was verified against
    its page, is of a page that the gold set names.

    The quote-based counterpart of citation precision in Gao et al., "Enabling Large Language Models to Generate Text
    with Citations" (ALCE), EMNLP 2023, section 3.3; with an entailment model see `entailment`.
    """
    return judged.cited_right / len(judged.cited) if judged.gold.pages and judged.cited else None


def closest_citation_precision(judged: Judged) -> float | None:
    """Return the same for the closest passages shown instead of an answer."""
    cited = judged.closest
    return judged.right_of(cited) / len(cited) if judged.gold.pages and cited else None


def citation_recall(judged: Judged) -> float | None:
    """Return whether an answerable question got a right citation: an unanswered one has none.

    The quote-based counterpart of citation recall in ALCE: every sentence of an answer has passed verification, so that
    only the answer may be missing.
    """
    return float(judged.cited_right > 0) if judged.gold.answerable and judged.gold.pages else None


def sentence_precision(judged: Judged) -> float | None:
    """Return whether an answer to a question with a gold quote says that quote."""
    gold = judged.gold
    return float(judged.says_it) if gold.answerable and gold.quotes and judged.answered else None


def answerability(judged: Judged) -> float:
    """Return whether the question was answered with confidence exactly if there is an answer: the mean is the accuracy.

    The closest passages are no answer, here and in the measures of "not found".
    """
    return float(judged.answered == judged.gold.answerable)


def not_found_recall(judged: Judged) -> float | None:
    """Return whether an unanswerable question got no answer: TN / (TN + FP) of answering, the recall of "not found"."""
    return None if judged.gold.answerable else float(not judged.answered)


def not_found_precision(judged: Judged) -> float | None:
    """Return whether a "not found" was right: the mean is the precision of "not found"."""
    return None if judged.answered else float(not judged.gold.answerable)


def told_and_right(judged: Judged) -> float | None:
    """Return whether an answerable question was answered from a right page, with its gold quote if known."""
    right = judged.cited_right > 0 and (judged.says_it or not judged.gold.quotes)
    return float(judged.answered and right) if judged.gold.answerable else None


def told_and_wrong(judged: Judged) -> float:
    """Return whether a confident answer is wrong, or on no page."""
    return float(judged.answered and not told_and_right(judged))


def closest_and_useful(judged: Judged) -> float | None:
    """Return whether the answer was shown among the closest, from a right page."""
    is_useful = not judged.answered and judged.right_of(judged.closest) > 0
    return float(is_useful) if judged.gold.answerable else None


def declined_though_there(judged: Judged) -> float | None:
    """Return whether nothing of a right page was shown for an answerable question."""
    is_declined = not judged.answered and not judged.right_of(judged.closest)
    return float(is_declined) if judged.gold.answerable else None


def anchor_validity(judged: Judged) -> float | None:
    """Return citations whose link lands on an anchor of the cited page over all citations, the closest included."""
    citations = judged.answer.citations
    return judged.anchored / len(citations) if citations else None


OF_ANSWERS: Mapping[str, Callable[[Judged], float | None]] = {
    "told_and_right": told_and_right,
    "told_and_wrong": told_and_wrong,
    "closest_and_useful": closest_and_useful,
    "declined_though_there": declined_though_there,
    "citation_precision": citation_precision,
    "closest_citation_precision": closest_citation_precision,
    "citation_recall": citation_recall,
    "sentence_precision": sentence_precision,
    "answerability": answerability,
    "not_found_recall": not_found_recall,
    "not_found_precision": not_found_precision,
    "anchor_validity": anchor_validity,
}


Similarities = Mapping[tuple[str, str, str], float]
"""Of question id, answer and expected answer."""


def answer_similarity(judged: Sequence[Judged], embedder: Embedder, known: Similarities) -> dict[str, float]:
    """Return cosine similarity of the vectors of answer and expected answer, by question, where both are there.

    Reimers & Gurevych, "Sentence-BERT", EMNLP 2019, section 3; not comparable between embedding models. `known`: what
    the same model gave before.
    """
    pairs = {(case.gold.id, case.answer.answer, case.gold.answer): case for case in judged if case.answered}
    pairs = {key: case for key, case in pairs.items() if case.gold.answer}
    new = [key for key in pairs if key not in known]
    scores = dict(known)
    if new:
        given = embedder.embed_documents([_MARK.sub("", answer) for _, answer, _ in new])
        wanted = embedder.embed_documents([expected for _, _, expected in new])
        scores |= {key: round(score, 6) for key, score in zip(new, (given * wanted).sum(axis=1).tolist(), strict=True)}
    return {key[0]: scores[key] for key in pairs}


def by_entailment(judged: Sequence[Judged], entails: Entails) -> dict[str, dict[str, float]]:
    """ALCE's citation recall and precision (`entailment`) of every answer."""
    measured: dict[str, dict[str, float]] = {"entailed_citation_recall": {}, "entailed_citation_precision": {}}
    for case in judged:
        said = entailment.statements(case.answer) if case.answered else []
        for name, measure in zip(measured, (entailment.citation_recall, entailment.citation_precision), strict=True):
            if (value := measure(said, entails)) is not None:
                measured[name][case.gold.id] = round(value, 6)
    return {name: values for name, values in measured.items() if values}


def f1(precision: float, recall: float) -> float:
    """Harmonic mean of precision and recall, 0 if both are (van Rijsbergen, Information Retrieval, 1979)."""
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def of_answers(judged: Sequence[Judged]) -> dict[str, dict[str, float]]:
    """Return the values of every measure of answers."""
    measured = {
        name: {case.gold.id: value for case in judged if (value := measure(case)) is not None}
        for name, measure in OF_ANSWERS.items()
    }
    return {name: values for name, values in measured.items() if values}


def of_rankings(
    rankings: Mapping[str, Sequence[str]], pages: Mapping[str, frozenset[str]]
) -> dict[str, dict[str, float]]:
    """Return the values of ranking metrics over pages.

    `rankings`: page ids, best first and each once; `pages`: the right ones; both by question id.
    """
    pairs = {name: (ranking, dict.fromkeys(pages[name], 1)) for name, ranking in rankings.items() if pages.get(name)}
    measured = {
        f"recall@{DEPTH}": {name: recall_at_k(*pair, DEPTH) for name, pair in pairs.items()},
        f"ndcg@{DEPTH}": {name: ndcg_at_k(*pair, DEPTH) for name, pair in pairs.items()},
        f"mrr@{DEPTH}": {name: mrr_at_k(*pair, DEPTH) for name, pair in pairs.items()},
        "map": {name: average_precision(*pair) for name, pair in pairs.items()},
    }
    return {name: values for name, values in measured.items() if values}


def summary(measures: Mapping[str, Values]) -> dict[str, dict[str, Any]]:
    """Mean, bootstrap interval and number of questions of every measure."""
    figures: dict[str, dict[str, Any]] = {}
    for name, values in measures.items():
        interval = bootstrap_interval(list(values.values()))
        figures[name] = {
            "mean": round(interval.mean, 6),
            "low": round(interval.low, 6),
            "high": round(interval.high, 6),
            "questions": len(values),
        }
    if {"not_found_precision", "not_found_recall"} <= measures.keys():
        means = [fmean(measures[name].values()) for name in ("not_found_precision", "not_found_recall")]
        figures["not_found_f1"] = {"mean": round(f1(*means), 6)}
    return figures


_OF_CASES = ("id", "question", "answerable", "status", "outcome", "confidence", "fault", "answer")


def exported(evaluation: GoldEvaluation, gold: GoldSet, pipeline: Pipeline) -> dict[str, Any]:
    """Return the figures of an evaluation with every measure by question, including those of search rankings."""
    rankings = rank_pages(pipeline, gold)
    pages = {question.id: question.pages for question in gold.questions if question.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rankings, pages)}
    generations = {case.answer.generation for case in evaluation.judged}
    return {
        **evaluation.payload(),
        "created_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "generation": ", ".join(sorted(generations)),
        "features": list(pipeline.config.features.enabled),
        "summary": summary(measures),
        "measures": measures,
        "cases": [_case_payload(case) for case in evaluation.judged],
    }


def cases_csv(payload: Mapping[str, Any]) -> str:
    """Return a row for each question of `exported`: the answer, every measure, its milliseconds."""
    return to_csv([_case_row(case, payload["measures"]) for case in payload["cases"]])


def _case_row(case: Mapping[str, Any], measures: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    return {
        **{name: case[name] for name in _OF_CASES},
        "cited": " ".join(citation["url"] for citation in case["citations"]),
        **{name: values.get(case["id"]) for name, values in measures.items()},
        "total_ms": case["timings_ms"].get("total"),
    }


def _case_payload(judged: Judged) -> dict[str, Any]:
    cited = [{"url": citation.url, "quote": citation.quote} for citation in judged.answer.citations]
    return {**judged.payload(), "citations": cited}
