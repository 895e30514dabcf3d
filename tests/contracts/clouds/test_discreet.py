"""A provider's words for people: none of what we told it in confidence, however it is quoted."""

from base64 import b64encode

import pytest

from tgp.adapters.clouds.parse import SAID_MAX
from tgp.adapters.clouds.redact import quoted
from tgp.core.model.secret import Secret

KEY = Secret("key-7f3a91c2e5d84b60")
USER_DATA = b"machine:\n  token: join-secret-of-the-cluster\n  ca: bm90IGEgcmVhbCBjZXJ0aWZpY2F0ZQ==\n"
JOIN_SECRET = "join-secret-of-the-cluster"


@pytest.mark.parametrize(
    "words",
    [
        "the key {} is not valid",
        "the key '{}' is not valid",
        "the key {}: not valid",
        "key={}&verb=launch",
        "Bearer:{}.",
        "no key,{},found",
        "https://api.acme.test/v1?api_key={}",
        "{}",
    ],
)
def test_a_key_is_hidden_wherever_it_stands(words: str) -> None:
    said = quoted(words.format(KEY.reveal()), KEY)

    assert KEY.reveal()[4:] not in said
    assert "***" in said


CODED = [b64encode(f"{before}{KEY.reveal()}".encode()).decode() for before in ("", "x", "Bearer ")]


@pytest.mark.parametrize(
    "form",
    [
        *CODED,
        *map(str.upper, CODED),
        *map(str.lower, CODED),
        KEY.reveal().encode().hex(),
        KEY.reveal().encode().hex(":"),
        KEY.reveal().encode().hex(" ", 4).upper(),
        " ".join(KEY.reveal()[start : start + 4] for start in range(0, 20, 4)),
        "".join(f"%{ord(sign):02x}" for sign in KEY.reveal()),
        "".join(f"%25{ord(sign):02x}" for sign in KEY.reveal()),
        "".join(f"\\u{ord(sign):04x}" for sign in KEY.reveal()),
        "\u200b".join(KEY.reveal()),
        "\\u200b".join(KEY.reveal()),
        "-".join(KEY.reveal()),
    ],
)
def test_a_key_is_hidden_however_it_is_encoded_and_divided(form: str) -> None:
    said = quoted(f"the header {form} is not valid", KEY)

    assert said.startswith("the header ***")
    assert said.endswith("*** is not valid")
    assert said.count("***") <= 2, "what is left between two masks is a part of it"


def test_a_message_stays_on_one_line_where_its_escapes_are_read() -> None:
    assert quoted(f"first%0Asecond\\u000athird {KEY.reveal()}", KEY) == "first second third ***"


def test_the_words_beside_a_hidden_key_stay() -> None:
    said = quoted("POST /v1/machines%20of%20us-east-1 refused: key 6b65792d37663361 is of 5f3b2c1d-9a8e", KEY)

    assert said == "POST /v1/machines of us-east-1 refused: key *** is of 5f3b2c1d-9a8e"
    assert quoted("GET /v1/machines%20of%20us-east-1 refused", KEY) == "GET /v1/machines%20of%20us-east-1 refused"


@pytest.mark.parametrize(
    "words",
    [
        "cannot parse token: join-secret-of-the-cluster",
        "cannot parse token=join-secret-of-the-cluster",
        "cannot parse 'machine:\\n  token: join-secret-of-the-cluster\\n  ca: bm90'",
        'cannot parse {"machine":{"token":"join-secret-of-the-cluster"}}',
        "cannot parse join-secret-of-the-cl...",
        f"cannot parse {b64encode(USER_DATA).decode()}",
        f"cannot parse {b64encode(USER_DATA).decode()[:60]}...",
    ],
)
def test_user_data_is_hidden_as_text_as_it_is_printed_and_as_base64(words: str) -> None:
    said = quoted(words, KEY, USER_DATA)

    assert "join-secret" not in said
    assert b64encode(USER_DATA).decode()[:24] not in said
    assert said.startswith("cannot parse ")


@pytest.mark.parametrize("before", range(SAID_MAX - 30, SAID_MAX + 2))
def test_a_shortened_message_keeps_no_part_of_a_secret(before: int) -> None:
    """Half a key is half a secret: words are hidden first, and shortened then."""
    said = quoted(f"{'x' * before} {KEY.reveal()}", KEY)

    assert len(said) <= SAID_MAX
    assert "key" not in said


def test_a_long_page_is_not_read_to_its_end() -> None:
    assert len(quoted("lorem ipsum " * 1_000_000, KEY, USER_DATA)) <= SAID_MAX


def test_what_is_no_secret_is_shown() -> None:
    words = "There are no longer any instances of type A100 available in eu-1 (code 17)"

    assert quoted(words, KEY, USER_DATA) == words
    assert quoted(words) == words
    assert quoted(words, None, b"") == words


def test_a_short_value_hides_itself_and_no_more() -> None:
    """`1` in a container's environment must not hide every A100; a password of four letters is one."""
    words = "DEBUG=1 and PIN=hush are no part of an A100-1"

    assert quoted(words, b"1", b"hush") == "DEBUG=1 and PIN=*** are no part of an A100-1"


def test_bytes_that_are_no_text_hide_as_base64() -> None:
    data = bytes(range(200, 256))

    assert b64encode(data).decode() not in quoted(f"cannot read {b64encode(data).decode()}", data)
