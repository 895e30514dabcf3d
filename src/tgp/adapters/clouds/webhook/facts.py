"""Facts about machines you own. The README beside has the reasons."""

from datetime import timedelta

from tgp.api.common import OWNED_PROVIDER
from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts
from tgp.ports.cloud import Account

FACTS = CloudFacts(
    provider=OWNED_PROVIDER,
    title="webhook",
    boot=(BootMode.POWER,),
    endpoint="",  # each machine has its own
    listing_lag=timedelta(seconds=60),  # a controller that polls a BMC once a minute
    tells_billed_price=False,
    user_data_bytes=0,  # the machine is a member already: it gets no user data
)
# There is no account: the class lists the machines. A machine that it no longer lists is unknown, rather
# than absent, so that absence is never concluded from another class's list.
ACCOUNT = Account("webhook:owned", "machines you own")
