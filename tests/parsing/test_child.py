"""A process that parses ends at its limits and with who asks; whatever it does, that document has a reason."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from rag_assets.parsing.reader import WORKER
from rag_serving.isolation.child import Child, Frame, Limits, ParseError

LIMITS = Limits(seconds=1, memory_mb=64)
ROUND = "import sys\nfrom rag_serving.isolation.child import *\nread_frame(sys.stdin.buffer, 10**9)\n"
ENDINGS = {
    "segmentation fault": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    "killed for want of memory": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "64 MB of memory"),
    "exit": ("raise SystemExit(3)", "exit status 3"),
    "good-bye": ("raise SystemExit(0)", "ended without an answer"),
    "garbage": ("print('Traceback: all is well')", "something else than an answer"),
    "half an answer": ("sys.stdout.buffer.write(b'CLP1' + bytes([0,0,0,9]) + bytes([0,0,0,9]))", "is cut"),
    "no object": ("sys.stdout.buffer.write(b'CLP1' + bytes([0,0,0,2]) + bytes(4) + b'[]')", "something else"),
    "endless answer": ("sys.stdout.buffer.write(b'CLP1' + b'\\xff' * 8)", "more than 1,000 bytes"),
    "endless loop": ("import signal; signal.alarm(1)\nwhile True: pass", "1 s of parsing"),
    "asleep, and deaf": ("import time; time.sleep(60)", "1 s of parsing"),
    "a child that keeps the pipe": (
        "import os, time\nif not os.fork(): time.sleep(60)\nos._exit(7)",
        "1 s of parsing",
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_whatever_a_parser_does_has_a_reason(ending: str, monkeypatch: pytest.MonkeyPatch) -> None:
    code, reason = ENDINGS[ending]
    limits = LIMITS._replace(answer_bytes=1000, seconds=1 if "s of parsing" in reason else 60)
    monkeypatch.setattr("rag_serving.isolation.child._GRACE_S", -1.0)
    with Child(limits, (sys.executable, "-c", ROUND + code)) as child:
        for _ in range(2 if "s of" not in reason else 1):  # the second question finds a new process
            with pytest.raises(ParseError, match=reason):
                child.ask(Frame({"do": "nothing"}, b"x" * 300_000))


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def gone(pid: int, within: float = 10.0) -> bool:
    deadline = time.monotonic() + within
    while alive(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not alive(pid)


WAITS = """
import sys, threading
from rag_assets.parsing.reader import WORKER
from rag_serving.isolation.child import Child
from rag_serving.isolation.child import Limits
from rag_serving.isolation.child import Frame
limits = Limits(300, 256)
child = Child(limits, WORKER)
child.ask(Frame({"do": "properties", "limits": limits, "budget": [1, 1, 1, 1]}, b""))
print(child._process.pid, flush=True)
busy = b"<p " + b" ".join(b'a%d=""' % n for n in range(400_000)) + b">x"
if sys.argv[1] == "busy":
    child.ask(Frame({"do": "properties", "limits": limits, "budget": [1, 1, 1, 1]}, busy))
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the signal for a closed pipe is Linux's")
@pytest.mark.parametrize("state", ["idle", "busy"])
def test_no_parser_outlives_who_asked_it(state: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", WAITS, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as asking:
        assert asking.stdout is not None
        pid = int(asking.stdout.readline())
        time.sleep(0.5)  # it is at work, in C code that hears no Python signal
        assert alive(pid)
        asking.send_signal(signal.SIGKILL)
    assert gone(pid)


def test_ctrl_c_ends_the_parser_at_once() -> None:
    child = Child(LIMITS._replace(seconds=60), (sys.executable, "-c", "import time; time.sleep(600)"))
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = child._started
    pids = []
    child._started = lambda: pids.append(process := started()) or process  # type: ignore[func-returns-value,method-assign]
    with pytest.raises(KeyboardInterrupt):
        child.ask(Frame({}))
    assert gone(pids[0].pid)


def test_a_parser_is_given_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_SECRET", "do not tell")
    code = ROUND + "import os\nwrite_frame(sys.stdout.buffer, Frame(dict(os.environ)))"
    with Child(LIMITS, (sys.executable, "-c", code)) as child:
        assert "do not tell" not in str(child.ask(Frame({})).facts)


def test_one_parser_serves_many_documents_and_threads_in_turn() -> None:
    asked = Frame(
        {"do": "content", "format": "text", "lists": False, "limits": LIMITS, "budget": [9999] * 4}, b"a\n\nb"
    )
    answers, pids = [], set()
    with Child(LIMITS, WORKER) as child:

        def ask() -> None:
            for _ in range(10):
                answers.append(child.ask(asked).facts["result"])
                pids.add(child._process and child._process.pid)

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert len(answers) == 40
    assert all([block[1] for block in answer["blocks"]] == ["a", "b"] for answer in answers)
    assert len(pids) == 1


REPORTS = """
for page in (1, 2, 3):
    write_frame(sys.stdout.buffer, Frame({"report": [page, 3]}))
write_frame(sys.stdout.buffer, Frame({"result": "done"}))
"""


def test_a_parser_says_how_far_it_is_before_it_answers() -> None:
    told: list[tuple[int, int]] = []
    with Child(LIMITS, (sys.executable, "-c", ROUND + REPORTS)) as child:
        answer = child.ask(Frame({"do": "nothing"}), lambda *pages: told.append(pages))
    assert (answer.facts, told) == ({"result": "done"}, [(1, 3), (2, 3), (3, 3)])


@pytest.mark.parametrize("report", ['"x"', "[1]", "[null, 3]", "{}"])
def test_a_report_that_is_none_ends_the_document(report: str) -> None:
    code = f"{ROUND}null = None\nwrite_frame(sys.stdout.buffer, Frame({{'report': {report}}}))"
    with Child(LIMITS, (sys.executable, "-c", code)) as child, pytest.raises(ParseError, match="something else"):
        child.ask(Frame({"do": "nothing"}))
