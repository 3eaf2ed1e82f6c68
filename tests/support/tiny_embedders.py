"""Tiny encoders with random weights for FlagEmbedding, saved as the hub's files are."""

from __future__ import annotations

from pathlib import Path

from support.tiny_reranker import save_xlm_roberta


def save_m3(folder: Path, positions: int = 66) -> Path:
    """An encoder like BGE-M3: the dense vector is that of the first token."""
    import torch

    save_xlm_roberta(folder, positions=positions)
    for name, width in (("colbert_linear.pt", 32), ("sparse_linear.pt", 1)):
        torch.save(torch.nn.Linear(32, width).state_dict(), folder / name)
    return folder


def save_encoder(folder: Path) -> Path:
    """An encoder whose vector is the mean of its tokens, as its pooling file says."""
    save_xlm_roberta(folder, positions=66)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_mean_tokens": true}')
    return folder
