"""Templates of Eleventy, Jekyll, Hugo, MkDocs and MDX: known values are text, a hole is no statement, and pages have
the addresses of their site."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.growth import steepness

from citelock_sites.templates import Template, text_of_value
from rag_assets.sources.sites.site import FolderTree, SiteBody, SitePlan, found_site
from rag_assets.steps.formats.html import html_content
from rag_serving.text.normalization import OMISSION


def site(folder: Path, files: Mapping[str, str]) -> tuple[SitePlan, dict[str, SiteBody]]:
    """The plan of a site of these files, and the bodies of its pages by name."""
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    tree = FolderTree(folder, "docs", 1_000_000)
    name, _, rules = found_site(tree.names, "auto", "docs")
    plan = replace(rules.plan(tree), base_url="https://docs.example/")
    assert plan.generator == name
    return plan, {page.name: rules.body(tree, plan, page) for page in plan.pages}


def text_of(body: SiteBody) -> str:
    return "\n".join(block.text for block in html_content(body.html).blocks if block.text)


def addresses(plan: SitePlan) -> dict[str, str]:
    return {page.name: page.path for page in plan.pages}


ELEVENTY = {
    ".eleventy.js": 'module.exports = (c) => { return {dir: {input: "src", data: "../_data"}} };',
    "_data/site.json": '{"limits": {"crane": "42 tonnes", "rope": 1.10}}',
    "_data/computed.js": "module.exports = () => fetch('x')",
    "_includes/layout.html": "<p>{{ content }}</p>",
    "src/index.md": "# Home\n\n[Load]({% page 'load' %}) and [gone]({{ computed.url }}).",
    "src/load.md": (
        "---\ntitle: Load\nmax: 7 crates\n---\n{% set port = 8443 %}\n"
        "The crane lifts {{ site.limits.crane }}, the deck {{ max }} by ropes of {{ site.limits.rope }} m.\n\n"
        "It listens on port {{ port }} behind {{ computed.host }}.\n\n"
        "{% if beta %}\nThe crane swims.\n{% endif %}\n\n"
        '{% callout title="Mind" %}\nThe gap is wide.\n{% endcallout %}\n\n'
        "It takes {% if heavy %}9{% else %}5{% endif %} minutes.\n\n{% comment %}secret{% endcomment %}\n\n"
        "{% raw %}Write {{ x }} there.{% endraw %}\n"
    ),
    "src/guides/guides.json": '{"permalink": "/help/{{ page.fileSlug }}/"}',
    "src/guides/rope.md": "Tie it. [Load](../load.md)",
    "src/hidden.md": "---\npermalink: false\n---\nx",
}
JEKYLL = {
    "_config.yml": (
        "title: Crane\nphone: '5580'\nbaseurl: /base\ncollections:\n  manual:\n    output: true\n"
        "    permalink: /m/:path/\n  parts: {}\n"
    ),
    "_data/limits.yml": "crane: 42 tonnes",
    "_layouts/default.html": "<p>{{ content }}</p>",
    "index.md": "---\n---\n# Home\n{: .no_toc }\n\n* TOC\n{:toc}\n\nCall {{ site.phone | escape }}.",
    "load.md": (
        "---\nmax: 7 crates\n---\n# Load\n\nThe crane lifts {{ site.data.limits.crane }}, the deck {{ page.max }}. "
        "See [home]({{ site.baseurl }}/) or [rope]({% link _manual/rope.md %}).\n\n"
        "{% assign port = 8443 %}Port {{ port }} of {{ jekyll.environment }}.\n\n"
        "{% for x in site.pages %}\n- {{ x.title }}\n{% endfor %}\n\n"
        "{% highlight bash %}\nrun --now\n{% endhighlight %}\n"
    ),
    "about.md": "---\npermalink: /about-us/\n---\nUs",
    "_manual/rope.md": "---\ntitle: Rope\n---\nTie it.",
    "_parts/bolt.md": "---\n---\nBolt",
    "_posts/2024-05-06-launch.md": "---\n---\nWe launched.",
}
HUGO = {
    "hugo.toml": 'title = "Crane"\n[params]\nphone = "5580"\nmax = 42.50\n',
    "layouts/single.html": "{{ .Content }}",
    "content/_index.md": "+++\ntitle = 'Home'\n+++\nCall {{< param phone >}}. [Load]({{< ref \"docs/load.md\" >}})",
    "content/docs/Big Load.md": "Heavy.",
    "content/docs/load.md": (
        "---\ntitle: Load\nslug: loads\nparams: {deck: 7 crates}\n---\n"
        "The crane lifts {{< param max >}} tonnes, the deck {{% param deck %}}, at {{< now >}}.\n\n"
        '{{< tab "Linux" >}}\nUse {{ .Values.port }} as written.\n{{< /tab >}}\n\n'
        'A {{< term text="pod" id="pod" />}} is small. Write {{</* note */>}}.\n\n'
        "{{< highlight go >}}\nx := 1\n{{< /highlight >}}\n"
    ),
    "content/docs/bundle/index.md": "---\nurl: /elsewhere/\n---\nB",
    "content/docs/draft.md": "+++\ndraft = true\n+++\nNo.",
}


def test_a_site_of_eleventy_has_its_addresses_and_values(tmp_path: Path) -> None:
    files = {name: text for name, text in ELEVENTY.items() if name != "src/hidden.md"}
    plan, bodies = site(tmp_path, files)
    assert addresses(plan) == {"src/index.md": "", "src/load.md": "load/", "src/guides/rope.md": "help/rope/"}
    assert plan.excluded == {"_includes/layout.html": "eleventy makes no page of it"}
    load = bodies["src/load.md"]
    assert text_of(load) == (
        "The crane lifts 42 tonnes, the deck 7 crates by ropes of 1.10 m.\n"
        f"It listens on port 8443 behind {OMISSION}.\nMind\nThe gap is wide.\n"
        f"It takes {OMISSION} minutes.\nWrite {{{{ x }}}} there."
    )
    assert (load.title, load.lost) == ("Load", {"template value": 1, "template block if": 2})
    assert 'href="https://docs.example/load/"' in bodies["src/index.md"].html
    assert "<a>gone</a>" in bodies["src/index.md"].html
    assert 'href="https://docs.example/load/"' in bodies["src/guides/rope.md"].html
    assert site(tmp_path / "x", ELEVENTY)[0].excluded["src/hidden.md"] == "eleventy makes no page of it"


def test_a_site_of_jekyll_has_its_addresses_and_values(tmp_path: Path) -> None:
    plan, bodies = site(tmp_path, JEKYLL)
    assert addresses(plan) == {
        **{"index.md": "", "load.md": "load.html", "about.md": "about-us/"},
        **{"_manual/rope.md": "m/rope/", "_posts/2024-05-06-launch.md": "2024/05/06/launch.html"},
    }
    assert plan.excluded.keys() == {"_layouts/default.html", "_parts/bolt.md"}
    assert text_of(bodies["index.md"]) == "Home\nCall 5580."
    assert text_of(bodies["load.md"]) == (
        "Load\nThe crane lifts 42 tonnes, the deck 7 crates. See home or rope.\n"
        f"Port 8443 of {OMISSION}.\n```bash\nrun --now\n```"
    )
    assert 'href="https://docs.example/m/rope/"' in bodies["load.md"].html
    assert 'href="https://docs.example/"' in bodies["load.md"].html
    pretty = {**JEKYLL, "_config.yml": "permalink: pretty\n"}
    assert addresses(site(tmp_path / "pretty", pretty)[0])["load.md"] == "load/"


def test_a_site_of_hugo_has_its_addresses_and_shortcodes(tmp_path: Path) -> None:
    files = {name: text for name, text in HUGO.items() if "draft" not in name}
    plan, bodies = site(tmp_path, files)
    assert addresses(plan) == {
        **{"content/_index.md": "", "content/docs/Big Load.md": "docs/big-load/"},
        **{"content/docs/load.md": "docs/loads/", "content/docs/bundle/index.md": "elsewhere/"},
    }
    assert text_of(bodies["content/_index.md"]) == "Call 5580. Load"
    assert 'href="https://docs.example/docs/loads/"' in bodies["content/_index.md"].html
    load = bodies["content/docs/load.md"]
    assert text_of(load) == (
        f"The crane lifts 42.50 tonnes, the deck 7 crates, at {OMISSION}.\nLinux\n"
        "Use {{ .Values.port }} as written.\n"
        "A pod is small. Write {{< note >}}.\n```go\nx := 1\n```"
    )
    assert load.lost == {"shortcode now": 1}
    languages = {"hugo.yaml": "languages: {en: {}, de: {}}", "content/de/a.md": "a", "content/b.de.md": "b"}
    assert set(addresses(site(tmp_path / "two", languages)[0]).values()) == {"de/a/", "de/b/"}


def test_macros_of_mkdocs_are_read_where_the_plugin_is_on(tmp_path: Path) -> None:
    page = "---\nmax: 7\n---\nAt most {{ max }} of {{ page.meta.max }} {{ unit }}, {{ fix(1) }} and {{ a['b'] }}."
    on, off = "plugins:\n  - macros\nextra: {unit: crates, a: {b: c}}\n", "extra: {unit: crates}\n"
    assert text_of(site(tmp_path / "on", {"mkdocs.yml": on, "docs/a.md": page})[1]["docs/a.md"]) == (
        f"At most 7 of 7 crates, {OMISSION} and c."
    )
    assert "{{ unit }}" in text_of(site(tmp_path / "off", {"mkdocs.yml": off, "docs/a.md": page})[1]["docs/a.md"])


@pytest.mark.parametrize("generator", ["docusaurus", "github"])
def test_expressions_of_mdx_are_literals_front_matter_props_and_data(generator: str, tmp_path: Path) -> None:
    page = (
        "---\nmax: 900\n---\nimport Size from './_size.mdx';\nimport data from './data.json';\n"
        "export const PORT = 8443;\nexport const text = { host: 'db_1' };\n\n"
        "Port {PORT} of {text.host} takes {frontMatter.max} rows or {`${PORT}/x`}.\n\n<Size max={40} />\n\n"
        "It weighs {data.weight} and {now()} more, see <Chart x={1} /> or <Size />.\n\n{list.map(x => x)}\n"
    )
    files = {
        "docs/_size.mdx": "The hull is {props.max} metres long.",
        "docs/data.json": '{"weight": "3 t"}',
        "docs/a.mdx": page,
        **({"docusaurus.config.js": "module.exports = {}"} if generator == "docusaurus" else {}),
    }
    plan, bodies = site(tmp_path, files)
    assert plan.generator == generator
    shown = text_of(bodies["docs/a.mdx"])
    assert shown.startswith(
        "Port 8443 of db_1 takes 900 rows or 8443/x.\nThe hull is 40 metres long.\nIt weighs 3 t and"
    )
    assert f"{OMISSION} more, see {OMISSION} or" in shown
    assert f"The hull is {OMISSION} metres long." in shown
    assert bodies["docs/a.mdx"].lost == {"component Chart": 1, "expression": 3}


def test_nothing_is_executed_and_long_hostile_texts_take_linear_time() -> None:
    assert text_of_value("''.__class__.__mro__", {}) is None
    assert text_of_value("9 ** 9 ** 9 ** 9", {}) is None
    assert text_of_value("(" * 1990, {}) is None
    assert text_of_value("a.b", {"a": "text"}) is None
    for pump in ("{{", "{% if x %}", "{{ a }}", "{% raw %}", "{% x 'a' %}"):
        assert (
            steepness(
                Template({}).rendered, lambda size, pump=pump: pump * (size // len(pump)), small=5_000, cheap=4e-6
            )
            is None
        )


@given(st.text(alphabet="{}%<>/*# -ifendraw|.'\"\nx", max_size=300), st.booleans())
def test_any_text_with_marks_is_read(text: str, is_hugo: bool) -> None:
    Template({}, is_hugo).rendered(text)


def test_pages_of_several_versions_name_theirs_and_those_before_the_last_release_are_unreleased(tmp_path: Path) -> None:
    files = {
        "docusaurus.config.js": "module.exports = {presets: [['classic', {docs: {lastVersion: '2.0'}}]]}",
        "versions.json": '["3.0", "2.0", "1.0"]',
        "docs/a.md": "# A",
        **{f"versioned_docs/version-{number}/a.md": "# A" for number in ("3.0", "2.0", "1.0")},
    }
    plan, _ = site(tmp_path, files)
    assert [page.version for page in plan.pages] == [
        *("unreleased version next", "unreleased version 3.0", "version 2.0", "version 1.0")
    ]
    single, _ = site(tmp_path / "one", {"docusaurus.config.js": "module.exports = {}", "docs/a.md": "# A"})
    assert [page.version for page in single.pages] == [""]


@pytest.mark.parametrize(
    ("plugin", "names"),
    [
        ("{languages: [{locale: en, default: true}, {locale: fr}]}", ("a.en.md", "a.fr.md", "b.md")),
        (
            "{docs_structure: folder, languages: [{locale: en, default: true}, {locale: fr}]}",
            ("en/a.md", "fr/a.md", "b.md"),
        ),
        ("{default_language: en, languages: {en: English, fr: x}}", ("a.en.md", "a.fr.md", "b.md")),
    ],
)
def test_pages_of_mkdocs_in_several_languages_have_the_addresses_of_the_plugin(
    plugin: str, names: tuple[str, ...], tmp_path: Path
) -> None:
    files = {"mkdocs.yml": f"plugins:\n  - i18n: {plugin}\n", **{f"docs/{name}": "x" for name in names}}
    assert {page.path for page in site(tmp_path, files)[0].pages} == {"a/", "fr/a/", "b/"}


def test_mkdocs_leaves_out_what_its_plugin_excludes_and_labels_have_no_tags(tmp_path: Path) -> None:
    settings = "nav:\n  - <i>Guides</i>:\n      - <b>Set</b> up: a.md\n"
    settings += "plugins:\n  - exclude: {glob: ['drafts/*', '*.tmp.md']}\n"
    files = {"mkdocs.yml": settings, "docs/a.md": "x", "docs/drafts/b.md": "x", "docs/c.tmp.md": "x"}
    plan, _ = site(tmp_path, files)
    assert [(page.title, page.category) for page in plan.pages] == [("Set up", "Guides")]
    assert plan.excluded.keys() == {"docs/drafts/b.md", "docs/c.tmp.md"}
