"""Plain text and Markdown give the blocks that the same text in storage format gives."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rag_assets.steps.formats.blocks import joined
from rag_assets.steps.formats.storage_elements import storage_content
from rag_assets.steps.sections.reading import markdown_content, plain_content

MARKDOWN = """# Rolling back

Use `harbour rollback`, see [the guide](https://wiki.example/x) & ask.

- first
  - nested
- [ ] a task

| name | value |
|---|---|
| a | 1 \\| 2 |

```python
if a[b[0]] < 3 && c:
    pass
```

> Careful.
"""

STORAGE = """<h1>Rolling back</h1>
<p>Use <code>harbour rollback</code>, see <a href="https://wiki.example/x">the guide</a> &amp; ask.</p>
<ul><li>first<ul><li>nested</li></ul></li><li>[ ] a task</li></ul>
<table><tr><th>name</th><th>value</th></tr><tr><td>a</td><td>1 | 2</td></tr></table>
<pre class="language-python">if a[b[0]] &lt; 3 &amp;&amp; c:
    pass
</pre>
<blockquote><p>Careful.</p></blockquote>
"""


def test_markdown_gives_the_blocks_of_the_same_page_in_storage_format() -> None:
    assert markdown_content(MARKDOWN).blocks == storage_content(STORAGE).blocks


def test_html_in_markdown_is_read_as_html() -> None:
    found = markdown_content("<details><summary>More</summary>\n\ninner **text**\n\n</details>")
    assert [block.text for block in found.blocks] == ["More", "inner text"]


def test_plain_text_is_cut_at_empty_lines() -> None:
    found = plain_content("one\n  two \r\n\r\nthree")
    assert [block.text for block in found.blocks] == ["one\ntwo", "three"]


def test_a_log_without_empty_lines_becomes_blocks_of_forty_lines() -> None:
    found = plain_content("\n".join(f"line {number}" for number in range(100)))
    assert [len(block.text.splitlines()) for block in found.blocks] == [40, 40, 20]


def test_markup_in_plain_text_stays_text() -> None:
    assert plain_content("<b>not bold</b> & *not* emphasis").blocks[0].text == "<b>not bold</b> & *not* emphasis"


@given(st.text(max_size=300))
def test_any_text_can_be_read_and_no_word_of_plain_text_is_lost(text: str) -> None:
    markdown_content(text)
    words = "".join(joined([one for one in plain_content(text).blocks if one.kind != "heading"])[0].split())
    assert {sign for sign in words if sign.isascii() and sign.isalnum()} == {
        sign for sign in text if sign.isascii() and sign.isalnum()
    }
