"""RAGAS in a process of its own: samples as JSON on standard input, scores as JSON on standard output.

Belongs here: all that imports `ragas`. Does not belong here: which samples, and what is done with scores (`ragas`).

Es, Espinosa-Anke, James & Schockaert, "RAGAS: Automated Evaluation of Retrieval Augmented Generation", EACL 2024;
metrics as documented at https://docs.ragas.io/en/stable/concepts/metrics/.
"""

from __future__ import annotations

import contextlib
import json
import math
import sys
import warnings
from collections.abc import Mapping
from typing import Any


def scores(asked: Mapping[str, Any]) -> dict[str, Any]:
    """The scores [samples] of every metric, None where it could not be computed, and the first fault of each metric.

    `asked`: `samples` in RAGAS' shape, `model` (base_url, model, api_key, timeout_s) or None, `embedding` settings.
    """
    from ragas import SingleTurnSample

    samples = [SingleTurnSample(**sample) for sample in asked["samples"]]
    found: dict[str, list[float | None]] = {}
    faults: dict[str, str] = {}
    for metric in [*_without_model(), *(_with_model(asked["model"], asked["embedding"]) if asked["model"] else ())]:
        found[metric.name] = []
        for sample in samples:
            try:
                value = float(metric.single_turn_score(sample))
            except Exception as error:  # a metric of another's making may raise anything; the others go on
                faults.setdefault(metric.name, f"{type(error).__name__}: {' '.join(str(error).split())[:300]}")
                value = math.nan
            found[metric.name].append(None if math.isnan(value) else round(value, 6))
    return {"scores": found, "faults": faults}


def _without_model() -> list[Any]:
    from ragas.metrics import NonLLMContextPrecisionWithReference, NonLLMContextRecall, NonLLMStringSimilarity

    return [NonLLMContextPrecisionWithReference(), NonLLMContextRecall(), NonLLMStringSimilarity()]


def _with_model(model: Mapping[str, Any], embedding: Mapping[str, Any]) -> list[Any]:
    from langchain_openai import ChatOpenAI
    from ragas.embeddings import LangchainEmbeddingsWrapper
    from ragas.llms import LangchainLLMWrapper
    from ragas.metrics import Faithfulness, LLMContextPrecisionWithReference, LLMContextRecall, ResponseRelevancy

    chat = ChatOpenAI(
        model=model["model"],
        base_url=model["base_url"],
        api_key=model["api_key"],
        timeout=model["timeout_s"],
        temperature=0,
        max_retries=1,
    )
    llm = LangchainLLMWrapper(chat)
    return [
        Faithfulness(llm=llm),
        ResponseRelevancy(llm=llm, embeddings=LangchainEmbeddingsWrapper(_Embeddings(embedding))),
        LLMContextPrecisionWithReference(llm=llm),
        LLMContextRecall(llm=llm),
    ]


class _Embeddings:
    """The configured embedder with the methods that LangChain asks of one."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        from rag_serving.models.embedders import open_embedder
        from rag_serving.settings import Embedding

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
    """What a library prints goes to standard error: standard output is the scores'."""
    warnings.simplefilter("ignore")
    with contextlib.redirect_stdout(sys.stderr):
        found = scores(json.load(sys.stdin))
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
