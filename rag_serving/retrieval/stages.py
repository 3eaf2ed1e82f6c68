"""The stages of retrieval, in their order: from the indexes to candidates, from candidates to passages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from rag_serving.config.loading import Config
from rag_serving.config.sections import Keyword, Retrieval
from rag_serving.records.queries import Filters
from rag_serving.retrieval.hybrid import (
    COLUMNS,
    DENSE_UNAVAILABLE,
    LEXICAL_UNAVAILABLE,
    Candidates,
    DenseSearch,
    Diversity,
    Fusion,
    LexicalSearch,
    Mode,
    PageEvidence,
    SentenceEvidence,
    SingleIndex,
    add_quoted,
    boost,
)
from rag_serving.retrieval.hygiene import Hygiene, KeywordGate, KeywordSearch, NewestVersion, PerDocument, add_holders
from rag_serving.retrieval.keyword.search import By
from rag_serving.retrieval.rerank import POOL, RERANKER_DOWN, CrossEncoderStage, LexicalReranker, RerankerClient
from rag_serving.retrieval.stage import First, Stage, best_first, in_turn

_SCORED: Mapping[Mode, By] = {"keyword_documents": "documents", "keyword_chunks": "chunks"}


@dataclass(frozen=True)
class SearchOptions:
    """The options of a search for passages. `is_word`: recognizes words that are never misspelt, even outside the
    passages."""

    settings: Retrieval  # weights, depths and floors
    mode: Mode = "hybrid"
    k: int = 100  # the number of candidates to return
    rm3: bool = False  # whether the lexical query is expanded by its first results
    filters: Filters | None = None  # those of the caller
    is_word: Callable[[str], bool] = lambda _: False
    page: str | None = None  # the title of a page whose passages are preferred if the query names none
    keyword: Keyword = field(default_factory=Keyword)  # synonyms and thresholds of the keyword tier
    watch: Callable[[str], None] | None = None  # called when each part begins

    @property
    def by_keywords(self) -> By | None:
        """The unit that the keyword tier scores; None if the indexes are searched."""
        return _SCORED.get(self.mode)


def candidate_stages(options: SearchOptions) -> tuple[Stage, ...]:
    """Return the stages from the indexes to candidates."""
    if options.by_keywords:
        return (
            Stage("keyword", KeywordSearch(options.k)),
            Stage("candidates", First(options.k)),
            Stage("best", First(options.k)),
            Stage("quoted", in_turn(add_holders, boost, First(options.k))),
        )
    settings, mode, hybrid = options.settings, options.mode, options.mode == "hybrid"
    return (
        Stage("dense", DenseSearch(settings.dense_k), DENSE_UNAVAILABLE, on=mode != "lexical"),
        Stage("lexical", LexicalSearch(settings.lexical_k), LEXICAL_UNAVAILABLE, on=mode != "dense"),
        Stage("candidates", Candidates(mode, settings.cosine_floor)),
        Stage("fuse", Fusion(settings) if hybrid else SingleIndex(COLUMNS[mode])),
        Stage("page_evidence", PageEvidence(settings), on=hybrid),
        Stage("best", in_turn(best_first, First(options.k))),
        Stage("diversify", Diversity(settings.mmr_lambda), on=hybrid and settings.mmr_lambda < 1),
        Stage("quoted", in_turn(add_quoted, boost, First(options.k))),
    )


def passage_stages(
    config: Config, count: int, sidecar: RerankerClient | None, is_gated: bool, mode: Mode = "hybrid"
) -> tuple[Stage, ...]:
    """Return the stages from candidates to `count` passages; `is_gated`: only those that share words with the query.
    Results of the keyword tier keep their order: no model is involved."""
    if mode in _SCORED:
        cleaned = Stage("hygiene", Hygiene(frozenset(config.ingestion.drop_labels)))
        return (
            cleaned,
            Stage("per_document", PerDocument(config.keyword.max_per_document)),
            Stage("versions", NewestVersion(count)),
        )
    settings, features = config.reranker, config.features
    by_words = features.FEATURE_HEURISTIC_FALLBACK if sidecar else features.FEATURE_HEURISTIC_RERANKER
    enough = max(count, settings.candidates if sidecar else 0, POOL + 1 if by_words else 0)
    stages = [
        Stage("hygiene", Hygiene(frozenset(config.ingestion.drop_labels))),
        Stage("sentence_evidence", SentenceEvidence()),
        Stage("keyword_gate", KeywordGate(config.retrieval.min_keyword_overlap, enough), on=is_gated),
    ]
    if sidecar:
        model = CrossEncoderStage(sidecar, max(count, settings.top_n or count), settings.candidates)
        stages.append(Stage("rerank", in_turn(model, boost), RERANKER_DOWN))
    stages.append(Stage("lexical_rerank", LexicalReranker(proximity=features.FEATURE_PROXIMITY), on=by_words))
    return (*stages, Stage("versions", NewestVersion(count)))
