"""What users read: no riddles about persons, and no words that only this project uses."""

import re
from pathlib import Path

import pytest

from tools.messages import LEFT_OUT, SOURCE, everything, messages, whole_messages
from tools.steps import ROOT

PERSONS = ("nobody", "somebody", "whoever", "anybody", "everybody", "anew")  # not in names, comments or docs either
BANNED = (*PERSONS, "ill", "told", "dear", "give back", "gives back", "mend")
EVERYWHERE = ("src", "docs", "tests", "tools", "bench", "deploy", "changelog.d", "*.md")
TEXTS = frozenset({".py", ".md", ".yaml", ".sh", ".go", ".patch", ".toml", ".txt", ".json", ".svg"})
MANY = 1000  # files with text
ENOUGH = 100  # messages that are in one piece in the code
WORD = re.compile(rf"\b(?:{'|'.join(BANNED)})\b", re.IGNORECASE)
# Where texts of foreign systems are quoted, to be recognised: they use what words they like.
QUOTED = (re.compile(r"src/tgp/adapters/clouds/\w+/(?:errors|wire)\.py"),)
PRONOUNS = ("It ", "Its ", "They ", "Their ", "This ", "These ")
# A capital letter, a number, a value, or the path of a field.
BEGINNING = re.compile(r"[A-Z0-9{\"]|--|(?:spec|status|metadata)\.")
# A full stop, or a value: it brings its own. Or a command, which people copy.
END = re.compile(r".*(?:[.}…]|Try: [^.]*)", re.DOTALL)

CODE = '''
"""A docstring of three words."""
from typing import Annotated, cast

limit: "a type in quotes"
price: Annotated[str, Field(doc="Dollars per hour")]


def judge(name: str) -> "the class of something":
    assert name, "the caller checks it"
    cast("dict of some kind", name)
    ConditionUpdate("Ready", True, "Valid", "All good")
    print("two words", f"GPUNodeClass {name} is ready")
'''
POLICY = """
validations:
    - expression: "true"
      message: the operator may not create pods
    - expression: "false"
      messageExpression: >-
        'budget ' + params.metadata.name +
        ' is used up'
      reason: Forbidden
"""


@pytest.fixture(scope="module")
def shipped() -> list[tuple[Path, int, str]]:
    """Reading them takes seconds: once for all tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.chdir(ROOT)
        return list(everything())


def test_no_message_uses_a_word_that_readers_have_to_guess(shipped):
    found = [
        f"{file}:{line}: {text}"
        for file, line, text in shipped
        if WORD.search(text) and not any(each.fullmatch(str(file)) for each in QUOTED)
    ]

    assert found == []


def test_no_file_says_a_word_for_persons_where_it_means_a_thing():
    files = (file for part in EVERYWHERE for root in ROOT.glob(part) for file in (root, *root.rglob("*")))
    wanted = re.compile(rf"\b(?:{'|'.join(PERSONS)})\b", re.IGNORECASE)
    texts = {file: file.read_text("utf-8", "replace") for file in files if file.suffix in TEXTS and file.is_file()}
    found = [str(file.relative_to(ROOT)) for file, text in texts.items() if wanted.search(text)]

    assert len(texts) > MANY
    assert found == [str(Path(__file__).relative_to(ROOT))], "this list itself"


def test_a_message_of_a_condition_or_an_event_is_a_sentence_about_a_named_thing(monkeypatch):
    monkeypatch.chdir(ROOT)
    files = [each for each in sorted(SOURCE.rglob("*.py")) if not str(each).startswith(LEFT_OUT)]
    found = {f"{file}:{line}": text for file in files for line, text in whole_messages(file)}

    assert len(found) > ENOUGH
    assert {place: text for place, text in found.items() if not is_sentence(text)} == {}


@pytest.mark.parametrize(
    ("text", "well"),
    [
        ("Machine i-12 at vultr was lost: {…}", True),
        ("spec.maxLifetime is Never.", True),
        ("Secret join does not exist. Try: tgp talos join-secret", True),
        ("machine i-12 was lost.", False),
        ("It is terminated.", False),
        ("Machine i-12 is terminated", False),
    ],
)
def test_what_a_sentence_is(text, well):
    assert is_sentence(text) is well


def test_a_message_in_one_piece_is_found_wherever_a_call_has_it(tmp_path: Path):
    file = tmp_path / "code.py"
    file.write_text('Wait("No", f"a {b}" if c else "d e")\nComplete("F", "R", message=x or "f g")\nother("H", "i j")\n')

    assert [text for _, text in whole_messages(file)] == ["a {…}", "d e", "f g"]


def test_messages_of_code_and_of_policies_are_found(shipped):
    files = {file for file, _, _ in shipped}

    assert any(file.is_relative_to(SOURCE) for file in files)
    assert any(file.suffix == ".yaml" for file in files)


@pytest.mark.parametrize(
    ("name", "written", "texts"),
    [
        ("code.py", CODE, ["Dollars per hour", "All good", "GPUNodeClass {…} is ready"]),
        (
            "policy.yaml",
            POLICY,
            ["the operator may not create pods", "'budget ' + params.metadata.name + ' is used up'"],
        ),
    ],
)
def test_what_is_for_us_is_left_out(tmp_path: Path, name, written, texts):
    file = tmp_path / name
    file.write_text(written, encoding="utf-8")

    assert [text for _, text in messages(file)] == texts


def is_sentence(text: str) -> bool:
    return bool(BEGINNING.match(text) and END.fullmatch(text)) and not text.startswith(PRONOUNS)
