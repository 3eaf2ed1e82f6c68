"""The place of a passage as text: what counts, and how much."""

from __future__ import annotations

import pytest
from support.synthetic import chunk_row

from rag_assets.steps.contexts.contextualize import DEPTH, Enclosing, lexical_prefix, lexical_prefixes
from rag_serving.artifacts.schema import GENERATION_CHUNKS

PYTHON = """\
class Broker:
    def start(self):
        self.open()

    def stop(self, grace):
        if grace:
"""
RUST = """\
impl<T: Read> Executor for DiffExecutor<T> {
    pub(crate) fn run_target(
"""
JAVA = "public final class Crane {\n\n    private static class Hook extends Part {\n"


def enclosing(before: str, text: str) -> tuple[str, ...]:
    reader = Enclosing()
    reader.definitions(before)
    return reader.definitions(text)


@pytest.mark.parametrize(
    ("before", "text", "lines"),
    [
        (PYTHON, "            self.wait()", ("class Broker:", "def stop(self, grace):")),
        (PYTHON, "    def restart(self):", ("class Broker:",)),
        (RUST, "        input: I,", ("impl<T: Read> Executor for DiffExecutor<T> {", "pub(crate) fn run_target(")),
        (JAVA, "\t\tint load;", ("public final class Crane {", "private static class Hook extends Part {")),
        (
            "  private static Hash hash(CharSequence text)\n  {\n",
            "    return text;",
            ("private static Hash hash(CharSequence text)",),
        ),
        ("void test() {\n    run(one);\n    int two = of(\n", "        three", ("void test() {",)),
        ("We restart a broker (see above\nand below", "  indented", ()),
        ("namespace AVFormat {\n", "Expect<int64_t> start(\n", ("namespace AVFormat {",)),
        ("The class of service\nis low.\n", "    indented", ()),
        ("", "def first():", ()),
    ],
)
def test_definitions_above_with_less_indentation_enclose(before: str, text: str, lines: tuple[str, ...]) -> None:
    assert enclosing(before, text) == lines


def test_a_definition_ends_where_the_next_of_its_depth_begins() -> None:
    assert enclosing("def one():\n    pass\ndef two():\n", "    pass") == ("def two():",)


def test_the_innermost_definitions_are_told() -> None:
    nested = "".join(f"{' ' * depth}class C{depth}:\n" for depth in range(6))
    assert enclosing(nested, " " * 9 + "x = 1") == tuple(f"class C{depth}:" for depth in range(6))[-DEPTH:]


def test_a_code_block_of_a_page_stands_alone() -> None:
    assert enclosing("```java\npublic class Crane {\n```\n", "It lifts.") == ()
    assert enclosing("```java\npublic class Crane {\n", "    int load;") == ("public class Crane {",)


def test_title_and_headings_stand_above_the_text_as_often_as_they_count() -> None:
    assert lexical_prefix("Cranes", ["Cranes", "Hooks"], ["class Hook:"]).split("\n") == [
        *("Cranes", "Cranes", "Cranes"),
        *("Hooks", "Hooks"),
        *("class Hook:", "class Hook:"),
    ]


def test_a_page_without_a_name_has_no_place() -> None:
    assert lexical_prefix("", [" "]) == ""


def test_what_fewer_may_read_tells_nothing_of_what_encloses_the_rest() -> None:
    rows = [
        chunk_row("1", 0, "class Secret:\n", readers="group:hr"),
        chunk_row("1", 1, "    def open(self):"),
        chunk_row("1", 2, "        return 1"),
    ]
    hidden, first, second = lexical_prefixes(GENERATION_CHUNKS.table(rows))
    assert "Secret" not in hidden + first + second
    assert "def open(self):" in second
