"""Values in JavaScript files, read without running anything."""

from __future__ import annotations

import re
from typing import Any

_TOKEN = re.compile(
    r"""\s+|//[^\n]*|/\*(?:[^*]|\*(?!/))*(?:\*/|\Z)
    |(?P<string>"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?|`(?:[^`\\]|\\.)*`?)
    |(?P<word>[A-Za-z_$][\w$]*|-?\d[\w.]*)
    |(?P<mark>\.\.\.|=>|.)""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u\{([0-9a-fA-F]{1,6})\}|u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r?\n|.))", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v", "0": "\0", "\n": "", "\r\n": ""}
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "undefined": None}
_OPEN = {"(": ")", "[": "]", "{": "}"}
_TOKENS_MAX, _DEPTH_MAX = 500_000, 100

Token = tuple[str, str]
"""Kind (string, word, mark) and text."""


class JsError(Exception):
    """A file that is too large, or nested too deep; the message says why."""


def exported(text: str) -> Any:
    """Return what a module exports by `module.exports =` or `export default`, else None.

    Objects are dictionaries, strings without expressions in them strings, numbers strings; names are replaced by their
    value in the same file.

    Raises:
        JsError: it has more than 500,000 tokens, or is nested deeper than 100.
    """
    tokens = _tokens(text)
    reader = _ValueReader(tokens)
    for at, (kind, word) in enumerate(tokens):
        if kind != "word":
            continue
        if word == "module" and _texts(tokens, at + 1, 3) == [".", "exports", "="]:
            return reader.value(at + 4, 0)[0]
        if word == "export" and _texts(tokens, at + 1, 1) == ["default"]:
            return reader.value(at + 2, 0)[0]
    return None


def constants(text: str) -> dict[str, Any]:
    """Return the values that names are given in a module, as far as they are written there. Raises JsError."""
    reader = _ValueReader(_tokens(text))
    return {name: reader.value(at, 0)[0] for name, at in reader.given.items()}


def _tokens(text: str) -> list[Token]:
    tokens: list[Token] = []
    for match in _TOKEN.finditer(text):
        if match.lastgroup:
            tokens.append((match.lastgroup, match[0]))
            if len(tokens) > _TOKENS_MAX:
                raise JsError(f"it has more than {_TOKENS_MAX} words")
    return tokens


def _texts(tokens: list[Token], at: int, count: int) -> list[str]:
    return [text for _, text in tokens[at : at + count]]


class _ValueReader:
    def __init__(self, tokens: list[Token]) -> None:
        self._tokens = tokens
        self.given: dict[str, int] = {}
        for at, (kind, word) in enumerate(tokens):
            if kind == "word" and word in ("const", "let", "var"):
                equals = next((i for i in range(at + 2, min(at + 12, len(tokens))) if tokens[i][1] == "="), None)
                if equals is not None:
                    self.given.setdefault(tokens[at + 1][1], equals + 1)
        self._resolving: set[str] = set()

    def value(self, at: int, depth: int) -> tuple[Any, int]:
        """Return the value that begins at a token, and the token after its expression."""
        if depth > _DEPTH_MAX:
            raise JsError(f"it is nested deeper than {_DEPTH_MAX}")
        if at >= len(self._tokens):
            return None, at
        kind, text = self._tokens[at]
        value: Any = None
        after = at
        if kind == "string":
            value, after = _string(text), at + 1
        elif text == "{":
            value, after = self._object(at + 1, depth)
        elif text == "[":
            value, after = self._list(at + 1, depth)
        elif text == "(":
            value, after = self.value(at + 1, depth + 1)
            after = after + 1 if _texts(self._tokens, after, 1) == [")"] else after
        elif _texts(self._tokens, at, 4) == ["require", ".", "resolve", "("]:
            value, after = self.value(at + 4, depth + 1)
            after += 1
        elif kind == "word":
            value, after = self._named(text, depth), at + 1
        end = self._skipped(after)
        rest = _texts(self._tokens, after, min(end - after, 2))
        return (value if end == after or rest[:1] in (["as"], ["satisfies"]) else None), end

    def _named(self, word: str, depth: int) -> Any:
        if word in _WORDS:
            return _WORDS[word]
        if word[0].isdigit() or word[0] == "-":
            return word
        if word not in self.given or word in self._resolving:
            return None
        self._resolving.add(word)
        try:
            return self.value(self.given[word], depth + 1)[0]
        finally:
            self._resolving.discard(word)

    def _object(self, at: int, depth: int) -> tuple[dict[str, Any], int]:
        found: dict[str, Any] = {}
        while at < len(self._tokens) and self._tokens[at][1] != "}":
            kind, text = self._tokens[at]
            following = _texts(self._tokens, at + 1, 1)
            if text == ",":
                at += 1
            elif kind in ("string", "word") and following == [":"]:
                value, at = self.value(at + 2, depth + 1)
                found[_string(text) or "" if kind == "string" else text] = value
            elif kind == "word" and following[:1] in ([","], ["}"]):
                found[text] = self._named(text, depth)
                at += 1
            elif text == "...":
                value, at = self.value(at + 1, depth + 1)
                found.update(value if isinstance(value, dict) else {})
            else:
                at = max(self._skipped(at), at + 1)
        return found, at + 1

    def _list(self, at: int, depth: int) -> tuple[list[Any], int]:
        found: list[Any] = []
        while at < len(self._tokens) and self._tokens[at][1] != "]":
            text = self._tokens[at][1]
            if text == ",":
                at += 1
                continue
            is_spread = text == "..."
            value, after = self.value(at + is_spread, depth + 1)
            at = max(after, at + 1)
            if is_spread:
                found += value if isinstance(value, list) else []
            else:
                found.append(value)
        return found, at + 1

    def _skipped(self, at: int) -> int:
        """Return the token that ends an expression: a comma, a semicolon or a closing bracket around it."""
        closing: list[str] = []
        while at < len(self._tokens):
            kind, text = self._tokens[at]
            if kind == "mark":
                if text in _OPEN:
                    closing.append(_OPEN[text])
                elif closing and text == closing[-1]:
                    closing.pop()
                elif text in ")]}" or (not closing and text in ",;"):
                    return at
            elif not closing and kind == "word" and text in ("const", "let", "var", "export", "module"):
                return at
            at += 1
        return at


def _string(text: str) -> str | None:
    """Return the value of a string literal; None for a template with expressions in it."""
    if text[0] == "`" and "${" in text:
        return None
    return _ESCAPE.sub(_escaped, text[1:-1])


def _escaped(match: re.Match[str]) -> str:
    if match[4]:
        return _ESCAPED.get(match[4], match[4])
    code = int(match[1] or match[2] or match[3], 16)
    return chr(code) if code < 0x110000 and not 0xD800 <= code < 0xE000 else "\ufffd"
