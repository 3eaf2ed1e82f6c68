"""The process that parses: `python -m rag_assets.parsing.worker`, one document after the other.

Belongs here: reading requests, keeping the limits, calling the pure functions of `rag_assets.steps`, answering.
Does not belong here: starting and ending this process (`child`).

It opens no file and no socket. It ends when nobody asks any more: its standard input is at its end, or, while it
parses, the system signals that the other side has closed it (SIGIO) or that a limit is reached.
"""

from __future__ import annotations

import os
import signal
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from types import MappingProxyType
from typing import IO, Any

from rag_assets.parsing.limits import Limits, address_space, end_of_document, limit_document, limit_process
from rag_assets.parsing.wire import Frame, content_to_json, read_frame, write_frame
from rag_assets.steps.formats.attachment_text import AttachmentError, attachment_text
from rag_assets.steps.formats.budget import Budget
from rag_assets.steps.formats.element_tree import PageError
from rag_assets.steps.formats.exported_page import exported_index, exported_page
from rag_assets.steps.sections.reading import DirectReader

_REQUEST_MAX = 1024**3
_KEPT_MB = 256  # of address space beyond that at the start; a process that has more after a document is replaced


def serve(requests: IO[bytes], answers: IO[bytes]) -> None:
    """Answer requests until there are none, or until this process has grown too large for the next document."""
    limit_process()
    grown = address_space() + _KEPT_MB * 1024**2
    while (request := read_frame(requests, _REQUEST_MAX)) is not None:
        answer = _answer(request, requests)
        is_last = address_space() > grown or "memory" in answer
        write_frame(answers, Frame({**answer, "last": is_last}))
        if is_last:
            return


def _answer(request: Frame, requests: IO[bytes]) -> dict[str, Any]:
    facts = request.facts
    limits, budget = Limits(*facts["limits"]), Budget(*facts["budget"])
    try:
        with _ended_with(requests):
            limit_document(limits)
            return {"result": _DOING[facts["do"]](facts, request.content, budget)}
    except (PageError, AttachmentError) as error:
        return {"reason": " ".join(str(error).split())}
    except MemoryError:
        return {"memory": True}
    except RecursionError:
        return {"reason": "it is nested too deep"}
    except Exception as error:  # a fault in one document is reported; the others still arrive
        return {"reason": " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())}
    finally:
        end_of_document()


@contextmanager
def _ended_with(requests: IO[bytes]) -> Iterator[None]:
    """Let the system end this process as soon as the other side closes the pipe, even while C code runs."""
    try:
        import fcntl
        import select

        flags = fcntl.fcntl(requests, fcntl.F_GETFL)
        fcntl.fcntl(requests, fcntl.F_SETOWN, os.getpid())
        fcntl.fcntl(requests, fcntl.F_SETFL, flags | os.O_ASYNC)
        poll = select.poll()
        poll.register(requests, select.POLLHUP)
        if poll.poll(0):
            sys.exit(1)
    except (ImportError, AttributeError, OSError):
        yield
        return
    try:
        yield
    finally:
        with suppress(OSError):
            fcntl.fcntl(requests, fcntl.F_SETFL, flags)


def _content(facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    content = DirectReader(budget).content(_text(body), facts["format"], facts["lists"])
    return content_to_json(content)


def _excerpt(facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    return content_to_json(DirectReader(budget).excerpt(_text(body), facts["name"]))


def _properties(_facts: Mapping[str, Any], body: bytes, budget: Budget) -> Any:
    return DirectReader(budget).properties(_text(body))


def _attachment(facts: Mapping[str, Any], content: bytes, budget: Budget) -> Any:
    return attachment_text(facts["name"], content, budget)


def _exported_page(_facts: Mapping[str, Any], content: bytes, _budget: Budget) -> Any:
    return exported_page(content)


def _exported_index(_facts: Mapping[str, Any], content: bytes, _budget: Budget) -> Any:
    return exported_index(content)


def _text(body: bytes) -> str:
    return body.decode("utf-8", "surrogatepass")


_DOING: Mapping[str, Callable[[Mapping[str, Any], bytes, Budget], Any]] = MappingProxyType(
    {
        "content": _content,
        "excerpt": _excerpt,
        "properties": _properties,
        "attachment": _attachment,
        "exported_page": _exported_page,
        "exported_index": _exported_index,
    }
)


def main() -> None:
    """Standard output is the answers' alone: whatever a library prints goes nowhere."""
    warnings.simplefilter("ignore")
    for name in ("SIGXCPU", "SIGALRM", "SIGIO"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever asks decides
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    for name in ("lxml.html", "markdown_it", "bs4.dammit"):  # what is imported here counts for no document
        import_module(name)

    with suppress(OSError):
        serve(sys.stdin.buffer, answers)


if __name__ == "__main__":
    main()
