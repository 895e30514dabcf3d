"""Two classes, two keys, one provider: what one account is refused does not concern the other."""

from datetime import timedelta

from tests.sim.an_operator import ALONE, a_class, a_secret, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.core.requests.cooldown import FIRST_COOLDOWN
from tgp.sim.clouds.accounts import Tenant


def test_an_account_without_quota_does_not_stop_another_at_the_same_provider():
    with sim_env("two keys", "vultr") as env:
        env.simulators["vultr"].fleet.accounts.open(Tenant("poor", most_machines=0), "poor-key")
        a_secret(env.world, "poor", VULTR="poor-key")
        poor = {"name": "vultr", "credentialsRef": {"name": "poor", "key": "VULTR"}}
        a_class(env.world, "rented", providers=[{"name": "vultr"}])
        a_class(env.world, "poor", providers=[poor])
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=2)
        env.wants("theirs", gpuType="L40S", nodeClassRef={"name": "poor"})
        env.until(lambda: env.attempts("theirs") != [] and env.attempts("theirs")[0].get("outcome"), minutes=5)
        assert env.attempts("theirs")[0]["outcome"] == "QuotaOrBalanceExhausted", env.told()
        env.wants("ours", gpuType="L40S", nodeClassRef={"name": "rented"})
        env.until(lambda: env.attempts("ours") != [], minutes=(FIRST_COOLDOWN - timedelta(minutes=2)).seconds / 60)

        assert env.condition("Launched", "theirs")[1] == "NoOfferFits"
        assert len(env.attempts("theirs")) == 1
