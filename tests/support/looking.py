"""The process that waits for uploads and noted pages, over a Dagster in memory: a test may kill it at any moment."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import dagster as dg

from rag_assets.build.inboxes import InboxWatch


def look_until_killed(config_path: Path, environment: Mapping[str, str]) -> None:
    """Look again and again; what fails is printed."""
    os.environ.clear()
    os.environ.update(environment)
    os.fsync = lambda _: None
    with dg.DagsterInstance.ephemeral() as instance:
        watch = InboxWatch(config_path, instance)
        while True:
            try:
                watch.look()
            except Exception as error:
                print(f"{type(error).__name__}: {error}", file=sys.stderr)
            time.sleep(0.1)
