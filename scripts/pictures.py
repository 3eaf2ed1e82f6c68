"""Make the pictures of docs/asking.md, docs/documents.md and of the README: the web page over the samples that
`make demo demo-documents` built, and a conversation in a terminal (docs/images/chat.svg).

    python scripts/pictures.py [--folder docs/images]

Debian's Chromium drives a server of its own; the recording is an animated WebP of the same journey. `citelock chat`
runs on a pseudo-terminal, and what it prints is drawn by Rich.
"""

from __future__ import annotations

import argparse
import io
import os
import pty
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.request import urlopen

from PIL import Image
from playwright.sync_api import Page, ViewportSize, expect, sync_playwright
from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).parents[1]
CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--force-color-profile=srgb"]
SIZE = ViewportSize(width=1280, height=800)
QUESTION, FOLLOW_UP = "How long can a release be rolled back?", "and who approves it?"
DOCUMENTS, OF_PDF = "config/documents.yaml", "What does a cancelled stay cost?"
FRAME_MS, RECORDED_S = 200, 20
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


@dataclass
class Recording:
    """Frames of a page, one every FRAME_MS of the time that a reader would take."""

    page: Page
    frames: list[Image.Image] = field(default_factory=list)

    def hold(self, seconds: float) -> None:
        """Let the page stand still for so long."""
        for _ in range(max(1, round(seconds * 1000 / FRAME_MS))):
            shot = Image.open(io.BytesIO(self.page.screenshot()))
            self.frames.append(shot.convert("RGB").resize((960, 600), Image.Resampling.LANCZOS))

    def type(self, text: str) -> None:
        """Type a text, a few letters a frame."""
        for start in range(0, len(text), 4):
            self.page.keyboard.type(text[start : start + 4])
            self.hold(FRAME_MS / 1000)

    def save(self, path: Path) -> None:
        """Write the frames of the first RECORDED_S seconds."""
        frames = self.frames[: RECORDED_S * 1000 // FRAME_MS]
        frames[0].save(path, save_all=True, append_images=frames[1:], duration=FRAME_MS, loop=0, quality=60, method=4)


@contextmanager
def serving(config: str = "config/app.yaml") -> Iterator[str]:
    """Yield the address of a server over the home of a configuration."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    environment = {**os.environ, "CITELOCK_SERVING__PORT": str(port), "CITELOCK_TELEMETRY__ENABLED": "false"}
    environment["CITELOCK_CONFIG"] = config
    command = [str(Path(sys.executable).with_name("citelock")), "serve"]
    with subprocess.Popen(command, cwd=ROOT, env=environment) as server:
        try:
            for _ in range(100):
                with suppress(OSError), urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
                    break
                time.sleep(0.2)
            else:
                raise SystemExit("the server does not become ready: run `make demo` first")
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def record(page: Page, address: str, folder: Path) -> None:
    """Go through the journey once, saving pictures on the way."""
    recording = Recording(page)
    page.goto(address)
    expect(page.get_by_role("textbox")).to_be_visible()
    recording.hold(1.5)
    recording.type(QUESTION)
    page.keyboard.press("Enter")
    recording.hold(0.6)
    source = page.get_by_role("button", name="Source 1", exact=False).first
    expect(source).to_be_visible()
    recording.hold(1.5)
    page.screenshot(path=folder / "asking-answer.png")
    source.hover()
    page.wait_for_timeout(500)
    recording.hold(2.5)
    page.screenshot(path=folder / "asking-card.png")
    source.click()
    expect(page.locator("mark").first).to_be_visible()
    page.wait_for_timeout(600)
    recording.hold(3)
    page.screenshot(path=folder / "asking-source.png")
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    recording.type(FOLLOW_UP)
    page.keyboard.press("Enter")
    page.wait_for_timeout(1000)
    recording.hold(3)
    recording.save(folder / "asking.webp")


def show_pdf(page: Page, address: str, folder: Path) -> None:
    """Save a picture of a quote that is marked in its page of a PDF."""
    page.goto(address)
    expect(page.get_by_role("textbox")).to_be_visible()
    page.keyboard.type(OF_PDF)
    page.keyboard.press("Enter")
    source = page.get_by_role("button", name="Source 1", exact=False).first
    expect(source).to_be_visible(timeout=30_000)
    source.click()
    page.wait_for_timeout(6000)
    shot = Image.open(io.BytesIO(page.screenshot()))
    shot.convert("RGB").quantize(64).save(folder / "documents-source.png", optimize=True)


def draw_chat(path: Path) -> None:
    """Draw a conversation in a terminal."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True)
    console.print(Text.from_ansi(_printed()))
    svg = console.export_svg(title="citelock chat --config config/documents.yaml", code_format=FORMAT, unique_id="chat")
    path.write_text(svg, encoding="utf-8")


def _printed() -> str:
    ours, its = pty.openpty()
    environment = {**os.environ, "COLUMNS": str(COLUMNS), "TERM": "xterm-256color"}
    environment["CITELOCK_TELEMETRY__ENABLED"] = "false"
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
    read = b""
    with suppress(OSError):  # the other side was closed
        while not read.endswith(b"> "):
            read += os.read(terminal, 65_536)
    return read


def main() -> None:
    """Make all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "images", help="where the pictures go")
    folder: Path = parser.parse_args().folder
    draw_chat(folder / "chat.svg")
    with serving() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        context = browser.new_context(viewport=SIZE, color_scheme="light", device_scale_factor=1)
        record(context.new_page(), address, folder)
        browser.close()
    with serving(DOCUMENTS) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        show_pdf(browser.new_page(viewport=SIZE, color_scheme="light"), address, folder)
        browser.close()


if __name__ == "__main__":
    main()
