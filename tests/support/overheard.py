"""What a model wrote on its way to the reader, and what becomes of it beside quotes that are true.

Belongs here: remembering drafts, putting their sentences beside true quotes. Does not belong here: what is false
(`shown_truth`), the model (`small_model`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from rag_serving.answering.citations import answer_text
from rag_serving.answering.verification.verifier import verify
from rag_serving.answering.writing.generator import Generator
from rag_serving.models.chat.client import Listen
from rag_serving.records import Candidate, Claim, Draft, Lock
from support.shown_truth import PARAGRAPH, Shown

_QUOTED_WORDS = 12


class Overheard(Generator):
    """A generator that remembers what it wrote last, and from which passages."""

    lock, draft = Lock(()), Draft((), "")

    def write(self, question: str, lock: Lock, extracted: Callable[[], Draft], listen: Listen | None = None) -> Draft:
        self.lock, self.draft = lock, super().write(question, lock, extracted, listen)
        return self.draft


def beside_true_quotes(draft: Draft, lock: Lock, question: str) -> Iterator[Shown]:
    """Yield what is shown of each sentence of a draft where it cites, in turn, each passage by true words of it."""
    for text in dict.fromkeys(claim.text for claim in draft.claims):
        for index, candidate in enumerate(lock.passages, start=1):
            claim = Claim(text, index, _nearest_words(text, candidate))
            verdicts = verify(Draft((claim,), "small"), lock, question)
            carried = {each.word: each.by for verdict in verdicts for each in verdict.carried}
            for shown, _ in PARAGRAPH.findall(answer_text(verdicts, lock)):
                yield Shown(shown, (candidate.chunk,), carried)


def _nearest_words(text: str, candidate: Candidate) -> str:
    """Return the first words of the unit of a passage that has most words of a text."""
    said, chunk = set(text.lower().split()), candidate.chunk
    units = [unit.of(chunk.text) for unit in chunk.parts.units] or [chunk.text]
    nearest = max(units, key=lambda unit: len(said & set(unit.lower().split())))
    return " ".join(nearest.split(" ")[:_QUOTED_WORDS])
