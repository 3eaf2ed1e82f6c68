"""The GPU benchmark: the sweep itself on a tiny geometry, and what it says where there is no GPU."""

from __future__ import annotations

import pytest

from evals.bench.gpu import BASE, LARGE, Geometry, Sweep, main, run

pytestmark = pytest.mark.xdist_group("torch")  # torch takes seconds to import: one process does it


def test_without_a_gpu_it_says_so_and_ends_well(capsys: pytest.CaptureFixture[str]) -> None:
    import torch

    if torch.cuda.is_available():
        pytest.skip("this machine has a GPU")
    main()
    told = capsys.readouterr()
    assert told.out == ""
    assert "no CUDA device" in told.err


def test_a_sweep_measures_every_model_batch_and_length_against_the_ceiling() -> None:
    tiny = Geometry("tiny", layers=1, hidden=16, heads=2, feed_forward=32, vocabulary=50, positions=66)
    told: list[str] = []
    sweep = Sweep(
        (tiny,),
        (Geometry(**{**vars(tiny), "name": "tiny-m3"}),),
        (1, 4),
        (16, 32),
        matrix=64,
        seconds=0,
        passages=80,
        words=(3, 30),
        batch_tokens=(64, 256),
        local=False,
    )
    report = run(sweep, "cpu", told.append)
    assert [(row["model"], row["length"], row["batch"]) for row in report["rows"]] == [
        (name, length, batch) for name in ("tiny", "tiny-m3") for length in (16, 32) for batch in (1, 4)
    ]
    assert all(row["texts_per_s"] > 0 for row in report["rows"])
    assert report["ceiling_tflops"] >= 0
    assert [(row["provider"], row["batch_tokens"], row["texts"]) for row in report["builds"]] == [
        ("flagembedding", tokens, 80) for tokens in (64, 256)
    ]
    assert all(row["words_per_s"] > row["texts_per_s"] > 0 for row in report["builds"])
    assert len(told) == 11


def test_operations_are_counted_as_the_published_sizes_say() -> None:
    """85 and 302 million weights outside the embeddings; at short lengths two operations for each and token."""
    for geometry, weights in ((BASE, 85e6), (LARGE, 302e6)):
        assert geometry.flops(1, 1) == pytest.approx(2 * weights, rel=0.01)
    assert BASE.flops(2, 512) > 4 * BASE.flops(1, 256)
