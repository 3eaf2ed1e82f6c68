"""What a run will ask of the models of contexts: calls, tokens, cost and time, before any of them is asked.

Belongs here: the estimate. Does not belong here: which passages need a context (`writer`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from rag_assets.llm_contexts.servers import model_name, models_of, price_of
from rag_assets.llm_contexts.writer import Call, calls_about
from rag_assets.state.throughput import duration
from rag_assets.steps.contexts.prompt import Document, prompt
from rag_serving.config.models import Context
from rag_serving.text.fences import Fence

CHARS_PER_TOKEN = 4
SAMPLED_CALLS = 200
TOKENS_OUT = 110  # 50 to 100 words and what stands around them
SECONDS_A_CALL = {"ollama": (1.0, 2.0), "openai": (0.5, 1.0)}
"""What one call takes where nothing was measured, as the contextual-retrieval design has it."""


@dataclass(frozen=True)
class Estimate:
    """What the next run will take; tokens are guessed from characters, as only the model's tokenizer counts them."""

    chunks: int
    wanted: int  # passages that have no context; the same passage twice in a page counts once
    calls: int
    tokens_in: int
    tokens_out: int
    attempts: int  # an answer that is not good enough is asked for again: at most so often
    costs: Mapping[str, float | None] = field(default_factory=dict)  # by model, if it writes all; None: no price is set
    seconds: tuple[float, float] = (0.0, 0.0)
    measured: bool = False  # whether `seconds` rest on the last run

    def facts(self) -> dict[str, Any]:
        """Return it for a machine."""
        return {
            "chunks": self.chunks,
            "contexts_wanted": self.wanted,
            "calls": self.calls,
            "tokens_in": self.tokens_in,
            "tokens_out": self.tokens_out,
            "cost": dict(self.costs),
            "cost_at_most": {model: cost and cost * self.attempts for model, cost in self.costs.items()},
            "seconds": list(self.seconds),
            "seconds_measured": self.measured,
        }

    def line(self) -> str:
        """Return it for people."""
        if not self.wanted:
            return f"all {self.chunks} chunks have a context: no model will be asked"
        first, *others = (_cost(model, cost) for model, cost in self.costs.items())
        costs = "".join([first, *(f" (should the fallback write all: {other})" for other in others)])
        again = f", up to {self.attempts} times as much where answers are poor" if self.attempts > 1 else ""
        basis = "at the pace of the last run" if self.measured else "a guess, as nothing was measured yet"
        return (
            f"{self.wanted} of {self.chunks} chunks need a context: about {self.tokens_in:,} tokens in and "
            f"{self.tokens_out:,} out in {self.calls} calls; {costs}{again}; {_span(self.seconds)} ({basis})"
        )


def estimate(
    documents: Sequence[Document], known: Collection[str], settings: Context, rate: float | None = None
) -> Estimate:
    """Return what the passages without a known context will take.

    Args:
        documents: all passages.
        known: keys of those that have a context.
        settings: of a configuration with a model.
        rate: contexts a second of the last run; None: not measured.
    """
    calls = calls_about(documents, known, settings.chunks_per_call)
    wanted = sum(len(call.indexes) for call in calls)
    tokens_in = _prompt_chars(calls) // CHARS_PER_TOKEN
    tokens_out = TOKENS_OUT * wanted
    return Estimate(
        chunks=sum(len(document.passages) for document in documents),
        wanted=wanted,
        calls=len(calls),
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        attempts=settings.attempts,
        costs=_costs(settings, tokens_in, tokens_out),
        seconds=_seconds(settings, wanted, len(calls), rate),
        measured=bool(rate),
    )


def _prompt_chars(calls: Sequence[Call]) -> int:
    """Return the characters of all prompts; of many calls some are looked at, evenly spread."""
    step, fence = max(1, len(calls) // SAMPLED_CALLS), Fence.new()
    lengths = [len(prompt(call.document, call.indexes, fence)) for call in calls[::step]]
    return round(sum(lengths) * len(calls) / len(lengths)) if lengths else 0


def _costs(settings: Context, tokens_in: int, tokens_out: int) -> dict[str, float | None]:
    costs: dict[str, float | None] = {}
    for model in models_of(settings).values():
        name, price = model_name(model), price_of(settings, model)
        free = 0.0 if name.provider == "ollama" else None
        costs[name.key] = round(price.of(tokens_in, tokens_out), 6) if price else free
    return costs


def _seconds(settings: Context, wanted: int, calls: int, rate: float | None) -> tuple[float, float]:
    if rate:
        return round(wanted / rate, 1), round(wanted / rate, 1)
    least, most = SECONDS_A_CALL["ollama" if settings.provider == "ollama" else "openai"]
    rounds = calls / min(settings.max_workers, max(calls, 1))
    return round(rounds * least, 1), round(rounds * most, 1)


def _cost(model: str, cost: float | None) -> str:
    if cost is None:
        return f"{model} has no price (`context.prices`)"
    return f"{model} costs {cost:.4f}" if cost else f"{model} costs nothing"


def _span(seconds: tuple[float, float]) -> str:
    least, most = (duration(limit) for limit in seconds)
    return least if least == most else f"{least} to {most}"
