"""MyST Markdown of Sphinx projects, read by myst-parser into docutils' tree.

Belongs here: its settings. Does not belong here: directives, roles and HTML, which it shares with reStructuredText.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from citelock_sites.markup import MarkupError, MarkupPage, PageSurroundings
from citelock_sites.rst.context import RstContext, RstSettings
from citelock_sites.rst.page import parsed_page

_SETTINGS = ("myst_enable_extensions", "myst_heading_anchors", "myst_substitutions", "myst_fence_as_directive")


def myst_page(
    text: str, name: str, around: PageSurroundings, settings: RstSettings, values: Mapping[str, Any]
) -> MarkupPage:
    """Return a page of MyST Markdown; `values` are those of `conf.py`.

    Raises:
        MarkupError: it cannot be read, or myst-parser is not installed.
    """
    try:
        from myst_parser.parsers.docutils_ import Parser
    except ImportError:
        raise MarkupError(
            "MyST Markdown is read where myst-parser is installed: pip install 'citelock[myst]'"
        ) from None
    context = RstContext(name, around, settings, language=settings.language)
    given = {key: values[key] for key in _SETTINGS if key in values}
    return parsed_page(text, context, Parser(), {"myst_suppress_warnings": ["myst"], **given})
