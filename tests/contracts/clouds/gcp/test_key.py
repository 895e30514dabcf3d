"""A service account's key is read or refused, and what is refused is named without a word of its content."""

import json

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from tgp.adapters.clouds.gcp.account import read_key
from tgp.core.model.cloud_errors import KeyRefused
from tgp.core.model.secret import Secret
from tgp.sim.clouds.gcp.keys import KeyFile

FILE = json.loads(KeyFile("my-project-1", "f00d").text())
FIELDS = ("type", "project_id", "private_key_id", "private_key", "client_email", "token_uri")


def key(**changes: object) -> Secret:
    return Secret(json.dumps({name: value for name, value in (FILE | changes).items() if value is not None}))


def refusal(secret: Secret | None, endpoint: str = "") -> str:
    with pytest.raises(KeyRefused) as refused:
        read_key(secret, endpoint=endpoint).private_key  # noqa: B018 - reading it is what is tried
    return str(refused.value)


def test_a_key_file_as_google_hands_it_out_is_read():
    account = read_key(key())

    assert account.project == "my-project-1"
    assert account.email == "tgp@my-project-1.iam.gserviceaccount.com"
    assert account.private_key.key_size == 2048
    assert "PRIVATE" not in repr(account)


def test_the_project_of_the_class_wins_over_the_keys_own():
    assert read_key(key(), project="another-project").project == "another-project"


@pytest.mark.parametrize("field", FIELDS)
@pytest.mark.parametrize("value", [None, 7, "", ["x"]])
def test_a_missing_or_odd_field_is_named_and_nothing_is_quoted(field: str, value: object):
    said = refusal(key(**{field: value}))

    assert f" {field} " in said
    assert not any(str(content) in said for name, content in FILE.items() if name != "type" and len(content) > 8)


@pytest.mark.parametrize(
    "told", ["", "AIzaSyOrdinaryApiKey", "{", "[]", "null", '"text"', "\ud800", "[" * 60_000, "x" * 100_000]
)
def test_what_is_no_key_file_is_refused_without_quoting_it(told: str):
    said = refusal(Secret(told))

    assert "service account" in said
    assert len(told) < 3 or told not in said


def test_no_key_at_all_says_where_one_belongs():
    assert "GCP_SERVICE_ACCOUNT_JSON" in refusal(None)


@pytest.mark.parametrize(
    "uri",
    [
        "http://oauth2.googleapis.com/token",
        "http://169.254.169.254/token",
        "ftp://127.0.0.1/token",
        "oauth2.googleapis.com/token",
        "https://",
        "https://user@host/token",
        "https://host/token?x=1",
        "https://host:0/token",
        "https://host:99999/token",
        "http://127.0.0.1.example.com/token",
        "https://ho st/token",
    ],
)
def test_a_token_is_asked_for_over_https_alone(uri: str):
    """But for this very machine, where a simulator answers."""
    said = refusal(key(token_uri=uri))

    assert "token_uri" in said
    assert uri not in said


@pytest.mark.parametrize("uri", ["http://127.0.0.1:8080/token", "http://localhost/token", "http://[::1]:80/token"])
def test_a_simulator_on_this_machine_may_give_tokens_over_http(uri: str):
    assert read_key(key(token_uri=uri)).token_uri == uri


def test_tokens_may_go_the_way_that_the_class_names_for_everything_else():
    account = read_key(key(token_uri="http://gateway.test:81/token"), endpoint="http://gateway.test:81")

    assert account.token_uri == "http://gateway.test:81/token"
    assert "token_uri" in refusal(key(token_uri="http://gateway.test/token"), endpoint="http://gateway.test:81")


@pytest.mark.parametrize("project", ["../../other", "a/b", "a b", "päckli", ".x", "x" * 200])
def test_a_project_that_would_change_a_path_is_refused(project: str):
    assert "project_id" in refusal(key(project_id=project))


def test_a_key_that_is_too_weak_or_of_another_kind_is_refused():
    weak = rsa.generate_private_key(65537, 1024)  # noqa: S505 - that is the point
    curve = ec.generate_private_key(ec.SECP256R1())

    for private in (weak, curve):
        pem = private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
        said = refusal(key(private_key=pem))
        assert "private_key is not an RSA key of 2048 bits" in said
        assert pem[40:60] not in said
