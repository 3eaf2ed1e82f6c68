"""`citelock doctor` looks at the audit log."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from support.command_line import finding

from citelock_governance.audit.ledger import Ledger
from rag_serving.config.sections import Audit
from rag_serving.hooks import Event


def test_by_default_no_audit_log_is_kept(tmp_path: Path) -> None:
    assert finding(tmp_path, "audit") == ("ok", "no audit log is kept: audit.mode is off", "")


def test_events_that_the_audit_log_lost_are_told(tmp_path: Path) -> None:
    more = "audit: {mode: best_effort}\n"
    assert finding(tmp_path, "audit", more)[1] == "best_effort: the log is made by the first event"
    ledger = Ledger(tmp_path / "home", None, "acme", Audit(mode="best_effort"), lambda text: text)
    long_ago = datetime.now(UTC) - timedelta(days=8)
    ledger.append([Event("audit.lost", details={"events": 100}, at=long_ago), Event("audit.read")])
    assert finding(tmp_path, "audit", more)[:2] == ("ok", "best_effort: 2 rows, 0 events lost in 7 days")
    ledger.append([Event("audit.lost", details={"events": 3}), Event("audit.lost", details={"events": 4})])
    ledger.close()
    state, detail, mend = finding(tmp_path, "audit", more)
    assert (state, detail) == ("warn", "best_effort: 4 rows, 7 events lost in 7 days")
    assert "audit.mode: required" in mend


@pytest.mark.parametrize(("mode", "until"), [("required", "nothing is answered"), ("best_effort", "events wait")])
def test_an_audit_log_whose_database_is_away_fails(tmp_path: Path, mode: str, until: str) -> None:
    more = f"audit: {{mode: {mode}}}\ntelemetry: {{url: 'postgresql://nobody:hidden@127.0.0.1:9/none'}}\n"
    state, detail, mend = finding(tmp_path, "audit", more)
    assert state == "fail"
    assert "cannot be read" in detail
    assert "hidden" not in detail
    assert until in mend
