"""JWTs: who is recognised, and every way not to be (security check 5)."""

import base64
import hashlib
import hmac
import json
from datetime import timedelta
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from fastapi.testclient import TestClient

from horae.core.access.callers import Caller
from horae.errors import ConfigurationError, KeysUnavailable, Unauthorized
from horae.ports.world import World
from horae.server.process import application
from horae.service.auth.jwt import Recogniser, Rules, keys_from
from horae.settings import Settings
from horae.testing.clock import VirtualClock
from tests.service.conftest import Connect
from tests.support.refusals import refused

SECRET = "0123456789abcdef0123456789abcdef"
SHARED = b"f" * 32  # a secret that somebody put into the key set
URL = "https://login.example/keys"
RSA = rsa.generate_private_key(public_exponent=65537, key_size=2048)
ED = ed25519.Ed25519PrivateKey.generate()
EC = ec.generate_private_key(ec.SECP256R1())


def jwks() -> dict[str, Any]:
    rows = [
        jwt.algorithms.RSAAlgorithm.to_jwk(RSA.public_key(), as_dict=True) | {"kid": "r", "use": "sig"},
        jwt.algorithms.OKPAlgorithm.to_jwk(ED.public_key(), as_dict=True) | {"kid": "e"},
        jwt.algorithms.ECAlgorithm.to_jwk(EC.public_key(), as_dict=True) | {"kid": "c"},
        {"kty": "oct", "kid": "shared", "k": base64.urlsafe_b64encode(SHARED).decode()},
    ]
    return {"keys": rows}


class Source:
    """A key set that counts who asks for it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.answer: bytes | None = json.dumps(jwks()).encode()

    def __call__(self, url: str) -> bytes:
        self.asked.append(url)
        if self.answer is None:
            raise OSError("nobody there")
        return self.answer


@pytest.fixture
def source() -> Source:
    return Source()


def claims(clock: VirtualClock, **changed: Any) -> dict[str, Any]:
    return {"sub": "alice", "exp": clock.now().timestamp() + 3600, **changed}


def by_secret(clock: VirtualClock, **rules: Any) -> Recogniser:
    return Recogniser(Rules(secret=SECRET, **rules), clock.now, clock.monotonic)


def by_keys(clock: VirtualClock, source: Source, **rules: Any) -> Recogniser:
    return Recogniser(Rules(jwks_url=URL, **rules), clock.now, clock.monotonic, source)


def test_a_jwt_signed_with_the_secret_is_its_subject_with_the_scope_of_tasks(clock: VirtualClock) -> None:
    caller = by_secret(clock)(jwt.encode(claims(clock), SECRET, "HS256"))
    assert caller == Caller("alice", frozenset({"tasks"}), "user/alice")
    assert caller is not None
    assert caller.expires_at == clock.now() + timedelta(hours=1, minutes=1), "its exp, and a minute for the clocks"


def test_a_text_that_is_no_jwt_is_for_somebody_else_to_judge(clock: VirtualClock) -> None:
    assert by_secret(clock)("horae_000000000000_" + "0" * 72) is None
    assert by_secret(clock)("") is None


@pytest.mark.parametrize(("key", "algorithm", "kid"), [(RSA, "RS256", "r"), (ED, "EdDSA", "e"), (EC, "ES256", "c")])
def test_public_keys_come_from_the_key_set(
    key: Any, algorithm: str, kid: str, clock: VirtualClock, source: Source
) -> None:
    recognise = by_keys(clock, source)
    text = jwt.encode(claims(clock), key, algorithm, headers={"kid": kid})
    assert [caller.owner for caller in (recognise(text), recognise(text)) if caller] == ["alice", "alice"]
    assert source.asked == [URL]


@pytest.mark.parametrize(
    "changed",
    [
        {"exp": -120}, {"exp": None}, {"nbf": 120}, {"exp": "soon"}, {"sub": None}, {"sub": "system"}, {"sub": 7},
        {"sub": "a\nb"}, {"sub": ""}, {"iss": "https://evil.example"}, {"iss": None}, {"aud": "other"}, {"aud": None},
        {"exp": "nan"},
    ],
    ids=str,
)  # fmt: skip
def test_a_jwt_that_says_the_wrong_thing_is_refused(changed: dict[str, Any], clock: VirtualClock) -> None:
    result = claims(clock, iss="https://login.example", aud="horae")
    for name, value in changed.items():
        result[name] = clock.now().timestamp() + value if name in ("exp", "nbf") and isinstance(value, int) else value
        if value is None:
            del result[name]
    recognise = by_secret(clock, issuer="https://login.example", audience="horae")
    with pytest.raises(Unauthorized):
        recognise(jwt.encode(result, SECRET, "HS256"))


def test_the_leeway_forgives_a_minute(clock: VirtualClock) -> None:
    now = clock.now().timestamp()
    text = jwt.encode(claims(clock, exp=now - 59, nbf=now + 59), SECRET, "HS256")
    assert by_secret(clock)(text) is not None
    clock.advance(timedelta(seconds=2))
    with refused(Unauthorized, "jwt_expired"):
        by_secret(clock)(text)


def forged(header: dict[str, Any], payload: dict[str, Any], key: bytes | None) -> str:
    def encoded(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).rstrip(b"=").decode()

    text = f"{encoded(json.dumps(header).encode())}.{encoded(json.dumps(payload).encode())}"
    signature = b"" if key is None else hmac.new(key, text.encode(), hashlib.sha256).digest()
    return f"{text}.{encoded(signature)}"


def test_no_algorithm_no_foreign_secret_and_no_public_key_as_a_secret(clock: VirtualClock, source: Source) -> None:
    """Security check 5: the token does not choose how it is checked."""
    pem = RSA.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    result = claims(clock)
    for text in (
        forged({"alg": "none"}, result, None),
        forged({"alg": "None", "kid": "r"}, result, None),
        forged({"alg": "HS256"}, result, b"x" * 32),
        forged({"alg": "HS256", "kid": "r"}, result, pem),
        forged({"alg": "HS256", "kid": "shared"}, result, SHARED),
        jwt.encode(result, RSA, "RS512", headers={"kid": "r"}),
        jwt.encode(result, RSA, "RS256", headers={"kid": "e"}),
        jwt.encode(result, rsa.generate_private_key(65537, 2048), "RS256", headers={"kid": "r"}),
        jwt.encode(result, RSA, "RS256"),
        "e30.e30.e30",
        "a.b.c",
        "a" * 9000 + ".b.c",
    ):
        for recognise in (by_secret(clock), by_keys(clock, source)):
            with pytest.raises(Unauthorized):
                recognise(text)


def test_a_strange_key_id_asks_the_key_set_once_a_minute_and_nobody_else(clock: VirtualClock, source: Source) -> None:
    """Security check 5: neither ``jku`` nor ``kid`` makes us fetch from elsewhere."""
    recognise = by_keys(clock, source)
    strange = jwt.encode(
        claims(clock), RSA, "RS256", headers={"kid": "https://evil.example", "jku": "https://evil.example"}
    )
    for _ in range(20):
        with pytest.raises(Unauthorized):
            recognise(strange)
    assert source.asked == [URL]
    clock.advance(timedelta(seconds=61))
    for _ in range(20):
        with pytest.raises(Unauthorized):
            recognise(strange)
    assert source.asked == [URL, URL]


def test_a_new_key_is_found_and_a_silent_source_does_not_lock_anybody_out(clock: VirtualClock, source: Source) -> None:
    recognise = by_keys(clock, source)
    text = jwt.encode(claims(clock, exp=clock.now().timestamp() + 10**6), ED, "EdDSA", headers={"kid": "e"})
    assert recognise(text) is not None
    source.answer = None
    clock.advance(timedelta(hours=1))
    assert recognise(text) is not None
    source.answer = json.dumps({"keys": [jwks()["keys"][1] | {"kid": "new"}]}).encode()
    clock.advance(timedelta(seconds=61))
    renewed = jwt.encode(claims(clock), ED, "EdDSA", headers={"kid": "new"})
    assert recognise(renewed) is not None
    with pytest.raises(Unauthorized):
        recognise(text)  # its key has gone


@pytest.mark.parametrize("answer", [None, b"", b"[]", b'{"keys": 7}', b"[" * 100_000])
def test_a_source_that_never_answered_is_said_and_asked_once_a_minute(
    answer: bytes | None, clock: VirtualClock, source: Source
) -> None:
    source.answer = answer
    recognise = by_keys(clock, source)
    text = jwt.encode(claims(clock), RSA, "RS256", headers={"kid": "r"})
    for _ in range(5):
        with pytest.raises(KeysUnavailable):
            recognise(text)
    assert len(source.asked) == 1


@pytest.mark.parametrize(
    ("result", "allowed", "has"),
    [
        ({}, {"tasks"}, {"tasks"}),
        ({}, {"tasks", "admin"}, {"tasks"}),
        ({"scope": "openid tasks admin"}, {"tasks", "read"}, {"tasks"}),
        ({"scopes": ["read", "admin", 7]}, {"tasks", "read"}, {"read"}),
        ({"scope": "openid"}, {"tasks"}, set()),
        ({"scope": {"tasks": 1}}, {"tasks"}, set()),
    ],
)
def test_scopes_are_what_both_the_token_and_the_operator_say(
    result: dict[str, Any], allowed: set[str], has: set[str], clock: VirtualClock
) -> None:
    caller = by_secret(clock, scopes=frozenset(allowed))(jwt.encode(claims(clock, **result), SECRET, "HS256"))
    assert caller is not None
    assert caller.scopes == has


def test_rules_that_would_not_protect_are_refused() -> None:
    with refused(ConfigurationError, "jwt_secret_too_short", least=32):
        Rules(secret="secret")
    with refused(ConfigurationError, "jwt_secret_and_keys"):
        Rules(secret=SECRET, jwks_url=URL)
    with refused(ConfigurationError, "jwt_keys_url_unsafe"):
        Rules(jwks_url="file:///etc/passwd")
    elsewhere = ("http://login.example/keys", "http://192.0.2.1/keys", "http://127.0.0.1.example/", "http://[::2]/")
    for url in (*elsewhere, "https:///", "http://[::1"):
        with refused(ConfigurationError, "jwt_keys_url_unsafe"):
            Rules(jwks_url=url)
    for url in (URL, "http://127.0.0.1:9000/keys", "http://localhost/keys", "http://[::1]:80/keys"):
        assert Rules(jwks_url=url).are_any


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ({}, "HORAE_JWT_ISSUER"),
        ({"jwt_audience": "horae"}, "HORAE_JWT_ISSUER"),
        ({"jwt_issuer": "https://login.example"}, "HORAE_JWT_AUDIENCE"),
        ({"jwt_issuer": "https://login.example", "jwt_audience": ""}, "HORAE_JWT_AUDIENCE"),
    ],
)
@pytest.mark.parametrize("key", [{"jwt_secret": SECRET}, {"jwt_jwks_url": URL}], ids=["secret", "keys"])
def test_a_service_that_would_take_jwts_made_for_others_does_not_start(
    key: dict[str, Any], given: dict[str, Any], missing: str, world: World
) -> None:
    with refused(ConfigurationError, "jwt_setting_missing", setting=missing):
        application(Settings(**key, **given), lambda: world)
    whole = Settings(**key, jwt_issuer="https://login.example", jwt_audience="horae")
    assert application(whole, lambda: world).state.horae.options.recognisers


def test_the_service_knows_users_by_their_jwt_and_still_by_tokens(
    world: World, clock: VirtualClock, connect: Connect
) -> None:
    known = connect("bob", "tasks", recognisers=(by_secret(clock),))
    assert known.get("/scheduled-tasks").status_code == 200
    known.headers["Authorization"] = f"Bearer {jwt.encode(claims(clock), SECRET, 'HS256')}"
    assert known.get("/scheduled-tasks").status_code == 200
    assert known.get("/tokens").status_code == 403
    clock.advance(timedelta(hours=2))
    refused = known.get("/scheduled-tasks")
    assert (refused.status_code, refused.json()["code"]) == (401, "unauthorized")
    assert "Bearer" in refused.headers["www-authenticate"]


def test_a_key_set_that_cannot_be_had_is_our_trouble_and_not_the_caller_s(
    clock: VirtualClock, source: Source, connect: Connect
) -> None:
    source.answer = None
    client: TestClient = connect(recognisers=(by_keys(clock, source),))
    client.headers["Authorization"] = f"Bearer {jwt.encode(claims(clock), RSA, 'RS256', headers={'kid': 'r'})}"
    answer = client.get("/scheduled-tasks")
    assert (answer.status_code, answer.json()["code"], answer.headers["retry-after"]) == (503, "keys_unavailable", "60")


def test_a_key_set_full_of_nonsense_is_a_key_set_without_those_keys() -> None:
    strange: list[Any] = [None, [], {}, {"kty": []}, {"kty": {}, "kid": []}, {"kty": "RSA", "kid": []}, {"kty": "oct"}]
    assert keys_from(json.dumps({"keys": strange}).encode()) == {}
