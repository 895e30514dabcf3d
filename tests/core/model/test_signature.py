"""Standard Webhooks, held against the vector that its reference libraries publish."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.model.secret import Secret
from tgp.core.model.signature import NotASecret, NotSigned, SigningKeys, keys_of

# The vector in the test suites of the reference libraries (Python, JavaScript, Go, Rust, PHP … all have it).
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = "msg_p5jXN8AQM9LWM0D4loKWxJek"
AT = datetime.fromtimestamp(1_614_265_330, UTC)
BODY = b'{"test": 2432232314}'
SIGNATURE = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
WRONG = "v1,Ceo5qEr07ixe2NLpvHk3FH9bwy/WavXrAFQ/9tdO6mc="
OTHER = "whsec_bmV3ZXItc2VjcmV0LW9mLTMyLWJ5dGVzLWxlbmd0aA=="


def keys(text: str = SECRET) -> SigningKeys:
    return keys_of(Secret(text))


def header(text: str, body: bytes = BODY) -> str:
    return dict(keys(text).sign(MESSAGE, AT, body))["webhook-signature"]


def test_the_published_vector():
    assert keys().sign(MESSAGE, AT, BODY) == (
        ("webhook-id", MESSAGE),
        ("webhook-timestamp", "1614265330"),
        ("webhook-signature", SIGNATURE),
    )


def test_the_published_vector_without_its_prefix():
    """The reference library takes a bare text for base64; others take its bytes. Each finds its own signature."""
    signatures = header(SECRET.removeprefix("whsec_")).split(" ")

    assert signatures[0] == SIGNATURE
    assert len(signatures) == 2


def test_a_text_that_is_no_base64_is_the_key_itself():
    assert len(header("correct horse battery staple".replace(" ", "-")).split(" ")) == 1


def test_each_of_several_secrets_signs():
    """So a secret is changed: both sides have both for a while."""
    both = header(f"{SECRET} {OTHER}").split(" ")

    assert both == [SIGNATURE, header(OTHER)]
    assert keys(OTHER).verify(MESSAGE, "1614265330", " ".join(both), BODY, AT) == AT
    assert keys(SECRET).verify(MESSAGE, "1614265330", " ".join(both), BODY, AT) == AT


def test_a_right_signature_among_wrong_ones_is_found():
    assert keys().verify(MESSAGE, "1614265330", f"{WRONG} v2,{SIGNATURE[3:]} {SIGNATURE}", BODY, AT) == AT


REFUSED = {
    "a changed body": (MESSAGE, "1614265330", SIGNATURE, BODY + b" ", AT),
    "another id": (MESSAGE + "x", "1614265330", SIGNATURE, BODY, AT),
    "another time": (MESSAGE, "1614265331", SIGNATURE, BODY, AT),
    "another version": (MESSAGE, "1614265330", "v2" + SIGNATURE[2:], BODY, AT),
    "no version": (MESSAGE, "1614265330", SIGNATURE[3:], BODY, AT),
    "another key's": (MESSAGE, "1614265330", WRONG, BODY, AT),
    "no signature": (MESSAGE, "1614265330", "", BODY, AT),
    "half a signature": (MESSAGE, "1614265330", SIGNATURE[:-4], BODY, AT),
    "no id": ("", "1614265330", SIGNATURE, BODY, AT),
    "an id with a full stop": ("msg.1", "1614265330", SIGNATURE, BODY, AT),
    "no time": (MESSAGE, "", SIGNATURE, BODY, AT),
    "a time in words": (MESSAGE, "now", SIGNATURE, BODY, AT),
    "a time with a fraction": (MESSAGE, "1614265330.0", SIGNATURE, BODY, AT),
    "a negative time": (MESSAGE, "-1614265330", SIGNATURE, BODY, AT),
    "a time of digits that int() also reads": (MESSAGE, "١٦١٤٢٦٥٣٣٠", SIGNATURE, BODY, AT),
    "a time beyond any calendar": (MESSAGE, "9" * 30, SIGNATURE, BODY, AT),
    "more than five minutes old": (MESSAGE, "1614265330", SIGNATURE, BODY, AT + timedelta(minutes=5, seconds=1)),
    "more than five minutes early": (MESSAGE, "1614265330", SIGNATURE, BODY, AT - timedelta(minutes=5, seconds=1)),
    "signatures that are not ASCII": (MESSAGE, "1614265330", "v1,é", BODY, AT),
    "too many to look at": (MESSAGE, "1614265330", f"{WRONG} " * 100 + SIGNATURE, BODY, AT),
}


@pytest.mark.parametrize("case", REFUSED.values(), ids=REFUSED)
def test_a_receiver_does_not_believe(case):
    with pytest.raises(NotSigned):
        keys().verify(*case)


@pytest.mark.parametrize("minutes", [-5, 0, 5])
def test_clocks_may_differ_by_five_minutes(minutes: int):
    assert keys().verify(MESSAGE, "1614265330", SIGNATURE, BODY, AT + timedelta(minutes=minutes)) == AT


@pytest.mark.parametrize("text", ["", " \n", "whsec_", "whsec_not base64", "whsec_%%%%", " ".join(["a"] * 5)])
def test_what_cannot_sign_is_refused_without_being_quoted(text: str):
    with pytest.raises(NotASecret) as error:
        keys(text)
    assert "%%%%" not in str(error.value)


def test_nothing_of_a_key_is_printed():
    assert repr(keys()) == "SigningKeys(1)"
    assert "MfKQ9r8" not in f"{keys()} {keys()!r}"


@given(secret=st.text(st.characters(codec="utf-8", exclude_categories=("Z", "C")), min_size=1), body=st.binary())
def test_whatever_signs_is_accepted_by_a_receiver_with_the_same(secret: str, body: bytes):
    if secret.startswith("whsec_"):
        return
    told = dict(keys(secret).sign(MESSAGE, AT, body))

    assert keys(secret).verify(MESSAGE, told["webhook-timestamp"], told["webhook-signature"], body, AT) == AT
