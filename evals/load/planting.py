"""A leak that is planted in a server, to show that a long run finds one.

Belongs here: the code that leaks, and how a process comes to run it. Does not belong here: finding it (`memory`).
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_CODE = """
import os, sys, threading, time
_kept = []
def _leak():
    while True:
        time.sleep({every_s})
        _kept.append(bytes(range(256)) * 256)  # 64 KiB that were written to
if any("forkserver" in word for word in sys.orig_argv):  # serving processes are forked from this one
    os.register_at_fork(after_in_child=lambda: threading.Thread(target=_leak, daemon=True).start())
"""
_BYTES = 65_536


@contextmanager
def planted(mb_per_hour: float) -> Iterator[None]:
    """Let each serving process that starts meanwhile leak so much; 0: none."""
    if not mb_per_hour:
        yield
        return
    before = os.environ.get("PYTHONPATH")
    with tempfile.TemporaryDirectory(prefix="citelock-leak-") as folder:
        code = _CODE.format(every_s=3600 * _BYTES / (mb_per_hour * 1e6))
        Path(folder, "sitecustomize.py").write_text(code, encoding="utf-8")
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [folder, before]))
        try:
            yield
        finally:
            os.environ.pop("PYTHONPATH")
            if before is not None:
                os.environ["PYTHONPATH"] = before
