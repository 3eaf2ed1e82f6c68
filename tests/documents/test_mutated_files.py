"""Whatever was done to a file, the build goes on within its memory, and the file has text or a reason.

CI reads some dozen files; CITELOCK_MUTATED_FILES=2000 as many.
"""

from __future__ import annotations

import os
import resource
from collections import Counter
from pathlib import Path

from documents.mutated_files import mutated

from rag_assets.parsing.reader import LimitedReader
from rag_assets.sources.documents.document_pages import DocumentReading
from rag_assets.sources.documents.folder import DocumentFolder
from rag_assets.steps.formats.element_tree import PageError
from rag_serving.config.sections import Documents
from rag_serving.config.sources import Files

COUNT = int(os.environ.get("CITELOCK_MUTATED_FILES", "24"))
SEED = 18
MEMORY_MB = 256
"""Of the child, for one document."""


def test_every_mutated_file_has_text_or_a_reason(tmp_path: Path) -> None:
    names = []
    for name, content in mutated(COUNT, SEED):
        (tmp_path / name).write_bytes(content)
        names.append(name)
    before, of_others = _peak_mb(resource.RUSAGE_SELF), _peak_mb(resource.RUSAGE_CHILDREN)
    with LimitedReader(Documents(max_seconds=10, max_memory_mb=MEMORY_MB)) as reader:
        settings = Files(kind="files", tenant="acme", path=tmp_path, readers="everyone")
        result = DocumentFolder("docs", settings, DocumentReading(reader)).sync(None, {})
        assert result.unaccounted == 0
        outcomes = Counter(read=len(result.pages), excluded=len(result.excluded), failed=len(result.failures))
        for row in result.pages.to_pylist():
            try:
                reader.content(row["body"], row["body_format"])
            except PageError as error:
                outcomes[f"body: {error}"] += 1
    reasons = [why.partition(": ")[2] for _, why in (*result.excluded, *result.failures)]
    print(outcomes, Counter(why[:60] for why in reasons).most_common(60))  # shown where it fails, or with -s
    assert outcomes["read"] + len(reasons) >= COUNT
    assert all(why and "\n" not in why and len(why) < 500 for why in reasons)
    assert [why for why in reasons if "unexpected" in why or "parser failed" in why] == []
    assert _peak_mb(resource.RUSAGE_SELF) < before + 400
    # Of all children that this process ever had, each of which began as a copy of it.
    assert _peak_mb(resource.RUSAGE_CHILDREN) < 1 + max(900, of_others, _peak_mb(resource.RUSAGE_SELF))


def _peak_mb(who: int) -> float:
    return resource.getrusage(who).ru_maxrss / 1024
