"""Models of FlagEmbedding in this process: BGE-M3's dense vectors, and other encoders such as bge-base-en. The
library's own loop runs every first batch twice and retries for ever what fails for good; tokens are batched here."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rag_serving.escaping.targets import one_line
from rag_serving.models.embedding.device import (
    CPU_TOKENS,
    GPU_TOKENS,
    TENSOR_CORES,
    Device,
    batch_slices,
    padded,
    prompts_digest,
)
from rag_serving.models.embedding.weights import file_digest
from rag_serving.models.protocols import ModelError, Progress

_M3_FILE = "colbert_linear.pt"  # which only BGE-M3 and its descendants have
_FILES = ["*.json", "*.txt", "*.model", "*.safetensors", "*.pt", "pytorch_model*.bin"]
_SHAPING = ("*.safetensors", "pytorch_model*.bin", "config.json", "tokenizer.json", "1_Pooling/config.json")
_OFFSET_POSITIONS = frozenset(
    {"camembert", "roberta", "xlm-roberta"}
)  # count positions from the padding token's id + 1
_RECIPE = 1

Tokens = dict[str, list[int]]


class FlagEmbedder:
    """An encoder of FlagEmbedding. Half precision on CUDA, single precision on the CPU; safe to use from threads. A
    text longer than the model reads is cut; passages come in windows that fit (`open_input_limit`)."""

    def __init__(
        self, model: str, device: Device = "auto", prompts: tuple[str, str] = ("", ""), batch_tokens: int | None = None
    ) -> None:
        """`model`: a folder, or a name on the hub; `prompts`: put before queries and passages. Raises ModelError: the
        packages are not installed, the model cannot be loaded, or the GPU that is demanded is not there."""
        self._device = _torch_device(device)
        folder = flag_folder(model)
        self._model, self._tokenizer = _loaded(model, folder, self._device)
        pooling = _read(folder / "1_Pooling" / "config.json")
        # The mean of the tokens where the model's files say so, else the first token, as BGE.
        self._pooling = "mean" if pooling.get("pooling_mode_mean_tokens") else "cls"
        self._prompts = prompts
        self._most_tokens = batch_tokens or (GPU_TOKENS if self._device.startswith("cuda") else CPU_TOKENS)
        self._max_tokens = flag_max_tokens(folder)
        self._using = threading.Lock()  # truncation is state of the tokenizer
        self.name = f"flagembedding/{_identity(model, folder)}/{_RECIPE}{prompts_digest(*prompts)}"
        self.dimension = int(self._model.config.hidden_size)

    def embed_documents(self, texts: Sequence[str], progress: Progress | None = None) -> NDArray[np.float32]:
        """Return vectors [n, dimension] in the order of the texts, on the CPU equal to 1e-5 in any batch."""
        vectors = np.empty((len(texts), self.dimension), np.float32)
        with self._using:
            tokens = self._tokens([self._prompts[1] + text for text in texts])
            order = sorted(range(len(tokens)), key=lambda at: -len(tokens[at]["input_ids"]))
            lengths = [len(tokens[at]["input_ids"]) for at in order]
            done = 0
            for part in batch_slices(lengths, len(lengths), self._most_tokens):
                chosen = order[part]
                vectors[chosen] = self._halving([tokens[at] for at in chosen])
                done += len(chosen)
                if progress:
                    progress(done, len(texts))
        return vectors

    def embed_query(self, text: str) -> NDArray[np.float32]:
        """Return the vector [dimension] of a question."""
        with self._using:
            vector: NDArray[np.float32] = self._embedded(self._tokens([self._prompts[0] + text]))[0]
        return vector

    def check(self) -> str:
        """Embed a word and return the device."""
        if not np.isfinite(self.embed_query("passage")).all():
            raise ModelError(f"{self.name} gives no finite vectors; fetch its files again")
        return f"{self.name}: {self.dimension} dimensions, on {self._device}"

    def _tokens(self, texts: Sequence[str]) -> list[Tokens]:
        if not texts:
            return []
        encoded = self._tokenizer(list(texts), truncation=True, max_length=self._max_tokens)
        return [{name: encoded[name][at] for name in encoded} for at in range(len(texts))]

    def _halving(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        """Return the vectors of a batch; one that does not fit into memory is halved, down to single texts."""
        try:
            return self._embedded(batch)
        except RuntimeError as error:  # out of memory is one; CUDA reports others the same way
            if len(batch) == 1:
                raise ModelError(f"{self.name} cannot embed a text: {one_line(error, 300)}") from error
        middle = len(batch) // 2
        return np.concatenate([self._halving(batch[:middle]), self._halving(batch[middle:])])

    def _embedded(self, batch: Sequence[Tokens]) -> NDArray[np.float32]:
        import torch

        multiple = TENSOR_CORES if self._device.startswith("cuda") else 1
        columns = padded(batch, self._tokenizer.pad_token_id, multiple, self._tokenizer.padding_side == "left")
        try:
            inputs = {name: torch.from_numpy(column).to(self._device) for name, column in columns.items()}
            with torch.inference_mode():
                hidden = self._model(**inputs, return_dict=True).last_hidden_state.float()
                vectors = torch.nn.functional.normalize(self._pooled(hidden, inputs["attention_mask"]), dim=-1)
        except torch.OutOfMemoryError:
            torch.cuda.empty_cache()
            raise
        found: NDArray[np.float32] = vectors.cpu().numpy()
        return found

    def _pooled(self, hidden: Any, mask: Any) -> Any:
        if self._pooling == "cls":
            return hidden[:, 0]
        weights = mask.unsqueeze(-1).float()
        return (hidden * weights).sum(1) / weights.sum(1)


def flag_folder(model: str) -> Path:
    """Return the folder with a model's files, downloaded where a name is given that is not in the hub's cache. Raises
    ModelError: there is no model, and the hub gives none."""
    folder = Path(model)
    if folder.is_dir():
        if not (folder / "config.json").is_file():
            raise ModelError(f"embedding.model {model!r} is a folder without config.json; name one with a model")
        return folder
    from huggingface_hub import snapshot_download

    try:
        try:
            return Path(snapshot_download(model, allow_patterns=_FILES, local_files_only=True))
        except OSError:  # of the hub's LocalEntryNotFoundError, too
            return Path(snapshot_download(model, allow_patterns=_FILES))
    except (OSError, ValueError) as error:
        raise ModelError(
            f"embedding.model {model!r} is no folder, is not in the hub's cache, and the hub gave none "
            f"({one_line(error, 200)}); set embedding.model to a folder with the model"
        ) from error


def flag_max_tokens(folder: Path) -> int:
    """Return how many tokens a model reads at once, special ones included."""
    config, limits = _read(folder / "config.json"), _read(folder / "tokenizer_config.json")
    positions = int(config.get("max_position_embeddings") or 512)
    if config.get("model_type") in _OFFSET_POSITIONS:
        positions -= int(config.get("pad_token_id") or 0) + 1
    return min(positions, int(limits.get("model_max_length") or positions))


def _torch_device(device: Device) -> str:
    """Return torch's device. Raises ModelError: torch or FlagEmbedding is missing, or the demanded CUDA."""
    try:
        import FlagEmbedding  # noqa: F401
        import torch
    except ImportError as error:
        raise ModelError(f"{error.name} is not installed; pip install 'citelock[rerank]'") from error
    has_cuda = torch.cuda.is_available()
    if device == "cuda" and not has_cuda:
        raise ModelError("embedding.device is cuda, and torch finds no CUDA device here; set embedding.device to cpu")
    return "cuda:0" if has_cuda and device != "cpu" else "cpu"


def _loaded(model: str, folder: Path, device: str) -> tuple[Any, Any]:
    from FlagEmbedding import BGEM3FlagModel, FlagModel

    half, is_m3 = device.startswith("cuda"), (folder / _M3_FILE).is_file()
    kind = BGEM3FlagModel if is_m3 else FlagModel
    try:
        opened = kind(str(folder), use_fp16=half, devices=[device])
    except (OSError, ValueError, RuntimeError) as error:
        raise ModelError(f"embedding.model {model!r} cannot be loaded: {one_line(error, 300)}") from error
    encoder = opened.model.model if is_m3 else opened.model
    opened.model = None  # the library's finalizer moves its tensors to the CPU
    return (encoder.half() if half else encoder.float()).to(device).eval(), opened.tokenizer


def _identity(model: str, folder: Path) -> str:
    made = hashlib.sha256()
    for path in sorted({path for pattern in _SHAPING for path in folder.glob(pattern)}):
        made.update(f"{path.relative_to(folder)}\0{file_digest(path)}\0".encode())
    name = folder.resolve().name if Path(model).is_dir() else model.replace("/", "--")
    return f"{name}@{made.hexdigest()[:12]}"


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return content if isinstance(content, dict) else {}
