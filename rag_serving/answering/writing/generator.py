"""Writing an answer: the configured model drafts it from the locked passages; if it fails, extraction does."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from threading import Lock as Mutex
from typing import TYPE_CHECKING

from rag_serving.answering.writing.prompt import (
    SCHEMA,
    AnswerPrompt,
    Material,
    make_pointing,
    make_prompt,
    named_units,
    numbers_of,
)
from rag_serving.answering.writing.sanitizing import without_links
from rag_serving.config.models import AnswerGeneration
from rag_serving.config.sections import Prompt as Budgets
from rag_serving.deadline import StoppedError
from rag_serving.models.breaker import Breaker
from rag_serving.models.chat.messages import Reply, open_chat
from rag_serving.models.protocols import ContextTooLongError, ModelError
from rag_serving.records.claims import Claim, Draft, Usage
from rag_serving.records.passages import Lock
from rag_serving.records.queries import PLAIN, Occasion
from rag_serving.text.marks import Fence
from rag_serving.text.orders import orders_assistant
from rag_serving.text.units import Unit

if TYPE_CHECKING:
    from rag_serving.models.chat.client import Listen, RemoteChat

GENERATOR_DOWN = "generator_unavailable"
GENERATOR_CUT = "generator_cut_off"
INJECTION = "injection_neutralized"

Cite = Callable[[int, Unit], Sequence[Claim]]  # return the claims that show a unit of the passage with this number


@dataclass(frozen=True)
class Selection:
    """The writer without a model: a draft, and the claims that show a unit."""

    draft: Callable[[], Draft]
    cite: Cite

    def __call__(self) -> Draft:
        return self.draft()


_SMALLEST_BUDGET = 400
_WORD = re.compile(r"\w")
_log = logging.getLogger(__name__)


class Generator:
    """Writes drafts with the configured model, behind a circuit breaker. Safe to use from several threads."""

    def __init__(
        self,
        settings: AnswerGeneration,
        open_model: Callable[[AnswerGeneration], RemoteChat] | None = None,
        breaker: Breaker | None = None,
        budgets: Budgets | None = None,
    ) -> None:
        """`budgets`: of the parts of a prompt."""
        self._settings, self._budgets = settings, budgets or Budgets()
        self._open_model = open_model or open_generator
        self.breaker = breaker or Breaker(settings.breaker_failures, settings.breaker_reset_s)
        self._opening = Mutex()
        self._model: RemoteChat | None = None

    def write(
        self,
        question: str,
        lock: Lock,
        selected: Callable[[], Draft],
        listen: Listen | None = None,
        occasion: Occasion = PLAIN,
    ) -> Draft:
        """Return a draft by the model, or, flagged, by selection if no model is configured or it is down. Units that a
        model points at are shown by `Selection.cite`."""
        if self._settings.provider == "extractive" or not len(lock):
            return selected()
        if not self.breaker.allow():
            return _fallen_back(selected(), "it failed a moment ago")
        best = selected()
        try:
            cite: Cite = selected.cite if isinstance(selected, Selection) else lambda *_: ()
            draft = self._written(Material(question, lock, best.claims, occasion), cite, listen)
        except ModelError as error:
            self.breaker.fail()
            _log.warning("%s: %s", GENERATOR_DOWN, error)
            return _fallen_back(best, str(error))
        except StoppedError:  # the caller left: no fault of the model
            raise
        except BaseException:
            self.breaker.fail()
            raise
        self.breaker.succeed()
        return draft

    def _written(self, material: Material, cite: Cite, listen: Listen | None) -> Draft:
        """Ask the model; a prompt that is too long for it is halved, twice at most."""
        settings, model = self._settings, self._opened()
        fence = Fence.new()  # one for all tries: a server has read the beginning of the longer prompt
        budget = max(settings.context_tokens - settings.max_output_tokens, _SMALLEST_BUDGET)
        for last in (False, False, True):
            try:
                if settings.style == "verbatim":
                    pointing = make_pointing(material.question, material.lock, budget, settings.max_citations, fence)
                    reply = model.reply(pointing.messages, listen)
                    numbers = numbers_of(reply.text)
                    if numbers is None:
                        asked = AnswerPrompt(pointing.messages, pointing.shown, (), pointing.injections)
                        return self._draft(model, asked, material.lock, reply)
                    named = named_units(pointing, numbers, self._settings.max_citations)
                    if numbers and not named:
                        raise ModelError(f"{model.name} names lines that are not there; choose a larger model")
                    claims = dict.fromkeys(claim for index, unit in named for claim in cite(index, unit))
                    flags = (INJECTION,) if pointing.injections else ()
                    return Draft(tuple(claims), model.name, not named, flags, usage=usage_of(reply, self._settings))
                prompt = make_prompt(material, budget, settings, fence, self._budgets)
                reply = model.reply(prompt.messages, listen)
                return self._draft(model, prompt, material.lock, reply)
            except ContextTooLongError:
                if last or budget // 2 < _SMALLEST_BUDGET:
                    raise
                budget //= 2
        raise AssertionError("unreachable")

    def _draft(self, model: RemoteChat, prompt: AnswerPrompt, lock: Lock, reply: Reply) -> Draft:
        """Return the parsed reply. Raises ModelError: the reply is empty: only thoughts, invisible characters, or a few
        words before the model stopped."""
        from rag_serving.answering.writing.parsing import parse

        parsed = parse(reply.text, reply.cut, "\n".join(candidate.chunk.text for candidate in lock.passages))
        if not parsed.declined and not any(_WORD.search(claim.text) for claim in parsed.claims):
            raise ModelError(f"{model.name} wrote nothing that can be read as an answer; see the server's log")
        claims, links = without_foreign_links(parsed.claims, lock)
        orders = [claim for claim in claims if orders_assistant(claim.text)]
        claims = tuple(claim for claim in claims if claim not in orders)
        flags = [GENERATOR_CUT] if reply.cut else []
        flags += [INJECTION] if prompt.injections else []
        unseen = sorted(set(range(1, len(lock) + 1)) - set(prompt.shown))
        notes = [
            *([f"{prompt.injections} places of the passages were made harmless"] if prompt.injections else []),
            *([f"passages left out of the prompt: {unseen}"] if unseen else []),
            *([f"passages shortened in the prompt: {list(prompt.shortened)}"] if prompt.shortened else []),
            *([f"{parsed.removed} pieces of HTML were removed"] if parsed.removed else []),
            *([f"links removed: {parsed.links + links}"] if parsed.links + links else []),
            *([f"orders left out: {len(orders)}"] if orders else []),
            *(["the reply was cut off"] if reply.cut else []),
        ]
        return Draft(claims, model.name, parsed.declined, tuple(flags), tuple(notes), usage_of(reply, self._settings))

    def _opened(self) -> RemoteChat:
        with self._opening:
            if self._model is None:
                self._model = self._open_model(self._settings)
            return self._model


def without_foreign_links(claims: Sequence[Claim], lock: Lock) -> tuple[tuple[Claim, ...], int]:
    """Return the claims without links that their cited passages lack, and the number of links removed. A true claim
    survives the loss of a link; a claim that was only a link disappears."""
    cited: dict[str, set[int]] = {}
    for claim in claims:
        cited.setdefault(claim.text, set()).add(claim.index)
    kept, removed = [], dict[str, int]()
    for claim in claims:
        passages = [found for index in sorted(cited[claim.text]) if (found := lock.passage(index))]
        source = "\n".join(candidate.chunk.led_in for candidate in passages or lock.passages)
        text, removed[claim.text] = without_links(claim.text, source)
        quote, *others = (without_links(words, source)[0] for words in (claim.quote, *claim.others))
        if text:
            kept.append(Claim(text, claim.index, quote, tuple(others)))
    return tuple(kept), sum(removed.values())


def open_generator(settings: AnswerGeneration) -> RemoteChat:
    """Return the configured model. Raises ModelError: extraction is configured, or a named API key is not set."""
    if settings.provider == "extractive":
        raise ModelError("generation.provider is extractive, which has no model")
    schema = SCHEMA if settings.style == "verbatim" else None
    return open_chat(settings.provider, settings, "generation", schema)


def usage_of(reply: Reply, settings: AnswerGeneration) -> Usage:
    """Return the usage of a reply, at the configured prices."""
    price = settings.prices.get(settings.model or "")
    cost = price.of(reply.prompt_tokens, reply.completion_tokens) if price else 0.0
    return Usage(reply.prompt_tokens, reply.completion_tokens, round(cost, 6))


def _fallen_back(draft: Draft, why: str) -> Draft:
    notes = (f"extraction answered for the model: {why}", *draft.notes)
    return replace(draft, flags=(GENERATOR_DOWN, *draft.flags), notes=notes)
