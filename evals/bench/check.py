"""`python -m evals.bench.check`: how often a check of sentences against the pages is right.

`--home DIR` has the published corpora, which are built if they are missing. Of the half that is only measured no
claim is printed.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import yaml

from evals.bench.claims import FOLDERS, Claim, read_claims
from evals.bench.corpora import ROOT
from evals.bench.real_text import DATA
from evals.bench.set_questions import folder_config
from rag_serving.access.principals import Principal
from rag_serving.ask import Pipeline
from rag_serving.checking.verdicts import CheckedPassage, claims_of, finding
from rag_serving.config.loading import Config, load_config
from rag_serving.records.answers import CheckedClaim
from rag_serving.records.passages import Chunk

_BUILD = "from rag_serving.cli.main import main; main()"
Judged = tuple[Claim, CheckedClaim]


def main(arguments: list[str] | None = None) -> int:
    """Print the confusion of claims and verdicts, precision and recall, and how many lies are called verbatim."""
    parser = argparse.ArgumentParser(prog="python -m evals.bench.check", description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the real data")
    parser.add_argument("--home", type=Path, default=ROOT / ".citelock" / "bench-check", help="of the built corpora")
    parser.add_argument("--measured", action="store_true", help="check the half that is only measured")
    parser.add_argument("--show", action="store_true", help="print the wrong ones of the half to build with")
    options = parser.parse_args(arguments)
    judged = list[Judged]()
    for corpus in FOLDERS:
        claims = read_claims("measured" if options.measured else "build", corpus, options.data)
        began = time.perf_counter()
        judged += (found := list(_judged(_config(corpus, options.home, options.data), claims)))
        print(f"{corpus}: {len(found)} claims in {time.perf_counter() - began:.1f} s, the model opened")
    print("\n".join(_figures(judged)))
    for name in ("lies", "true"):
        print(f"{name}: {dict(_lies(options.data / 'lies' / f'{name}.jsonl'))}")
    if options.show and not options.measured:
        for claim, checked in judged:
            if not _is_right(claim, checked):
                said = f"{claim.page}: {claim.page_says}; {checked.page_says!r}"
                print(f"{claim.id} {checked.verdict}: {claim.text!r}; {said}")
    return 0


def _config(corpus: str, home: Path, data: Path) -> Config:
    """Return the configuration of a published corpus."""
    if corpus == "sample":
        config = load_config(ROOT / "config" / "app.yaml")
    else:
        configs = [folder_config(name, data) for name in FOLDERS[corpus]]
        sources = {key: source for each in configs for key, source in each.sources.items()}
        config = configs[0].model_copy(update={"sources": sources})
    config = config.model_copy(update={"home": home / corpus})
    if not any((config.home / "tenants").glob("*/current")):
        path = home / f"{corpus}.yaml"
        home.mkdir(parents=True, exist_ok=True)
        path.write_text(yaml.safe_dump(config.model_dump(mode="json", exclude_unset=True) | {"home": str(config.home)}))
        subprocess.run([sys.executable, "-c", _BUILD, "build", "--config", str(path)], check=True, cwd=ROOT)
    return config


def _judged(config: Config, claims: Sequence[Claim]) -> Iterator[Judged]:
    """Yield each claim with its verdict, checked one by one: a text of all would lend them a context."""
    pipeline = Pipeline.open(config, next(iter(config.tenants)))
    for claim in claims:
        checked = pipeline.check(Principal(pipeline.tenant), claim.text).claims
        yield claim, min(checked, key=lambda each: (each.verdict == "no_claim", each.verdict == "verbatim"))
    pipeline.close()


def _is_right(claim: Claim, checked: CheckedClaim) -> bool:
    return checked.verdict == claim.kind or (claim.kind == "absent" and checked.verdict == "closest")


def _figures(judged: Sequence[Judged]) -> Iterator[str]:
    """Yield the confusion, and precision and recall of the verdicts that claim something."""
    for kind in ("verbatim", "otherwise", "absent"):
        verdicts = Counter(checked.verdict for claim, checked in judged if claim.kind == kind)
        yield f"{kind}: {dict(verdicts.most_common())}"
    for verdict in ("verbatim", "otherwise"):
        given = [claim for claim, checked in judged if checked.verdict == verdict]
        right, wanted = sum(c.kind == verdict for c in given), sum(c.kind == verdict for c, _ in judged)
        yield f"{verdict}: precision {right}/{len(given)}, recall {right}/{wanted}"


def _lies(path: Path) -> Counter[str]:
    """Return the verdicts on sentences about a passage of which none is its own."""
    verdicts = Counter[str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        shape = json.loads(line)
        text, heading = shape["passage"], shape["heading"]
        place = ("Handbook", ("Handbook", heading), "a", "https://wiki.example/1#a", text, 0, len(text), "paragraph")
        passage = CheckedPassage(Chunk("1:1:0", "1", 1, 0, "HB", *place))
        verdicts.update(finding(each, [passage], {}).verdict for each in claims_of(shape["sentence"]) if each.claims)
    return verdicts


if __name__ == "__main__":
    raise SystemExit(main())
