"""The configuration decides which model opens, and opening costs nothing that is not needed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from rag_serving.config.models import Embedding
from rag_serving.models import ModelError, open_embedder, open_tokenizer


def test_the_default_needs_no_server() -> None:
    embedder = open_embedder(Embedding())
    assert embedder.name.startswith("local/all-MiniLM-L6-v2@")
    assert embedder.dimension == 384


@pytest.mark.parametrize("provider", ["ollama", "openai"])
def test_opening_a_remote_model_asks_the_server_for_nothing(provider: str) -> None:
    open_embedder(Embedding(provider=provider, model="bge-m3", base_url="http://127.0.0.1:9"))


@pytest.mark.parametrize("provider", ["local", "ollama", "openai"])
def test_chunks_are_measured_by_the_local_tokenizer(provider: str) -> None:
    model = "all-MiniLM-L6-v2" if provider == "local" else "bge-m3"
    tokenizer = open_tokenizer(Embedding(provider=provider, model=model))
    assert tokenizer.name == "all-MiniLM-L6-v2@1110a243fdf4"
    assert len(tokenizer.offsets(["three short words"])[0]) == 3


def test_a_model_folder_opens_with_its_own_tokenizer(tiny_folder: Path) -> None:
    config = Embedding(model=str(tiny_folder))
    assert open_embedder(config).dimension == 32
    assert open_tokenizer(config).name.startswith("tiny@")


def test_an_unknown_local_model_is_told_what_would_do() -> None:
    with pytest.raises(ModelError, match="provider to ollama or openai"):
        open_embedder(Embedding(model="bge-m3"))


def test_importing_the_models_loads_none() -> None:
    code = (
        "import sys, rag_serving.models, rag_serving.models.protocols;"
        "print([m for m in ('onnx', 'onnxruntime', 'tokenizers', 'httpx', 'ollama', 'torch') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
