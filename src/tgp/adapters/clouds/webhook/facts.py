"""Facts about machines you own. The README beside has the reasons."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.ports.cloud import Account, CloudFacts

FACTS = CloudFacts(
    provider="webhook",
    title="webhook",
    boot=(BootMode.POWER,),
    endpoint="",  # each machine has its own
    listing_lag=timedelta(seconds=60),  # a controller that polls a BMC once a minute
    repeatable_launch=True,  # under one id; and powering on twice has no effect
    lists_by_token=False,  # until every machine's status has reported a token
    tells_creation=False,
    tells_billed_price=False,
    tells_prices=False,  # they are in the class
    user_data_bytes=0,  # the machine is a member already: it gets no user data
)
# There is no account: the class lists the machines. A machine that it no longer lists is unknown, rather
# than absent, so that absence is never concluded from another class's list.
ACCOUNT = Account("webhook:owned", "machines you own")
