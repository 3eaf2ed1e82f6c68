"""The package `mcp`, which comes with an extra.

Belongs here: saying so where it is not installed. Does not belong here: what needs it (`mcp.server`).
"""

from __future__ import annotations

from importlib.util import find_spec

from rag_serving.config.loading import ConfigError


def require_mcp(wanted_by: str) -> None:
    """Go on where the package is installed.

    Raises:
        ConfigError: it is not.
    """
    if find_spec("mcp") is None:
        raise ConfigError(f"{wanted_by} needs the package mcp: pip install 'citelock[mcp]'")
