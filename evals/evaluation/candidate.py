"""The tenant's gold set on a candidate generation, before anybody may read it."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from statistics import fmean
from time import monotonic
from typing import Any

from evals.evaluation.evaluate import Judged, evaluate, rank_pages
from evals.evaluation.gold import GoldSet, Stale, check_gold, live, live_pages, tenant_gold
from evals.evaluation.measures import (
    Entails,
    Similarities,
    answer_similarity,
    by_entailment,
    of_answers,
    of_rankings,
    open_entailment,
    summary,
)
from evals.evaluation.metrics import paired_p_value
from rag_assets.publishing.checks import CheckResult
from rag_assets.publishing.publish import PublishError
from rag_serving.artifacts.signed_files import read_signed, write_signed
from rag_serving.artifacts.store import Store, StoreError
from rag_serving.ask import Pipeline
from rag_serving.config.loading import Config, ConfigError
from rag_serving.indexes.catalog import EVAL_REPORT
from rag_serving.indexes.current import CurrentGeneration
from rag_serving.indexes.generation import Generation
from rag_serving.models.protocols import Embedder
from rag_serving.models.reranker_client import open_reranker
from rag_serving.pipeline.tenant import Services
from rag_serving.receipts.store import ReceiptStore
from rag_serving.text.analyzer import ANALYZER_VERSION

KNOWN = (
    "citation_precision", "citation_recall", "sentence_precision", "answerability", "not_found_recall",
    "not_found_precision", "closest_citation_precision", "anchor_validity", "recall@10", "ndcg@10", "mrr@10", "map",
    "answer_similarity", "entailed_citation_recall", "entailed_citation_precision", "text_kept",
)  # fmt: skip
SIGNIFICANCE = 0.05
NAMED = 10

Measures = Mapping[str, Mapping[str, float]]  # by name, then by question id


class GatesError(Exception):
    """The gates cannot be used; the message names the key, and its valid values."""


@dataclass(frozen=True)
class QualityGates:
    """The thresholds for a candidate."""

    floors: Mapping[str, float] = field(default_factory=dict)
    drops: Mapping[str, float] = field(default_factory=dict)
    significance: float = SIGNIFICANCE  # a drop counts when chance makes it less often than this


@dataclass(frozen=True)
class GateVerdict:
    """The verdict of one gate; `questions` are those to blame, the worst first."""

    gate: str
    passed: bool
    detail: str
    questions: tuple[str, ...] = ()

    def payload(self) -> dict[str, Any]:
        return {**asdict(self), "questions": list(self.questions)}


def parse_gates(text: str) -> QualityGates:
    """Gates as TOML: tables `floors` and `drops` with a number from 0 to 1 per measure, and `significance`.

    Raises:
        GatesError: it is not TOML, or has a key or a value that is not allowed.
    """
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise GatesError(f"not valid TOML: {error}") from None
    if unknown := sorted(content.keys() - {"floors", "drops", "significance"}):
        raise GatesError(f"unknown key {unknown[0]!r}; known are drops, floors, significance")
    return QualityGates(
        floors=_numbers(content, "floors"),
        drops=_numbers(content, "drops"),
        significance=_share("significance", content.get("significance", SIGNIFICANCE)),
    )


def _numbers(content: Mapping[str, Any], table: str) -> dict[str, float]:
    values = content.get(table, {})
    if not isinstance(values, dict):
        raise GatesError(f"{table!r} must be a table")
    for name in values:
        if name not in KNOWN:
            near = get_close_matches(name, KNOWN, n=1)
            mend = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(KNOWN)}"
            raise GatesError(f"{table}: unknown measure {name!r}; {mend}")
    return {name: _share(f"{table}.{name}", value) for name, value in values.items()}


def _share(name: str, value: object) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1:
        raise GatesError(f"{name} must be a number from 0 to 1")
    return float(value)


def judge_gates(gates: QualityGates, candidate: Measures, published: Measures | None) -> list[GateVerdict]:
    """Return a verdict for every gate that has a value: floors of the candidate, drops where something is published.

    Drops are over the questions that both have: the mean fell by more than is allowed, and by more than chance makes.
    """
    verdicts = [_floor(name, minimum, candidate[name]) for name, minimum in gates.floors.items() if candidate.get(name)]
    for name, allowed in gates.drops.items():
        before, after = (published or {}).get(name, {}), candidate.get(name, {})
        if common := sorted(before.keys() & after.keys()):
            pairs = {question: (before[question], after[question]) for question in common}
            verdicts.append(_drop(name, allowed, pairs, gates.significance))
    return verdicts


def _floor(name: str, minimum: float, values: Mapping[str, float]) -> GateVerdict:
    mean = fmean(values.values())
    worst = [question for _, question in sorted((value, question) for question, value in values.items() if value < 1)]
    detail = f"{mean:.3f} over {len(values)} questions, at least {minimum:g} is asked for"
    return _verdict(f"floor of {name}", mean >= minimum, detail, worst)


def _drop(name: str, allowed: float, pairs: Mapping[str, tuple[float, float]], significance: float) -> GateVerdict:
    before, after = (list(values) for values in zip(*pairs.values(), strict=True))
    drop, chance = fmean(before) - fmean(after), paired_p_value(before, after)
    fallen = sorted((now - then, question) for question, (then, now) in pairs.items() if now < then)
    detail = (
        f"{fmean(after):.3f} after {fmean(before):.3f} over {len(pairs)} questions (p {chance:.3f}), a drop of "
        f"{allowed:g} is allowed"
    )
    passed = drop <= allowed or chance >= significance
    return _verdict(f"drop of {name}", passed, detail, [question for _, question in fallen])


def _verdict(gate: str, passed: bool, detail: str, questions: list[str]) -> GateVerdict:
    return GateVerdict(gate, passed, detail, () if passed else tuple(questions[:NAMED]))


VERSION = 1

Report = Callable[[int, int], None]  # questions asked, of how many


@dataclass(frozen=True)
class CandidateGeneration:
    """A generation, published or not, and what it is evaluated with."""

    store: Store
    tenant: str
    generation: str
    config: Config
    embedder: Embedder


@dataclass(frozen=True)
class Evaluated:
    """The result of an evaluation, as `eval_report.json` has it."""

    payload: Mapping[str, Any]
    verdicts: tuple[GateVerdict, ...]
    stale: tuple[Stale, ...]

    @property
    def failed(self) -> tuple[GateVerdict, ...]:
        return tuple(verdict for verdict in self.verdicts if not verdict.passed)


def evaluate_candidate(
    candidate: CandidateGeneration, override: str | None = None, report: Report | None = None
) -> Evaluated:
    """Run the gold set, judge the gates, and leave `eval_report.json` in the generation's folder.

    A set that was run on the same generation with the same settings is not run again. `override`: a person's reason to
    publish despite the gates.

    Raises:
        GoldError, ConfigError: a gold set or the gates cannot be used.
        EvaluationError: a part of the product was down.
        StoreError: the generation cannot be opened.
    """
    started = monotonic()
    store, tenant, config = candidate.store, candidate.tenant, candidate.config
    gates = read_gates(config.evaluation.gates)
    whole = tenant_gold(config.evaluation.gold, tenant)
    gold = whole or GoldSet((), tenant)
    stale = check_gold(gold, live_pages(store, config, tenant)) if whole else []
    alive = live(gold, stale)
    asked = alive if any(question.answerable for question in alive.questions) else GoldSet((), tenant)
    evaluated = replace(candidate, config=_evaluated_config(config.of_tenant(tenant)))
    digest = _digest(asked, evaluated)
    before = _report(store, tenant, store.current(tenant))
    facts = _report(store, tenant, candidate.generation) or {}
    if facts.get("digest") != digest:
        known = _similarities(before if (before or {}).get("digest") == digest else None)
        facts = _ask(evaluated, asked, open_entailment(config), report, known)
    facts["measures"]["text_kept"] = _text_kept(candidate)
    note = "" if asked.questions else "no answer of the gold set stands in the pages: nothing was asked"
    note = note if whole else "no gold set: nothing was asked"
    verdicts = judge_gates(gates, facts["measures"], (before or {}).get("measures"))
    failed = [verdict for verdict in verdicts if not verdict.passed]
    payload = {
        **facts,
        "version": VERSION,
        "generation": candidate.generation,
        "digest": digest,
        "note": note,
        "gold": {
            "questions": len(gold.questions),
            "asked": len(asked.questions),
            "stale": [entry.line() for entry in stale],
        },
        "compared_with": before["generation"] if before else None,
        "gates": [verdict.payload() for verdict in verdicts],
        "override": override if failed else None,
        "seconds": round(monotonic() - started, 3),
    }
    write_signed(store, store.generation(tenant, candidate.generation) / EVAL_REPORT, payload)
    return Evaluated(payload, tuple(verdicts), tuple(stale))


def quality_results(store: Store, tenant: str, generation_id: str) -> list[CheckResult]:
    """Return the gates of an evaluated generation for `publish`; those that a person overrode count as passed.

    Raises:
        PublishError: it was not evaluated.
    """
    facts = _report(store, tenant, generation_id)
    if facts is None:
        raise PublishError(
            f"generation {generation_id} was not evaluated; materialize `eval_report` or run `citelock build`"
        )
    overridden = bool(facts.get("override"))
    return [CheckResult(gate["gate"], gate["passed"] or overridden, gate["detail"]) for gate in facts["gates"]]


def read_gates(path: Path) -> QualityGates:
    """Return the gates of a file; none if there is no file.

    Raises:
        ConfigError: the file cannot be used.
    """
    try:
        return parse_gates(path.read_text(encoding="utf-8")) if path.exists() else QualityGates()
    except (GatesError, OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"gates {path}: {error}") from None


@contextmanager
def candidate_pipeline(candidate: CandidateGeneration) -> Iterator[Pipeline]:
    """Yield the product's pipeline over one generation; its receipts are thrown away."""
    store, tenant, config = candidate.store, candidate.tenant, candidate.config
    receipts = store.candidate(tenant) / "evaluation.db"
    published = CurrentGeneration(store, tenant, config, pinned=candidate.generation)
    reranker = open_reranker(config.features, config.reranker)
    services = Services(candidate.embedder, ReceiptStore(receipts, config.home), reranker)
    pipeline = Pipeline(config, tenant, published, services)
    try:
        yield pipeline
    finally:
        pipeline.close()
        for leftover in receipts.parent.glob(f"{receipts.name}*"):
            leftover.unlink(missing_ok=True)


def _evaluated_config(config: Config) -> Config:
    """Return the configuration for the evaluation: without models behind HTTP unless requested, and in the highest
    phase of retrieval, regardless of current switches."""
    config = config.searched_in_full()
    if config.evaluation.models == "configured":
        return config
    features = config.features.model_copy(update={"FEATURE_RERANKER": False})
    generation = config.generation.model_copy(update={"provider": "extractive"})
    return config.model_copy(update={"features": features, "generation": generation})


def _ask(
    candidate: CandidateGeneration, gold: GoldSet, entails: Entails | None, report: Report | None, known: Similarities
) -> dict[str, Any]:
    """Return every measure of answers and rankings, by question, and every case.

    `known`: similarities that the same model computed before.
    """
    now = datetime.now(UTC).isoformat(timespec="seconds")
    if not gold.questions:
        return {"created_at": now, "measures": {}, "summary": {}, "evaluation": None, "cases": []}
    with candidate_pipeline(candidate) as pipeline:
        progress = (lambda _, done, total: report(done, total)) if report else None
        evaluation = evaluate(pipeline, gold, progress, explain=True)
        rankings = rank_pages(pipeline, gold)
    pages = {question.id: question.pages for question in gold.questions if question.answerable}
    measures = {**of_answers(evaluation.judged), **of_rankings(rankings, pages)}
    if similar := answer_similarity(evaluation.judged, candidate.embedder, known):
        measures["answer_similarity"] = similar
    if entails:
        measures |= by_entailment(evaluation.judged, entails)
    return {
        "created_at": now,
        "measures": measures,
        "summary": summary(measures),
        "evaluation": evaluation.payload(),
        "cases": [_case(judged) for judged in sorted(evaluation.judged, key=lambda judged: not judged.fault)],
    }


def _similarities(report: Mapping[str, Any] | None) -> Similarities:
    similar = report["measures"].get("answer_similarity", {}) if report else {}
    cases = report["cases"] if report else ()
    return {(one["id"], one["answer"], one["expected"]): similar[one["id"]] for one in cases if one["id"] in similar}


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


def _text_kept(candidate: CandidateGeneration) -> dict[str, float]:
    """Return of every page that is the same version as in the published generation, the share of its text that is
    indexed."""
    current = candidate.store.current(candidate.tenant)
    if current is None or current == candidate.generation:
        return {}
    try:
        before = _text_of_pages(replace(candidate, generation=current))
    except StoreError:  # what cannot be opened any more cannot be compared with
        return {}
    after = _text_of_pages(candidate)
    return {page: round(min(1.0, after[page, n] / size), 6) for (page, n), size in before.items() if (page, n) in after}


def _text_of_pages(candidate: CandidateGeneration) -> dict[tuple[str, int], int]:
    sizes: Counter[tuple[str, int]] = Counter()
    opened = Generation.open(candidate.store, candidate.tenant, candidate.generation, candidate.config)
    with closing(opened) as generation:
        columns = (generation.table[name].to_pylist() for name in ("page_id", "version", "text"))
        for page, version, text in zip(*columns, strict=True):
            sizes[page, version] += len(text)
    return sizes


def _digest(gold: GoldSet, candidate: CandidateGeneration) -> str:
    """Return a digest of all that shapes the answers to a generation's questions."""
    questions = [
        [each.id, each.question, each.answerable, sorted(each.pages), each.quotes, each.user, sorted(each.groups)]
        for each in gold.questions
    ]
    config = candidate.config
    names = ("retrieval", "gates", "verification", "generation", "reranker", "features")
    settings = [getattr(config, name).model_dump(mode="json") for name in names]
    versions = [VERSION, ANALYZER_VERSION, candidate.embedder.name, config.evaluation.entailment]
    return hashlib.sha256(json.dumps([*versions, questions, settings], sort_keys=True).encode()).hexdigest()[:32]


def _report(store: Store, tenant: str, generation_id: str | None) -> dict[str, Any] | None:
    if generation_id is None:
        return None
    try:
        facts = read_signed(store, store.generation(tenant, generation_id) / EVAL_REPORT)
    except StoreError:
        return None
    return facts if facts.get("version") == VERSION else None
