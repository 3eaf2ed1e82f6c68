"""The outcome of a document read in a process of its own: its result, or the reason of its failure.

Belongs here: errors as the answer's facts, and back. Does not belong here: the work (`worker`), limits
(`rag_serving.isolation`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import IO, Any

from rag_assets.steps.files.records import FileError
from rag_assets.steps.formats.element_tree import PageError
from rag_serving.isolation.child import Limits, ParseError
from rag_serving.isolation.serving import within_limits


def outcome(limits: Limits, requests: IO[bytes], work: Callable[[], Any]) -> dict[str, Any]:
    """Return the facts of an answer: the result of `work` within the limits, or the reason for its failure.

    `requests`: the stream of the request; if the other side closes it, the process ends.
    """
    try:
        with within_limits(limits, requests):
            return {"result": work()}
    except (PageError, FileError) as error:
        return {"reason": " ".join(str(error).split())}
    except ImportError as error:
        return {"missing": error.name or str(error)}
    except MemoryError:
        return {"memory": True}
    except RecursionError:
        return {"reason": "it is nested too deep"}
    except Exception as error:  # a fault in one document is reported; the others still arrive
        return {"reason": " ".join(f"unexpected {type(error).__name__}: {error}"[:300].split())}


def result_of(facts: Mapping[str, Any], limits: Limits) -> Any:
    """Return an answer's result.

    Raises:
        ParseError: it has none, with its reason.
        ImportError: the document's reader is not installed; `name` is the module's.
    """
    if facts.get("memory"):
        raise ParseError(limits.too_large())
    if missing := facts.get("missing"):
        raise ImportError(f"{missing} is not installed", name=str(missing))
    if "result" not in facts:
        raise ParseError(str(facts.get("reason", "its parser failed")))
    return facts["result"]
