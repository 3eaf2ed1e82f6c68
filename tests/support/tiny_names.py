"""A tiny token classifier that knows some names by heart, saved as the hub's files are.

Its weights are set, not learnt: what a token is labelled follows from its embedding alone.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from pathlib import Path

from support.word_pieces import vocabulary_of, word_pieces

WORDS = ["ask", "mail", "who", "is", "about", "the", "release", "of", "berlin", "report", "wrote", "to", "."]
NAME_PIECES = ["ann", "smith", "mu", "##ller", "ren", "##e", "jose", "王", "明"]
"""Pieces of words as WordPiece has them, without capitals and accents."""
IOB = ("O", "B-PER", "I-PER", "B-LOC", "I-LOC")


def save_names_model(
    folder: Path,
    names: Collection[str] = NAME_PIECES,
    labels: Sequence[str] = IOB,
    label_of_names: str = "I-PER",
    positions: int = 64,
) -> Path:
    """Save a BERT with one layer that gives the pieces of `names` a label, and all others `labels[0]`."""
    import torch
    from transformers import BertConfig, BertForTokenClassification

    vocabulary = vocabulary_of([*WORDS, *NAME_PIECES, *names])
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=positions,
        id2label=dict(enumerate(labels)),
        label2id={label: number for number, label in enumerate(labels)},
        pad_token_id=0,
    )
    torch.manual_seed(5)
    model = BertForTokenClassification(config)
    with torch.no_grad():
        for name, weights in model.named_parameters():
            if "LayerNorm.weight" not in name:
                weights.zero_()
        embeddings = model.bert.embeddings.word_embeddings.weight
        embeddings[:, 0] = 1.0
        for piece in names:
            embeddings[vocabulary[piece]] = torch.eye(16)[1]
        model.classifier.weight[0, 0] = 1.0
        model.classifier.weight[list(labels).index(label_of_names), 1] = 1.0
    model.save_pretrained(folder)
    word_pieces(vocabulary, positions, ["input_ids", "attention_mask"]).save_pretrained(folder)
    return folder
