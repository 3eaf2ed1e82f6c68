"""What a chunk carries of its section: units, the header of a cut table, the introduction of a cut list."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.formats.blocks import Block, code_block, joined
from rag_serving.text.structure import Structure, chunk_structures, columns_of, decode, structure_of, units_above
from rag_serving.text.units import Unit, clipped, units

TABLE = [Block("table", "| Key | Default |\n|---|---|", 1), Block("table", "| retries | 5 |", 1)]
BLOCKS = st.lists(
    st.sampled_from(
        [
            Block("paragraph", "Stop the broker. Then wait, e.g. for a minute."),
            Block("paragraph", "Never do this:"),
            Block("paragraph", "1. Typed by hand\n2. Typed, too"),
            Block("list", "- one thing. Two", 2),
            Block("list", "1. first step", 2),
            Block("list", "- nested", 2, indent=2),
            *TABLE,
            code_block("a = 1\n\n```\nb = 2"),
            Block("heading", "Restart"),
        ]
    ),
    min_size=1,
    max_size=9,
)


def section_of(blocks: list[Block]) -> tuple[str, list[tuple[str, int, int]]]:
    text, atoms = joined(blocks)
    return text, [(atom.kind, atom.start, atom.end) for atom in atoms]


@given(BLOCKS, st.integers(0, 400), st.integers(0, 400))
def test_the_units_of_a_chunk_are_those_of_its_section_inside_of_it(blocks: list[Block], one: int, two: int) -> None:
    text, atoms = section_of(blocks)
    start, end = sorted((min(one, len(text)), min(two, len(text))))
    (structure,) = chunk_structures(text, atoms, [(start, end)])
    chunk, whole = text[start:end], units(text, atoms)
    expected = [
        (text[max(unit.start, start) : min(unit.end, end)], unit.kind, unit.block, unit.list_number, unit.item)
        for unit in whole
        if unit.start < end and start < unit.end
    ]
    found = [(unit.of(chunk), unit.kind, unit.block, unit.list_number, unit.item) for unit in structure.units]
    assert found == [(said.strip(" \t\n|"), *rest) for said, *rest in expected if said.strip(" \t\n|")]


@given(BLOCKS, st.integers(0, 400), st.integers(0, 400))
def test_the_offsets_of_a_chunk_lie_in_its_text(blocks: list[Block], one: int, two: int) -> None:
    text, atoms = section_of(blocks)
    start, end = sorted((min(one, len(text)), min(two, len(text))))
    (structure,) = chunk_structures(text, atoms, [(start, end)])
    ends = 0
    for unit in structure.units:
        assert ends <= unit.begin <= unit.start < unit.end <= end - start
        ends = unit.end


@given(BLOCKS)
def test_a_structure_survives_its_compact_form(blocks: list[Block]) -> None:
    text, atoms = section_of(blocks)
    structure = Structure(tuple(units(text, atoms)), "| Key | Default |", "Never do “this”:")
    assert decode(structure.encode()) == structure


def test_code_is_known_by_its_block_however_its_lines_look() -> None:
    text, atoms = section_of([code_block("```\n- not a list\n# not a heading"), Block("paragraph", "After it.")])
    assert [(unit.of(text), unit.kind) for unit in units(text, atoms)] == [
        ("```", "code"),
        ("- not a list", "code"),
        ("# not a heading", "code"),
        ("After it.", "sentence"),
    ]


def test_a_row_of_dashes_is_a_row_where_the_table_is_known() -> None:
    rows = [Block("table", row, 1) for row in ("| Key | Default |\n|---|---|", "| retries | 5 |", "| - | - |")]
    text, atoms = section_of(rows)
    assert [unit.kind for unit in units(text, atoms)] == ["header", "table", "table"]
    assert [unit.kind for unit in units(text)] == ["header", "header"]  # guessed


def test_a_chunk_that_begins_inside_a_table_knows_its_columns() -> None:
    text, atoms = section_of([Block("paragraph", "Limits:"), *TABLE, Block("table", "| timeout | 30 s |", 1)])
    at = text.index("| timeout")
    whole, cut = chunk_structures(text, atoms, [(0, at), (at, len(text))])
    assert (whole.table_header, cut.table_header) == ("", "| Key | Default |")
    assert (whole.introduction, cut.introduction) == ("", "Limits:")
    assert cut.header_of(cut.units[0], text[at:]) == "| Key | Default |"


def test_a_title_above_a_table_names_no_columns() -> None:
    assert columns_of("| Tests of retention | | |") == []
    assert columns_of("| | Default |") == ["", "Default"]
    assert columns_of("| Names |") == ["Names"]


def test_a_chunk_that_begins_inside_a_list_knows_its_item_and_introduction() -> None:
    steps = [Block("list", f"{number}. Do step {number}.", 1) for number in (1, 2, 3)]
    text, atoms = section_of([Block("paragraph", "Never do:"), *steps, Block("paragraph", "That is all.")])
    first, second = chunk_structures(text, atoms, [(0, text.index("3.")), (text.index("3."), len(text))])
    assert [unit.number for unit in second.units] == [3, -1]
    assert second.units[0].list_number == first.units[-1].list_number
    assert (second.units[0].item, second.introduction) == (2, "Never do:")


def test_items_below_code_still_hang_from_what_introduces_their_list() -> None:
    text = "Never do:\n\n- Type this:\n\n```\nrm -rf /\n```\n\n- Go home."
    above = [*units_above(structure_of(text).units)][-1]
    assert above
    assert above.of(text) == "Never do:"


def test_nested_items_belong_to_the_item_above() -> None:
    found = units("- one\n  - inner\n- two")
    assert [(unit.item, unit.depth) for unit in found] == [(0, 0), (0, 1), (1, 0)]


def test_nested_items_and_paragraphs_of_an_item_are_known_by_their_blocks() -> None:
    item, below = Block("list", "1. one", 1), Block("paragraph", "goes on here", 1, indent=2)
    inner, code = Block("list", "- inner", 1, indent=2), code_block("ls")
    text, atoms = section_of([item, below, inner, Block("list", "2. two:", 1), code])
    found = [(unit.of(text), unit.kind, unit.item, unit.depth) for unit in units(text, atoms)]
    assert found == [
        ("one\n  goes on here", "list", 0, 0),
        ("inner", "list", 0, 1),
        ("two:", "list", 1, 0),
        ("ls", "code", 1, 0),
    ]
    assert found == [(unit.of(text), unit.kind, unit.item, unit.depth) for unit in units(text)]


def test_a_unit_that_is_cut_follows_no_marker() -> None:
    text = "1. Stop the broker now"
    (unit,) = clipped(text, units(text), text.index("broker"), len(text))
    assert unit == Unit(0, 10, "list", list_number=0, item=0)
