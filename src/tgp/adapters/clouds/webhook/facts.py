"""What is known of machines you own. The README beside it says why each is so."""

from datetime import timedelta

from tgp.core.model.offer import BootMode
from tgp.ports.cloud import Account, CloudFacts

FACTS = CloudFacts(
    provider="webhook",
    title="webhook",
    boot=(BootMode.POWER,),
    endpoint="",  # each machine has its own
    listing_lag=timedelta(seconds=60),  # a controller that polls a BMC once a minute
    repeatable_launch=True,  # under one id; and a machine that is on cannot be switched on twice
    lists_by_token=False,  # until every machine's status was seen to tell a token
    tells_creation=False,
    tells_billed_price=False,
    tells_prices=False,  # they stand in the class
    user_data_bytes=0,  # the machine is a member already: nothing is handed to it
)
# There is no account: the class names the machines. A machine that it no longer names cannot be told about, rather
# than being absent, so that absence is never concluded from another class's list.
ACCOUNT = Account("webhook:owned", "machines you own")
