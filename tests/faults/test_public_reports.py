"""Small inputs after public bug reports (`../shared/data/faults`), each with the outcome that its README calls right.

The case of the folder `NN-name` is the function `check(folder, tmp_path)` in the module `case_NN.py` beside this file.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import pytest

FAULTS = Path(__file__).parents[3] / "shared" / "data" / "faults"
CASES = sorted(path.stem for path in Path(__file__).parent.glob("case_*.py"))


@pytest.mark.parametrize("case", CASES)
def test_the_reported_input_has_the_right_outcome(case: str, tmp_path: Path) -> None:
    folders = list(FAULTS.glob(f"{case.removeprefix('case_')}-*"))
    if not folders:
        pytest.skip(f"{FAULTS} is not there")
    import_module(f"faults.{case}").check(folders[0], tmp_path)
