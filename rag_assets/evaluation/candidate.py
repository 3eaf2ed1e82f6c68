"""A candidate generation asked the tenant's gold set, before anybody may read it.

Belongs here: asking through the product's own pipeline, the gates' verdicts, the report beside the generation.
Does not belong here: judging answers (`evaluation.evaluate`), the gates' rules (`evaluation.quality_gates`), Dagster.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from rag_assets.evaluation.entailment import open_entailment
from rag_assets.evaluation.evaluate import Evaluation, Judged, evaluate, rank_pages
from rag_assets.evaluation.gold import GoldSet, tenant_gold
from rag_assets.evaluation.gold_check import Stale, check_gold, live, live_pages
from rag_assets.evaluation.measures import answer_similarity, by_entailment, of_answers, of_rankings, summary
from rag_assets.evaluation.quality_gates import GatesError, GateVerdict, QualityGates, judge_gates, parse_gates
from rag_assets.publishing.checks import CheckResult
from rag_assets.publishing.publish import PublishError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.catalog import EVAL_REPORT
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.indexes.generation import Generation
from rag_serving.models.chat.entailment_judge import Entails
from rag_serving.models.protocols import Embedder
from rag_serving.models.reranker_client import open_reranker
from rag_serving.pipeline import Pipeline, Services
from rag_serving.receipts.store import ReceiptStore
from rag_serving.text.analyzer import ANALYZER_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 1


@dataclass(frozen=True)
class Evaluated:
    """What was found, as `eval_report.json` has it."""

    payload: Mapping[str, Any]
    verdicts: tuple[GateVerdict, ...]
    stale: tuple[Stale, ...]

    @property
    def failed(self) -> tuple[GateVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


def evaluate_candidate(
    store: Store,
    tenant: str,
    generation_id: str,
    config: Config,
    embedder: Embedder,
    override: str | None = None,
    report: Callable[[int, int], None] | None = None,
) -> Evaluated:
    """Ask the gold set, judge the gates, and leave `eval_report.json` in the generation's folder.

    A set that was asked of the same generation with the same settings before is not asked again. `override`: why a
    person publishes it whatever the gates say.

    Raises:
        GoldError, ConfigError: a gold set or the gates cannot be used.
        EvaluationError: a part of the product was down.
        StoreError: the generation cannot be opened.
    """
    started = monotonic()
    gates = read_gates(config.evaluation.gates)
    whole = tenant_gold(config.evaluation.gold, tenant)
    gold = whole or GoldSet((), tenant)
    stale = check_gold(gold, live_pages(store, config, tenant)) if whole else []
    alive = live(gold, stale)
    asked = alive if any(question.answerable for question in alive.questions) else GoldSet((), tenant)
    settings = _settled(config)
    digest = _digest(asked, settings, embedder.name)
    before = _report(store, tenant, store.current(tenant))
    found = _report(store, tenant, generation_id) or {}
    if found.get("digest") != digest:
        found = _asked(store, tenant, generation_id, settings, embedder, asked, open_entailment(config), report)
    found["measures"]["text_kept"] = _text_kept(store, tenant, generation_id, config)
    verdicts = judge_gates(gates, found["measures"], (before or {}).get("measures"))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    payload = {
        **found,
        "version": VERSION,
        "generation": generation_id,
        "digest": digest,
        "note": _note(whole, asked),
        "gold": {
            "questions": len(gold.questions),
            "asked": len(asked.questions),
            "stale": [each.line() for each in stale],
        },
        "compared_with": before["generation"] if before else None,
        "gates": [verdict.payload() for verdict in verdicts],
        "override": override if failed else None,
        "seconds": round(monotonic() - started, 3),
    }
    write_signed(store, store.generation(tenant, generation_id) / EVAL_REPORT, payload)
    return Evaluated(payload, tuple(verdicts), tuple(stale))


def quality_results(store: Store, tenant: str, generation_id: str) -> list[CheckResult]:
    """Return the gates of an evaluated generation for `publish`; those that a person overrode count as passed.

    Raises:
        PublishError: it was not evaluated.
    """
    found = _report(store, tenant, generation_id)
    if found is None:
        raise PublishError(
            f"generation {generation_id} was not evaluated; materialize `eval_report` or run `citelock build`"
        )
    overridden = bool(found.get("override"))
    return [CheckResult(each["gate"], each["passed"] or overridden, each["detail"]) for each in found["gates"]]


def read_gates(path: Path) -> QualityGates:
    """Return the gates of a file; none where there is no file.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        return parse_gates(path.read_text(encoding="utf-8")) if path.exists() else QualityGates()
    except (GatesError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gates {path}: {error}") from None


@contextmanager
def candidate_pipeline(
    store: Store, tenant: str, generation_id: str, config: Config, embedder: Embedder
) -> Iterator[Pipeline]:
    """Yield the product's pipeline over one generation, published or not; its receipts are thrown away."""
    receipts = store.candidate(tenant) / "evaluation.db"
    published = CurrentGeneration(store, tenant, config, pinned=generation_id)
    reranker = open_reranker(config.features, config.reranker)
    pipeline = Pipeline(config, tenant, published, Services(embedder, ReceiptStore(receipts, config.home), reranker))
    try:
        yield pipeline
    finally:
        pipeline.close()
        for leftover in receipts.parent.glob(f"{receipts.name}*"):
            leftover.unlink(missing_ok=True)


def _settled(config: Config) -> Config:
    """Return the configuration that is evaluated: without models behind HTTP unless they were asked for."""
    if config.evaluation.models == "configured":
        return config
    features = config.features.model_copy(update={"FEATURE_RERANKER": False})
    generation = config.generation.model_copy(update={"provider": "extractive"})
    return config.model_copy(update={"features": features, "generation": generation})


def _asked(
    store: Store,
    tenant: str,
    generation_id: str,
    config: Config,
    embedder: Embedder,
    gold: GoldSet,
    entails: Entails | None,
    report: Callable[[int, int], None] | None,
) -> dict[str, Any]:
    """Return what answers and rankings are worth, by question, and every case."""
    if not gold.questions:
        return {"created_at": _now(), "measures": {}, "summary": {}, "evaluation": None, "cases": []}
    with candidate_pipeline(store, tenant, generation_id, config, embedder) as pipeline:
        told = (lambda _, done, total: report(done, total)) if report else None
        evaluation = evaluate(pipeline, gold, told, explain=True)
        rankings = rank_pages(pipeline, gold)
    pages = {each.id: each.pages for each in gold.questions if each.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rankings, pages)}
    if similar := answer_similarity(evaluation.judged, embedder):
        measures["answer_similarity"] = similar
    if entails:
        measures |= by_entailment(evaluation.judged, entails)
    return {
        "created_at": _now(),
        "measures": measures,
        "summary": summary(measures),
        "evaluation": evaluation.payload(),
        "cases": _cases(evaluation),
    }


def _cases(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return every question with what was answered; those with a fault first."""
    return [_case(each) for each in sorted(evaluation.judged, key=lambda each: not each.fault)]


def _case(judged: Judged) -> dict[str, Any]:
    gold, answer = judged.gold, judged.answer
    return {
        **judged.payload(),
        "expected": gold.answer,
        "quotes": list(gold.quotes),
        "pages": sorted(gold.pages),
        "tags": list(gold.tags),
        "citations": [citation.payload() for citation in answer.citations],
        "passages": [dict(passage) for passage in answer.passages or ()],
    }


def _text_kept(store: Store, tenant: str, generation_id: str, config: Config) -> dict[str, float]:
    """Return of every page that is the same version as in the published generation, the share of its text that is
    indexed."""
    current = store.current(tenant)
    if current is None or current == generation_id:
        return {}
    try:
        before = _text_of_pages(store, tenant, current, config)
    except StoreError:  # what cannot be opened any more cannot be compared with
        return {}
    after = _text_of_pages(store, tenant, generation_id, config)
    return {page: round(min(1.0, after[page, n] / size), 6) for (page, n), size in before.items() if (page, n) in after}


def _text_of_pages(store: Store, tenant: str, generation_id: str, config: Config) -> dict[tuple[str, int], int]:
    """Characters by page and version."""
    generation = Generation.open(store, tenant, generation_id, config)
    sizes: dict[tuple[str, int], int] = {}
    columns = (generation.table[name].to_pylist() for name in ("page_id", "version", "text"))
    for page, version, text in zip(*columns, strict=True):
        sizes[page, version] = sizes.get((page, version), 0) + len(text)
    generation.close()
    return sizes


def _note(whole: GoldSet | None, asked: GoldSet) -> str:
    if whole is None:
        return "no gold set: nothing was asked"
    return "" if asked.questions else "no answer of the gold set stands in the pages: nothing was asked"


def _digest(gold: GoldSet, config: Config, embedder: str) -> str:
    """Return all that shapes the answers to a generation's questions."""
    questions = [
        [each.id, each.question, each.answerable, sorted(each.pages), each.quotes, each.user, sorted(each.groups)]
        for each in gold.questions
    ]
    names = ("retrieval", "gates", "verification", "generation", "reranker", "features")
    settings = [getattr(config, name).model_dump(mode="json") for name in names]
    told = [VERSION, ANALYZER_VERSION, embedder, config.evaluation.entailment, questions, settings]
    return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]


def _report(store: Store, tenant: str, generation_id: str | None) -> dict[str, Any] | None:
    """Return a generation's report; None where there is none of this version."""
    if generation_id is None:
        return None
    try:
        found = read_signed(store, store.generation(tenant, generation_id) / EVAL_REPORT)
    except StoreError:
        return None
    return found if found.get("version") == VERSION else None


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
