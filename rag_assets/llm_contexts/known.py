"""What the cache knows of passages: by what was asked, and by place where only the page's title changed.

Belongs here: whether a context of before still holds. Does not belong here: the file (`cache`), asking (`writer`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rag_assets.llm_contexts.cache import ContextCache
from rag_assets.steps.contexts.contextualize import WrittenContext
from rag_assets.steps.contexts.prompt import VERSION, Document, Passage
from rag_assets.steps.contexts.quality import inventions, score_contexts
from rag_serving.config.models import Context


def oldest_prompt(settings: Context) -> int:
    """Return the oldest prompt whose contexts still count."""
    return VERSION if settings.refresh else 0


def known_contexts(
    cache: ContextCache, documents: Sequence[Document], oldest_prompt: int = 0
) -> dict[str, WrittenContext]:
    """Return the contexts that no model has to be asked for, by the keys of their passages.

    A page that was renamed keeps its contexts, but for those that name what only the old title had.

    Raises:
        ModelError: the cache cannot be used.
    """
    passages = {passage.key: (passage, document) for document in documents for passage in document.passages}
    known = cache.lookup([*passages], oldest_prompt)
    missing = {key: place for key, place in passages.items() if key not in known}
    renamed = _renamed(cache, missing, oldest_prompt)
    changed = renamed | _with_scores(known, passages)
    if changed:
        cache.remember(changed, {key: passages[key][0].place for key in changed})
    return {**known, **changed}


def _renamed(
    cache: ContextCache, passages: Mapping[str, tuple[Passage, Document]], oldest_prompt: int
) -> dict[str, WrittenContext]:
    places = cache.lookup_places([passage.place for passage, _ in passages.values()], oldest_prompt)
    return {
        key: places[passage.place]
        for key, (passage, document) in passages.items()
        if passage.place in places and not inventions(places[passage.place].text, f"{passage.text}\n{document.text}")
    }


def _with_scores(
    known: Mapping[str, WrittenContext], passages: Mapping[str, tuple[Passage, Document]]
) -> dict[str, WrittenContext]:
    """Return the contexts that were kept without the parts of their quality, with them."""
    bare = [key for key, context in known.items() if context.scores is None]
    texts = [known[key].text for key in bare]
    of = [passages[key] for key in bare]
    scores = score_contexts(texts, [passage.text for passage, _ in of], [document.text for _, document in of])
    return {key: replace(known[key], scores=score.components) for key, score in zip(bare, scores, strict=True)}
