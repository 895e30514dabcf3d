"""Each condition type that is reported is known to be good or bad when it is true: a bad one is a Warning."""

import pytest

from tgp.controllers.requests.build import NOT_REPORTED
from tgp.controllers.status_writer import BAD_WHEN_TRUE
from tgp.core.budgets.status import OWNED as OF_BUDGETS
from tgp.core.classes.checks import OWNED as OF_CLASSES
from tgp.core.pools.nodepool import OWNED as OF_POOLS
from tgp.core.requests.status import OWNED as OF_REQUESTS

FINE_WHEN_TRUE = {
    "BootProven",
    "CanBuy",
    "CredentialsValid",
    "ImagePreparing",
    "Observing",
    "OffersFresh",
    "ProviderReachable",
    "Ready",
    "TemplateConverted",
}


@pytest.mark.parametrize("owned", [OF_CLASSES, OF_REQUESTS - NOT_REPORTED, OF_POOLS, OF_BUDGETS], ids=str)
def test_every_condition_type_is_classified(owned):
    assert owned - BAD_WHEN_TRUE - FINE_WHEN_TRUE == set()
    assert not BAD_WHEN_TRUE & FINE_WHEN_TRUE


@pytest.mark.parametrize("name", ["MachinesRefused", "MachinesCoolingDown", "TemplateUnchecked"])
def test_what_keeps_machines_away_is_a_warning(name):
    assert name in BAD_WHEN_TRUE
