"""A bill of materials of the environment it runs in, on standard output: CycloneDX 1.6, JSON.

`python scripts/sbom.py > sbom.json`: every installed package with its version, its licence and what it needs.
"""

from __future__ import annotations

import json
import sys
from datetime import UTC, datetime
from importlib.metadata import Distribution, distributions, version
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from scripts.check_licences import REVIEWED, field, licences

ROOT = "citelock"


def document() -> dict[str, Any]:
    """Return the bill of what is installed here."""
    found = {canonicalize_name(each.metadata["Name"]): each for each in distributions()}
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "timestamp": datetime.now(UTC).isoformat(timespec="seconds"),
            "component": {"type": "application", "bom-ref": ROOT, "name": ROOT, "version": version(ROOT)},
        },
        "components": [_component(name, each) for name, each in sorted(found.items()) if name != ROOT],
        "dependencies": [
            {"ref": _reference(name, each), "dependsOn": sorted(_needed(each, found))}
            for name, each in sorted(found.items())
        ],
    }


def _component(name: str, distribution: Distribution) -> dict[str, Any]:
    reference = _reference(name, distribution)
    told = licences(distribution) or [reviewed for each, reviewed in REVIEWED.items() if each == name]
    expression = field(distribution, "License-Expression")
    named = [{"expression": expression}] if expression else [{"license": {"name": each}} for each in told]
    return {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": distribution.version,
        "purl": reference,
        "licenses": named,
    }


def _needed(distribution: Distribution, found: dict[Any, Distribution]) -> set[str]:
    """Return the references of the installed packages that a package needs here; those of its extras count too."""
    needed = set()
    for line in distribution.requires or ():
        requirement = Requirement(line)
        name = canonicalize_name(requirement.name)
        of_extra = requirement.marker is not None and "extra" in str(requirement.marker)
        if name in found and (of_extra or requirement.marker is None or requirement.marker.evaluate()):
            needed.add(_reference(name, found[name]))
    return needed


def _reference(name: str, distribution: Distribution) -> str:
    return ROOT if name == ROOT else f"pkg:pypi/{name}@{distribution.version}"


if __name__ == "__main__":
    json.dump(document(), sys.stdout, indent=1)
