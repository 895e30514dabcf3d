"""The page that shows the verdicts shows today's."""

import pytest

from tools.judge.bench import judges
from tools.judge.page import PAGE, page


def test_the_page_is_what_the_judges_say():
    """Otherwise write it again: python -m tools.judge page"""
    told = page(judges({}))

    assert "Talos alone" not in told
    if PAGE.read_text() != told:
        pytest.fail("docs/talos-judge.md is not what the judges say; write it again with: python -m tools.judge page")
