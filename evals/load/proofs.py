"""Check that a degraded answer is true: its words are on pages that the asker may read."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import httpx

_MARK = re.compile(r"\s*\[(\d+)\]\.?\s*$")
_MARKUP = re.compile(r"[*_`#>|\\]|^\s*[-+]\s|\[([^\]]*)\]\([^)]*\)", re.MULTILINE)


class AskerProofs:
    """Passages as the asker's own requests show them. Not safe to use from several threads."""

    def __init__(self, client: httpx.Client, headers: Mapping[str, str]) -> None:
        self._client, self._headers = client, dict(headers)
        self._passages: dict[str, dict[str, Any] | None] = {}

    def fault(self, payload: Mapping[str, Any]) -> str:
        """Return the fault of an answer or of the results of a search; empty without one."""
        if "results" in payload:
            return next(filter(None, map(self._result_fault, payload["results"])), "")
        if payload["status"] == "answered" and not payload["citations"]:
            return "an answer without citations"
        faults = [self._citation_fault(citation) for citation in payload["citations"]]
        return next(filter(None, [*faults, self._sentence_fault(payload)]), "")

    def _result_fault(self, result: Mapping[str, Any]) -> str:
        passage = self._passage(result["chunk_id"])
        if passage is None:
            return f"passage {result['chunk_id']} is not one that the asker may read"
        return "" if passage["chunk"]["text"] == result["text"] else f"passage {result['chunk_id']} has another text"

    def _citation_fault(self, citation: Mapping[str, Any]) -> str:
        passage = self._passage(citation["chunk_id"])
        if passage is None:
            return f"cited passage {citation['chunk_id']} is not one that the asker may read"
        page, text = passage["page"], passage["chunk"]["text"]
        if (page["page_id"], page["version"]) != (citation["page_id"], citation["page_version"]):
            return f"cited passage {citation['chunk_id']} is of another page, or of another version"
        return "" if _plain(citation["quote"]) in _plain(text) else f"no such words on the page: {citation['quote']!r}"

    def _sentence_fault(self, payload: Mapping[str, Any]) -> str:
        """Return a line of an extractive answer that is missing from the passages that it cites."""
        if payload.get("generator", "extractive") not in ("", "extractive"):
            return ""
        cited = {citation["index"]: citation["chunk_id"] for citation in payload["citations"]}
        for line in payload["answer"].splitlines():
            mark = _MARK.search(line)
            if mark is None or int(mark[1]) not in cited:
                continue
            passage = self._passage(cited[int(mark[1])])
            if passage is None or not _stands(_MARK.sub("", line), passage["chunk"]["text"]):
                return f"a line of the answer does not stand on the page that it cites: {line!r}"
        return ""

    def _passage(self, chunk_id: str) -> dict[str, Any] | None:
        if chunk_id not in self._passages:
            response = self._client.get(f"/v1/passages/{quote(chunk_id, safe=':')}", headers=self._headers)
            if response.status_code not in (200, 404):
                response.raise_for_status()
            self._passages[chunk_id] = response.json() if response.status_code == 200 else None
        return self._passages[chunk_id]


def _stands(line: str, text: str) -> bool:
    """Return whether a line is in a text, or is a row of its table: the names of columns, each with its cell."""
    plain = _plain(text)
    parts = [part for cell in line.split("; ") for part in cell.split(": ", 1)]
    return _plain(line) in plain or all(_plain(part) in plain for part in parts)


def _plain(text: str) -> str:
    """Return letters, digits and signs as they are read: without markup and white space."""
    text = _MARKUP.sub(lambda mark: mark[1] or "", unicodedata.normalize("NFKC", text))
    return re.sub(r"\s+", "", text).casefold()
