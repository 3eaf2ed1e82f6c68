"""Make docs/images/chat.svg: a conversation in a terminal, over the documents that `make demo-documents` built.

    python scripts/terminal.py [--out docs/images/chat.svg]

`citelock chat` runs on a pseudo-terminal, and what it prints is drawn by Rich.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
COLUMNS = 112
SAID = (
    "explain wrkspace",
    "home",
    "1",
    "workspace and widgets",
    "where are my shortcuts?",
    "How do I ask for leave?",
    "and who approves it?",
    "explain calendar",
)
"""Questions of the kinds that an assistant of an application meets: misspelt, ambiguous, two in one, in other words,
leaning on the one before, about nothing that there is."""
# Rich's own format loads its font from elsewhere.
FORMAT = """<svg class="rich-terminal" viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Consolas, monospace; font-size: {char_height}px;
line-height: {line_height}px; font-variant-east-asian: full-width; }}
{styles}
</style>
<defs><clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}" /></clipPath>{lines}</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">{matrix}</g>
</g>
</svg>
"""


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--out", type=Path, default=ROOT / "docs" / "images" / "chat.svg")
    given = arguments.parse_args()
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(_printed()))
    svg = console.export_svg(title="citelock chat --config config/documents.yaml", code_format=FORMAT, unique_id="chat")
    given.out.write_text(svg, encoding="utf-8")


def _printed() -> str:
    """Return what the command prints in a terminal, typed lines included."""
    ours, its = pty.openpty()
    environment = {
        **os.environ,
        "COLUMNS": str(COLUMNS),
        "TERM": "xterm-256color",
        "CITELOCK_TELEMETRY__ENABLED": "false",
    }
    command = [str(Path(sys.executable).with_name("citelock")), "chat", "--config", "config/documents.yaml"]
    printed = b""
    with subprocess.Popen(command, stdin=its, stdout=its, stderr=subprocess.DEVNULL, cwd=ROOT, env=environment) as chat:
        os.close(its)
        for line in (*SAID, "/quit"):
            printed += _until_prompt(ours)
            os.write(ours, f"{line}\n".encode())
        chat.wait()
    return printed.decode("utf-8", "replace").replace("\r\n", "\n")


def _until_prompt(terminal: int) -> bytes:
    """Return what is printed until the next question can be typed."""
    read = b""
    with suppress(OSError):  # the other side was closed
        while not read.endswith(b"> "):
            read += os.read(terminal, 65_536)
    return read


if __name__ == "__main__":
    main()
