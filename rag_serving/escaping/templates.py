"""Templates of HTML pages: every value that one shows is escaped."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from rag_serving.escaping.targets import printable


@cache
def html_template(package: str, name: str) -> Template:
    """Return a template of a package, which may include those of this room."""
    return Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader(__package__)]),
        autoescape=True,
        finalize=_visible,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    ).get_template(name)


def _visible(value: Any) -> Any:
    """Return text without invisible characters; a template's own output stays as it is."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value
