"""One suite, two servers: the in-memory API server gives the real kube-apiserver's answers, word for word."""

from collections import Counter

import pytest

from tests.contracts.apiserver.everything import all_cases
from tests.contracts.apiserver.lies import LIES, Lie
from tests.contracts.apiserver.run import Outcome, difference
from tests.contracts.apiserver.suite import MINIMA, MINIMUM, Case

SERVERS = 2
LIES_WANTED = 10


@pytest.mark.parametrize("case", all_cases(), ids=lambda case: f"{case.area}: {case.name}")
def test_both_servers_keep_the_contract(case: Case, truth: dict[str, Outcome], pretence: dict[str, Outcome]) -> None:
    """The facts hold on the real server, hold on ours, and both gave the same answers on the way."""
    if wrong := truth[case.name].failure:
        pytest.fail(f"the real server does not do what this case says:\n{wrong}", pytrace=False)
    if parted := difference(truth[case.name], pretence[case.name]):
        pytest.fail(parted, pytrace=False)


@pytest.mark.parametrize("lie", LIES, ids=lambda lie: lie.name)
def test_a_planted_lie_is_caught(lie: Lie, caught: dict[str, list[str]]) -> None:
    """A suite that cannot tell a liar from the truth proves nothing."""
    assert caught[lie.name] != []


def test_every_area_has_its_cases() -> None:
    counted = Counter(case.area for case in all_cases())

    assert {area: counted[area] for area in MINIMA if counted[area] < MINIMA[area]} == {}
    assert len(all_cases()) >= MINIMUM


def test_the_tally_is_told(
    truth: dict[str, Outcome],
    pretence: dict[str, Outcome],
    caught: dict[str, list[str]],
    capsys: pytest.CaptureFixture[str],
) -> None:
    """For people: how many cases, how many differences, how many lies."""
    cases = all_cases()
    different = [case.name for case in cases if difference(truth[case.name], pretence[case.name])]
    noticed = sum(1 for cases_that_noticed in caught.values() if cases_that_noticed)
    with capsys.disabled():
        print()
        for area, count in Counter(case.area for case in cases).items():
            print(f"  {count:4d} {area}")
        print(
            f"{len(cases)} cases, {SERVERS} servers, {len(different)} differences; "
            f"{noticed} of {len(LIES)} planted lies caught"
        )

    assert different == []
    assert noticed == len(LIES) == LIES_WANTED
