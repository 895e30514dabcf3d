"""Our ranking beside gpuhunt's own filter: over one market by seed, both give the same offers in order of price."""

import re

import pytest

from bench.market.run import main


@pytest.mark.parametrize("seed", [1, 2])
def test_both_sides_answer_alike(seed, capsys):
    """The bench compares the answers before it compares the times, and gives up where they differ."""
    code = main(["--offers", "3000", "--rounds", "1", "--seed", str(seed)])
    told = capsys.readouterr()

    assert code == 0, told.err
    assert re.search(r"12 questions, [1-9]\d* fitting offers", told.out)
    assert re.fullmatch(r"market speedup=\d+\.\d book_mb=\d+ refresh_s=\d+\.\d\d", told.out.splitlines()[-1])
