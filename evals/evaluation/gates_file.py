"""What was calibrated, in a configuration file, whose other lines and comments stay as they are, and beside it.

Belongs here: replacing the section `answering.gates`, the file of weights.
Does not belong here: reading configurations (`config.loading`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from evals.evaluation.calibrate import Calibration
from rag_serving.answering.selection.scorer import TABLES, VERSION, Tables
from rag_serving.artifacts.store import write_text
from rag_serving.config.loading import ConfigError, load_config
from rag_serving.config.models import Embedding

WEIGHTS = "answer_confidence.json"
_SECTION = re.compile(r"^gates:.*\n?(?:(?:[ \t].*)?\n)*(?=\S|\Z)", re.MULTILINE)


def write_calibration(path: Path, found: Calibration, embedding: Embedding) -> None:
    """Set the gates in the file, with the weights by which confidence was told, in a file beside it.

    Raises:
        ConfigError: the file is no configuration, or cannot be written.
    """
    if found.confidence.strength is None:
        write_gates(path, {**found.gates, "confidence_weights": None})
        return
    weights = path.with_name(WEIGHTS)
    load_config(path)
    try:
        write_text(weights, to_json(found.confidence.tables, f"{embedding.provider}/{embedding.model}"))
    except OSError as error:
        raise ConfigError(f"{weights} cannot be written ({error.strerror})") from error
    write_gates(path, {**found.gates, "confidence_weights": str(weights)})


def write_gates(path: Path, gates: Mapping[str, float | str | None]) -> None:
    """Set these gates in the file; other gates that it sets are kept.

    Raises:
        ConfigError: the file is no configuration, or cannot be written.
    """
    load_config(path)
    text = path.read_text(encoding="utf-8")
    merged = {**(yaml.safe_load(text) or {}).get("gates", {}), **gates}
    section = yaml.safe_dump({"gates": merged}, sort_keys=False)
    before = text if text.endswith("\n") or not text else f"{text}\n"
    changed, count = _SECTION.subn(lambda _: f"{section}\n", before, count=1)
    try:
        write_text(path, (changed if count else f"{before}\n{section}").rstrip("\n") + "\n")
    except OSError as error:
        raise ConfigError(f"configuration {path} cannot be written ({error.strerror})") from error


def to_json(tables: Tables, embedding: str) -> str:
    """Return the confidence of these tables as the text of a file that `calibrated` reads."""
    found: dict[str, Any] = {"version": VERSION, "embedding": embedding}
    for name, table in zip(TABLES, (tables.with_vectors, tables.words_alone), strict=True):
        found[name] = {"confidence": dict(table.confidence), "bias": table.bias}
    return json.dumps(found, indent=2) + "\n"
