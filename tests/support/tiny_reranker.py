"""Tiny cross-encoders with random weights, saved as the hub's files are: the real loading code needs no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from support.word_pieces import vocabulary_of, word_pieces

_TEXT = (
    "release rollback deploy page wiki search index token limit error log queue broker consumer offset commit team "
    "holiday expense travel policy manager request approve reset password device network firewall backup restore the "
    "a of to in and is how when what who can be for with on not by it this that must may 1 2 3 7 30 days hours"
)
WORDS = _TEXT.split()


def save_xlm_roberta(folder: Path, layers: int = 2, labels: int = 1, positions: int = 514) -> Path:
    """An XLM-RoBERTa classifier of hidden size 32 with a Unigram tokenizer, as BAAI/bge-reranker-* have."""
    import torch
    from transformers import PreTrainedTokenizerFast, XLMRobertaConfig, XLMRobertaForSequenceClassification

    torch.manual_seed(7)
    tokenizer = _unigram()
    config = XLMRobertaConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=positions,
        type_vocab_size=1,
        pad_token_id=1,
        bos_token_id=0,
        eos_token_id=2,
        num_labels=labels,
        initializer_range=0.4,  # so that scores differ
    )
    XLMRobertaForSequenceClassification(config).save_pretrained(folder)
    special: dict[str, Any] = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}
    special |= {"cls_token": "<s>", "sep_token": "</s>", "mask_token": "<mask>", "model_max_length": positions - 2}
    PreTrainedTokenizerFast(tokenizer_object=tokenizer, **special).save_pretrained(folder)
    return folder


def save_bert(folder: Path) -> Path:
    """A BERT classifier with WordPiece, as cross-encoder/ms-marco-MiniLM-* have: token types tell query and passage."""
    import torch
    from transformers import BertConfig, BertForSequenceClassification

    torch.manual_seed(11)
    vocabulary = vocabulary_of(WORDS)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=128,
        num_labels=1,
        initializer_range=0.4,
    )
    BertForSequenceClassification(config).save_pretrained(folder)
    inputs = ["input_ids", "token_type_ids", "attention_mask"]
    word_pieces(vocabulary, 128, inputs).save_pretrained(folder)
    return folder


def _unigram() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors

    special = [("<s>", 0.0), ("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0)]
    words = [(f"▁{word}", -3.0) for word in sorted(set(WORDS))]
    letters = [(letter, -8.0) for letter in "▁abcdefghijklmnopqrstuvwxyz0123456789.,?!"]
    tokenizer = Tokenizer(models.Unigram([*special, *words, *letters, ("<mask>", 0.0)], unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", pair="<s> $A </s> </s> $B </s>", special_tokens=[("<s>", 0), ("</s>", 2)]
    )
    return tokenizer
