"""What the doctor finds of the provider where people sign in."""

from __future__ import annotations

import pytest
from support.constants import section_of
from support.stand_in_provider import CLIENT, served_provider

from rag_serving.cli.doctor import look_at, look_at_issuer
from rag_serving.config.serving import Jwt, Oidc


def settings(issuer: str, **more: object) -> Oidc:
    return section_of(Oidc, issuer=issuer, client_id=CLIENT, timeout_s=10, **more)


def test_a_provider_as_it_should_be() -> None:
    with served_provider() as provider:
        finding = look_at(settings(provider.url))
        assert (finding.state, finding.detail) == ("ok", f"{provider.url}, 2 keys for ES256, RS256")


def test_what_is_wrong_is_said() -> None:
    with served_provider() as provider:
        assert look_at(settings(provider.url, algorithms=["ES384"])).state == "fail"
        provider.metadata = {"code_challenge_methods_supported": ["plain"]}
        assert look_at(settings(provider.url)).state == "warn"
        provider.metadata = {"issuer": "https://evil.example"}
        assert look_at(settings(provider.url)).state == "fail"
        provider.metadata, provider.pages["/keys"] = {}, (200, b'{"keys": 5}')
        assert look_at(settings(provider.url)).state == "fail"
        url = provider.url
    finding = look_at(settings(url))
    assert finding.state == "fail"
    assert "cannot be reached" in finding.detail


@pytest.mark.parametrize("issuer", ["http://id.example", "ftp://id.example", "https://id.example?x=1", "id.example"])
def test_an_issuer_that_can_be_read_along_is_refused(issuer: str) -> None:
    with pytest.raises(ValueError, match="issuer"):
        settings(issuer)


def test_the_keys_of_an_issuer_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    def of(**more: object) -> tuple[str, str]:
        finding = look_at_issuer(Jwt.model_validate({"issuer": provider.url, "audience": "api", **more}))
        return finding.state, finding.detail

    with served_provider() as provider:
        assert of() == ("ok", f"{provider.url}, 2 keys for ES256, RS256")
        assert of(jwks_url=f"{provider.url}/keys", algorithms=["RS256"])[0] == "ok"
        assert of(algorithms=["ES384"])[0] == "fail"
        provider.metadata = {"issuer": "https://evil.example"}
        assert "another issuer than serving.jwt.issuer" in of()[1]
        provider.metadata = {"jwks_uri": "http://keys.example"}
        assert "not https" in of()[1]
        monkeypatch.setenv("JWT_SECRET", "short")
        assert "it needs 32" in of(key_env="JWT_SECRET")[1]
        monkeypatch.setenv("JWT_SECRET", "x" * 32)
        assert of(key_env="JWT_SECRET") == ("ok", f"{provider.url}, 1 keys for HS256")
