"""Every flag that an answer can have is told in words."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from support.parsed import parsed

from rag_serving.records import flags
from rag_serving.records.flags import FINDINGS, flags_told, sentences

ROOT = Path(__file__).parents[1]


def constants(tree: ast.Module) -> dict[str, str]:
    """The strings of a module's constants, by name."""
    found: dict[str, str] = {}
    for node in (node for node in tree.body if isinstance(node, ast.Assign)):
        for target in node.targets:
            names = target.elts if isinstance(target, ast.Tuple) else [target]
            values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
            for name, value in zip(names, values, strict=False):
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    found[name.id] = value.value
    return found


def places_of_flags(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the expressions that flags are read from."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            called = getattr(node.func, "attr", getattr(node.func, "id", ""))
            yield from node.args if called == "raise_flag" else ()
            yield from node.args[1:] if called in ("part", "Stage") else ()
            yield from node.args if called == "partial" and "raise_flag" in ast.dump(node) else ()
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "flags")
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and node.value:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = {getattr(name, "attr", getattr(name, "id", "")) for each in targets for name in ast.walk(each)}
            yield from [node.value] if names & {"flag", "_flag", "flags"} else ()
        elif isinstance(node, ast.For) and any(getattr(name, "id", "") == "flag" for name in ast.walk(node.target)):
            yield node.iter


def flags_raised() -> set[str]:
    """Return the values of the constants that stand where flags are raised: their module's own before others'."""
    trees = {path: parsed(path.read_text(encoding="utf-8")) for path in (ROOT / "rag_serving").rglob("*.py")}
    of_module = {path: constants(tree) for path, tree in trees.items()}
    everywhere = {name: value for named in of_module.values() for name, value in named.items()}
    return {
        {**everywhere, **of_module[path]}[name.id]
        for path, tree in trees.items()
        for place in places_of_flags(tree)
        for name in ast.walk(place)
        if isinstance(name, ast.Name) and name.id.isupper() and name.id in everywhere
    }


def test_every_flag_has_a_sentence_and_every_sentence_a_flag() -> None:
    raised = flags_raised()
    assert len(raised) >= 15
    assert raised == set(sentences())
    assert raised >= FINDINGS


def test_sentences_are_plain_and_short() -> None:
    for text in sentences().values():
        assert text[0].isupper()
        assert text.endswith(".")
        assert "_" not in text
        assert len(text) <= 100


def test_an_unknown_flag_is_told_by_its_name() -> None:
    assert flags_told([flags.CONFLICTING, "new_flag"]) == [
        {"flag": "conflicting_figures", "text": sentences()["conflicting_figures"]},
        {"flag": "new_flag", "text": "new flag"},
    ]
