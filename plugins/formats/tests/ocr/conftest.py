"""Readers with OCR whose readings are kept in a folder of the test; their processes are the same for all tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scanning import Opened, Processes
from support.constants import section_of

from citelock_formats.ocr.child import PdfChild
from citelock_formats.ocr.scans import Scans
from rag_assets.parsing.reader import WORKER, LimitedReader
from rag_serving.config.sections import Documents
from rag_serving.isolation.child import Child, Limits


class _KeptChild(Child):
    """Outlives the reader that it is lent to."""

    def close(self) -> None:
        """Do nothing."""


class _KeptPdfChild(PdfChild):
    """The same."""

    def close(self) -> None:
        """Do nothing."""


@pytest.fixture(scope="session")
def processes() -> Iterator[Processes]:
    limits = Limits(Documents().max_seconds, Documents().max_memory_mb)
    both = Processes(_KeptChild(limits, WORKER), _KeptPdfChild(limits))
    yield both
    Child.close(both.parser)
    PdfChild.close(both.looker)


@pytest.fixture
def opened(tmp_path: Path, processes: Processes) -> Iterator[Opened]:
    """Open a reader with these settings of OCR."""
    with ExitStack() as stack:

        def open_(**ocr: Any) -> tuple[LimitedReader, Scans]:
            documents = section_of(Documents, ocr={"languages": ["eng"], **ocr})
            scans = Scans(documents, tmp_path / "sources" / "docs" / "ocr", child=processes.looker)
            return stack.enter_context(LimitedReader(documents, processes.parser, scans)), scans

        yield open_
