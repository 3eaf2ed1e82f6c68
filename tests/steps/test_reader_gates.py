"""Macros that choose their readers fail closed: their body is in no text, and is counted."""

from __future__ import annotations

import time

import pytest
from support.macro_bodies import macro, outcomes, read, table, text
from support.shown_pages import build, include
from support.shown_pages import page as row

from rag_assets.steps.formats.macros import is_gate
from rag_assets.steps.sections.reading import DirectReader, page_properties, storage_excerpt

SECRET = "The master code is 99120."
GATE = macro("show-if", f"<p>{SECRET}</p>", group="ops-admins")
AROUND = "<p>before</p>{}<p>after</p>"

GATES = [
    ("show-if", {"group": "ops"}),
    ("hide-if", {"user": "ann"}),
    ("Show-If", {}),
    ("showif", {}),
    ("show-to", {}),
    ("hide-from", {}),
    ("visible-to", {}),
    ("visibility", {}),
    ("restricted", {}),
    ("restricted-panel", {"title": "For ops"}),
    ("private-content", {}),
    ("secret", {}),
    ("secure-panel", {}),
    ("confidential", {}),
    ("members-only", {}),
    ("conditional-content", {}),
    ("comment", {}),
    ("hidden-comment", {}),
    ("hide", {}),
    ("acme-box", {"groups": "ops,hr"}),
    ("acme-box", {"allowedUsers": "ann"}),
    ("acme-box", {"user-group": "ops"}),
    ("acme-box", {"roles": "admin"}),
    ("acme-box", {"visibleTo": "hr"}),
    ("panel", {"group": "ops"}),
    ("code", {"viewers": "ops"}),
]
OPEN = [
    ("panel", {"title": "Panel"}),
    ("expand", {"title": "More"}),
    ("info", {}),
    ("excerpt", {"hiddenname": "users"}),
    ("details", {"id": "group"}),
    ("section", {"border": "true"}),
    ("table-filter", {"default": "a", "hidecontrols": "true"}),
    ("chart", {"groupby": "month"}),
    ("acme-box", {"group": ""}),
    ("comments-summary", {}),
    ("table-plus", {"autonumber": "true"}),
]


@pytest.mark.parametrize(("name", "parameters"), GATES)
def test_the_body_is_left_out_and_counted_as_hidden(name: str, parameters: dict[str, str]) -> None:
    for body in ({"rich": f"<p>{SECRET}</p>"}, {"plain": SECRET}):
        page = AROUND.format(macro(name, **body, **parameters))
        assert text(page) == "before\n\nafter"
        assert outcomes(page) == {name.lower(): ("hidden", 1)}


@pytest.mark.parametrize(("name", "parameters"), OPEN)
def test_other_macros_keep_their_text(name: str, parameters: dict[str, str]) -> None:
    assert SECRET in text(AROUND.format(macro(name, f"<p>{SECRET}</p>", **parameters)))


def test_a_list_of_people_is_no_gate() -> None:
    assert outcomes(macro("userlister", groups="ops")) == {"userlister": ("navigation", 1)}
    assert not is_gate("profile", {"user": "ann"}, has_body=False)


@pytest.mark.parametrize(
    "around",
    [
        "<ul><li>{}</li></ul>",
        "<blockquote>{}</blockquote>",
        "<pre>{}</pre>",
        "<h2>Part {}</h2>",
        table("<td>{}</td><td>x</td>"),
        "<ac:task-list><ac:task><ac:task-body>{}</ac:task-body></ac:task></ac:task-list>",
        '<ac:link><ri:page ri:content-title="P"/><ac:link-body>{}</ac:link-body></ac:link>',
        macro("expand", "{}", title="More"),
        macro("acme-box", macro("panel", "{}")),
        macro("excerpt", "{}"),
        "<p>broken {}",
    ],
)
def test_wherever_it_stands(around: str) -> None:
    page = AROUND.format(around.replace("{}", GATE))
    assert SECRET not in text(page)
    assert outcomes(page)["show-if"] == ("hidden", 1)


def test_macros_within_it_are_hidden_with_it() -> None:
    inner = macro("code", plain=SECRET) + macro("expand", f"<p>{SECRET}</p>") + include("Other")
    assert outcomes(macro("show-if", inner)) == dict.fromkeys(("show-if", "code", "expand", "include"), ("hidden", 1))
    assert text(AROUND.format(macro("show-if", inner))) == "before\n\nafter"


def test_old_macros_and_wiki_markup() -> None:
    old = GATE.replace("structured-macro", "macro")
    assert SECRET not in text(AROUND.format(old))
    for name in ("unmigrated-wiki-markup", "unmigrated-inline-wiki-markup"):
        hidden = macro(name, plain=f"h2. Codes\n{{show-if:group=ops}}{SECRET}{{show-if}}")
        assert SECRET not in text(AROUND.format(hidden))
        assert outcomes(hidden)[name] == ("hidden", 1)
        assert "open" in str(read(macro(name, plain="{info}open{info}")).sections)


def test_an_extension_of_the_new_editor() -> None:
    extension = (
        '<ac:adf-extension><ac:adf-node type="bodied-extension"><ac:adf-attribute key="extension-key">{}'
        '</ac:adf-attribute><ac:adf-attribute key="parameters"><ac:adf-parameter key="{}">ops</ac:adf-parameter>'
        f"</ac:adf-attribute><ac:adf-content><p>{SECRET}</p></ac:adf-content></ac:adf-node>"
        f"<ac:adf-fallback><p>{SECRET}</p></ac:adf-fallback></ac:adf-extension>"
    )
    for key, parameter in (("app/static/show-if", "x"), ("app/static/box", "group")):
        page = AROUND.format(extension.format(key, parameter))
        assert text(page) == "before\n\nafter"
        assert outcomes(page) == {"adf-extension": ("hidden", 1)}
    assert SECRET in text(extension.format("app/static/box", "colour"))


def test_pages_that_include_it_or_take_its_excerpt() -> None:
    hidden = macro("show-if", macro("excerpt", SECRET, MultiExcerptName="n"))
    inner = "<p>open</p>" + macro("excerpt", f"<p>Rule.</p>{GATE}") + hidden
    for shown in (include("Inner"), macro("excerpt-include", **{"": "Inner"})):
        sections = build(row("Outer", f"<p>own</p>{shown}"), row("Inner", inner)).sections
        assert SECRET not in str(sections["text"].to_pylist())
    assert storage_excerpt(inner, "n") is None
    excerpt = storage_excerpt(inner, "")
    assert excerpt is not None
    assert [block.text for block in excerpt.blocks] == ["Rule."]


def test_page_properties_for_reports_on_other_pages() -> None:
    hidden = macro("details", table(f"<th>Code</th><td>{SECRET}</td>"))
    shown = macro("details", table(f"<th>Owner</th><td>Ann{GATE}</td>"))
    assert [one.values for one in page_properties(macro("show-if", hidden) + shown)] == [{"Owner": "Ann"}]


RENDERED = (
    '<p>before</p><div class="conf-macro output-block" data-hasbody="true" data-macro-name="{}"'
    f' data-macro-parameters="{{}}"><h2 id="codes">Codes</h2><p>{SECRET}</p></div><p>after</p>'
)


@pytest.mark.parametrize("body_format", ["html", "storage", "markdown"])
@pytest.mark.parametrize(("name", "parameters"), [("show-if", ""), ("acme-box", "group=ops|title=x")])
def test_pages_as_they_are_rendered(body_format: str, name: str, parameters: str) -> None:
    content = DirectReader().content(RENDERED.format(name, parameters), body_format)
    assert [block.text for block in content.blocks if block.text] == ["before", "after"]
    assert content.ledger[name, "hidden"] == 1
    assert SECRET in str(DirectReader().content(RENDERED.format("panel", "title=x"), body_format).blocks)


def test_many_gates_and_long_parameters_take_linear_time() -> None:
    body = macro("show-if", f"<p>{SECRET}</p>") * 3000 + macro("unmigrated-wiki-markup", plain="{a:" * 30_000)
    body += macro("x" * 100_000, "<p>x</p>", **{"u" * 100_000: "v"})
    started = time.process_time()
    assert SECRET not in text(body)
    assert time.process_time() - started < 20
