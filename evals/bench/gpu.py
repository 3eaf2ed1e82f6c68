"""`make bench-gpu`: the speed of the reranker's and embedder's geometries on this machine's GPU, against its ceiling,
and of a build's embedding there.

Checkpoints have random weights: weights decide quality, geometry speed.
"""

from __future__ import annotations

import json
import platform
import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from rag_assets.embedding_usage import build_vectors
from rag_serving.config.loading import parse_config
from rag_serving.models import open_embedder
from rag_serving.models.embedding.device import Device
from rag_serving.models.embedding.weights import MODEL
from rag_serving.models.protocols import ModelError
from rag_serving.rerank_service.api import score_all

TENANT = "bench"
_REPEATS = 5
Row = dict[str, Any]


@dataclass(frozen=True)
class Geometry:
    """The shape of an XLM-RoBERTa encoder."""

    name: str
    layers: int
    hidden: int
    heads: int
    feed_forward: int
    vocabulary: int = 250_002
    positions: int = 514

    def flops(self, pairs: int, length: int) -> float:
        """Floating point operations of one forward pass: 2 for each weight and token, 4 n² d a layer for attention.

        Kaplan et al., Scaling laws for neural language models (2020), section 2.1; embeddings are only looked up.
        """
        weights = self.layers * (4 * self.hidden**2 + 2 * self.hidden * self.feed_forward)
        return pairs * (2.0 * weights * length + 4.0 * self.layers * length**2 * self.hidden)


BASE = Geometry("bge-reranker-base", 12, 768, 12, 3072)
LARGE = Geometry("bge-reranker-v2-m3", 24, 1024, 16, 4096, positions=8194)
EMBEDDER = Geometry("bge-m3", 24, 1024, 16, 4096, positions=8194)


@dataclass(frozen=True)
class Sweep:
    """The parameters of a sweep."""

    rerankers: Sequence[Geometry] = (BASE, LARGE)
    embedders: Sequence[Geometry] = (EMBEDDER,)
    batches: Sequence[int] = (8, 32, 128, 256)
    lengths: Sequence[int] = (128, 256, 512)
    matrix: int = 8192
    seconds: float = 1.0  # that one measurement lasts at least
    passages: int = 4096  # that a build embeds
    words: tuple[int, int] = (40, 240)  # of the shortest and the longest one
    batch_tokens: Sequence[int] = (1024, 4096, 16_384)
    local: bool = True  # the local encoder, too


def main() -> None:
    """Print the report, JSON on standard output; without a usable GPU say so and end well."""
    if missing := _missing():
        print(f"citelock: bench-gpu was not run: {missing}", file=sys.stderr)
        return
    import torch

    report = run(Sweep(), "cuda:0", lambda line: print(line, file=sys.stderr))
    report["gpu"] = torch.cuda.get_device_name(0)
    print(json.dumps(report, indent=2))


def run(sweep: Sweep, device: str, tell: Callable[[str], None]) -> dict[str, Any]:
    """Return the whole sweep; half precision on CUDA, single precision elsewhere."""
    import torch
    import transformers

    ceiling = matrix_product_tflops(sweep.matrix, device, sweep.seconds)
    tell(f"ceiling: {ceiling:.1f} TFLOP/s ({sweep.matrix}³ matrix product)")
    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "device": device,
        "ceiling_tflops": round(ceiling, 3),
        "rows": list(_rows(sweep, device, ceiling, tell)),
        "builds": list(_builds(sweep, device, tell)),
    }


def matrix_product_tflops(size: int, device: str, seconds: float) -> float:
    """Return the device's rate in a product of two square matrices: 2 n³ operations."""
    import torch

    dtype = torch.float16 if device.startswith("cuda") else torch.float32
    left, right = (torch.randn(size, size, dtype=dtype, device=device) for _ in range(2))
    return 2.0 * size**3 / _seconds(lambda: left @ right, device, seconds) / 1e12


def _rows(sweep: Sweep, device: str, ceiling: float, tell: Callable[[str], None]) -> Iterator[Row]:
    """Yield a measurement of each model, length and batch: texts are pairs for a reranker, passages for an embedder."""
    makers = [(geometry, _reranker_runs) for geometry in sweep.rerankers]
    makers += [(geometry, _embedder_runs) for geometry in sweep.embedders]
    for geometry, make in makers:
        runs = make(geometry, device)
        for length in sweep.lengths:
            for batch in sweep.batches:
                seconds = _seconds(runs(batch, length), device, sweep.seconds)
                tflops, rate = geometry.flops(batch, length) / seconds / 1e12, batch / seconds
                tell(
                    f"{geometry.name:<20} batch {batch:>4}  length {length:>4}  {rate:>9.1f} texts/s  "
                    f"{tflops:>6.1f} TFLOP/s  {tflops / ceiling:>5.1%} of the ceiling"
                )
                figures = {"texts_per_s": round(rate, 2), "tflops": round(tflops, 4)}
                place = {"model": geometry.name, "batch": batch, "length": length}
                yield {**place, **figures, "share_of_ceiling": round(tflops / ceiling, 4)}


def _builds(sweep: Sweep, device: str, tell: Callable[[str], None]) -> Iterator[Row]:
    """Yield the cost of builds with each embedder's geometry, and with the local encoder if wanted."""
    from transformers import XLMRobertaModel

    kind: Device = "cuda" if device.startswith("cuda") else "cpu"
    draw = random.Random(21)
    texts = [f"{number} " + " ".join(["word"] * draw.randint(*sweep.words)) for number in range(sweep.passages)]
    with tempfile.TemporaryDirectory() as folder:
        models = [("flagembedding", str(Path(folder) / geometry.name)) for geometry in sweep.embedders]
        for geometry, (_, path) in zip(sweep.embedders, models, strict=True):
            _save(XLMRobertaModel, geometry, Path(path))
        models += [("local", MODEL)] if sweep.local else []
        for provider, model in models:
            try:
                for tokens in sweep.batch_tokens:
                    yield _build(provider, model, kind, tokens, texts, tell)
            except ModelError as error:  # such as an onnxruntime without CUDA
                tell(f"{provider} was not measured: {error}")


def _build(
    provider: str, model: str, device: Device, batch_tokens: int, texts: Sequence[str], tell: Callable[[str], None]
) -> Row:
    """Return the cost of a build that embeds texts into an empty cache, as the asset `embeddings` does; the model is
    open and warm."""
    settings = {"provider": provider, "model": model, "device": device}
    with tempfile.TemporaryDirectory(prefix="citelock-gpu-") as home:
        config = parse_config({"home": home, "tenants": {TENANT: {}}, "embedding": settings})
        embedder = open_embedder(config.embedding.model_copy(update={"batch_tokens": batch_tokens}))
        embedder.embed_documents(texts[:64])
        with build_vectors(config, TENANT, embedder, _Nobody(), lambda _: None) as build:
            started = time.perf_counter()
            build.vectors.embed(embedder, texts, None, texts)
            seconds = time.perf_counter() - started
    words = sum(len(text.split()) for text in texts)
    rates = {"texts_per_s": round(len(texts) / seconds, 1), "words_per_s": round(words / seconds, 1)}
    name = Path(model).name
    tell(
        f"{provider:<14} {name:<20} {device:<5} batch of {batch_tokens:>6} tokens  "
        f"{rates['texts_per_s']:>9.1f} texts/s  {rates['words_per_s']:>11.1f} words/s"
    )
    counts = {"batch_tokens": batch_tokens, "texts": len(texts), "words": words}
    return {**settings, "model": name, **counts, **rates}


class _Nobody:
    """No observer."""

    def expect(self, pages: Sequence[str]) -> None:
        """Ignore them."""

    def count(self, computed: Sequence[tuple[str, str]]) -> None:
        """Ignore them."""

    def flush(self) -> None:
        """Keep nothing."""


def _reranker_runs(geometry: Geometry, device: str) -> Callable[[int, int], Callable[[], object]]:
    """Return the sidecar's own model and batching over pairs of full length, tokens given."""
    from transformers import XLMRobertaForSequenceClassification

    from rag_serving.rerank_service.cross_encoder import CrossEncoder

    with tempfile.TemporaryDirectory() as folder:
        _save(XLMRobertaForSequenceClassification, geometry, Path(folder))
        model = CrossEncoder.open(folder, device, max_seq_len=geometry.positions - 2)

    def runs(batch: int, length: int) -> Callable[[], object]:
        pair = {"input_ids": [0, *[5] * (length - 2), 2], "attention_mask": [1] * length}
        return lambda: score_all([pair] * batch, [length] * batch, model.score, batch, batch * length)

    return runs


def _embedder_runs(geometry: Geometry, device: str) -> Callable[[int, int], Callable[[], object]]:
    """FlagEmbedding's BGE-M3 over passages of full length, tokenizing included; dense vectors only."""
    from FlagEmbedding import BGEM3FlagModel
    from transformers import XLMRobertaModel

    with tempfile.TemporaryDirectory() as folder:
        _save(XLMRobertaModel, geometry, Path(folder))
        half = device.startswith("cuda")
        model = BGEM3FlagModel(folder, use_fp16=half, devices=[device], return_sparse=False, return_colbert_vecs=False)

    def runs(batch: int, length: int) -> Callable[[], object]:
        passages = [" ".join(["word"] * (length - 2))] * batch
        return lambda: model.encode(passages, batch_size=batch, max_length=length)

    return runs


def _save(kind: Any, geometry: Geometry, folder: Path) -> None:
    """A checkpoint of random weights with a tokenizer that knows one word."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig

    config = XLMRobertaConfig(
        vocab_size=geometry.vocabulary,
        hidden_size=geometry.hidden,
        num_hidden_layers=geometry.layers,
        num_attention_heads=geometry.heads,
        intermediate_size=geometry.feed_forward,
        max_position_embeddings=geometry.positions,
        type_vocab_size=1,
        num_labels=1,
    )
    kind(config).save_pretrained(folder)
    words = ["<s>", "<pad>", "</s>", "<unk>", "<mask>", "word"]
    tokenizer = Tokenizer(models.WordLevel({word: at for at, word in enumerate(words)}, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    special = {"bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>"}
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="<unk>", model_max_length=geometry.positions - 2, **special
    ).save_pretrained(folder)


def _seconds(work: Callable[[], object], device: str, at_least: float) -> float:
    """Return the median of repeated runs after one that is not counted; repeated until `at_least` seconds went by."""
    _timed(work, device)
    times: list[float] = []
    while len(times) < _REPEATS or sum(times) < at_least:
        times.append(_timed(work, device))
    return median(times)


def _timed(work: Callable[[], object], device: str) -> float:
    import torch

    started = time.perf_counter()
    work()
    if device.startswith("cuda"):
        torch.cuda.synchronize()
    return time.perf_counter() - started


def _missing() -> str | None:
    for name in ("torch", "FlagEmbedding"):
        if find_spec(name) is None:
            return f"{name} is not installed; pip install 'citelock[rerank]'"
    import torch

    return None if torch.cuda.is_available() else "torch finds no CUDA device here; run it on a machine with one"


if __name__ == "__main__":
    main()
