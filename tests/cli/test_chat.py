"""A conversation in the terminal: piped line by line, and typed."""

from __future__ import annotations

import io
import os
import pty
import re
import select
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import pytest
from support.command_line import CITELOCK, write_config
from support.stand_in_chat import MODEL, Fault, StandInChat, served
from typer.testing import CliRunner

from rag_serving.cli.chat import COMMANDS, NEW, NOT_OFFERED, NOTHING_YET, piped_lines
from rag_serving.cli.main import app

LOGS = "How long does each broker keep logs?"


@pytest.fixture
def config(wiki_home: Path, tmp_path: Path) -> str:
    return write_config(tmp_path, wiki_home)


def chat(config: str, *lines: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(app, ["chat", "--config", config], input="\n".join(lines), prog_name="citelock")
    return result.exit_code, result.stdout, result.stderr


def test_each_line_is_a_question_after_those_before_it(config: str) -> None:
    code, out, _ = chat(config, LOGS, "", "and how are they kept longer?")
    assert code == 0
    assert out.count("\n> ") == 1
    first, second = out.split("\n> ")
    assert first.startswith(f"> {LOGS}\nEach broker keeps logs for 168 hours by default.")
    assert "[1] Kafka operations → Log retention  https://wiki.example/pages/12#Log-retention" in first
    assert second.splitlines()[1].startswith("read as: how are they kept longer: ")
    assert "\x1b" not in out


def test_commands_show_more_forget_and_leave(config: str) -> None:
    code, out, _ = chat(
        config, "/sources", LOGS, "/sources", "/explain", "/new", "why?", "/help", "/nonsense", "/quit", LOGS
    )
    assert code == 0
    assert NOTHING_YET in out
    assert "“Each broker keeps logs for 168 hours by default" in out
    assert "passage 1" in out
    assert "confidence" in out
    assert NEW in out
    assert "read as" not in out, "nothing is left of the conversation"
    assert all(command in out for command in COMMANDS)
    assert "There is no /nonsense" in out
    assert out.count(f"> {LOGS}") == 1, "what comes after /quit is not asked"


def test_an_option_is_picked_by_its_number(config: str) -> None:
    _, out, _ = chat(config, "hello", "1")
    assert re.search(r"^    1\. \S.*\?$", out, re.MULTILINE)
    assert out.split("> 1\n")[1].strip()


def test_a_number_that_picks_nothing_is_not_searched(config: str) -> None:
    _, out, _ = chat(config, "1", LOGS, "2", "hello", "9", "1")
    assert out.count(NOT_OFFERED) == 2
    assert "There are options 1 to " in out.split("> 9\n")[1]
    assert NOT_OFFERED not in out.split("> hello\n")[1], "the options stay open after a number that is none of them"


def test_a_line_that_is_no_question_is_refused_and_the_next_one_asked(config: str) -> None:
    code, out, err = chat(config, "word " * 100_000, "a\0b", LOGS)
    assert code == 0
    assert "at most" in err
    assert "168 hours" in out


def test_questions_that_cannot_be_answered_fail_a_script(tmp_path: Path) -> None:
    code, _, err = chat(write_config(tmp_path, tmp_path / "nothing"), LOGS)
    assert code == 1
    assert "nothing is published" in err


def test_help_teaches() -> None:
    result = CliRunner().invoke(app, ["chat", "--help"], prog_name="citelock")
    assert "the second one" in " ".join(result.stdout.split())
    assert "Ctrl-D" in result.stdout


def test_lines_end_where_they_end() -> None:
    stream = io.StringIO("one\r\n" + "x" * 200_000 + "\ntwo")
    one, long, two = piped_lines(stream.readline)
    assert (one, two) == ("one", "two")
    assert set(long) == {"x"}
    assert len(long) < 100_000


class Terminal:
    """The command in a terminal of its own."""

    def __init__(self, *arguments: str) -> None:
        self._main, side = pty.openpty()
        self.process = subprocess.Popen(
            [*CITELOCK, *arguments], stdin=side, stdout=side, stderr=side, start_new_session=True,
            preexec_fn=lambda: __import__("fcntl").ioctl(0, __import__("termios").TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(side)
        self.shown = ""

    def until(self, text: str, seconds: float = 60) -> str:
        """What was shown until a text came."""
        ends = time.monotonic() + seconds
        while text not in self.shown:
            assert time.monotonic() < ends, self.shown
            if select.select([self._main], [], [], 0.2)[0]:
                try:
                    self.shown += os.read(self._main, 65536).decode(errors="replace")
                except OSError:
                    break
        before, _, self.shown = self.shown.partition(text)
        return before

    def interrupt(self) -> None:
        """Press Ctrl-C at the prompt until there is a new one: readline may not listen yet when its prompt is shown."""
        for _ in range(10):
            self.type("\x03")
            with suppress(AssertionError):
                self.until("> ", 5)
                return
        raise AssertionError(self.shown)

    def type(self, text: str) -> None:
        os.write(self._main, text.encode())

    def close(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._main)


def test_ctrl_c_cancels_a_question_and_ctrl_d_leaves(wiki_home: Path, tmp_path: Path) -> None:
    with served(StandInChat()) as server:
        server.faults += [Fault(hang_s=60)]
        more = f"generation: {{provider: ollama, model: {MODEL}, base_url: {server.url}}}\n"
        terminal = Terminal("chat", "--config", write_config(tmp_path, wiki_home, more))
        try:
            terminal.until("> ")
            terminal.type(f"{LOGS}\n")
            terminal.until("generate")
            terminal.type("\x03")
            terminal.until("Cancelled.")
            terminal.until("> ")
            terminal.type("/help\n")
            terminal.until("so does Ctrl-D")
            terminal.until("> ")
            terminal.interrupt()
            terminal.type("\x04")
            assert terminal.process.wait(30) == 0
        finally:
            terminal.close()
