"""Who goes when a budget is used up: as few as needed, in one fixed order, and none twice."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from tests.amounts import amount
from tgp.core.budgets.account import USED, BudgetAccount, OpenPod, fresh
from tgp.core.budgets.assess import Limits
from tgp.core.budgets.victims import back_by, order, run_on, run_on_text, victims
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import RUNNING, OwnerRef, Pod

NOW = 1_800_000_000
BY = NOW + 3600


def a_pod(name: str, **changes) -> Pod:
    return Pod(**{"key": ObjectKey("team", name), "uid": name, "node": "n", "phase": RUNNING, **changes})


def a_team(*pods: Pod, started: int = NOW - 3600, milli: int = 1000) -> tuple[dict[bytes, Pod], BudgetAccount]:
    account = fresh(24, NOW)
    running = {pod.key.name.encode(): pod for pod in pods}
    account.open = {uid: OpenPod(started, milli) for uid in running}
    return running, account


def names(chosen) -> list[str]:
    return [pod.key.name for victim in chosen for pod in victim.pods]


def test_lowest_priority_first_then_most_used_then_by_name_and_protected_ones_last():
    running, account = a_team(
        a_pod("high", priority=10),
        a_pod("b"),
        a_pod("a"),
        a_pod("much"),
        a_pod("kept", annotations={"tgp.io/do-not-disrupt": "true"}),
    )
    account.open[b"much"] = OpenPod(NOW - 7200, 1000)
    assert names(order(running, account.open, NOW, 0)) == ["much", "a", "b", "high", "kept"]
    assert names(order(running, account.open, NOW, NOW - 60))[0] == "a", "only what is in the window"
    account.open[b"much"] = account.open[b"much"].cut(NOW - 1)
    assert names(order(running, account.open, NOW, 0))[0] == "much", "a resize or a new price hides nothing"


def test_the_pods_of_one_job_go_together():
    owner = (OwnerRef("Job", "train", "job-uid", "batch/v1", controller=True),)
    running, account = a_team(a_pod("x-0", owners=owner), a_pod("alone"), a_pod("x-1", owners=owner))
    chosen = order(running, account.open, NOW, 0)
    assert [names([each]) for each in chosen] == [["x-0", "x-1"], ["alone"]]
    assert chosen[0].milli == 2000


def test_a_team_that_burns_what_the_window_frees_loses_no_pod():
    running, account = a_team(a_pod("a"), started=NOW - 2 * 86_400)
    limits = Limits(account.used(USED, NOW))
    assert victims(running, account, limits, NOW, by=BY) == ()


def test_only_running_pods_are_chosen_and_those_that_leave_already_are_taken_into_account():
    leaving = a_pod("leaving", deletion_requested_at=datetime.fromtimestamp(NOW, UTC))
    running, account = a_team(leaving, a_pod("a"), a_pod("b"))
    account.open[b"b"] = OpenPod(None, 1000)
    limits = Limits(account.used(USED, NOW) + 3_600_000)
    assert names(victims(running, account, limits, NOW, by=BY)) == []
    assert names(victims(running, account, Limits(1), NOW, by=BY)) == ["a"]


@pytest.mark.parametrize(("ends_in", "grace", "goes"), [(30, None, False), (86_400, None, True), (86_400, 30, True)])
def test_a_pod_that_was_deleted_with_more_time_than_its_own_does_not_count_as_leaving(ends_in, grace, goes):
    running, account = a_team(a_pod("a", deletion_requested_at=datetime.fromtimestamp(NOW + ends_in, UTC)))
    assert names(victims(running, account, Limits(1), NOW, by=BY, grace=grace)) == (["a"] if goes else [])


def test_a_pod_with_a_long_grace_of_its_own_has_it_unless_the_budget_says_otherwise():
    long = a_pod("a", grace_seconds=86_400, deletion_requested_at=datetime.fromtimestamp(NOW + 86_400, UTC))
    running, account = a_team(long)
    assert names(victims(running, account, Limits(1), NOW, by=BY)) == []
    assert names(victims(running, account, Limits(1), NOW, by=BY, grace=30)) == ["a"]


def test_a_pod_that_still_runs_long_after_it_was_told_to_go_keeps_no_other_running():
    slow = a_pod("slow", grace_seconds=86_400, deletion_requested_at=datetime.fromtimestamp(NOW + 80_000, UTC))
    running, account = a_team(slow, a_pod("b"))
    limits = Limits(account.used(USED, NOW) + 3_600_000)
    told_at = NOW + 80_000 - 86_400
    assert names(victims(running, account, limits, NOW, by=BY, since=told_at)) == [], "it has just been told"
    assert names(victims(running, account, limits, NOW, by=BY, since=told_at + 1)) == ["b"]
    quick = {**running, b"slow": a_pod("slow", deletion_requested_at=datetime.fromtimestamp(NOW - 5, UTC))}
    assert names(victims(quick, account, limits, NOW, by=BY, since=NOW)) == [], "its end is only not seen yet"


def test_pods_that_run_on_after_their_eviction_are_named_with_what_to_set():
    ends = datetime(2027, 1, 15, 8, tzinfo=UTC) + timedelta(hours=1)
    slow = [a_pod(f"p{number}", deletion_requested_at=ends) for number in range(5)]
    quick = a_pod("quick", deletion_requested_at=datetime.fromtimestamp(NOW + 30, UTC))
    found = run_on([*slow, quick, a_pod("stays")], NOW)
    assert sorted(found) == ["p0", "p1", "p2", "p3", "p4"]
    assert run_on_text(found) == (
        "Evicted pods still run and count, because their own grace period is long: "
        "p0 (at most until 2027-01-15T09:00:00Z), p1 (at most until 2027-01-15T09:00:00Z), "
        "p2 (at most until 2027-01-15T09:00:00Z) and 2 more. "
        "To end them sooner set enforcement.podGracePeriodSeconds."
    )
    assert run_on_text({}) == ""


def test_one_that_is_held_is_passed_over_and_the_next_goes():
    running, account = a_team(a_pod("a"), a_pod("b"), a_pod("c"))
    limits = Limits(account.used(USED, NOW) + 2 * 3_600_000)
    assert names(victims(running, account, limits, NOW, by=BY)) == ["a"]
    assert names(victims(running, account, limits, NOW, by=BY, passed={b"a"})) == ["b"]


@pytest.mark.parametrize("seed", range(amount(30, 300)))
def test_they_are_a_prefix_of_the_order_and_one_less_would_not_do(seed):
    luck = random.Random(seed)
    running, account = a_team(*(a_pod(f"p{number}", priority=luck.randrange(3)) for number in range(6)))
    for uid in running:
        account.open[uid] = OpenPod(NOW - luck.randrange(1, 90_000), luck.choice((500, 1000, 8000)))
    limits = Limits(int(account.used(USED, NOW) * luck.uniform(0.5, 1.2)) + 1)
    chosen = victims(running, account, limits, NOW, by=BY)
    every = order(running, account.open, NOW, account.begins(NOW))
    assert list(chosen) == every[: len(chosen)]

    def use_without(gone: int) -> int:
        return account.used(USED, BY) - sum(each.milli for each in every[:gone]) * (BY - NOW)

    assert use_without(len(chosen)) <= limits.used or len(chosen) == len(every)
    if chosen:
        assert use_without(len(chosen) - 1) > limits.used


def test_use_shall_be_back_within_a_part_of_the_window_and_then_again():
    assert back_by(86_400, NOW, NOW) == NOW + 3600
    assert back_by(86_400, NOW, NOW + 3599) == NOW + 3600
    assert back_by(86_400, NOW, NOW + 3600) == NOW + 7200
    assert back_by(3600, NOW, NOW) == NOW + 600
