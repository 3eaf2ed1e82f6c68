"""The child that scores by RAGAS, run in this process: a child imports the package for seconds, this process once."""

from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
import warnings
from typing import Any
from unittest.mock import patch

from evals.evaluation import ragas_child


def run(command: list[str], input: bytes, env: dict[str, str], **more: Any) -> subprocess.CompletedProcess[bytes]:
    """Do what `subprocess.run` does with the child's command, without a process; a deadline does not end it."""
    assert command[1:] == ["-m", ragas_child.__name__]
    assert more.keys() <= {"capture_output", "timeout", "check"}
    lines, errors = io.StringIO(), io.StringIO()
    with (
        patch.dict(os.environ, env),
        patch.object(sys, "stdin", io.StringIO(input.decode())),
        patch.object(sys, "stdout", lines),
        patch.object(sys, "stderr", errors),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        ragas_child.main()
        gc.collect()  # connections that the package leaves open end here, not in another test
    return subprocess.CompletedProcess(command, 0, lines.getvalue().encode(), errors.getvalue().encode())
