"""A process that appends to an audit log from four threads, and prints a line for each row that is on disk:
`python appending.py HOME URL ROWS`."""

from __future__ import annotations

import sys
import threading

from citelock_governance.audit.log import opened
from rag_serving.config.loading import parse_config
from rag_serving.hooks import Event

THREADS = 4


def main(home: str, url: str, rows: int) -> None:
    config = parse_config(
        {"home": home, "tenants": {"acme": {}}, "audit": {"mode": "required"}, "telemetry": {"url": url or None}}
    )
    log = opened(config, "acme", wait_s=60)

    def append() -> None:
        for _ in range(rows // THREADS):
            log.record(Event("question", "ann", query="How long?", retrieved=["1:1:0"]))
            print("1", flush=True)

    threads = [threading.Thread(target=append) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
