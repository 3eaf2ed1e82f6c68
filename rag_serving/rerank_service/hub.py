"""The files of a reranker on the hub, at a commit that is pinned: what the owner of a name puts there later is not run.

Belongs here: which commit, which files. Does not belong here: reading them (`cross_encoder`).
"""

from __future__ import annotations

from pathlib import Path

from rag_serving.escaping.targets import one_line
from rag_serving.models.protocols import ModelError

PINNED = {"BAAI/bge-reranker-base": "2cfc18c9415c912f9d8155881c133215df768a70"}
"""The commits of models that the project names itself."""

_FILES = ["*.json", "*.txt", "*.model", "*.safetensors"]
_OLD_WEIGHTS = ["pytorch_model*.bin"]  # read as weights alone; only where a model has nothing safer


def check_folder(model: str) -> None:
    """Raise ModelError where a folder holds no model: at once, before packages are imported that take seconds."""
    if Path(model).is_dir() and not Path(model, "config.json").is_file():
        raise ModelError(
            f"the reranker {model!r} cannot be loaded (the folder has no usable model): it has no config.json"
        )


def model_folder(model: str, revision: str | None = None) -> str:
    """Return the folder with the model's files at the pinned commit, downloaded where it is not in the hub's cache.

    A folder stays as it is, and so does a name for which no commit is known: what is newest is then loaded.

    Raises:
        ModelError: the hub has no such commit or cannot be reached, or a commit is given for a folder.
    """
    if Path(model).is_dir():
        if revision:
            raise ModelError(f"{model!r} is a folder, which has no commit; unset reranker.revision")
        return model
    commit = revision or PINNED.get(model)
    if commit is None:
        return model
    from huggingface_hub import snapshot_download

    try:
        folder = Path(snapshot_download(model, revision=commit, allow_patterns=_FILES))
        if not any(folder.glob("*.safetensors")):
            snapshot_download(model, revision=commit, allow_patterns=_OLD_WEIGHTS)
    except (OSError, ValueError) as error:
        raise ModelError(
            f"the reranker {model!r} cannot be loaded at commit {commit} (it is not in the cache, and the hub gave "
            f"none): {one_line(error, 300)}; "
            "set reranker.model to a folder, or reranker.revision to a commit that there is"
        ) from error
    return str(folder)
