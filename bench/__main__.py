"""`python -m bench`: quality on every judged set, speed at every size, one JSON and one plot of it all.

Belongs here: arguments, the order of the measurements, machine and versions. Does not belong here: measuring.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.built import build
from bench.real_text import DATA, DataError
from bench.speed import measure

SIZES = (5_183, 100_000)
MILLION = 1_000_000
_LIBRARIES = ("bm25s", "chromadb", "numpy", "onnxruntime", "pyarrow", "tokenizers")


def main(arguments: list[str] | None = None) -> None:
    """Measure, write the JSON, print it."""
    options = _options(arguments)
    sizes = [*(options.sizes or SIZES), *([MILLION] if options.million else [])]
    try:
        results: dict[str, Any] = {"machine": machine(), "quality": {}, "speed": []}
        for folder in [] if options.no_quality else judged_sets():
            results["quality"][folder.name] = quality(folder, options.cache)
            _tell(f"{folder.name} measured")
        for size in sizes:
            with tempfile.TemporaryDirectory(prefix="citelock-bench-") as home:
                results["speed"].append(measure(build(Path(home), size, options.cache / "sentences")))
            _tell(f"{size} chunks measured")
    except DataError as error:
        raise SystemExit(f"bench: {error}") from None
    results["machine"]["load_after"] = os.getloadavg()[0]
    text = json.dumps(results, indent=1)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")
    if options.plot:
        from bench.plot import plot

        plot(results, options.plot)
    print(text)


def judged_sets() -> list[Path]:
    """The folders of the real data that are in BEIR layout."""
    found = sorted(path.parents[1] for path in DATA.glob("*/qrels/test.tsv"))
    if not found:
        raise DataError(f"{DATA} has no judged set")
    return found


def quality(folder: Path, cache: Path) -> dict[str, Any]:
    """What `citelock bench` prints, of both indexes alone and together."""
    from rag_serving.config import parse_config
    from rag_serving.evaluation.beir import read_collection
    from rag_serving.evaluation.bench import run_bench

    collection, home = read_collection(folder), cache / folder.name
    return {
        mode: run_bench(collection, home, parse_config({"home": str(home)}), mode).payload()
        for mode in ("lexical", "dense", "hybrid")
    }


def machine() -> dict[str, Any]:
    """Where and with what this was measured."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {
        "when": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": cores,
        "load_before": os.getloadavg()[0],
        "python": platform.python_version(),
        "versions": {library: version(library) for library in _LIBRARIES},
    }


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "unknown")


def _tell(what: str) -> None:
    print(f"bench: {what}", file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="*", help=f"chunks; default {SIZES}")
    parser.add_argument("--million", action="store_true", help="one million chunks as well (hours on two cores)")
    parser.add_argument("--no-quality", action="store_true", help="speed alone")
    parser.add_argument("--cache", type=Path, default=Path(".citelock/bench"), help="where vectors are kept")
    parser.add_argument("--out", type=Path, help="write the JSON here")
    parser.add_argument("--plot", type=Path, help="write a plot here (.svg or .png)")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
