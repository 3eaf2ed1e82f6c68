"""A cross-encoder of FlagEmbedding: (query, passage) pairs as tokens, tokens as scores."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rag_serving.escaping.targets import one_line
from rag_serving.models.embedding.device import TENSOR_CORES, padded
from rag_serving.models.protocols import ModelError

PINNED = {"BAAI/bge-reranker-base": "2cfc18c9415c912f9d8155881c133215df768a70"}
"""The commits of models that the project names itself."""

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]  # read as weights alone; only where a model has nothing safer


def model_folder(model: str) -> str:
    """Return the folder with the model's files at its commit (`NAME@COMMIT`) or the pinned one, downloaded if it is not
    in the hub's cache. A folder stays as it is, and so does a name without a known commit: its newest version is then
    loaded. Raises ModelError: the hub has no such commit or cannot be reached."""
    if Path(model).is_dir():
        return model
    name, _, given = model.partition("@")
    commit = given or PINNED.get(name)
    if commit is None:
        return model
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(name, revision=commit, allow_patterns=_FILES))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(name, revision=commit, allow_patterns=_OLD_WEIGHTS)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the reranker {name!r} cannot be loaded at commit {commit} (it is not in the cache, and the hub gave "
            f"none): {one_line(error, 300)}; "
            "set reranker.model to a folder, or to NAME@COMMIT with a commit that there is"
        ) from error
    return str(folder)


Pair = Mapping[str, list[int]]
"""What the model reads of one query and passage: input_ids, attention_mask and, for BERT, token_type_ids."""

SHORTEST_SEQ_LEN = 16
_QUERY_SHARE = 4  # one quarter of the tokens is reserved for the query, three for the passage
# These count positions from the padding token's id + 1.
_OFFSET_POSITIONS = frozenset({"camembert", "roberta", "xlm-roberta", "xlm-roberta-xl"})


class CrossEncoder:
    """A sequence classifier with one label, such as BAAI/bge-reranker-base or -v2-m3. Scores are its logits."""

    def __init__(self, name: str, model: Any, tokenizer: Any, device: str, max_seq_len: int) -> None:
        """A loaded model; `open` is the usual way in."""
        self.name, self.device = name, device
        self.max_seq_len = min(max_seq_len, _positions(model.config), int(tokenizer.model_max_length))
        self._model = model.to(device).eval()
        self._tokenizer = tokenizer
        self._tokenizing = threading.Lock()  # truncation is state of the tokenizer

    @classmethod
    def open(cls, model: str, device: str = "auto", max_seq_len: int = 512) -> CrossEncoder:
        """Load a model by its folder, or by its name on the hub; half precision only on CUDA. Raises
        ModelError: the packages are not installed, the model cannot be loaded, or is not a reranker."""
        if Path(model).is_dir() and not Path(model, "config.json").is_file():  # before imports that take seconds
            why = "the folder has no usable model): it has no config.json"
            raise ModelError(f"the reranker {model!r} cannot be loaded ({why}")
        try:
            import torch
            from FlagEmbedding import FlagReranker
        except ImportError as error:
            raise ModelError(f"{error.name} is not installed; pip install 'citelock[rerank]'") from error
        device = chosen_device(device)
        folder = model_folder(model)
        _check_architecture(folder)
        try:
            loaded = FlagReranker(folder, use_fp16=False, devices=[device])
        except (OSError, ValueError, RuntimeError) as error:
            raise ModelError(f"the reranker {model!r} cannot be loaded: {one_line(error, 300)}") from error
        network, loaded.model = loaded.model, None  # FlagReranker's finalizer moves its tensors to the CPU
        if network.config.num_labels != 1:
            raise ModelError(f"{model!r} has {network.config.num_labels} labels; a reranker has one score")
        half = device.startswith("cuda")
        return cls(model, network.to(torch.float16 if half else torch.float32), loaded.tokenizer, device, max_seq_len)

    def encode(self, query: str, passages: Sequence[str], max_seq_len: int) -> list[Pair]:
        """Return tokens of each pair, at most `max_seq_len`: a quarter for the query, the rest for the passage. A query
        shorter than its quarter leaves the rest to the passages."""
        with self._tokenizing:
            query = self._cut(query, max_seq_len // _QUERY_SHARE)
            encoded = self._tokenizer(
                [query] * len(passages), list(passages), truncation="only_second", max_length=max_seq_len
            )
        names = list(encoded)
        return [
            dict(zip(names, columns, strict=True)) for columns in zip(*(encoded[name] for name in names), strict=True)
        ]

    def score(self, pairs: Sequence[Pair]) -> list[float]:
        """Return the logits of one batch; RuntimeError if the device cannot compute it."""
        import torch

        multiple = TENSOR_CORES if self.device.startswith("cuda") else 1
        columns = padded(pairs, self._tokenizer.pad_token_id, multiple, self._tokenizer.padding_side == "left")
        try:
            inputs = {name: torch.from_numpy(column).to(self.device) for name, column in columns.items()}
            with torch.inference_mode():
                logits = self._model(**inputs).logits
            scores: list[float] = logits.view(-1).float().cpu().tolist()
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            raise
        return scores

    def _cut(self, query: str, tokens: int) -> str:
        offsets = self._tokenizer(query, add_special_tokens=False, return_offsets_mapping=True)["offset_mapping"]
        return query if len(offsets) <= tokens else query[: offsets[tokens - 1][1]]


def chosen_device(device: str) -> str:
    """Return the device, with `auto` as CUDA if available; raise ModelError if a requested device is missing."""
    import torch

    available = torch.cuda.is_available()
    if device == "auto":
        return "cuda:0" if available else "cpu"
    if device.startswith("cuda") and not available:
        raise ModelError("this machine has no CUDA device that torch can use; use --device cpu")
    return device


def _check_architecture(model: str) -> None:
    """Refuse models that would be loaded with a random head: an embedding model, a language model."""
    from transformers import AutoConfig

    try:
        architectures = AutoConfig.from_pretrained(model).architectures or []
    except (OSError, ValueError) as error:
        where = "the folder has no usable model" if Path(model).is_dir() else "no such folder, and the hub gave none"
        raise ModelError(f"the reranker {model!r} cannot be loaded ({where}): {one_line(error, 300)}") from error
    if not any("SequenceClassification" in name for name in architectures):
        raise ModelError(f"{model!r} is no cross-encoder ({', '.join(architectures) or 'no architecture named'})")


def _positions(config: Any) -> int:
    positions = int(getattr(config, "max_position_embeddings", 0) or 1_000_000)
    return positions - config.pad_token_id - 1 if config.model_type in _OFFSET_POSITIONS else positions
