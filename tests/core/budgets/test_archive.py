"""Accounts of deleted budgets: what was used stays with the name, what runs meanwhile is not charged."""

import pytest

from tgp.core.budgets.account import USED, OpenPod, fresh
from tgp.core.budgets.archive import (
    LONGEST_NAME,
    MOST_CHARACTERS,
    KeptAccount,
    crowded_out,
    inherited,
    kept,
    line_name,
    line_of,
    read_line,
)
from tgp.core.budgets.packing import NewerAccount
from tgp.core.model.object_key import ObjectKey

NOW = 1_800_000_000
GPU = "nvidia.com/gpu"


def a_kept(**changes) -> KeptAccount:
    account = fresh(24, NOW - 3600)
    account.charge(USED, NOW - 3000, NOW - 2000, 1000)
    account.open = {b"runs--": OpenPod(NOW - 600, 2000), b"placed": OpenPod(None, 1000)}
    line = kept(account, GPU, NOW, None, ("80",))
    return KeptAccount(**{**{name: getattr(line, name) for name in line.__struct_fields__}, **changes})


def test_what_ran_is_charged_until_the_deletion_and_again_from_the_new_beginning():
    account = inherited(a_kept(), GPU, 0, NOW + 900)
    assert account is not None
    assert account.used(USED, NOW + 900) == 1000 * 1000 + 2000 * 600
    assert account.used(USED, NOW + 1000) == 1000 * 1000 + 2000 * 700, "the quarter of an hour between is not charged"
    assert account.open[b"placed"].start is None


@pytest.mark.parametrize(
    ("changes", "since", "made_at"),
    [
        ({"resource": "cpu"}, 0, NOW + 60),
        ({}, NOW + 5, NOW + 60),  # its own account is newer: it went on from this one already
        ({}, 0, NOW + 31 * 86_400),  # all of it has left every window
        ({"account": "1.broken"}, 0, NOW + 60),
    ],
)
def test_another_resource_an_older_account_or_a_late_return_inherits_nothing(changes, since, made_at):
    assert inherited(a_kept(**changes), GPU, since, made_at) is None


def test_a_window_that_was_shortened_before_the_deletion_refunds_nothing():
    account = fresh(24, NOW - 3600)
    account.charge(USED, NOW - 3 * 3600, NOW - 2 * 3600, 1000)
    line = kept(account.with_window(fresh(1, NOW).width), GPU, NOW, None, ())
    back = inherited(line, GPU, 0, NOW + 4000)
    assert back is not None
    assert back.with_window(fresh(24, NOW).width).used(USED, NOW + 4000) == 3_600_000


def test_nothing_kept_is_nothing_inherited():
    assert inherited(None, GPU, 0, NOW) is None


def test_an_account_of_a_newer_version_is_not_overwritten():
    with pytest.raises(NewerAccount):
        inherited(a_kept(account="2.future"), GPU, 0, NOW + 60)


def test_a_line_is_read_as_it_was_written_and_nonsense_is_no_line():
    assert read_line(line_of(a_kept())) == a_kept()
    assert read_line("{") is read_line(None) is None
    assert line_name(ObjectKey("ml", "team-a"), "nvidia.com/gpu") == "ml_team-a_nvidia.com_gpu"
    assert len(line_name(ObjectKey("n" * 63, "b" * 253), "nvidia.com/gpu")) <= LONGEST_NAME


def test_lines_of_the_past_go_and_then_the_oldest_until_the_new_one_fits():
    large = "x" * (MOST_CHARACTERS // 4)
    lines = {
        "ml_past": a_kept(until=NOW - 1),
        "ml_old": a_kept(at=NOW - 900, account=large),
        "ml_older": a_kept(at=NOW - 1000, account=large),
        "ml_young": a_kept(at=NOW - 10, account=large),
        "ml_same": a_kept(account=large),
    }
    assert crowded_out(lines, "ml_same", 1000, NOW) == (("ml_past",), ())
    assert crowded_out(lines, "ml_same", MOST_CHARACTERS // 2, NOW) == (("ml_past",), ("ml_older", "ml_old"))
    assert crowded_out({}, "ml_same", 1000, NOW) == ((), ())
