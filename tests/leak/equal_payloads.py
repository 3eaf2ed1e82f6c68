"""Whether two places where the same is searched answer the same."""

from __future__ import annotations

from collections.abc import Mapping

TOLERANCE = 1e-6  # of numbers, which databases add up in another order


def difference(got: object, wanted: object, where: str = "") -> str | None:
    """Where two payloads differ by more than the last bits of a number."""
    if isinstance(got, float) and isinstance(wanted, float):
        return None if abs(got - wanted) <= TOLERANCE * max(1.0, abs(wanted)) else f"{where}: {got} is not {wanted}"
    if isinstance(got, Mapping) and isinstance(wanted, Mapping) and got.keys() == wanted.keys():
        pairs = [(got[name], wanted[name], f"{where}.{name}") for name in got]
    elif isinstance(got, list | tuple) and isinstance(wanted, list | tuple) and len(got) == len(wanted):
        pairs = [(*pair, f"{where}[{n}]") for n, pair in enumerate(zip(got, wanted, strict=True))]
    else:
        return None if got == wanted else f"{where}: {got!r} is not {wanted!r}"
    return next((fault for pair in pairs if (fault := difference(*pair))), None)
