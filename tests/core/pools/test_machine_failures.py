"""A provider whose machines fail twice in a day in one pool is left out there, and nowhere else."""

import msgspec

from tests.core.pools.builders import NOW, a_condition, a_request, ago, an_attempt, written
from tgp.core.model.spend import SpendEntry
from tgp.core.pools.machine_failures import MachineFailures
from tgp.core.requests.cooldown import FIRST_COOLDOWN
from tgp.core.requests.node_metadata import pool_key


def lost(name, minutes, *, spot=False):
    attempt = an_attempt(outcome="Lost", endedAt=written(ago(minutes=minutes)))
    attempt["offer"] = {**attempt["offer"], "spot": spot}
    return msgspec.structs.replace(a_request(name, attempts=[attempt]), uid=f"uid-{name}")


def unhealthy(name, minutes):
    conditions = [a_condition("Disrupted", "True", "Ill", ago(minutes=minutes))]
    record = a_request(name, attempts=[an_attempt(outcome="Launched")], conditions=conditions)
    document = msgspec.json.encode({"conditions": conditions})
    return msgspec.structs.replace(record, uid=f"uid-{name}", status_document=document)


def pool_of(record):
    return str(pool_key(record))


def learned(*records):
    failures = MachineFailures()
    for record in records * 2:  # each counts once
        failures.learn(record)
    return failures


def test_the_second_failure_within_a_day_cools_the_provider_down_for_that_pool():
    first, second, third = lost("r1", 600), unhealthy("r2", 2), unhealthy("r3", 1)
    provider = first.value.status.attempts[0].offer.provider

    assert learned(first).cooldowns(pool_of(first), NOW) == {}
    found = learned(first, second)
    held = found.cooldowns(pool_of(first), NOW)
    assert list(held) == [provider]
    assert held[provider].until == ago(minutes=2) + FIRST_COOLDOWN
    assert "2 machines of the provider failed in this pool within a day" in held[provider].why
    assert found.cooldowns("default/another", NOW) == {}
    assert found.cooldowns(pool_of(first), NOW + FIRST_COOLDOWN) == {}
    longer = learned(first, second, third).cooldowns(pool_of(first), NOW)
    assert longer[provider].until == ago(minutes=1) + 2 * FIRST_COOLDOWN


def test_what_failed_more_than_a_day_ago_is_over_and_spot_machines_that_are_taken_back_have_not_failed():
    old, fresh, spot = lost("r1", 60 * 25), lost("r2", 10), lost("r3", 5, spot=True)

    assert learned(old, fresh, spot).cooldowns(pool_of(fresh), NOW) == {}


def test_a_new_process_knows_what_the_spend_record_tells():
    def entry(number: int, **rest: object) -> SpendEntry:
        usual = {"uid": f"u{number}", "attempt": 1, "request": "a/b", "pool": "a/p", "provider": "x", "lost": True}
        ended = {"began": ago(hours=9), "ended": ago(minutes=number), "microusd": 1}
        return SpendEntry(**{**usual, **ended, **rest})

    failures = MachineFailures()
    failures.restore([entry(1), entry(2, spot=True), entry(3, lost=False), entry(4, pool="")])
    assert failures.cooldowns("a/p", NOW) == {}
    failures.restore([entry(2)])
    assert list(failures.cooldowns("a/p", NOW)) == ["x"]
