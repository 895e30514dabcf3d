"""How long an order in doubt is waited for."""

from datetime import timedelta

import pytest

from tgp.adapters.clouds.registry import facts_of
from tgp.api.common import PROVIDERS
from tgp.controllers.requests.ledger import BELIEVED_GONE_AFTER
from tgp.controllers.requests.observe import LONGEST_LAUNCH, UNKNOWN_LAG, settle_window

LEASE = timedelta(seconds=15)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_doubt_outlasts_the_lease_the_order_and_the_listing_lag_of_each_provider(provider):
    facts = facts_of(provider)

    assert settle_window(LEASE, facts) > LEASE + facts.launch_timeout + facts.listing_lag


@pytest.mark.parametrize("provider", PROVIDERS)
def test_what_is_assumed_of_an_unknown_provider_is_no_shorter_than_what_is_known_of_any(provider):
    facts = facts_of(provider)

    assert settle_window(LEASE, None) >= settle_window(LEASE, facts)
    assert timedelta(seconds=BELIEVED_GONE_AFTER) > facts.launch_timeout + facts.listing_lag
    assert facts.launch_timeout <= LONGEST_LAUNCH
    assert facts.listing_lag <= UNKNOWN_LAG


@pytest.mark.parametrize("provider", ["runpod", "paperspace"])
def test_slow_launches_are_waited_for_longer(provider):
    assert settle_window(LEASE, facts_of(provider)) == timedelta(seconds=150)
    assert settle_window(LEASE, facts_of("vultr")) == timedelta(seconds=120)
