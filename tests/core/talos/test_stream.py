"""YAML as Talos reads it, in and out."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.talos.hostile import enormous, hostile_text
from tgp.core.joining.talos.stream import (
    UnreadableStream,
    filled_in,
    read_stream,
    resolve,
    spell,
    write_outline,
    write_stream,
)
from tgp.core.joining.talos.stream_reader import MAX_DEPTH

WORDS = (
    "off on yes no y n true True null ~ 0o600 0600 1e3 .5 .inf .nan 2001-01-01 1:30 12e03 = << - ? : | > * & ! % @ `"
)


def one(text):
    (document,) = read_stream(text)
    return document.data


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("0o600", 0o600),
        ("0600", 0o600),  # as Go's YAML reads it, not as 1.2 does
        ("0x1F", 31),
        ("0b11", 3),
        ("1_000", 1000),
        ("-7", -7),
        ("+7", 7),
        ("0", 0),
        ("1e3", 1000.0),
        (".5", 0.5),
        (".5_", ".5_"),
        ("5_0.5", 50.5),
        ("08", 8.0),  # no octal number, so Go falls back to a float
        ("-.inf", -math.inf),
        ("true", True),
        ("FALSE", False),
        ("null", None),
        ("~", None),
        ("", None),
        ("off", "off"),
        ("yes", "yes"),
        ("y", "y"),
        ("2001-01-01", "2001-01-01"),
        ("1:30", "1:30"),
        ("0o9", "0o9"),
        ("1.2.3", "1.2.3"),
        ("10.0.0.0/8", "10.0.0.0/8"),
        ("-", "-"),
        (".", "."),
    ],
)
def test_plain_scalars_are_what_go_takes_them_for(text, meant):
    assert resolve(text) == meant
    assert type(resolve(text)) is type(meant) or isinstance(resolve(text), type(meant))


@pytest.mark.parametrize("spelling", ["0o600", "0600", "0x1F", "1_000", "1e3", "1.50", "+7", "184467440737095516160"])
def test_numbers_keep_their_spelling(spelling):
    assert write_stream([one(f"a: {spelling}\n")]) == f"a: {spelling}\n"


@pytest.mark.parametrize(
    "text",
    [
        *WORDS.split(),
        *(
            "",
            " ",
            "a ",
            " a",
            "a: b",
            "a #b",
            "- a",
            "1_000",
            "0x1f",
            "NO",
            "a:",
            "a\tb",
            "[a",
            "{a}",
            "#a",
            "a\n",
            "\n",
        ),
    ],
)
def test_strings_that_could_be_taken_for_something_else_are_quoted(text):
    written = write_stream([{"a": text}])

    assert one(written) == {"a": text}
    assert written.startswith(('a: "', "a: |"))


@pytest.mark.parametrize("text", ["worker", "/var/mnt/extra", "https://10.0.0.1:6443", "ghcr.io/a/b:v1.2.3", "a b-c"])
def test_ordinary_strings_stay_readable(text):
    assert write_stream([{"a": text}]) == f"a: {text}\n"


def test_texts_of_several_lines_stay_readable():
    written = write_stream([{"a": [{"b": "one\n  two\n\nthree\n", "c": "one\ntwo"}]}])

    assert written == "a:\n  - b: |\n      one\n        two\n\n      three\n    c: |-\n      one\n      two\n"
    assert one(written) == {"a": [{"b": "one\n  two\n\nthree\n", "c": "one\ntwo"}]}


def test_every_value_knows_its_line():
    (document,) = read_stream(
        "# a comment\nmachine:\n  files:\n    - path: /a\n      content: |\n        x\n    - path: /b\n"
    )

    assert document.line_of(("machine",)) == 2
    assert document.line_of(("machine", "files", 0, "content")) == 5
    assert document.line_of(("machine", "files", 1, "path")) == 7
    assert document.line_of(("machine", "files", 1, "nowhere")) == 7


def test_a_stream_has_its_documents_in_order_and_empty_ones_too():
    documents = read_stream("a: 1\n---\n---\nkind: B\n")

    assert [document.data for document in documents] == [{"a": 1}, None, {"kind": "B"}]
    assert documents[2].line_of(("kind",)) == 4


def test_aliases_are_written_out_so_that_changing_one_place_changes_one_place():
    data = one("a: &x {b: [1]}\nc: *x\nd:\n  <<: *x\n  e: 2\nf:\n  <<: [*x, {b: 3, g: 4}]\n")

    assert data == {"a": {"b": [1]}, "c": {"b": [1]}, "d": {"e": 2, "b": [1]}, "f": {"b": [1], "g": 4}}
    assert data["a"]["b"] is not data["c"]["b"]
    assert data["a"]["b"] is not data["d"]["b"]


def bomb(levels):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, levels)]
    return "\n".join(lines)


@pytest.mark.parametrize(
    ("text", "line", "why"),
    [
        ("a: 1\nb: 2\na: 3\n", 3, "duplicate"),
        ("a: {b: 1, b: 2}", 1, "duplicate"),
        ("a: [1\nb: 2", 2, "not valid YAML"),
        ("a: *b", 1, "anchor"),
        ("a: &b [*b]", 1, "anchor"),
        ("*b : 1", 1, "anchor"),
        ("&k a: 1\n*k : 2", 2, "alias as a key"),
        ("%YAML 1.1\n---\na: 1", 2, "directive"),
        ("a: !secret b", 1, "tag"),
        ("a: !!binary aGk=", 1, "tag"),
        ("a: !!python/name:os.system x", 1, "tag"),
        ("? [a]\n: 1", 1, "not a string"),
        ("a:\n\tb: 1", 2, "not valid YAML"),
        ("a: \x01", 1, "character"),
        ("a: 1\nb: \ufffe", 2, "character"),
        ("a:\n  <<: 1", 2, "not a mapping"),
        ("[" * 5_000, 1, "deeper"),
        (bomb(12), 6, "aliases"),
        ("- " * (MAX_DEPTH + 1) + "a", 1, "deeper"),
    ],
)
def test_what_is_no_stream_is_told_with_its_line(text, line, why):
    with pytest.raises(UnreadableStream) as caught:
        read_stream(text)

    assert why in caught.value.finding.message
    assert caught.value.finding.line == line


def test_a_refusal_never_quotes_a_value():
    for text in ("token: canary: canary", "token: [canary", 'token: "canary', "token: *canary\n", "token: \x01canary"):
        with pytest.raises(UnreadableStream) as caught:
            read_stream(text)
        assert "canary" not in str(caught.value)


def test_paths_are_spelled_as_people_write_them():
    assert spell(("machine", "files", 0, "path")) == "machine.files[0].path"
    assert spell(("machine", "nodeLabels", "tgp.io/x")) == 'machine.nodeLabels["tgp.io/x"]'


scalars = hostile_text() | st.booleans() | st.none() | st.integers(-(2**63), 2**64 - 1)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(hostile_text(4), inner, max_size=4),
    max_leaves=12,
)


@settings(deadline=None, max_examples=150)
@given(trees)
def test_what_is_written_is_read_as_the_same(tree):
    written = write_stream([{"a": tree}])

    assert one(written) == {"a": tree}
    assert write_stream([one(written)]) == written
    assert written.isascii()


@settings(deadline=None, max_examples=150)
@given(trees)
def test_an_outline_reads_as_the_text_does_but_for_its_strings(tree):
    """Line by line: what was read from the outline once serves every text that has it."""
    (whole,), (outline,) = read_stream(write_stream([tree])), read_stream(write_outline([tree]))

    assert write_outline([outline.data]) == write_outline([tree])
    assert write_stream([filled_in(outline.data, tree)]) == write_stream([whole.data])
    assert outline.lines == whole.lines


@pytest.mark.parametrize("piece", ["\n", '"', "\u2028", "x: y\n", "{{.A}}", " ", "🙂"])
def test_a_long_text_is_one_string(piece):
    text = piece * (32 * 1024)

    assert one(write_stream([{"a": text}])) == {"a": text}


def test_a_mebibyte_is_one_string():
    text = enormous()[0]

    assert one(write_stream([{"a": text}])) == {"a": text}


@settings(deadline=None, max_examples=300)
@given(hostile_text(30))
def test_no_text_makes_the_reader_stumble(text):
    try:
        documents = read_stream(text)
    except UnreadableStream:
        return
    assert isinstance(documents, tuple)


@pytest.mark.parametrize("length", [999, 1000, 1023, 1025, 5000])
def test_a_key_is_a_key_however_long_it_is(length):
    """YAML looks for a colon within 1024 characters only."""
    data = {"machine": {"nodeLabels": {"k" * length: "v", "after": "w"}, "pods": [{"k" * length: "v", "b": "c"}]}}

    assert [document.data for document in read_stream(write_stream([data]))] == [data]


# ---- tabs


@pytest.mark.parametrize(
    ("text", "data"),
    [
        ("a:\tb\n", {"a": "b"}),
        ("a\t: \tb\n", {"a": "b"}),
        ("-\ta\n", ["a"]),
        ("a: b\t\nc: d \t\n", {"a": "b", "c": "d"}),
        ("a: b\t# why\n", {"a": "b"}),
        ("a: b\n\t\n\t# why\nc: d\n", {"a": "b", "c": "d"}),
        ("a: b\tc\n", {"a": "b\tc"}),
        ("a: b\n \tc\n", {"a": "b c"}),
        ("a: |\t\n  x\n  \ty\n", {"a": "x\n\ty\n"}),
        ("a: &x\tb\nc: *x\t\n", {"a": "b", "c": "b"}),
        ("a:\t\n  b: c\n", {"a": {"b": "c"}}),
        ("a: [\n\t1,\n\t2\n\t]\n", {"a": [1, 2]}),
        ("---\t\na: b\n", {"a": "b"}),
    ],
)
def test_tabs_stand_where_yaml_allows_them(text, data):
    assert [document.data for document in read_stream(text)] == [data]


@pytest.mark.parametrize("text", ["a:\n\tb: c\n", "a:\n  b: c\n\td: e\n", "-\ta: b\n", "a: |\n  x\n\ty\n"])
def test_tabs_do_not_indent(text):
    with pytest.raises(UnreadableStream):
        read_stream(text)
