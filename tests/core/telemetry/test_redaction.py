"""The last net catches every usual spelling of a secret, and lets everything else through."""

import base64
import json
import logging
from urllib.parse import quote

import pytest

from tgp.adapters.telemetry import logs
from tgp.adapters.telemetry.redaction import MOST, Redactor
from tgp.core.model.secret import Secret

VALUE = 'k9/"quite+secret" value'


def a_redactor(*values: str) -> Redactor:
    redactor = Redactor()
    for value in values:
        redactor.learn(Secret(value))
    return redactor


@pytest.mark.parametrize(
    "spelling",
    [
        VALUE,
        VALUE.upper(),
        json.dumps(VALUE)[1:-1],
        quote(VALUE, safe=""),
        base64.b64encode(VALUE.encode()).decode(),
        base64.b64encode(VALUE.encode()).decode().upper(),
        base64.b64encode(VALUE.encode()).decode().lower(),
        VALUE.encode().hex(),
        VALUE.encode().hex().upper(),
    ],
    ids=[
        "plain",
        "in capitals",
        "in JSON",
        "in a URL",
        "in base64",
        "in BASE64",
        "in lower base64",
        "in hex",
        "in HEX",
    ],
)
def test_no_usual_spelling_passes(spelling):
    redactor = a_redactor(VALUE)

    assert spelling.rstrip("=") not in redactor(f"before {spelling} after")
    assert redactor.caught == 1


@pytest.mark.parametrize("before", ["", "B", "Be", "Bearer ", "user:"])
def test_it_is_caught_within_a_longer_text_in_base64(before):
    redactor = a_redactor(VALUE)
    coded = base64.b64encode(f"{before}{VALUE}: refused".encode()).decode()

    said = redactor(f"cannot read {coded}")

    assert redactor.caught == 1
    assert coded[12:32] not in said


def test_one_line_of_a_longer_secret_does_not_pass():
    """A private key is a page; an error that quotes one line of it gives it away as well."""
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASC"
    redactor = a_redactor(json.dumps({"private_key": f"-----BEGIN KEY-----\n{line}\n-----END KEY-----\n"}))

    assert line not in redactor(f"cannot load {line}")


def test_ordinary_words_pass_even_where_a_secret_is_short():
    assert a_redactor("on")("the machine is on") == "the machine is on"


def test_a_longer_secret_is_caught_before_one_that_it_contains():
    assert a_redactor("abcdef", "abcdefghij")("x abcdefghij y") == "x *** y"


def test_it_remembers_so_many_and_forgets_the_oldest():
    redactor = a_redactor(*(f"secret-number-{number}" for number in range(MOST + 1)))

    assert "secret-number-0 " in redactor("secret-number-0 ")
    assert redactor(f"secret-number-{MOST}") == "***"


def test_a_careless_log_line_is_masked():
    record = logging.makeLogRecord({"msg": "careless", "header": f"Bearer {VALUE}"})
    line = json.loads(logs.Redacting(logs.JsonFormatter(), a_redactor(VALUE)).format(record))

    assert line["header"] == "Bearer ***"


def test_a_secret_prints_nothing_of_itself():
    secret = Secret(VALUE)

    assert VALUE not in f"{secret} {secret!r} {secret:>40} {[secret]} {vars(type(secret))}"
    assert secret.fingerprint == Secret(VALUE).fingerprint != Secret(VALUE + "x").fingerprint
