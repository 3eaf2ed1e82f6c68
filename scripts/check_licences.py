"""Whether every installed package has a licence that this project may build on; `make lint` runs it.

AGPL, SSPL, GPL, BUSL and the Commons Clause are refused, and so is a package that does not tell its licence, unless
somebody has read it and listed it here. LGPL and MPL pass: they are used as they are, as libraries.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions

_REFUSED = re.compile(
    r"\bA?GPL|\bSSPL|\bBUSL|\bBSL-1\.1|Affero|Server Side Public|Business Source|Commons Clause"
    r"|(?<!Lesser )General Public License|Elastic-?(?: License)?-?2",
    re.IGNORECASE,
)
# Read by hand: what their metadata leave out is in their repositories. Of docutils only an Emacs mode is under GPL, and
# its wheel has none (COPYING.rst).
REVIEWED = {"docutils": "BSD-2-Clause", "flagembedding": "MIT", "promql-parser": "MIT", "pyromark": "MIT"}


def field(distribution: Distribution, name: str) -> str:
    """Return a field of a package's metadata; "" where it has none."""
    return next(iter(distribution.metadata.get_all(name) or ()), "")


def licences(distribution: Distribution) -> list[str]:
    """Return what a package says of its licence: its SPDX expression, or else its classifiers and its old field."""
    if expression := field(distribution, "License-Expression"):
        return [expression]
    classifiers = distribution.metadata.get_all("Classifier") or ()
    names = [each.rpartition(" :: ")[2] for each in classifiers if each.startswith("License ::")]
    lines = field(distribution, "License").strip().splitlines()  # some put the whole text there
    named = lines[0].strip() if lines else ""
    return [name for name in (*names, named) if name and name not in ("OSI Approved", "UNKNOWN")]


def fault(name: str, told: Iterable[str]) -> str | None:
    """Return why a package may not be used; None where it may. Of `A OR B` one is enough."""
    told = [reviewed for each, reviewed in REVIEWED.items() if each == name.lower()] or list(told)
    if not told:
        return f"{name}: tells no licence; read it, then list it in scripts/check_licences.py"
    refused = [each for each in told if all(map(_REFUSED.search, re.split(r"\s+OR\s+", each)))]
    return f"{name}: {', '.join(refused)}" if refused else None


def main() -> int:
    """Print the packages that may not be used."""
    installed = list(distributions())
    faults = sorted({found for each in installed if (found := fault(each.metadata["Name"], licences(each)))})
    for each in faults:
        print(each, file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
