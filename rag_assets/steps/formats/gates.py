"""Macros that choose their readers: they show their body to some of those who may read the page, or to nobody.

Belongs here: telling such a macro, by its name or by a parameter that names groups or users, whatever the app.
Does not belong here: what other macros leave in the text (`macros`).

Who may read such a body cannot be known, so it is left out: a gate that is not recognized shows its text to everybody.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_NAME = re.compile(
    r"(?:^|[-_./ ])(?:(?:show|hide)[-_ ]?if\w*"
    r"|(?:show|hide|display|visible|hidden|reveal)[-_ ]?(?:to|for|from|when|unless|only)"
    r"|hide|hidden|visibility|secrets?|audience|conditional[-_ ]?(?:content|display|panel|section|text)"
    r"|(?:restrict|privat|secur|confidential|protect|permi[st]|encrypt)[a-z]*"
    r"|(?:admin|group|member|staff|user)s?[-_ ]?only|comment)(?:$|[-_./ ])"
)
_READERS = re.compile(
    r"(?:account|audience|group|member|permission|principal|reader|role|user|viewer)s?(?:id|key|list|name)?s?\Z"
    r"|^(?:show|hide|hidden|visible|restricted|allowed|denied|shared)(?:to|for|from|with)\Z"
)
_WIKI_MACRO = re.compile(r"\{([\w./-]{1,80})(?::([^{}\n]{0,1000}))?\}")


def is_gate(name: str, parameters: Mapping[str, str], has_body: bool, plain: str | None = None) -> bool:
    """Return whether a macro chooses its readers, or its text in wiki markup has a macro that does.

    Args:
        name: of the macro, in lower case.
        parameters: by name.
        has_body: parameters of a macro without a body may name people whom it shows.
        plain: its body, where that is no markup.
    """
    if _NAME.search(name) or (has_body and any(_names_readers(*one) for one in parameters.items())):
        return True
    if "wiki" not in name:
        return False
    found = ((one[1].lower(), parameters_of(one[2] or "")) for one in _WIKI_MACRO.finditer(plain or ""))
    return any(is_gate(inner, given, has_body=True) for inner, given in found)


def parameters_of(written: str) -> dict[str, str]:
    """Return the parameters in `a=b|c=d`, as wiki markup and rendered pages have them."""
    pairs = (part.partition("=") for part in written.split("|"))
    return {name.strip().lower(): value.strip() for name, _, value in pairs}


def _names_readers(name: str, value: str) -> bool:
    return bool(value) and _READERS.search(re.sub(r"[-_. ]", "", name[-80:])) is not None
