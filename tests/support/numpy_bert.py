"""BERT's forward pass in plain numpy, written from the paper: the independent truth for the ONNX graph."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

Array = np.ndarray
_erf = np.vectorize(math.erf)


def encode(tensors: Mapping[str, Array], ids: list[int], heads: int, epsilon: float, pooling: str) -> Array:
    """The normalized sentence vector of one unpadded sequence, in float64."""
    w = {name.removeprefix("bert."): tensor.astype(np.float64) for name, tensor in tensors.items()}

    def norm(x: Array, name: str) -> Array:
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + epsilon)
        return scaled * w[f"{name}.weight"] + w[f"{name}.bias"]

    def linear(x: Array, name: str) -> Array:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids] + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = norm(x + w["embeddings.token_type_embeddings.weight"][0], "embeddings.LayerNorm")
    layer = 0
    while f"encoder.layer.{layer}.output.dense.weight" in w:
        at = f"encoder.layer.{layer}"
        query, key, value = (linear(x, f"{at}.attention.self.{part}") for part in ("query", "key", "value"))
        width = x.shape[1] // heads
        mixed = []
        for head in range(heads):
            part = slice(head * width, (head + 1) * width)
            scores = query[:, part] @ key[:, part].T / math.sqrt(width)
            shares = np.exp(scores - scores.max(-1, keepdims=True))
            mixed.append(shares / shares.sum(-1, keepdims=True) @ value[:, part])
        attended = linear(np.concatenate(mixed, 1), f"{at}.attention.output.dense")
        x = norm(x + attended, f"{at}.attention.output.LayerNorm")
        inner = linear(x, f"{at}.intermediate.dense")
        inner = inner * 0.5 * (1 + _erf(inner / math.sqrt(2)))
        x = norm(x + linear(inner, f"{at}.output.dense"), f"{at}.output.LayerNorm")
        layer += 1
    pooled = x[0] if pooling == "cls" else x.mean(0)
    return pooled / np.linalg.norm(pooled)
