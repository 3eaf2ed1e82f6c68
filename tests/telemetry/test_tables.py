"""The tables are made once, however many processes begin at the same time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

from sqlalchemy import inspect

from rag_serving.telemetry.tables import METADATA, open_engine, prepare

PROCESSES = 4


def test_processes_that_begin_together_make_the_tables(tmp_path: Path) -> None:
    with ThreadPoolExecutor(PROCESSES) as pool:
        for number in range(20):
            file, together = tmp_path / str(number), Barrier(PROCESSES)

            def begin(file: Path = file, together: Barrier = together) -> set[str]:
                engine = open_engine(None, file)  # one of each process
                together.wait()
                try:
                    prepare(engine)
                    return set(inspect(engine).get_table_names())
                finally:
                    engine.dispose()

            for made in [pool.submit(begin) for _ in range(PROCESSES)]:
                assert made.result() >= set(METADATA.tables)
