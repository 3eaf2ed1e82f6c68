"""The bots of `examples/` against stand-ins of Slack's and Microsoft's documented interfaces, over a real server."""

from __future__ import annotations

import hashlib
import hmac
import importlib
import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient
from support.running import running
from support.wiki import PASSAGES, RESTART, Passage, configuration, publish

from rag_serving.api.app import create_app

ROOT = Path(__file__).parents[2]
ASKED = "May I restart a broker while partitions are under-replicated?"
SECRET_ASKED = "When is the moving day of the Porto depot?"
HIDDEN = "The moving day of the Porto depot is 14 May."
TOKENS = {"bot": {"tenant": "acme", "user_header": "X-Citelock-User"}}
SIGNING = "slack-secret"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
PUBLIC = json.loads(jwt.algorithms.RSAAlgorithm.to_jwk(KEY.public_key()))


class Platform:
    """Slack's Web API, and what Teams' bots reach: keys, tokens, the Connector. Notes what is posted."""

    def __init__(self) -> None:
        self.posted: list[tuple[str, str, dict[str, Any]]] = []  # path, authorization, body
        self.app = FastAPI()
        self.app.add_api_route("/{path:path}", self.answer, methods=["GET", "POST"])

    async def answer(self, path: str, request: Request) -> Any:
        """Answer as the platforms do."""
        authorization = request.headers.get("authorization", "")
        if path == "slack/users.info":
            return {"ok": True, "user": {"profile": {"email": f"{request.query_params['user'].lower()}@acme.example"}}}
        if path == "openid":
            return {"issuer": "https://api.botframework.com", "jwks_uri": str(request.url_for("answer", path="keys"))}
        if path == "keys":
            return {"keys": [{**PUBLIC, "kid": "k1", "endorsements": ["msteams"]}]}
        if path == "token":
            form = dict(await request.form())
            assert (form["grant_type"], form["client_secret"]) == ("client_credentials", "password")
            return {"access_token": "ours", "expires_in": 3600}
        if "/members/" in path:
            return {"id": path.rpartition("/")[2], "userPrincipalName": "ann@acme.example"}
        self.posted.append((path, authorization, await request.json()))
        return {"ok": True}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("wiki")
    hidden = Passage("90", "Moving", HIDDEN, title="Porto depot", space="HR", readers="user:ann@acme.example")
    publish(home, (*PASSAGES, hidden))
    return home


@pytest.fixture
def platform(home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    monkeypatch.setenv("CITELOCK_TOKENS", json.dumps(TOKENS))
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    stand_in = Platform()
    with (
        running(create_app(configuration(home, serving={"auth": "tokens"}))) as citelock,
        running(stand_in.app) as address,
    ):
        for name, value in {
            "CITELOCK_URL": citelock, "CITELOCK_TOKEN": "bot", "SLACK_SIGNING_SECRET": SIGNING,
            "SLACK_BOT_TOKEN": "xoxb-1", "SLACK_API": f"{address}/slack", "TEAMS_APP_ID": "app",
            "TEAMS_APP_PASSWORD": "password", "TEAMS_OPENID": f"{address}/openid", "TEAMS_TOKENS": f"{address}/token",
            "CONNECTOR": f"{address}/teams/",
        }.items():  # fmt: skip
            monkeypatch.setenv(name, value)
        yield stand_in


@pytest.fixture
def slack(platform: Platform) -> TestClient:  # noqa: ARG001
    return TestClient(importlib.reload(importlib.import_module("slack_bot")).app)


@pytest.fixture
def teams(platform: Platform) -> TestClient:  # noqa: ARG001
    return TestClient(importlib.reload(importlib.import_module("teams_bot")).app)


def told(client: TestClient, body: dict[str, Any], secret: str = SIGNING, age_s: float = 0) -> Any:
    """Post an event as Slack signs it."""
    content, moment = json.dumps(body).encode(), str(int(time.time() - age_s))
    signed = hmac.new(secret.encode(), f"v0:{moment}:".encode() + content, hashlib.sha256).hexdigest()
    headers = {"X-Slack-Request-Timestamp": moment, "X-Slack-Signature": f"v0={signed}"}
    return client.post("/slack/events", content=content, headers=headers)


def mention(text: str, identifier: str = "E1", **more: Any) -> dict[str, Any]:
    event = {"type": "app_mention", "user": "ANN", "text": f"<@U0BOT> {text}", "ts": "1.5", "channel": "C1", **more}
    return {"type": "event_callback", "event_id": identifier, "event": event}


def test_a_mention_in_slack_is_answered_in_its_thread_with_quote_and_link(
    slack: TestClient, platform: Platform
) -> None:
    assert told(slack, {"type": "url_verification", "challenge": "c3"}).json() == {"challenge": "c3"}
    assert told(slack, mention(ASKED)).status_code == 200
    ((path, authorization, message),) = platform.posted
    assert (path, authorization) == ("slack/chat.postMessage", "Bearer xoxb-1")
    assert (message["channel"], message["thread_ts"]) == ("C1", "1.5")
    said, cited = message["blocks"]
    assert said["text"] == {"type": "plain_text", "text": f"{RESTART} [1]", "emoji": False}
    link, quote = cited["elements"]
    assert link["text"].startswith("[1] <https://wiki.example/pages/11#Restarting-a-broker:~:text=")
    assert link["text"].endswith("|Kafka operations → Restarting a broker>")
    assert quote["text"] == "“You must not restart a broker while partitions are under-replicated.”"
    assert told(slack, mention(ASKED)).status_code == 200
    assert len(platform.posted) == 1, "an event that comes again is not answered again"


@pytest.mark.parametrize(("secret", "age_s"), [("another", 0), (SIGNING, 301), (SIGNING, -301)])
def test_what_slack_did_not_sign_just_now_is_refused(
    slack: TestClient, platform: Platform, secret: str, age_s: float
) -> None:
    assert told(slack, mention(ASKED), secret, age_s).status_code == 401
    assert slack.post("/slack/events", json=mention(ASKED)).status_code == 401
    assert platform.posted == []


def test_what_bots_say_is_no_question(slack: TestClient, platform: Platform) -> None:
    assert told(slack, mention(ASKED, bot_id="B1")).status_code == 200
    assert told(slack, mention(ASKED, "E2", type="message", channel_type="channel")).status_code == 200
    assert told(slack, mention(ASKED, "E3", type="message", channel_type="im", subtype="message_changed")).json() == {}
    assert platform.posted == []


def test_a_direct_message_is_asked_in_its_sender_s_name_and_a_channel_s_is_not(
    slack: TestClient, platform: Platform
) -> None:
    direct = {"type": "message", "channel_type": "im", "channel": "D1"}
    for number, (user, more) in enumerate([("ANN", direct), ("BOB", direct), ("ANN", {})]):
        assert told(slack, mention(SECRET_ASKED, f"E{number}", user=user, **more)).status_code == 200
    assert ["14 May" in json.dumps(message) for _, _, message in platform.posted] == [True, False, False]


def test_a_server_that_is_away_is_told(slack: TestClient, platform: Platform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CITELOCK_URL", "http://127.0.0.1:9")
    told(slack, mention(ASKED))
    assert "cannot be asked at the moment" in platform.posted[0][2]["text"]


def activity(text: str, connector: str, kind: str = "channel") -> dict[str, Any]:
    return {
        "type": "message", "id": "1:a", "channelId": "msteams", "serviceUrl": connector, "text": text,
        "from": {"id": "29:x"}, "conversation": {"id": "19:c@thread.tacv2;messageid=1", "conversationType": kind},
    }  # fmt: skip


def bearer(connector: str, **claims: Any) -> dict[str, str]:
    now = int(time.time())
    whole = {"iss": "https://api.botframework.com", "aud": "app", "exp": now + 600, "serviceurl": connector, **claims}
    return {"Authorization": f"Bearer {jwt.encode(whole, KEY, 'RS256', headers={'kid': 'k1'})}"}


def test_a_mention_in_teams_is_answered_by_a_card_that_links_no_words_of_pages(
    teams: TestClient, platform: Platform
) -> None:
    connector = os.environ["CONNECTOR"]
    sent = activity(f"<at>Citelock</at> {ASKED}&nbsp;", connector)
    assert teams.post("/api/messages", json=sent, headers=bearer(connector)).status_code == 200
    ((path, authorization, message),) = platform.posted
    assert path == "teams/v3/conversations/19:c@thread.tacv2;messageid=1/activities/1:a"
    assert (authorization, message["replyToId"]) == ("Bearer ours", "1:a")
    card = message["attachments"][0]["content"]
    said, quote = (block["inlines"][0]["text"] for block in card["body"])
    assert {block["type"] for block in card["body"]} == {"RichTextBlock"}
    assert said == f"{RESTART} [1]"
    assert quote == "[1] “You must not restart a broker while partitions are under-replicated.”"
    assert card["actions"][0]["url"].startswith("https://wiki.example/pages/11#Restarting-a-broker:~:text=")


def test_a_personal_chat_is_asked_in_its_person_s_name_and_a_channel_is_not(
    teams: TestClient, platform: Platform
) -> None:
    connector = os.environ["CONNECTOR"]
    for kind in ("personal", "channel", "groupChat"):
        sent = activity(SECRET_ASKED, connector, kind)
        assert teams.post("/api/messages", json=sent, headers=bearer(connector)).status_code == 200
    assert ["14 May" in json.dumps(message) for _, _, message in platform.posted] == [True, False, False]


@pytest.mark.parametrize(
    ("claims", "changes"),
    [
        ({"iss": "https://evil.example"}, {}),
        ({"aud": "another"}, {}),
        ({"exp": 1}, {}),
        ({"serviceurl": "https://evil.example/"}, {}),
        ({}, {"serviceUrl": "https://evil.example/"}),
        ({}, {"channelId": "webchat"}),
    ],
)
def test_what_the_connector_did_not_send_is_refused(
    teams: TestClient, platform: Platform, claims: dict[str, Any], changes: dict[str, str]
) -> None:
    connector = os.environ["CONNECTOR"]
    sent = activity(ASKED, connector) | changes
    assert teams.post("/api/messages", json=sent, headers=bearer(connector, **claims)).status_code == 403
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    token = jwt.encode({"iss": "https://api.botframework.com", "aud": "app"}, other, "RS256", headers={"kid": "k1"})
    assert teams.post("/api/messages", json=sent, headers={"Authorization": f"Bearer {token}"}).status_code == 403
    assert teams.post("/api/messages", json=sent).status_code == 403
    assert platform.posted == []


@pytest.mark.parametrize("name", ["slack_bot.py", "teams_bot.py"])
def test_a_recipe_is_short(name: str) -> None:
    assert len((ROOT / "examples" / name).read_text().splitlines()) <= 120
