"""Rules of storage format where several meet: users anywhere, tables in macros in tables, headings with macros."""

from __future__ import annotations

from typing import Any

import pytest
from support.macro_bodies import macro, outcomes, table, text

from rag_assets.steps.sections.splitting import sections_of_page

ACCOUNT = "5b10ac8d82e05b22cc7d4ef5"
NAVIGATION = (
    "toc children pagetree recently-updated contributors navmap livesearch detailssummary content-by-label blog-posts"
    " gallery attachments profile created"
)


def anchors(body: str, flavor: str, title: str = "My Page") -> list[tuple[str, str, str]]:
    """Heading, anchor and its rule, of each section."""
    row: dict[str, Any] = {"page_id": "1", "version": 1, "title": title, "body": body, "body_format": "storage"}
    found = sections_of_page(row | {"anchor_flavor": flavor, "content_hash": "h"}).sections
    return [(section["heading"], section["anchor"], section["anchor_rule"]) for section in found]


@pytest.mark.parametrize("name", NAVIGATION.split())
def test_navigation_is_dropped_and_said_to_be_whatever_it_is_asked_for(name: str) -> None:
    body = macro(name, title="Shown nowhere", maxLevel="3", user="x", labels="a,b")
    assert text(f"<p>a {body} b</p>") == "a b"
    assert outcomes(body) == {name: ("navigation", 1)}


@pytest.mark.parametrize("attribute", ["account-id", "userkey", "username"])
@pytest.mark.parametrize(
    "around",
    [
        "<p>By {}</p>",
        "<p>By <ac:link>{}</ac:link></p>",
        "<h2>By {}</h2><p>x</p>",
        "<table><tbody><tr><td><ac:link>{}</ac:link></td></tr></tbody></table>",
        "<ac:task-list><ac:task><ac:task-body><ac:link>{}</ac:link> does it</ac:task-body></ac:task></ac:task-list>",
        "<ac:structured-macro ac:name='profile'><ac:parameter ac:name='user'>{}</ac:parameter></ac:structured-macro>",
        "<ac:structured-macro ac:name='unknown'><ac:parameter ac:name='user'>{}</ac:parameter></ac:structured-macro>",
        "<ac:structured-macro ac:name='status'><ac:parameter ac:name='title'>{}</ac:parameter></ac:structured-macro>",
        "<ac:image>{}</ac:image>",
        "<pre>{}</pre>",
        "<p>cut <ac:link>{}",
    ],
)
def test_an_account_id_is_never_text_nor_part_of_an_anchor(around: str, attribute: str) -> None:
    body = around.format(f'<ri:user ri:{attribute}="{ACCOUNT}"/>')
    assert ACCOUNT not in text(body)
    assert not any(ACCOUNT in "".join(each) for each in anchors(body, "cloud"))


def test_a_mention_keeps_the_name_that_it_shows() -> None:
    link = f'<ac:link><ri:user ri:account-id="{ACCOUNT}"/><ac:link-body>Ann</ac:link-body></ac:link>'
    assert text(f"<p>Ask {link}.</p>") == "Ask Ann."


def test_a_table_in_a_macro_in_a_table_stands_in_its_cell() -> None:
    inner = table("<td>k</td><td>v</td>", '<td colspan="2">both</td>')
    body = table(f"<td>a</td><td>{macro('panel', macro('expand', inner))}</td>", "<td>b</td><td>c</td>")
    assert text(body) == "| a | k, v; both |\n| b | c |"


def test_code_in_a_macro_in_a_table_in_a_macro_survives_to_the_letter() -> None:
    code = macro("code", plain="if x:\n\ty < z && w", language="python")
    body = macro("info", table(f"<td>run</td><td>{macro('expand', code)}</td>"))
    assert "```python\nif x:\n\ty < z && w\n```" in text(body)


def test_cells_are_never_glued_together() -> None:
    body = table("<td>one</td><td>two</td>", "<td><p>three</p><p>four</p></td><td><div>five</div>six</td>")
    assert text(body) == "| one | two |\n| three four | five six |"


def test_merged_cells_of_both_directions_meet() -> None:
    body = table('<td rowspan="2" colspan="2">a</td><td>b</td>', "<td>c</td>", "<td>d</td><td>e</td><td>f</td>")
    assert text(body) == "| a | a | b |\n| a | a | c |\n| d | e | f |"


def test_tasks_in_tasks_and_in_cells_keep_their_boxes() -> None:
    task = "<ac:task><ac:task-status>{}</ac:task-status><ac:task-body>{}</ac:task-body></ac:task>"
    inner = f"<ac:task-list>{task.format('complete', 'inner')}</ac:task-list>"
    outer = f"<ac:task-list>{task.format('incomplete', f'<span>outer</span>{inner}')}</ac:task-list>"
    assert text(outer) == "- [ ] outer\n  - [x] inner"
    assert text(table(f"<td>{inner}</td>")) == "| [x] inner |"


def test_layouts_hold_macros_and_tables() -> None:
    cells = (macro("info", "<p>note</p>"), table("<td>x</td><td>y</td>"))
    layout = "".join(f"<ac:layout-cell>{cell}</ac:layout-cell>" for cell in cells)
    body = f"<ac:layout><ac:layout-section ac:type='two_equal'>{layout}</ac:layout-section></ac:layout>"
    assert text(body) == "> note\n\n| x | y |"


@pytest.mark.parametrize("end", ["", "<p>cut"])
def test_split_cdata_is_whole_in_a_malformed_body_too(end: str) -> None:
    code = "<![CDATA[a]]]]><![CDATA[>b <ac:x> &amp;]]>"
    body = f'<ac:structured-macro ac:name="code"><ac:plain-text-body>{code}</ac:plain-text-body></ac:structured-macro>'
    assert "```\na]]>b <ac:x> &amp;\n```" in text(body + end)


@pytest.mark.parametrize("entity", ["nbsp", "rarr", "euro", "Auml", "hellip", "ndash", "mdash", "trade", "alpha"])
def test_entities_of_html_are_characters_everywhere_but_in_code(entity: str) -> None:
    import html

    char = html.unescape(f"&{entity};")
    body = f"<p>a&{entity};b</p>" + macro("code", plain=f"&{entity};")
    assert text(body) == f"a{' ' if entity == 'nbsp' else char}b\n\n```\n&{entity};\n```"


@pytest.mark.parametrize("name", ["view-file", "viewpdf", "viewdoc", "viewxls", "viewppt"])
def test_a_file_that_is_shown_is_its_name(name: str) -> None:
    parameter = '<ac:parameter ac:name="name"><ri:attachment ri:filename="plan.pdf"/></ac:parameter>'
    body = f'<ac:structured-macro ac:name="{name}">{parameter}</ac:structured-macro>'
    assert text(f"<p>See {body}.</p>") == "See plan.pdf."


STATUS = macro("status", title="DONE", colour="Green")
ANCHOR = '<ac:structured-macro ac:name="anchor"><ac:parameter ac:name="">there</ac:parameter></ac:structured-macro>'


@pytest.mark.parametrize(
    ("heading", "cloud", "datacenter"),
    [
        ("Set up", "Set-up", "MyPage-Setup"),
        (f"Plan {STATUS}", "Plan-DONE", "MyPage-PlanDONE"),
        (f"{macro('jira', key='K-1', server='S')} fixed", "K-1-fixed", "MyPage-K-1fixed"),
        (f"{ANCHOR}Place", "Place", "MyPage-Place"),
        ("Ab&nbsp;<strong>bold</strong> <code>x.y</code>", "Ab-bold-x.y", "MyPage-Abboldx.y"),
        ('Pic <ac:image ac:alt="no"><ri:attachment ri:filename="p.png"/></ac:image>', "Pic", "MyPage-Pic"),
        ("配置 指南", "配置-指南", "MyPage-配置指南"),
        ("Настройка сети", "Настройка-сети", "MyPage-Настройкасети"),
        ("2.59.0 (Ubuntu 22)", "2.59.0-(Ubuntu-22)", "MyPage-2.59.0(Ubuntu22)"),
        ("R&amp;D: what’s “new”?", "R&D:-what’s-“new”?", "MyPage-R&D:what’s“new”?"),
    ],
)
def test_the_anchor_is_made_of_the_words_of_the_heading(heading: str, cloud: str, datacenter: str) -> None:
    for flavor, name in (("cloud", cloud), ("datacenter", datacenter)):
        assert [each[1:] for each in anchors(f"<h2>{heading}</h2><p>x</p>", flavor)] == [(name, flavor)]


@pytest.mark.parametrize(
    ("title", "top", "heading"),
    [("2nd Plan", "id-2ndPlan", "id-2ndPlan-A"), ("计划", "计划", "计划-A"), ("_x", "id-_x", "id-_x-A")],
)
def test_on_data_center_a_title_that_begins_with_no_letter_has_id_in_front(title: str, top: str, heading: str) -> None:
    assert [name for _, name, _ in anchors("<p>top</p><h2>A</h2><p>x</p>", "datacenter", title)] == [top, heading]


@pytest.mark.parametrize(
    ("flavor", "names"),
    [
        ("cloud", ["A", "A.1", "there"]),
        ("datacenter", ["MyPage-A", "MyPage-A.1", "MyPage-there"]),
    ],
)
def test_repeated_headings_are_counted_and_an_anchor_macro_in_one_is_its_name(flavor: str, names: list[str]) -> None:
    found = anchors(f"<h2>A</h2><p>1</p><h2>A</h2><p>2</p><h3>{ANCHOR}A</h3><p>3</p>", flavor)
    assert [name for _, name, _ in found] == names
    assert [rule for _, _, rule in found] == [flavor, f"{flavor}-repeated", f"{flavor}-macro"]


def test_a_heading_in_a_macro_or_a_layout_has_an_anchor_of_its_own() -> None:
    body = macro("expand", "<h3>In</h3><p>x</p>") + "<ac:layout-cell><h2>Out</h2><p>y</p></ac:layout-cell>"
    assert [name for _, name, _ in anchors(body, "datacenter")] == ["MyPage-In", "MyPage-Out"]
