"""Sections of `config/app.yaml`: switches, ingestion, retrieval, and when an answer is given, verified and gated.

Belongs here: what may be set (docs/configuration.md is made from it).
Does not belong here: reading the file (`loading`), models (`models`), tenants (`tenants`), kinds of sources
(`sources`), sections with a module of their own, anything that acts on a setting.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from rag_serving.config.phases import Canary
from rag_serving.config.sources import Section


class Features(Section):
    """Switches for whole stages."""

    FEATURE_RAG_PROVENANCE_LOCK: Literal[True] = True
    """Answers cite only locked passages. Cannot be switched off."""
    FEATURE_RERANKER: bool = True
    """Use the reranker sidecar if `reranker.url` is set."""
    FEATURE_RM3: bool = False
    """Expand the lexical query by relevance feedback (RM3)."""
    FEATURE_HEURISTIC_FALLBACK: bool = True
    """Rerank the first candidates by their words when the reranker is down."""
    FEATURE_HEURISTIC_RERANKER: bool = False
    """Do the same when no reranker is configured: improves the top ranks and worsens lower ones."""
    FEATURE_PROXIMITY: bool = True
    """Let this reranking by words also consider how close the query's words are to each other."""

    @property
    def enabled(self) -> tuple[str, ...]:
        """The names of the switches that are on, in alphabetical order."""
        return tuple(sorted(name for name, value in self.model_dump().items() if value))


class Ingestion(Section):
    """How pages become chunks."""

    chunk_size_tokens: int = Field(250, ge=32, le=4096)
    """Target size in tokens for the parts of a long section, counted by the embedding model's tokenizer; shorter
    sections stay one chunk each."""
    chunk_stride_tokens: int = Field(75, ge=0, le=1024)
    """Tokens of neighbouring text stored with a chunk as context; never cited."""
    drop_labels: list[str] = Field(["template", "archive", "index"])
    """Pages with one of these labels are excluded, with the label as the reason."""
    drop_boilerplate: bool = True
    """Leave boilerplate sections out of the indexes."""
    dedup_enabled: bool = True
    """Drop near-duplicate chunks."""
    dedup_method: Literal["minhash"] = "minhash"
    """How near-duplicates are found."""
    dedup_threshold: float = Field(0.92, gt=0, le=1)
    """Jaccard similarity of word shingles from which a chunk is a duplicate."""
    max_page_bytes: int = Field(5_000_000, ge=1000)
    """Bytes beyond which a page body is recorded as failed and not parsed."""


class Retrieval(Section):
    """How passages are found and ranked."""

    enabled: bool = True
    """Search the pages. If false, every question is answered with a note that search is switched off, and no index is
    used. A running server follows changes of this key, `phase` and `canary`. A tenant's own settings override them, and
    the environment variables `DOC_RETRIEVAL_ENABLED` and `DOC_RETRIEVAL_PHASE` override both."""
    phase: int = Field(3, ge=1, le=3)
    """What is searched: 3 chunks by words and meaning, 2 chunks by keywords, 1 documents by keywords. If a phase fails
    or is too slow, the next lower one is used."""
    canary: Canary | None = None
    """Another phase, or other switches, for some questions: a mapping of `phase`, `features`, `share` and `spaces`."""
    dense_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the dense index."""
    lexical_backend: Literal["bm25"] = "bm25"
    """Lexical index."""
    lexical_k: int = Field(80, ge=1, le=10_000)
    """Candidates of the lexical index."""
    spelling: bool = True
    """Replace words that are unknown and do not occur in the pages by the most similar words that do."""
    fusion: Literal["zscore", "minmax", "rrf"] = "zscore"
    """How the two rankings are combined: by standard scores, by scores scaled to 0 to 1, or by ranks."""
    dense_weight: float = Field(0.5, gt=0, lt=1)
    """Weight of the dense index in the fusion of scores; the rest is the weight of the lexical index."""
    rrf_k: int = Field(60, ge=1)
    """Constant k of reciprocal rank fusion."""
    page_weight: float = Field(0.3, ge=0)
    """Weight of the best passage of the same page, in standard deviations of the fused score."""
    document_weight: float = Field(0.2, ge=0)
    """Weight of the mean BM25 score of all passages of the page, in standard deviations."""
    parent_weight: float = Field(0.4, ge=0)
    """Share of the parent page's score that is added to the passages of a page."""
    neighbour_weight: float = Field(0, ge=0)
    """Weight of the passages directly before and after, in standard deviations."""
    mmr_lambda: float = Field(1, ge=0, le=1)
    """Relevance against novelty in maximal marginal relevance; 1 ranks by relevance only."""
    cosine_floor: float = Field(0.18, ge=-1, le=1)
    """Cosine similarity below which candidates of the dense index are dropped."""
    min_keyword_overlap: int = Field(2, ge=0)
    """Stemmed query terms that a passage must share, unless it is code or a table."""
    final_passages: int = Field(8, ge=1, le=50)
    """Number of passages that are locked for an answer."""
    passage_order: Literal["score", "document"] = "score"
    """Order of the locked passages: by score, or grouped by page in the order of the page."""


class Gates(Section):
    """Thresholds for answering a question. `citelock evaluate --calibrate` chooses them from data."""

    min_similarity: float = Field(0.35, ge=-1, le=1)
    """Cosine similarity to the question that at least one passage needs, unless `min_coverage` is reached."""
    min_coverage: float = Field(0.2, ge=0, le=1)
    """Share of the question's weight (IDF of its terms) that at least one passage needs, unless `min_similarity` is
    reached."""
    min_confidence: float = Field(0.48, ge=0, le=1)
    """Estimated probability, from which the extractive generator's best sentence is given as the answer."""
    min_confidence_statement: float = Field(0.3, ge=0, le=1)
    """The same for input that is a statement instead of a question: the reply is the passage that supports or
    contradicts it."""
    min_closest: float = Field(0.12, ge=0, le=1)
    """Estimated probability from which the sentence is shown as the closest passage; 1: only confident answers are
    shown."""
    min_clear: float = Field(0.6, ge=0, le=1)
    """Lead, (best - second) / best, that a title or heading needs as the meaning of a name in the question; below, a
    clarifying question is asked. 0: the likeliest page is always used."""
    confidence_weights: Path | None = None
    """File with the weights of that estimate, as `citelock evaluate --calibrate --write` stores it beside the
    configuration; null: the weights of the package, learned from several data sets."""

    def nearer_by(self, gap: float) -> Gates:
        """Return gates that ask for less similarity."""
        return self.model_copy(update={"min_similarity": self.min_similarity - gap}) if gap else self


class Verification(Section):
    """When a quote counts as verified in its passage."""

    fuzzy_partial_ratio_min: float = Field(90, ge=0, le=100)
    """RapidFuzz partial ratio that a quote needs if it is not found exactly; numbers and negations must always be
    equal."""
    min_ocr_confidence: int = Field(80, ge=0, le=100)
    """OCR confidence (0 to 100) that a quote needs in an answer; below, it is shown as the closest passage, to be
    compared with the page. Text from OCR is never called exact."""


class Evaluation(Section):
    """Questions with known answers that a candidate generation must answer before it is published."""

    gold: Path = Path("evals/gold")
    """Folder of gold sets (*.yaml). A tenant without a gold set publishes without evaluation."""
    gates: Path = Path("evals/gates.toml")
    """File with minimum values, and with the drops allowed against the published generation."""
    models: Literal["embedded", "configured"] = "embedded"
    """embedded: candidates are evaluated without reranker and language model, at no cost and with the same result each
    time; configured: as for readers."""
    entailment: Literal["none", "generation"] = "none"
    """generation: the language model of `generation` also judges whether passages entail the claims that cite them."""
