"""A file of weights tells the confidence of answers; one that does not fit is refused with a way out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evals.evaluation.calibrate import to_json
from rag_serving.answering.answerer import open_tables
from rag_serving.answering.selection.signs import VERSION, Tables, WeightsError, calibrated, learnt
from rag_serving.config.loading import ConfigError, parse_config

MODEL = "local/all-MiniLM-L6-v2"


def doubting(tables: Tables) -> Tables:
    """The same tables that believe less."""
    return Tables(replace(tables.with_vectors, bias=-9.0), replace(tables.words_alone, bias=-9.0))


def written(path: Path, **changes: Any) -> Path:
    path.write_text(json.dumps({**json.loads(to_json(learnt(), MODEL)), **changes}))
    return path


def test_what_was_written_is_read(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    path.write_text(to_json(doubting(learnt()), MODEL))
    assert calibrated(path, MODEL) == doubting(learnt())


def test_without_a_file_the_package_decides() -> None:
    assert calibrated(None, MODEL) is learnt()


def test_the_order_of_sentences_is_never_the_files(tmp_path: Path) -> None:
    path = written(tmp_path / "weights.json", with_vectors={"confidence": {}, "bias": 0.0, "order": {"covered": -1.0}})
    found = calibrated(path, MODEL)
    assert found.with_vectors.order == learnt().with_vectors.order
    assert found.with_vectors.told({"covered": 1.0, "score": 5.0}) == 0.5


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"version": 7}, f"is of version 7, not {VERSION}"),
        ({"embedding": "ollama/bge-m3"}, "calibrated with ollama/bge-m3, not with local/all-MiniLM-L6-v2"),
        ({"with_vectors": {"confidence": {"charm": 1.0}, "bias": 0.0}}, "no sign is called 'charm'"),
        ({"with_vectors": {"confidence": {"covered": float("nan")}, "bias": 0.0}}, "nan is no weight"),
        ({"with_vectors": {"confidence": {"covered": "much"}, "bias": 0.0}}, "is no file of weights"),
        ({"words_alone": None}, "is no file of weights"),
    ],
)
def test_a_file_that_does_not_fit_is_refused(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(WeightsError, match=said) as found:
        calibrated(written(tmp_path / "weights.json", **changes), MODEL)
    assert "citelock evaluate --calibrate --write" in str(found.value)


def test_the_configuration_is_named_where_its_file_is_missing(tmp_path: Path) -> None:
    config = parse_config({"gates": {"confidence_weights": str(tmp_path / "none.json")}})
    with pytest.raises(ConfigError, match=r"gates.confidence_weights: .*none.json cannot be read"):
        open_tables(config)


def test_the_configured_file_decides(tmp_path: Path) -> None:
    path = tmp_path / "weights.json"
    path.write_text(to_json(doubting(learnt()), MODEL))
    assert open_tables(parse_config({"gates": {"confidence_weights": str(path)}})) == doubting(learnt())
