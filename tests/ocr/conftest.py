"""Readers with OCR whose readings are kept in a folder of the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from rag_assets.ocr.scans import Scans
from rag_assets.parsing.reader import LimitedReader
from rag_serving.config.documents import Documents

Opened = Callable[..., tuple[LimitedReader, Scans]]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """Open a reader with these settings of OCR."""
    with ExitStack() as stack:

        def open_(**ocr: Any) -> tuple[LimitedReader, Scans]:
            documents = Documents(ocr={"languages": ["eng"], **ocr})
            scans = Scans(documents, tmp_path / "sources" / "docs" / "ocr")
            return stack.enter_context(LimitedReader(documents, scans=scans)), scans

        yield open_
