"""Which models are moved between devices by the finalizer of FlagEmbedding's objects."""

from __future__ import annotations

import sys
from typing import Any

import pytest


def moves_by_finalizers(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """A list that gets the arguments of each `Module.to` that `stop_self_pool` calls from now on."""
    import torch

    moved: list[tuple[Any, ...]] = []
    plain = torch.nn.Module.to

    def noting(module: torch.nn.Module, *args: Any, **named: Any) -> torch.nn.Module:
        if sys._getframe(1).f_code.co_name == "stop_self_pool":
            moved.append(args)
        return plain(module, *args, **named)

    monkeypatch.setattr(torch.nn.Module, "to", noting)
    return moved
