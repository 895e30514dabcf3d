"""When a status says that the provider cannot be asked about its machine."""

from datetime import timedelta

import pytest

from tests.core.requests.an_observation import a_machine, ago, an_observation
from tgp.core.model.presence import AccountProblem, Unknown
from tgp.core.requests.status import compute_status
from tgp.core.requests.steps import Wait


@pytest.mark.parametrize(
    ("problem", "launched", "said"),
    [
        pytest.param(AccountProblem.UNREACHABLE, 20, False, id="lists may be late after an order"),
        pytest.param(AccountProblem.UNREACHABLE, 70, True, id="not that late"),
        pytest.param(AccountProblem.CREDENTIALS_REFUSED, 20, True, id="a key that is refused does not pass by itself"),
        pytest.param(AccountProblem.NOT_ASKED_YET, 70, False, id="not asked"),
    ],
)
def test_a_provider_that_may_only_be_late_is_not_called_unreachable(problem, launched, said):
    machine = a_machine(launched_at=ago(seconds=launched))
    presence = Unknown(problem, "machine i-1 is not listed")
    observation = an_observation(machine, presence=presence, listing_lag=timedelta(seconds=60))

    denied = {each.type for each in compute_status(observation, Wait("", "")).updates if each.status is False}
    assert ("ProviderReachable" in denied) is said
