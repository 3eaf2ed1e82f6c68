"""The commands that learn weights: each can be started, with the product as it is."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("command", ["train_answers", "train_sections", "wiki_pairs"])
def test_each_command_of_training_starts(command: str) -> None:
    shown = subprocess.run(
        [sys.executable, "-m", f"evals.training.{command}", "--help"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 0, shown.stderr
    assert "usage:" in shown.stdout
