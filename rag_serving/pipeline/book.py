"""Questions to the books of a tenant alone: their sources, their passages, their refusals.

Ten candidates are raised by those beside them in their sections, five of them are read in the order of the book; a
passage that is not near, or an answer that is not sure, is refused in one sentence.

Belongs here: what is different about such questions. Does not belong here: nearness of sections
(`retrieval.section_proximity`), the settings (`config.profiles`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from rag_serving.answering.lock import freeze
from rag_serving.config.loading import Config
from rag_serving.config.models import Embedding
from rag_serving.config.profiles import Profile
from rag_serving.config.sections import Gates
from rag_serving.records.passages import Candidate, Lock
from rag_serving.records.queries import Filters
from rag_serving.retrieval.section_proximity import in_document_order, nearest_sections

NOT_VERIFIED = "This information cannot be verified from the book content."
MIN_SIMILARITY, MIN_CONFIDENCE = 0.7, 0.6
"""What the source document of book answers starts from, calibrated for text-embedding-3-small alone."""
_OUT_OF_REACH = 2.0  # for the share of a question's weight
_NO_SOURCE = "*"  # no source can be called so


def book_sources(config: Config, tenant: str) -> tuple[str, ...]:
    """Return the keys of a tenant's sources that are books."""
    sources = config.sources_of(tenant).items()
    return tuple(key for key, source in sources if config.profiles.name_of(source) == "book")


def of_books(config: Config, tenant: str, filters: Filters | None) -> Filters:
    """Return the given filters, restricted to books."""
    filters, books = filters or Filters(), book_sources(config, tenant)
    chosen = tuple(key for key in books if not filters.source or key in filters.source)
    return replace(filters, source=chosen or (_NO_SOURCE,))


def book_lock(candidates: Iterable[Candidate], profile: Profile) -> Lock:
    """Return the passages that are read, in the order of the book."""
    pool = freeze(candidates, profile.pool).passages
    return in_book_order(Lock(tuple(nearest_sections(pool, profile.passages))))


def in_book_order(lock: Lock) -> Lock:
    """Return the same passages in the order of the book."""
    return Lock(tuple(in_document_order(lock.passages)))


def book_gates(config: Config, lock: Lock) -> Gates:
    """Return the gates of a question about books: only confident answers are shown.

    Without similarities, for want of an embedding model, the words decide as usual.
    """
    profile, gates = config.profiles.book, config.gates
    similarity, confidence = profile.min_similarity, profile.min_confidence
    if has_scale_of_figures(config.embedding):
        similarity = MIN_SIMILARITY if similarity is None else similarity
        confidence = MIN_CONFIDENCE if confidence is None else confidence
    update = {"min_closest": 1.0}
    if similarity is not None and any("dense" in candidate.scores for candidate in lock.passages):
        update |= {"min_similarity": similarity, "min_coverage": _OUT_OF_REACH}
    if confidence is not None:
        update |= {"min_confidence": confidence, "min_confidence_statement": confidence}
    return gates.model_copy(update=update)


def has_scale_of_figures(embedding: Embedding) -> bool:
    """Return whether the similarities of an embedding model are on the scale that the figures are of."""
    return embedding.provider == "openai" and embedding.model.rpartition("/")[2].startswith("text-embedding-3")
