"""Where a browser may be led, and whose cookie is read, whatever the request says."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from urllib.parse import urljoin, urlsplit

from hypothesis import example, given
from hypothesis import strategies as st

from rag_serving.api.origins import SESSION, cookie_of
from rag_serving.api.session import own_path
from rag_serving.config.serving import Serving

HOSTILE = st.text(alphabet=st.sampled_from(list("/\\:.@?#%25fc\t\n aevil-é\x00")), max_size=40)


def request(cookie: str = "") -> Any:
    web = SimpleNamespace(serves=lambda _, path: path == "/" or path.startswith(("/a/", "/p/")))
    headers = SimpleNamespace(getlist=lambda name: [cookie] if name == "cookie" else [])
    url = SimpleNamespace(scheme="http")
    return SimpleNamespace(app=SimpleNamespace(state=SimpleNamespace(web=web)), headers=headers, url=url)


@given(HOSTILE | st.text(max_size=60).map("/a/{}".format) | HOSTILE.map("/a/{}".format))
@example("/a/..//evil.example")
@example("/a/%2e%2e/%2e%2e//evil.example")
def test_no_path_leads_to_another_host(path: str) -> None:
    led = own_path(request(), path)
    # Browsers take a backslash for a slash, and leave out tabs and line ends (https://url.spec.whatwg.org/).
    as_browsers = led.replace("\\", "/").replace("\t", "").replace("\n", "").replace("\r", "")
    parts = urlsplit(urljoin("https://cite.example/v1/session/oidc/callback", as_browsers))
    assert (parts.scheme, parts.netloc) == ("https", "cite.example")
    assert parts.path == "/" or parts.path.startswith(("/a/", "/p/"))


@given(
    st.lists(st.tuples(st.sampled_from([SESSION, "a", f"x{SESSION}", ""]), st.text(max_size=8))), st.text(max_size=8)
)
def test_a_cookie_is_read_where_it_stands_once(pairs: list[tuple[str, str]], junk: str) -> None:
    header = "; ".join([*(f"{name}={value}" for name, value in pairs), junk])
    found = cookie_of(request(header), Serving(), SESSION)
    assert found is None or header.count(f"{SESSION}=") >= 1
    clean = [value for name, value in pairs if name == SESSION]
    if len(clean) > 1 and not any(";" in value or "=" in name for name, value in pairs):
        assert found is None
