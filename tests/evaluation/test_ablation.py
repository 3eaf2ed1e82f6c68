from __future__ import annotations

from pathlib import Path

from evals.evaluation.ablation import VARIANTS, ablate
from evals.evaluation.beir import BeirCollection, BeirDocument
from rag_serving.config.loading import parse_config

DOCUMENTS = (
    BeirDocument("d0", "Crane guide", "Grease the hook of the crane every week.", "p0", 0),
    BeirDocument("d1", "Crane guide", "The operator signs the log book.", "p0", 1),
    BeirDocument("d2", "Berth plan", "Vessels moor at the second berth.", "p1", 0, ("Ships",), "p0"),
)
COLLECTION = BeirCollection(DOCUMENTS, {"q": "How often is the hook greased?"}, {"q": {"d0": 1}})


def test_every_variant_is_measured(tmp_path: Path) -> None:
    found = list(ablate(COLLECTION, tmp_path, parse_config({})))
    assert {variant.name for variant, _ in found} == {variant.name for variant in VARIANTS}
    assert all(bench.recall["5"] == 1 for _, bench in found)
    assert {variant.name: bench.mode for variant, bench in found}["dense only"] == "dense"


def test_names_of_variants_differ() -> None:
    assert len({variant.name for variant in VARIANTS}) == len(VARIANTS)
