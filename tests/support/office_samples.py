"""Make the sample files of the office tests by LibreOffice: `python tests/support/office_samples.py`.

The sources in tests/office/sources are flat OpenDocument files, written by hand; each is converted into the formats
that office programs exchange. The results are committed, so that tests need no LibreOffice.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

TESTS = Path(__file__).parents[1] / "office"
FORMATS = {"fodt": ("docx", "odt", "rtf"), "fodp": ("pptx", "odp"), "fods": ("xlsx", "ods")}


def convert(source: Path, ending: str, folder: Path) -> Path:
    """Return the file of another format that LibreOffice makes of a source, in a folder.

    Raises:
        subprocess.SubprocessError: LibreOffice failed, or took more than two minutes.
    """
    with tempfile.TemporaryDirectory() as profile:
        command = ["soffice", f"-env:UserInstallation=file://{profile}", "--headless", "--convert-to", ending]
        command += ["--outdir", str(folder), str(source)]
        subprocess.run(command, check=True, timeout=120, capture_output=True)
    return folder / f"{source.stem}.{ending}"


def packed_tighter(path: Path) -> None:
    """Pack a file tighter, without what OpenDocument files hold beside the document: a preview, the user's windows."""
    with ZipFile(path) as package:
        parts = [(entry, package.read(entry)) for entry in package.infolist() if not _is_beside(entry.filename)]
    with ZipFile(path, "w", ZIP_DEFLATED, compresslevel=9) as package:
        for entry, content in parts:
            package.writestr(entry.filename, content, ZIP_STORED if entry.filename == "mimetype" else ZIP_DEFLATED)


def _is_beside(name: str) -> bool:
    return name.startswith(("Thumbnails/", "Configurations2/"))


def main() -> int:
    """Convert every source into every format of its kind."""
    for source in sorted((TESTS / "sources").iterdir()):
        for ending in FORMATS[source.suffix.lstrip(".")]:
            made = convert(source, ending, TESTS / "samples")
            if ending != "rtf":
                packed_tighter(made)
            print(f"{made.relative_to(TESTS)}: {made.stat().st_size:,} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
