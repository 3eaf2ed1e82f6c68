"""A tokenizer of whole words and pieces of words, as BERT's files have it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any


def vocabulary_of(pieces: Iterable[str]) -> dict[str, int]:
    """Return the number of each piece, behind those of BERT's special tokens."""
    return {piece: at for at, piece in enumerate(dict.fromkeys(["[PAD]", "[UNK]", "[CLS]", "[SEP]", *pieces]))}


def word_pieces(vocabulary: dict[str, int], positions: int, inputs: Sequence[str]) -> Any:
    """Return the tokenizer of a vocabulary for texts of at most `positions` tokens; `inputs`: what its model reads."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    special: dict[str, Any] = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    special |= {"model_max_length": positions, "model_input_names": list(inputs)}
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special)
