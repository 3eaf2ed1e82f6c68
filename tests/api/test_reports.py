"""Reports over HTTP: for operators, tenant by tenant, under a policy that lets nothing but their own script run."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from support.api_client import bearer
from support.wiki import configuration

from evals.reports.report import Case, Report, Table, write_report
from rag_serving.api.app import create_app
from rag_serving.api.operations import policy_of
from rag_serving.artifacts.signed_files import write_signed, write_signed_text
from rag_serving.artifacts.store import Store, write_text
from rag_serving.config.loading import ConfigError
from rag_serving.indexes.catalog import _TITLES

LOCAL = ("127.0.0.1", 50000)
TOKENS = {
    "op": {"tenant": "acme", "user": "olga", "roles": ["operator"]},
    "both": {"tenant": "acme", "roles": ["reader", "operator"]},
    "reader": {"tenant": "acme", "user": "ann"},
    "auditor": {"tenant": "acme", "roles": ["auditor", "editor"]},
    "other": {"tenant": "other", "roles": ["operator"]},
}
REPORT = Report(
    "Near-duplicates <of> acme",
    "about",
    tables=[Table("T", ["a"], [{"a": "<script>alert(1)</script>"}])],
    cases=[Case("c", "bad", "bad", [("text", "</script><style>*{display:none}</style>")])],
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A tenant with three reports, and one of another tenant; what must not be shown lies beside them."""
    store = Store(tmp_path)
    for name in ("dedup", "telemetry-2026-01-31"):
        write_report(store, "acme", name, REPORT)
    write_report(store, "other", "ablation", REPORT)
    generation = store.generation("acme", "g1")
    write_signed_text(store, generation / "eval_report.html", "<style>a{}</style><p>evaluation</p><script>1</script>")
    summary = {"citation_precision": {"mean": 0.9876}}
    write_signed(
        store, generation / "eval_report.json", {"summary": summary, "gates": [{"gate": "<floor>", "passed": False}]}
    )
    folder = store.tenant("acme") / "reports"
    write_text(folder / "ablation.json", "{}")
    write_text(folder / ".hidden.html", "hidden")
    write_text(tmp_path / "secret.html", "the secret")
    (folder / "link.html").symlink_to(tmp_path / "secret.html")
    return tmp_path


@pytest.fixture
def client(home: Path) -> TestClient:
    return client_of(home)


def client_of(home: Path, **more: Any) -> TestClient:
    config = configuration(home, tenants={"acme": {}, "other": {}}, **more)
    return TestClient(create_app(config), "http://127.0.0.1:8088", client=LOCAL, raise_server_exceptions=False)


@pytest.fixture
def secured(home: Path, monkeypatch: pytest.MonkeyPatch) -> TestClient:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    return client_of(home, serving={"auth": "tokens"})


def basic(password: str, name: str = "anybody") -> dict[str, str]:
    return {"Authorization": f"Basic {base64.b64encode(f'{name}:{password}'.encode()).decode()}"}


def names(client: TestClient, **more: Any) -> list[str]:
    return [each["name"] for each in client.get("/v1/reports", **more).json()["reports"]]


def test_the_list_names_what_is_there_with_its_address(client: TestClient) -> None:
    found = client.get("/v1/reports?tenant=acme").json()["reports"]
    assert [(each["name"], each["kind"], each["generation"]) for each in found] == [
        ("evaluation-g1", "evaluation", "g1"),
        ("telemetry-2026-01-31", "questions", None),
        ("dedup", "dedup", None),
    ]
    for each in found:
        response = client.get(each["url"])
        assert (response.status_code, response.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert len(response.content) == each["bytes"]
    assert names(client, params={"tenant": "other"}) == ["ablation"]
    assert client.get("/v1/reports").status_code == 400  # of which tenant?


def test_a_browser_gets_a_page_with_the_key_measures(client: TestClient) -> None:
    response = client.get("/v1/reports?tenant=acme", headers={"Accept": "text/html,application/xhtml+xml"})
    assert 'href="/v1/reports/evaluation-g1?tenant=acme"' in response.text
    assert "0.988" in response.text
    assert "failed: &lt;floor&gt;" in response.text
    assert "script-src 'none'" in response.headers["content-security-policy"]
    assert "There are no reports yet" not in response.text


@pytest.mark.parametrize("name", [*_TITLES, "a-report-of-next-year", "telemetry-", "evaluation-"])
def test_a_report_of_any_kind_is_in_the_list_and_opens(tmp_path: Path, name: str) -> None:
    write_report(Store(tmp_path), "acme", name, REPORT)
    client = client_of(tmp_path)
    page = client.get("/v1/reports?tenant=acme", headers={"Accept": "text/html"})
    assert (page.status_code, f'href="/v1/reports/{name}?tenant=acme"' in page.text) == (200, True)
    assert names(client, params={"tenant": "acme"}) == [name]
    assert client.get(f"/v1/reports/{name}?tenant=acme").status_code == 200


EVALUATIONS: list[Any] = [
    {}, {"summary": None, "gates": None}, {"summary": [], "gates": {"a": 1}}, {"gates": [1, {"passed": True}]},
    {"summary": {"citation_precision": {"mean": "many"}}, "gates": "all"}, {"summary": {"recall@10": 1}, "gates": [[]]},
]  # fmt: skip


@pytest.mark.parametrize("evaluation", EVALUATIONS)
def test_an_evaluation_of_another_shape_leaves_the_list_whole(home: Path, evaluation: Any) -> None:
    write_signed(Store(home), Store(home).generation("acme", "g1") / "eval_report.json", evaluation)
    page = client_of(home).get("/v1/reports?tenant=acme", headers={"Accept": "text/html"})
    assert (page.status_code, page.text.count("href=")) == (200, 3)


@pytest.mark.parametrize("damage", ["bytes", "folder", "year", "link", "pointer", "nothing"])
def test_a_damaged_report_leaves_the_list_whole(home: Path, damage: str) -> None:
    damaged = Store(home).tenant("acme") / "reports" / "dedup.html"
    damaged.unlink()
    if damage == "folder":
        damaged.mkdir()
    elif damage == "link":
        damaged.symlink_to(damaged)
    elif damage != "nothing":
        damaged.write_bytes(b"\xff\x00")
    if damage == "year":
        os.utime(damaged, (0, 400_000_000_000))  # the year 14,645, which file systems know
    if damage == "pointer":
        Store(home).pointer("acme").mkdir()
    client = client_of(home)
    page = client.get("/v1/reports?tenant=acme", headers={"Accept": "text/html"})
    assert (page.status_code, "/v1/reports/evaluation-g1?" in page.text) == (200, True)
    assert {"evaluation-g1", "telemetry-2026-01-31"} <= set(names(client, params={"tenant": "acme"}))
    assert client.get("/v1/reports/dedup?tenant=acme").status_code == 404


def test_a_tenant_without_reports_is_told_so(tmp_path: Path) -> None:
    client = client_of(tmp_path)
    assert client.get("/v1/reports?tenant=acme").json() == {"reports": []}
    page = client.get("/v1/reports?tenant=acme", headers={"Accept": "text/html"}).text
    assert "There are no reports yet" in page


@pytest.mark.parametrize(
    "name",
    ["nothing", "link", ".hidden", "ablation", "ablation.json", "dedup.html", "..", "%2e%2e%2fsecret",
     "..%2f..%2f..%2fsecret", "%2fetc%2fpasswd", "secret", "telemetry-%00", "evaluation-..",
     "evaluation-g1%2f..%2fg1", "x" * 3000],
)  # fmt: skip
def test_nothing_but_a_listed_report_is_shown(client: TestClient, name: str) -> None:
    response = client.get(f"/v1/reports/{name}?tenant=acme")
    assert response.status_code == 404
    assert "secret" not in response.text.replace("there is no such report", "")


def test_only_operators_of_the_tenant_see_reports(secured: TestClient) -> None:
    for token in ("op", "both"):
        assert secured.get("/v1/reports/dedup", headers=bearer(token)).status_code == 200
        assert "dedup" in names(secured, headers=bearer(token))
    for token in ("reader", "auditor"):
        for path in ("/v1/reports", "/v1/reports/dedup", "/v1/reports/nothing"):
            response = secured.get(path, headers=bearer(token))
            assert (response.status_code, response.json()["code"]) == (403, "FORBIDDEN")
    assert names(secured, headers=bearer("other")) == ["ablation"]
    assert secured.get("/v1/reports/dedup", headers=bearer("other")).status_code == 404
    assert secured.get("/v1/reports/dedup?tenant=acme", headers=bearer("other")).status_code == 403


def test_a_browser_is_asked_for_a_password_which_is_the_token(secured: TestClient) -> None:
    for headers in ({}, basic("wrong"), basic(""), {"Authorization": "Basic !"}, {"Authorization": "Basic /w=="}):
        response = secured.get("/v1/reports/dedup", headers=headers)
        assert response.status_code == 401
        assert "Basic realm=" in response.headers["www-authenticate"]
    assert secured.get("/v1/reports/dedup", headers=basic("op")).status_code == 200
    assert secured.get("/v1/reports/dedup", headers=basic("reader")).status_code == 403
    asked = secured.post("/v1/search", json={"query": "x"}, headers=basic("op"))
    assert (asked.status_code, asked.headers["www-authenticate"]) == (401, "Bearer")  # no other route takes passwords


def test_only_this_machine_sees_reports_where_nobody_is_asked(home: Path) -> None:
    config = configuration(home)
    elsewhere = TestClient(create_app(config), "http://127.0.0.1:8088", client=("10.0.0.9", 50000))
    rebound = TestClient(create_app(config), "http://evil.example", client=LOCAL)
    assert [each.get("/v1/reports").status_code for each in (elsewhere, rebound)] == [403, 403]


def test_a_report_may_run_its_own_script_and_nothing_else(client: TestClient) -> None:
    response = client.get("/v1/reports/dedup?tenant=acme")
    policy = response.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; img-src data:; ")
    own = re.findall(r"<(style|script)>(.*?)</\1>", response.text, re.DOTALL)
    assert [kind for kind, _ in own] == ["style", "script"]
    for kind, text in own:
        digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy
    expected = {"x-frame-options": "DENY", "x-content-type-options": "nosniff", "cache-control": "no-store"}
    assert expected.items() <= dict(response.headers).items()


def test_a_script_that_a_page_brought_in_has_no_hash() -> None:
    evil = "<script>steal()</script>"
    policy = policy_of(f"<style>a</style>{evil}<style>b</style>{evil}<script>own()</script></body></html>")
    assert policy == policy_of("<style>a</style><script>own()</script>")
    assert "script-src 'none'" in policy_of("<p>nothing</p>")
    assert "style-src 'none'" in policy_of("</script><script>")


@pytest.mark.parametrize("roles", [["king"], "operator", [1], {"operator": True}, [["operator"]]])
def test_roles_that_are_none_are_refused(home: Path, monkeypatch: pytest.MonkeyPatch, roles: object) -> None:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps({"t": {"tenant": "acme", "roles": roles}}))
    with pytest.raises(ConfigError, match="role"):
        client_of(home, serving={"auth": "tokens"})
