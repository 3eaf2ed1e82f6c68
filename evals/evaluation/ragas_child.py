"""RAGAS in a process of its own: samples as JSON on standard input, scores as lines of JSON on standard output.

Es, Espinosa-Anke, James & Schockaert, "RAGAS: Automated Evaluation of Retrieval Augmented Generation", EACL 2024;
metrics as documented at https://docs.ragas.io/en/stable/concepts/metrics/.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_serving.text.directed import neutralized

AT_ONCE = 4  # samples sent to a model at the same time
GIVE_UP = 5  # faults in a row after which a metric is left alone
_TRIES = 2
_LONGEST_WAIT_S = 2

Tell = Callable[[Mapping[str, Any]], None]


def score(asked: Mapping[str, Any], tell: Tell) -> None:
    """Emit the names of all metrics, then every score as soon as it is known; metrics without a model first.

    `asked`: `samples` in RAGAS' shape, `model` (base_url, model, api_key, timeout_s) or None, `embedding` settings. A
    score is emitted as `metric`, `sample` (its place) and `value`, or a `fault` instead of the value. Samples that a
    metric gave up on are not emitted.
    """
    from ragas import SingleTurnSample

    plain = [SingleTurnSample(**sample) for sample in asked["samples"]]
    read = [SingleTurnSample(**_harmless(sample)) for sample in asked["samples"]]
    from ragas.metrics import NonLLMContextPrecisionWithReference, NonLLMContextRecall, NonLLMStringSimilarity

    by_words = [NonLLMContextPrecisionWithReference(), NonLLMContextRecall(), NonLLMStringSimilarity()]
    by_model = _with_model(asked["model"], asked["embedding"]) if asked["model"] else []
    tell({"metrics": [metric.name for metric in (*by_words, *by_model)]})
    asyncio.run(_score_all([*((metric, plain) for metric in by_words), *((metric, read) for metric in by_model)], tell))


def _harmless(sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return a sample that is safe for a model; RAGAS sends it as JSON, whose strings no text can end."""
    return {
        key: [neutralized(text)[0] for text in value] if isinstance(value, list) else value and neutralized(value)[0]
        for key, value in sample.items()
    }


async def _score_all(metrics: Sequence[tuple[Any, Sequence[Any]]], tell: Tell) -> None:
    for metric, samples in metrics:
        await _score(metric, samples, tell)


async def _score(metric: Any, samples: Sequence[Any], tell: Tell) -> None:
    """Run one metric on every sample, some at the same time, until it fails too often in a row."""
    in_flight, in_a_row = asyncio.Semaphore(AT_ONCE), 0

    async def one(place: int) -> None:
        nonlocal in_a_row
        async with in_flight:
            if in_a_row < GIVE_UP:
                found = await _scored(metric, samples[place])
                in_a_row = in_a_row + 1 if "fault" in found else 0
                tell({"metric": metric.name, "sample": place, **found})

    await asyncio.gather(*(one(place) for place in range(len(samples))))


async def _scored(metric: Any, sample: Any) -> dict[str, Any]:
    try:
        value = float(await metric.single_turn_ascore(sample))
    except Exception as error:  # a metric of another's making may raise anything; the others go on
        said = str(error).partition("For troubleshooting, visit")[0]
        return {"fault": f"{type(error).__name__}: {' '.join(said.split())[:300]}"}
    return {"fault": "RAGAS gave no number"} if math.isnan(value) else {"value": round(value, 6)}


def _with_model(model: Mapping[str, Any], embedding: Mapping[str, Any]) -> list[Any]:
    from langchain_openai import ChatOpenAI
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import Faithfulness, LLMContextPrecisionWithReference, LLMContextRecall, ResponseRelevancy
    from ragas.run_config import RunConfig

    chat = ChatOpenAI(
        model=model["model"],
        base_url=model["base_url"],
        api_key=model["api_key"],
        timeout=model["timeout_s"],
        temperature=0,
        max_retries=0,
    )
    llm = LangchainLLMWrapper(chat, RunConfig(max_retries=_TRIES, max_wait=_LONGEST_WAIT_S))
    return [
        Faithfulness(llm=llm),
        ResponseRelevancy(llm=llm, embeddings=LangchainEmbeddingsWrapper(_Embeddings(embedding))),
        LLMContextPrecisionWithReference(llm=llm),
        LLMContextRecall(llm=llm),
    ]


class _Embeddings:
    def __init__(self, settings: Mapping[str, Any]) -> None:
        from rag_serving.config.models import Embedding
        from rag_serving.models.embedding.factory import open_embedder

        self._embedder = open_embedder(Embedding.model_validate(settings))

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [list(map(float, vector)) for vector in self._embedder.embed_documents(texts)]

    def embed_query(self, text: str) -> list[float]:
        return list(map(float, self._embedder.embed_query(text)))

    async def aembed_documents(self, texts: list[str]) -> list[list[float]]:
        return self.embed_documents(texts)

    async def aembed_query(self, text: str) -> list[float]:
        return self.embed_query(text)


def main() -> None:
    """Send what libraries print to standard error: standard output is for scores."""
    warnings.simplefilter("ignore")
    lines = sys.stdout
    with contextlib.redirect_stdout(sys.stderr):
        score(json.load(sys.stdin), lambda found: print(json.dumps(found), file=lines, flush=True))


if __name__ == "__main__":
    main()
