"""Who follows an answer is told when its pages say something else, with what he may read now, once for each change."""

from __future__ import annotations

import email
import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from email.message import Message
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from fastapi.testclient import TestClient
from support.constants import configured
from support.remembered import remembered_events
from support.running import served
from support.wiki import PASSAGES, Passage, embedder, publish
from typer.testing import CliRunner

from rag_assets.monitoring import alerts
from rag_assets.monitoring.alerts import NoticeCounts, notify
from rag_assets.resources import Installation
from rag_assets.sensors import notify_followers
from rag_serving.access.principals import ROLES, Principal
from rag_serving.api.app import create_app
from rag_serving.artifacts.store import Store
from rag_serving.ask import Pipeline
from rag_serving.checking.guarantee import NoChannelError, follow
from rag_serving.cli.main import app
from rag_serving.config.loading import Config
from rag_serving.receipts.receipt import ReceiptError
from rag_serving.receipts.subscriptions import FOLDER, MOST, TooManyError

HR = frozenset({"hr"})
ANN, BOB, EVE = Principal("acme", "ann@acme.example", HR), Principal("acme", "bob"), Principal("acme", "eve", HR)
BOSS = Principal("acme", "boss", HR, ROLES)
LOGS, SALARY, POLL = (
    "How long are logs kept?",
    "What salary bonus does the broker team earn?",
    "What is max.poll.records?",
)
RETENTION, SALARIES, SETTINGS = (next(one for one in PASSAGES if one.page_id == page) for page in ("12", "14", "15"))


@pytest.fixture
def config(tmp_path: Path) -> Config:
    monitoring = {"notice_folder": str(tmp_path / "mail")}
    config = configured({"home": str(tmp_path / "home"), "tenants": {"acme": {}}, "monitoring": monitoring})
    publish(config.home)
    return config


@pytest.fixture
def pipeline(config: Config) -> Iterator[Pipeline]:
    opened = Pipeline.open(config, "acme", embedder())
    yield opened
    opened.close()


def followed(pipeline: Pipeline, who: Principal, question: str) -> str:
    answer = pipeline.ask(who, question)
    assert answer.receipt_id
    assert answer.citations
    follow(pipeline, who, answer.receipt_id)
    return answer.receipt_id


def edit(config: Config, passage: Passage, text: str | None, **fields: Any) -> None:
    """Publish the wiki with another text of a passage; None: without its page."""
    others = [one for one in PASSAGES if one.page_id != passage.page_id]
    new = [] if text is None else [replace(passage, text=text, version=2, **fields)]
    publish(config.home, [*others, *new])


def mails(config: Config) -> list[Message]:
    folder = config.monitoring.notice_folder
    assert folder
    return [email.message_from_string(file.read_text("utf-8")) for file in sorted(folder.glob("*.eml"))]


def body(mail: Message) -> str:
    content = mail.get_payload(decode=True)
    assert isinstance(content, bytes)
    return content.decode()


def test_a_changed_value_is_told_once_with_the_words_before_and_now(config: Config, pipeline: Pipeline) -> None:
    identifier = followed(pipeline, ANN, LOGS)
    assert notify(config, "acme") == NoticeCounts(1)
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    assert notify(config, "acme") == NoticeCounts(1, broken=1, sent=1)
    assert notify(config, "acme") == NoticeCounts(1, broken=1)
    (mail,) = mails(config)
    assert (mail["To"], mail["X-Citelock-User"]) == ("ann@acme.example", "ann@acme.example")
    told = body(mail)
    assert "Before:\nEach broker keeps logs for 168 hours by default." in told
    assert "Now, Kafka operations:\nEach broker keeps logs for 72 hours by default." in told
    assert "Value: 168 hours -> 72 hours" in told
    assert LOGS in told
    assert f"/a/{identifier}" in told
    publish(config.home)
    assert notify(config, "acme") == NoticeCounts(1, sent=1)
    assert sum("confirmed by its pages again" in str(each["Subject"]) for each in mails(config)) == 1


def test_a_cell_of_a_table_is_told_with_its_row(config: Config, pipeline: Pipeline) -> None:
    followed(pipeline, BOB, POLL)
    edit(config, SETTINGS, SETTINGS.text.replace("| 500 |", "| 250 |"))
    notify(config, "acme")
    assert "Value: 500 -> 250" in body(mails(config)[0])


@pytest.mark.parametrize(
    "edited",
    [
        {"text": RETENTION.text, "heading": "Keeping logs", "chunk_idx": 3},
        {"text": f"Read this first.\n\n{RETENTION.text} More is in the handbook."},
        {
            "text": RETENTION.text.replace(". Set", ".\n\n- Set").replace(
                "log.retention.hours", "**`log.retention.hours`**"
            )
        },
        {"text": RETENTION.text, "title": "Operating Kafka"},
    ],
)
def test_what_was_moved_or_reformatted_is_no_change(config: Config, pipeline: Pipeline, edited: dict[str, Any]) -> None:
    followed(pipeline, BOB, LOGS)
    edit(config, RETENTION, **edited)
    assert notify(config, "acme") == NoticeCounts(1)


def test_a_page_that_says_that_it_is_out_of_force_bears_nothing_out(config: Config, pipeline: Pipeline) -> None:
    followed(pipeline, BOB, LOGS)
    edit(config, RETENTION, RETENTION.text, title="Kafka operations (deprecated)")
    assert notify(config, "acme").sent == 1


@pytest.mark.parametrize("fields", [None, {"readers": "group:board"}])
def test_of_pages_that_are_gone_or_hidden_nothing_is_told(
    config: Config, pipeline: Pipeline, fields: dict[str, Any] | None
) -> None:
    identifier = followed(pipeline, ANN, SALARY)
    edit(config, SALARIES, None if fields is None else "The broker team earns 9,000 euros in March.", **(fields or {}))
    assert notify(config, "acme") == NoticeCounts(1, broken=1, sent=1)
    (mail,) = mails(config)
    said = f"{mail.as_string()}{body(mail)}"
    assert f"/a/{identifier}" in said
    for word in ("salary", "bonus", "4,000", "9,000", "Compensation", "14"):
        assert word not in said.replace(identifier, "").replace(str(mail["Date"]), "").replace(
            str(mail["Message-ID"]), ""
        )


def test_groups_that_a_token_named_count_as_long_as_a_session(config: Config, pipeline: Pipeline) -> None:
    followed(pipeline, ANN, SALARY)
    edit(config, SALARIES, "The broker team earns a salary bonus of 9,000 euros in December.")
    later = config.model_copy(update={"serving": config.serving.model_copy(update={"session_hours": 1e-9})})
    assert notify(later, "acme").sent == 1
    assert "euros" not in body(mails(config)[0]), "nobody knows whether she still is in her group"
    assert notify(config, "acme").sent == 1
    assert sum("9,000 euros" in body(mail) for mail in mails(config)) == 1


def test_a_made_up_or_altered_subscription_tells_nobody_anything(config: Config, pipeline: Pipeline) -> None:
    followed(pipeline, ANN, SALARY)
    (file,) = (Store(config.home).tenant("acme") / FOLDER).iterdir()
    file.rename(file.with_name(f"{'0' * 32}-{pipeline.secrecy.asker(BOB)}"))
    edit(config, SALARIES, "The broker team earns 9,000 euros in March.")
    assert notify(config, "acme") == NoticeCounts()


def test_who_is_no_longer_shared_an_answer_is_not_told_of_it(config: Config, pipeline: Pipeline) -> None:
    identifier = pipeline.ask(BOB, LOGS).receipt_id or ""
    with pytest.raises(ReceiptError):
        follow(pipeline, ANN, identifier)
    with pytest.raises(ReceiptError):
        follow(pipeline, BOSS, identifier)  # an operator has no role when he is told
    pipeline.proofs.share(BOB, identifier)
    follow(pipeline, ANN, identifier)
    pipeline.proofs.share(BOB, identifier, is_shared=False)
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    assert notify(config, "acme").sent == 1
    assert "hours" not in body(mails(config)[0])


def test_who_unsubscribed_or_was_forgotten_is_told_nothing(config: Config, pipeline: Pipeline) -> None:
    identifier = followed(pipeline, BOB, LOGS)
    pipeline.proofs.share(BOB, identifier)
    follow(pipeline, ANN, identifier)
    pipeline.subscriptions.remove(BOB, identifier)
    pipeline.receipts.forget("acme", pipeline.secrecy.asker(ANN))
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    assert notify(config, "acme") == NoticeCounts()
    follow(pipeline, BOB, identifier)
    pipeline.receipts.forget("acme", pipeline.secrecy.asker(BOB))
    assert not list(pipeline.subscriptions)


def test_a_notice_that_is_sent_again_after_a_kill_has_the_same_id(
    config: Config, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    followed(pipeline, BOB, LOGS)
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))

    class KilledError(BaseException):
        """The process ends between sending and noting."""

    def killed(*_: object) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr("rag_serving.receipts.subscriptions.Subscriptions.note_sent", killed)
        with pytest.raises(KilledError):
            notify(config, "acme")
    first = mails(config)[0]["Message-ID"]
    assert notify(config, "acme").sent == 1
    assert [mail["Message-ID"] for mail in mails(config)] == [first]
    assert notify(config, "acme").sent == 0


class Hook(BaseHTTPRequestHandler):
    """Keeps what it is sent; answers what it is told to."""

    taken: list[tuple[str, bytes]]
    status = 200

    def do_POST(self) -> None:
        content = self.rfile.read(int(self.headers["content-length"]))
        self.taken.append((self.headers["X-Hub-Signature"], content))
        self.send_response(self.status)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


def test_a_webhook_gets_signed_notices_and_those_that_it_refused_again(
    config: Config, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    Hook.taken, Hook.status = [], 503
    settings = config.monitoring.model_copy(update={"notice_folder": None, "notice_url_env": "NOTICE_URL"})
    config = config.model_copy(update={"monitoring": settings})
    pipeline.config = pipeline.config.model_copy(update={"monitoring": settings})
    followed(pipeline, BOB, LOGS)
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    with served(HTTPServer(("127.0.0.1", 0), Hook)) as server:
        monkeypatch.setenv("NOTICE_URL", f"http://127.0.0.1:{server.server_port}/")
        assert notify(config, "acme").undelivered == 1, "unsigned nothing is sent"
        assert not Hook.taken
        monkeypatch.setenv("CITELOCK_NOTICE_SECRET", "s" * 20)
        assert notify(config, "acme") == NoticeCounts(1, broken=1, undelivered=1)
        Hook.status = 200
        assert notify(config, "acme") == NoticeCounts(1, broken=1, sent=1)
    (_, refused), (signed, taken) = Hook.taken
    assert signed == f"sha256={hmac.new(b's' * 20, taken, 'sha256').hexdigest()}"
    notice = json.loads(taken)
    assert notice["id"] == json.loads(refused)["id"]
    assert (notice["event"], notice["user"], notice["question"]) == ("answer_changed", "bob", LOGS)
    assert "168" in notice["changes"][0]["before"]
    assert "72" in notice["changes"][0]["after"]


def test_the_number_of_answers_and_notices_is_bounded(
    config: Config, pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rag_serving.receipts.subscriptions.MOST", 2)
    for _ in range(2):
        followed(pipeline, BOB, LOGS)
    with pytest.raises(TooManyError):
        followed(pipeline, BOB, LOGS)
    assert MOST == 100
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    monkeypatch.setattr(alerts, "MOST_NOTICES", 1)
    assert notify(config, "acme") == NoticeCounts(2, broken=2, sent=1, undelivered=1)
    assert notify(config, "acme") == NoticeCounts(2, broken=2, sent=1)


def test_without_a_channel_nobody_is_told_that_he_will_be(pipeline: Pipeline) -> None:
    identifier = pipeline.ask(BOB, LOGS).receipt_id or ""
    pipeline.config = pipeline.config.model_copy(update={"monitoring": Config().monitoring})
    with pytest.raises(NoChannelError, match="notice_folder"):
        follow(pipeline, BOB, identifier)


def test_answers_are_followed_over_http_and_in_a_terminal(config: Config, pipeline: Pipeline, tmp_path: Path) -> None:
    identifier = pipeline.ask(Principal("acme"), LOGS).receipt_id or ""
    path = f"/v1/receipts/{identifier}/subscription"
    with TestClient(create_app(config), base_url="http://localhost", client=("127.0.0.1", 1)) as client:
        assert client.get("/v1/session").json()["features"]["notices"]
        for _ in range(2):
            assert client.post(path).json() == {"receipt_id": identifier, "subscribed": True}
        assert client.post(f"/v1/receipts/{'0' * 32}/subscription").status_code == 404
        assert len(list(pipeline.subscriptions)) == 1
        assert client.delete(path).status_code == client.delete(path).status_code == 204
        assert not list(pipeline.subscriptions)
        client.post(f"/v1/receipts/{identifier}/share")
        assert len(list(pipeline.subscriptions)) == 1, "who shares an answer follows it"
    settings = tmp_path / "app.yaml"
    settings.write_text(config.model_dump_json(exclude_unset=True))
    told = [
        CliRunner().invoke(app, ["receipt", "watch", identifier, "--config", str(settings), "--user", "ann", *more])
        for more in ([], ["--stop"])
    ]
    assert [one.output for one in told] == ["notices are sent when the answer changes\n", "no more notices are sent\n"]
    assert len(list(pipeline.subscriptions)) == 1


def test_the_sensor_looks_once_for_each_publication(config: Config, pipeline: Pipeline, tmp_path: Path) -> None:
    followed(pipeline, BOB, LOGS)
    edit(config, RETENTION, RETENTION.text.replace("168", "72"))
    path = tmp_path / "app.yaml"
    path.write_text(
        json.dumps(
            {"home": str(config.home), "tenants": {"acme": {}}, "monitoring": {"notice_folder": str(tmp_path / "mail")}}
        )
    )
    installation = Installation(config_path=str(path))
    with remembered_events(), dg.DagsterInstance.ephemeral() as instance:
        context = dg.build_sensor_context(instance, resources={"installation": installation})
        first = notify_followers(context)
        assert isinstance(first, dg.SensorResult)
        assert "1 of 1 followed answers no longer match their pages; 1 notices sent" in str(first.skip_reason)
        (observed,) = instance.fetch_observations(dg.AssetKey("published_generation"), limit=2).records
        assert observed.asset_observation
        assert observed.asset_observation.metadata["broken"].value == 1
        again = dg.build_sensor_context(instance, cursor=first.cursor, resources={"installation": installation})
        second = notify_followers(again)
        assert isinstance(second, dg.SensorResult)
        assert "nothing was published since" in str(second.skip_reason)
