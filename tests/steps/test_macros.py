"""What each macro and element of storage format leaves in the text, and what the ledger says of it."""

from __future__ import annotations

from typing import Any

import pytest
from support.macro_bodies import macro, outcomes, read, table, text

from rag_assets.steps.sections.splitting import PageSections
from rag_serving.text.normalization import OMISSION


def test_code_is_fenced_with_language_and_title() -> None:
    body = macro("code", plain="a\n\n\tb  \n", language="Java", title="Main.java", linenumbers="true", theme="RDark")
    assert text(body) == "Main.java\n\n```java\na\n\n\tb  \n```"


def test_a_fence_is_longer_than_any_backticks_in_the_code() -> None:
    assert text(macro("noformat", plain="````\nx\n````")) == "`````\n````\nx\n````\n`````"


def test_code_without_characters_leaves_nothing() -> None:
    assert read(macro("code", plain=" \n ")).sections == []


@pytest.mark.parametrize("name", ["info", "note", "tip", "warning", "panel"])
def test_a_panel_is_a_quote_without_words_of_ours(name: str) -> None:
    body = macro(name, "<p>one</p><p>two</p>", icon="false", bgColor="red")
    assert text(body) == "> one\n\n> two"


def test_a_panel_shows_its_title_and_keeps_lists_and_code_without_marks() -> None:
    body = macro("note", "<ul><li>a</li></ul>" + macro("code", plain="x = 1\ny = 2"), title="Mind")
    assert text(body) == "> Mind\n\n- a\n\n```\nx = 1\ny = 2\n```"
    assert text(macro("tip", "<ul><li>a</li></ul>")) == "- a"


def test_an_expand_and_columns_are_their_content() -> None:
    body = macro("expand", "<p>inside</p>", title="More") + macro("section", macro("column", "<p>c</p>", width="30%"))
    assert text(body) == "More\n\ninside\n\nc"


def test_layouts_are_their_content() -> None:
    cell = "<ac:layout-cell><p>{}</p></ac:layout-cell>"
    layout = (
        f'<ac:layout><ac:layout-section ac:type="two_equal">{cell.format("a")}{cell.format("b")}</ac:layout-section>'
    )
    assert text(layout + "</ac:layout>") == "a\n\nb"


def test_page_properties_are_their_key_value_table() -> None:
    rows = "<tr><th>Owner</th><td>Ann</td></tr><tr><th>State</th><td>" + macro("status", title="DONE", colour="Green")
    assert (
        text(macro("details", f"<table><tbody>{rows}</td></tr></tbody></table>", id="x"))
        == "| Owner | Ann |\n| State | DONE |"
    )


def test_a_status_and_an_issue_stand_in_their_sentence() -> None:
    status = macro("status", title="IN PROGRESS", colour="Yellow")
    issue = macro("jira", server="ASF JIRA", serverId="5aa69414", columns="key,summary", key="KAFKA-1")
    assert text(f"<p>It is {status} in {issue}.</p>") == "It is IN PROGRESS in KAFKA-1."


def test_a_titled_code_macro_of_another_vendor_is_code() -> None:
    assert (
        text(macro("code-pro", plain="curl x", title="Command", language="bash")) == "Command\n\n```bash\ncurl x\n```"
    )


def test_a_formula_is_its_source() -> None:
    assert text(f"<p>So {macro('eazy-math-inline', body='x^2', align='center')}.</p>") == "So x^2."
    assert text(macro("easy-math-block", body="x^2", align="center")) == "x^2"


@pytest.mark.parametrize(
    ("diagram", "named"),
    [
        (macro("drawio", diagramName="topology", revision="4", width="800"), f"[topology]{OMISSION}"),
        (macro("gliffy", **{"displayName": "Flow", "size": "L"}), f"[Flow]{OMISSION}"),
        (macro("mermaid-cloud", filename="class.mmd", toolbar="bottom"), f"[class.mmd]{OMISSION}"),
    ],
)
def test_a_diagram_is_its_name_which_is_no_text_of_the_page(diagram: str, named: str) -> None:
    assert text(diagram) == named
    assert text(macro("drawio", revision="4")) == ""


def test_a_button_is_the_words_on_it() -> None:
    button = macro("artifact-resource-macro", groupId="info.x", label="the bundle", resourceType="ZIP")
    assert text(f"<p>Download {button}.</p>") == "Download the bundle."


def test_a_list_of_issues_shows_its_query() -> None:
    assert text(macro("jira", server="S", jqlQuery="project = KAFKA", maximumIssues="20")) == "project = KAFKA"


@pytest.mark.parametrize("name", ["toc", "children", "pagetree", "recently-updated", "contributors", "detailssummary"])
def test_navigation_leaves_nothing_and_is_not_lost(name: str) -> None:
    body = macro(name, maxLevel="3", cql="label = x")
    assert read(body).sections == []
    assert outcomes(body) == {name: ("navigation", 1)}


@pytest.mark.parametrize("name", ["include", "excerpt-include"])
def test_a_reference_to_a_page_that_is_not_there_says_nothing_and_is_counted(name: str) -> None:
    link = '<ac:link><ri:page ri:content-title="Secret plans"/></ac:link>'
    body = f'<ac:structured-macro ac:name="{name}"><ac:parameter ac:name="">{link}</ac:parameter></ac:structured-macro>'
    assert read(body).sections == []
    assert outcomes(body) == {name: ("unresolved", 1)}


def test_an_unknown_macro_keeps_its_body_and_is_lost_without_one() -> None:
    body = macro("fancy", "<p>kept</p>", mode="x9") + macro("fancy-text", plain="a < b") + macro("gone", mode="y9")
    assert text(body) == "kept\n\n```\na < b\n```"
    assert outcomes(body) == {"fancy": ("rendered", 1), "fancy-text": ("rendered", 1), "gone": ("lost", 1)}


def test_an_inline_macro_does_not_break_its_sentence() -> None:
    body = macro("glossary", "<p>term</p>", **{"atlassian-macro-output-type": "INLINE"})
    assert text(f"<p>The {body} here.</p>") == "The term here."


@pytest.mark.parametrize(
    ("link", "shown"),
    [
        ('<ri:page ri:content-title="Other page" ri:space-key="X"/>', "Other page"),
        (
            '<ri:page ri:content-title="P"/><ac:plain-text-link-body><![CDATA[a <b>]]></ac:plain-text-link-body>',
            "a <b>",
        ),
        ('<ri:page ri:content-title="P"/><ac:link-body>the <strong>body</strong></ac:link-body>', "the body"),
        ('<ri:page ri:content-title="P"/><ac:plain-text-link-body><![CDATA[]]></ac:plain-text-link-body>', "P"),
        ('<ri:page ri:content-title="P"/><ac:plain-text-link-body><![CDATA[ ]]></ac:plain-text-link-body>', ""),
        ('<ri:attachment ri:filename="a.pdf"/>', "a.pdf"),
        ('<ri:url ri:value="https://x.example/"/>', "https://x.example/"),
        ('<ri:user ri:account-id="5b10ac8d82e05b22cc7d4ef5"/>', f"@user{OMISSION}"),
        ('<ri:user ri:userkey="8a7f808"/>', f"@user{OMISSION}"),
        ('<ri:space ri:space-key="~5b10ac8d82e05b22cc7d4ef5"/>', f"@user{OMISSION}"),
        ('<ri:space ri:space-key="ENG"/>', "ENG"),
    ],
)
def test_a_link_is_its_text_or_what_names_its_target(link: str, shown: str) -> None:
    assert text(f"<p>See <ac:link>{link}</ac:link>!</p>") == f"See {shown}!"


def test_the_white_space_inside_a_link_parts_it_from_the_words_beside_it() -> None:
    body = "<ac:link-body> <code>root</code> <em>role</em> </ac:link-body>"
    link = f'<ac:link><ri:page ri:content-title="P"/>{body}</ac:link>'
    assert text(f"<p>the{link}by default</p>") == "the root role by default"


def test_an_html_link_is_its_text_without_the_target() -> None:
    assert text('<p>See <a href="https://x.example/y">the <em>docs</em></a>.</p>') == "See the docs."


@pytest.mark.parametrize(
    ("image", "shown"),
    [
        ('<ac:image ac:alt="A broker"><ri:attachment ri:filename="x.png"/></ac:image>', "A broker"),
        ('<ac:image ac:width="500"><ri:attachment ri:filename="broker.png"/></ac:image>', OMISSION),
        ('<ac:image><ri:url ri:value="https://x.example/i/flow.svg?v=1"/></ac:image>', OMISSION),
        ('<ac:image><ri:attachment ri:filename="image2019-3-4 10:20:30.png"/></ac:image>', OMISSION),
        ('<img alt="" src="data:image/png;base64,AAAA"/>', ""),
    ],
)
def test_an_image_is_its_alternative_text_or_an_omission_within_its_sentence(image: str, shown: str) -> None:
    assert text(f"<p>See {image} here</p>") == " ".join(f"See {shown} here".split())
    assert text(f"<p>See the plan. {image}</p>") == f"See the plan. {shown.strip(OMISSION)}".strip()


def test_small_elements() -> None:
    assert text('<p>due <time datetime="2024-05-01"/></p>') == "due 2024-05-01"
    assert text('<p>ok <ac:emoticon ac:name="tick" ac:emoji-fallback="✅" ac:emoji-id="2705"/></p>') == "ok ✅"
    assert text('<p>ok <ac:emoticon ac:name="light-on"/></p>') == "ok 💡"
    assert text('<p>a <ac:emoticon ac:name="blue-star" ac:emoji-fallback=":own:"/> b</p>') == f"a {OMISSION} b"
    assert text('<p>a<ac:inline-comment-marker ac:ref="u-1">b</ac:inline-comment-marker>c</p>') == "abc"
    assert text("<p>a<ac:placeholder>Type here</ac:placeholder>b</p>") == "ab"


def test_tasks_are_a_check_list() -> None:
    task = "<ac:task><ac:task-id>7</ac:task-id>"
    task += "<ac:task-status>{}</ac:task-status><ac:task-body>{}</ac:task-body></ac:task>"
    tasks = task.format("complete", "done <em>it</em>") + task.format("incomplete", "to do")
    body = f"<ac:task-list>{tasks}</ac:task-list>"
    assert text(body) == "- [x] done it\n- [ ] to do"


ADF = (
    '<ac:adf-extension><ac:adf-node type="panel"><ac:adf-attribute key="panel-type">note</ac:adf-attribute>'
    "<ac:adf-content>{}</ac:adf-content></ac:adf-node><ac:adf-fallback><div><p>said</p></div></ac:adf-fallback>"
    "</ac:adf-extension>"
)


def test_a_node_of_the_new_editor_is_said_once() -> None:
    assert text(ADF.format("<p>said</p>")) == "> said"
    assert text(ADF.format("")) == "said"


def test_lists_nest_by_two_spaces_and_count() -> None:
    body = '<ol start="3"><li>c<ul><li>x<br/>y</li></ul></li><li><p>d</p><p>more</p></li></ol>'
    assert text(body) == "3. c\n  - x\n  y\n4. d\n  more"


def test_code_in_a_list_item_is_not_indented_and_the_count_goes_on() -> None:
    body = f"<ol><li>run{macro('code', plain='if x:' + chr(10) + '  y')}</li><li>stop</li></ol>"
    assert text(body) == "1. run\n\n```\nif x:\n  y\n```\n\n2. stop"


def test_a_table_is_a_line_for_each_row() -> None:
    body = table(
        "<th>Key</th><th><p>Value</p></th>",
        "<td><p>a</p><p>b | c</p></td><td><ul><li>one</li><li>two<ul><li>three</li></ul></li></ul></td>",
        "<td/><td>x<br/>y</td>",
    )
    assert text(body) == "| Key | Value |\n|---|---|\n| a b \\| c | one; two; three |\n| | x y |"


def test_merged_cells_are_repeated_so_that_each_row_reads_alone() -> None:
    body = table(
        '<td rowspan="2">a</td><td colspan="2">b</td>', "<td>c</td><td>d</td>", "<td>e</td><td>f</td><td>g</td>"
    )
    assert text(body) == "| a | b | b |\n| a | c | d |\n| e | f | g |"


def test_a_table_in_a_table_stands_in_its_cell() -> None:
    assert text(table(f"<td>a</td><td>{table('<td>b</td><td>c</td>', '<td>d</td>')}</td>")) == "| a | b, c; d |"


def test_code_of_many_lines_in_a_cell_stands_after_the_table_to_the_letter() -> None:
    long = "\n".join(f"line {n}" for n in range(200))
    body = table(
        f"<td>a</td><td>{macro('code', plain='x' + chr(10) + '  y')}</td>",
        f"<td>b</td><td>{macro('code', plain=long)}</td>",
    )
    assert text(body) == f"| a | x y |\n| b | (code 2) |\n\n```\nx\n  y\n```\n\n(code 2)\n\n```\n{long}\n```"


def test_lines_in_pre_elements_of_their_own_are_one_block() -> None:
    assert (
        text("<pre>a {</pre><pre>  b<br/>  c</pre><pre> </pre><pre>}</pre><p>x</p>")
        == "```\na {\n  b\n  c\n \n}\n```\n\nx"
    )


def test_white_space_and_invisible_characters_are_tidied_outside_code_only() -> None:
    dirty = "a\u00a0 \u200bb\ufeff  \n c\u0301"
    assert text(f"<p>{dirty}</p>") == "a b ć"
    assert dirty in text(macro("code", plain=dirty))


def test_emphasis_and_inline_code_leave_no_marks() -> None:
    assert text("<p><strong>Set</strong> <code>a_b</code> to <em>1</em></p>") == "Set a_b to 1"


def test_no_parameter_is_ever_text() -> None:
    hidden = {"fullName": "falsefalsefullName", "serverId": "srv-1", "width": "77px", "cql": "label=q"}
    names = [
        "info",
        "code",
        "toc",
        "expand",
        "status",
        "anchor",
        "unknown",
        "section",
        "gallery",
        "excerpt",
        "view-file",
    ]
    body = "".join(macro(name, "<p>shown</p>", **hidden) + macro(name, **hidden) for name in names)
    found = text(body)
    assert "shown" in found
    assert not [value for value in hidden.values() if value in found]


def rows_of(result: PageSections) -> list[dict[str, Any]]:
    return result.ledger


def test_the_ledger_counts_each_macro_of_a_page() -> None:
    result = read(macro("code", plain="x") * 3 + macro("toc"))
    assert [(row["macro"], row["outcome"], row["count"]) for row in rows_of(result)] == [
        ("code", "rendered", 3),
        ("toc", "navigation", 1),
    ]
