"""Go's regular expressions, run by Python's."""

import re

import pytest

from tgp.api.pattern import compiled, matches


@pytest.mark.parametrize(
    ("text", "pattern", "found"),
    [
        ("a", "^a$", True),
        ("a\n", "^a$", False),  # Python's own $ would take it
        ("a$", r"^a\$$", True),
        ("$", "^[$]$", True),
        ("x]y", "^x[]]y$", True),
        ("x-y", "^x[^]]y$", True),
        ("a", r"^a\z", True),
        ("٣", r"^\d$", False),  # an Arabic digit: RE2 knows ASCII digits only
        ("banana", "nan", True),  # anchors are the pattern's own business
    ],
)
def test_a_pattern_means_what_it_means_to_the_api_server(text, pattern, found):
    assert matches(text, pattern) is found


def test_what_python_cannot_read_raises():
    with pytest.raises(re.error):
        compiled(r"\p{Greek}")
