"""Two classes, two keys, one provider: what one account is refused does not concern the other."""

from datetime import timedelta

from tests.sim.an_operator import a_class, a_secret, operator_main
from tests.sim.lives.an_estate import lives
from tgp.core.rules.benching import FIRST_BENCH
from tgp.sim.clouds.accounts import Tenant


def test_an_account_without_quota_does_not_stop_another_at_the_same_provider():
    with lives("two keys", "vultr") as stage:
        stage.shops["vultr"].fleet.accounts.open(Tenant("poor", most_machines=0), "poor-key")
        a_secret(stage.world, "poor", VULTR="poor-key")
        poor = {"name": "vultr", "credentialsRef": {"name": "poor", "key": "VULTR"}}
        a_class(stage.world, "rented", providers=[{"name": "vultr"}])
        a_class(stage.world, "poor", providers=[poor])
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=2)
        stage.wants("theirs", gpuType="L40S", nodeClassRef={"name": "poor"})
        stage.until(lambda: stage.attempts("theirs") != [] and stage.attempts("theirs")[0].get("outcome"), minutes=5)
        assert stage.attempts("theirs")[0]["outcome"] == "Exhausted", stage.told()
        stage.wants("ours", gpuType="L40S", nodeClassRef={"name": "rented"})
        stage.until(lambda: stage.attempts("ours") != [], minutes=(FIRST_BENCH - timedelta(minutes=2)).seconds / 60)

        assert stage.condition("Launched", "theirs")[1] == "NoOfferFits"
        assert len(stage.attempts("theirs")) == 1
