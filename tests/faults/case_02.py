"""Exponents and marks of notes are no digits of the number before them."""

from __future__ import annotations

from pathlib import Path

from support.one_source import built, shown


def check(folder: Path, tmp_path: Path) -> None:
    wiki = built(tmp_path, kind="confluence_dump", path=folder / "dump")
    assert "up to 10⁶ pulses" in shown(wiki.ask("How many pulses can the flow sensor count before a reset?"))
    assert "24¹ months" in shown(wiki.ask("How long is the calibration valid?"))
    assert "release of CO₂ is below 3 m³" in shown(wiki.ask("What CO2 release per hour?"))
    for wrong in ("106", "105", "241"):
        assert wrong not in wiki.text()
