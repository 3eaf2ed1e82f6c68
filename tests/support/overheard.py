"""What a model wrote on its way to the reader, and what becomes of it beside quotes that are true.

Belongs here: remembering drafts, putting a model's sentences beside true quotes. Does not belong here: what is false
(`shown_truth`), the model (`small_model`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from rag_serving.answering.citations import answer_text
from rag_serving.answering.verification import verify
from rag_serving.answering.writing.generator import Generator
from rag_serving.config.models import AnswerGeneration
from rag_serving.models.chat.client import Listen
from rag_serving.models.chat.messages import PromptMessage, Reply
from rag_serving.records.claims import Claim, Draft
from rag_serving.records.passages import Candidate, Chunk, Lock
from rag_serving.records.queries import PLAIN, Occasion
from rag_serving.text.units import units
from support.shown_truth import PARAGRAPH, Shown

_QUOTED_WORDS = 12
_PLAINLY = "{page}\n{text}\n\nIn your own words, in one or two sentences: {question}"
_PASSAGE = re.compile(
    r"\[(\d+)\] <passage-(\w+) n=\d+>\nPAGE: ([^\n]*)\n(?:CONTEXT[^\n]*\n)*TEXT:\n(.*?)\nSOURCE=[^\n]*\n</passage-\2>",
    re.DOTALL,
)
_QUESTION = re.compile(r"<question-(\w+)>\n(.*)\n</question-\1>\s*\Z", re.DOTALL)
_MOST_CHARS = 900  # of a passage that the model reads


class Overheard(Generator):
    """A generator that remembers what it wrote last, and from which passages."""

    lock, draft = Lock(()), Draft((), "")

    def write(
        self,
        question: str,
        lock: Lock,
        extracted: Callable[[], Draft],
        listen: Listen | None = None,
        occasion: Occasion = PLAIN,
    ) -> Draft:
        self.lock, self.draft = lock, super().write(question, lock, extracted, listen, occasion)
        return self.draft


class MadeToCite:
    """A model too small to cite: asked plainly about the first passage, its sentences cite true words of it."""

    def __init__(self, settings: AnswerGeneration, ask: Callable[[str], str]) -> None:
        self.name, self._ask = f"{settings.provider}/{settings.model}", ask

    def reply(self, messages: Sequence[PromptMessage], _: Listen | None = None) -> Reply:
        prompt = messages[1].content
        number, _word, page, text = _PASSAGE.findall(prompt)[0]
        asked = _QUESTION.findall(prompt)[0][1]
        said = self._ask(_PLAINLY.format(page=page, text=text[:_MOST_CHARS], question=asked))
        sentences = (unit.of(said) for unit in units(said))
        cited = (f'{sentence} "{_nearest_words(sentence, text)}" [{number}]' for sentence in sentences)
        return Reply("\n\n".join(cited) or said, len(prompt) // 4, len(said) // 4)


def beside_true_quotes(draft: Draft, lock: Lock, question: str) -> Iterator[Shown]:
    """Yield what is shown of each sentence of a draft where it cites, in turn, each passage by true words of it."""
    for text in dict.fromkeys(claim.text for claim in draft.claims):
        for index, candidate in enumerate(lock.passages, start=1):
            claim = Claim(text, index, _nearest_words(text, candidate.chunk.text))
            verdicts = verify(Draft((claim,), "small"), lock, question)
            for shown, _ in PARAGRAPH.findall(answer_text(verdicts, lock)):
                yield Shown(shown, _cited(candidate, verdicts[0].index, lock))


def _cited(candidate: Candidate, index: int | None, lock: Lock) -> tuple[Chunk, ...]:
    swapped = lock.passage(index or 0)
    return ((swapped or candidate).chunk,)


def _nearest_words(sentence: str, text: str) -> str:
    """Return the first words of the unit of a text that has most words of a sentence."""
    said = set(sentence.lower().split())
    found = [unit.of(text) for unit in units(text)] or [text]
    nearest = max(found, key=lambda unit: len(said & set(unit.lower().split())))
    return " ".join(nearest.replace('"', "").split(" ")[:_QUOTED_WORDS])
