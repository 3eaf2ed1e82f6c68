"""PromQL as a tree: every selector of an expression, with the functions and labels around it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import promql_parser as promql


@dataclass(frozen=True)
class Selector:
    """One selector: the metric, its labels, and the functions that it is in, the innermost first."""

    metric: str
    labels: frozenset[str]
    within: tuple[str, ...]
    is_range: bool


def selectors(expression: str) -> list[Selector]:
    """The selectors of an expression, which must be PromQL."""
    return list(_selectors(promql.parse(expression), ()))


def matchers(expression: str) -> list[tuple[str, str, str, str]]:
    """Return the matchers of an expression's selectors: metric, label, operator (such as `MatchOp.Re`), value."""
    nodes = (getattr(node, "vector_selector", node) for node in _nodes(promql.parse(expression)))
    return [
        (str(node.name), each.name, str(each.op), each.value)
        for node in nodes
        if isinstance(node, promql.VectorSelector)
        for each in node.matchers.matchers
    ]


def grouped_labels(expression: str) -> set[str]:
    """The labels that an expression names outside of selectors: in by, without, on, ignoring and group_left."""
    found: set[str] = set()
    for node in _nodes(promql.parse(expression)):
        modifier = getattr(node, "modifier", None)
        if isinstance(node, promql.AggregateExpr) and modifier is not None:
            found |= set(modifier.labels)
        elif isinstance(node, promql.BinaryExpr) and modifier is not None:
            found |= set(modifier.matching.labels if modifier.matching else ()) | set(modifier.group_labels or ())
    return found


def _selectors(node: Any, within: tuple[str, ...]) -> Iterator[Selector]:
    if isinstance(node, promql.MatrixSelector):
        yield _selector(node.vector_selector, within, True)
    elif isinstance(node, promql.VectorSelector):
        yield _selector(node, within, False)
    else:
        name = (_function(node),) if isinstance(node, promql.Call | promql.AggregateExpr) else ()
        for child in _children(node):
            yield from _selectors(child, (*name, *within))


def _selector(node: Any, within: tuple[str, ...], is_range: bool) -> Selector:
    return Selector(node.name, frozenset(each.name for each in node.matchers.matchers), within, is_range)


def _function(node: Any) -> str:
    return str(node.func.name) if isinstance(node, promql.Call) else str(node.op)


def _nodes(node: Any) -> Iterator[Any]:
    yield node
    for child in _children(node):
        yield from _nodes(child)


def _children(node: Any) -> list[Any]:
    if isinstance(node, promql.BinaryExpr):
        return [node.lhs, node.rhs]
    if isinstance(node, promql.Call):
        return list(node.args)
    inner = getattr(node, "expr", None)
    return [] if inner is None else [inner]
