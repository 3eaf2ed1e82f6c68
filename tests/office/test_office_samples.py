"""What LibreOffice made of our own sources is read whole, whatever the format; damaged files give a reason."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pytest
from support.office_truth import MANUAL_BESIDE, TRUTH, content_of, figures

from rag_assets.steps.files.file_text import kind_text
from rag_assets.steps.files.records import FileError

FOLDER = Path(__file__).parent
SAMPLES = sorted((FOLDER / "samples").iterdir())
NEW = pytest.mark.skipif(shutil.which("soffice") is None, reason="LibreOffice converts; it is not installed")


def check(path: Path) -> None:
    truth = TRUTH[path.stem]
    content = content_of(path.suffix[1:], path.read_bytes())
    found = figures(content.blocks, truth.text, truth.cells)
    whole = "\n".join(block.text for block in content.blocks)
    headings = [(block.level, block.text.lstrip("0123456789. ")) for block in content.blocks if block.kind == "heading"]
    assert found.recall >= 0.995
    assert found.placed >= 0.95
    assert headings == [*truth.headings]
    assert not [text for text in truth.absent if text in whole]
    if path.stem == "manual":
        assert all(text in whole for text in MANUAL_BESIDE)


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_no_word_and_no_cell_of_a_sample_is_lost(path: Path) -> None:
    check(path)


@NEW
@pytest.mark.skipif(
    not os.environ.get("CITELOCK_OFFICE_ANEW"), reason="CITELOCK_OFFICE_ANEW=1 converts the samples anew"
)
@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_what_libreoffice_makes_today_is_read_whole(path: Path, tmp_path: Path) -> None:
    from support.office_samples import convert

    source = next((FOLDER / "sources").glob(f"{path.stem}.*"))
    check(convert(source, path.suffix[1:], tmp_path))


@pytest.mark.parametrize("path", SAMPLES, ids=lambda path: path.name)
def test_a_damaged_file_gives_text_or_a_reason(path: Path) -> None:
    good, rng = path.read_bytes(), random.Random(path.name)
    outcomes = set()
    for number in range(40):
        file = bytearray(good[: rng.randrange(len(good))] if number % 4 == 0 else good)
        for _ in range(min(number % 4, len(file))):
            file[rng.randrange(len(file))] ^= 1 << rng.randrange(8)
        try:
            outcomes.add(kind_text(path.suffix[1:], "", bytes(file)).body_format)
        except FileError as error:
            outcomes.add(str(error)[:7])
    assert outcomes <= {"blocks", "it is n", "its par", "it is p", "its lis", "its tab", "it has "}
