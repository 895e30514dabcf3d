"""Every checker catches what it is there for: a checker that cannot fail is worth nothing."""

import logging
from contextlib import suppress
from dataclasses import replace
from datetime import timedelta

import msgspec
import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_pool, create
from tests.sim.cluster.manifests import GPU, a_pod
from tests.sim.lifecycle.a_world import POWER, a_hand, an_attempt, guard, reserve, sim_env, token_of, write
from tgp.api.resource import GPU_REQUEST, LEASE, NODE, POD
from tgp.core.model.token import token_for
from tgp.ports.http import Call, HttpError, Reply, json_call
from tgp.sim.checkers.leadership import OneLeader, TrueTime
from tgp.sim.checkers.money import (
    BoundedOrders,
    EndsOnlyOurs,
    Findable,
    NoEndWithoutReason,
    NoOrphan,
    OneMachine,
    OneOrderPerAttempt,
    WithinLimits,
    WithinPrice,
)
from tgp.sim.checkers.objects import ConditionalWrites, FinalizerHolds, OwnUid, Quiet, loose_ends
from tgp.sim.checkers.power import NoCallOnMissingData, NotOnForLonger
from tgp.sim.checkers.recorder import Violation
from tgp.sim.checkers.secrecy import KnownPlaces, NoCanary, OwnSecretsOnly
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.webhook import settings_at
from tgp.sim.cluster.machines import Hardware
from tgp.sim.world import KUBERNETES

SHOP = "http://127.0.0.1:8010"
REQUESTS = "/apis/tgp.io/v1/namespaces/default/gpurequests"
SHORT = timedelta(seconds=10)


def an_order(name: str) -> Call:
    body = {"type": "t4.1", "place": "us-west-1", "market": "on-demand", "name": name}
    return json_call("POST", "/v1/machines", body, timeout=SHORT)


def send(env, host, call, place=SHOP):
    return env.world.until(host.http(place).send(call))


def order(env, host, name):
    return send(env, host, an_order(name))


def a_patch(path: str, body: object) -> Call:
    headers = (("Content-Type", "application/merge-patch+json"),)
    return Call("PATCH", path, headers=headers, body=msgspec.json.encode(body), timeout=SHORT)


def caught(words: str):
    return pytest.raises(Violation, match=words)


def test_a_recorder_of_a_good_purchase_reports_nothing():
    """On paper, guarded, ordered once, terminated with a reason, shown gone, let go: no accusation at all."""
    with sim_env("good") as env:
        hand = a_hand(env.world)
        a_class(env.world, "rented", limits={"maxNodes": 1})
        env.wants(maxHourlyPrice="1.00")
        order(env, hand, reserve(env))
        (machine,) = env.living()
        env.world.run(minutes=30)
        write(env, conditions=[a_condition("Terminating", "Deleted")])
        send(env, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))
        env.world.run(minutes=1)
        write(env, attempts=[an_attempt(env, endedAt="2026-01-05T09:31:00Z", outcome="Terminated")])
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        env.drops()
        env.world.run(minutes=10)

        assert env.living() == []
        assert env.recorder.accusations == ()


def a_condition(kind: str, reason: str, status: str = "True") -> dict:
    return {
        "type": kind,
        "status": status,
        "reason": reason,
        "message": "because",
        "lastTransitionTime": "2026-01-05T09:30:00Z",
    }


# -- money -------------------------------------------------------------------------------------------------------------


def test_two_machines_for_one_request_are_seen_at_once():
    with sim_env("two", invariants=[OneMachine]) as env, caught("I1: two machines for one request"):
        hand = a_hand(env.world)
        env.wants()
        order(env, hand, token_of(env, attempt=1))
        order(env, hand, token_of(env, attempt=2))


def test_a_second_machine_that_only_the_provider_made_has_the_settle_window():
    with sim_env("twins", invariants=[OneMachine]) as env:
        hand = a_hand(env.world)
        env.wants()
        env.simulator.faults.aim(CloudFault.MADE_TWICE)
        order(env, hand, token_of(env))
        env.world.run(minutes=4)
        assert len(env.living()) == 2
        with caught("I1: two machines for one request, for 30"):
            for _ in range(20):
                env.world.run(seconds=10)
                send(env, hand, Call("GET", "/v1/account", timeout=SHORT))


def test_a_machine_without_an_owner_is_an_orphan_after_300_seconds():
    with sim_env("orphan", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        env.world.run(seconds=290)
        with caught("I2: no request owns simulated sim-"):
            env.world.run(seconds=20)
            send(env, hand, Call("GET", "/v1/account", timeout=SHORT))


def test_the_orphans_clock_stands_while_its_provider_cannot_be_listed():
    with sim_env("standing", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        env.world.run(seconds=100)
        send(env, hand, Call("GET", "/v1/machines", timeout=SHORT))
        env.world.network.partition("hand", SHOP)
        env.world.run(hours=2)
        a_noise(env)
        env.world.network.heal("hand", SHOP)
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.LIST)
        send(env, hand, Call("GET", "/v1/machines", timeout=SHORT))
        env.world.run(hours=2)
        a_noise(env)
        send(env, hand, Call("GET", "/v1/machines", timeout=SHORT))
        with caught("I2: no request owns"):
            env.world.run(seconds=250)
            a_noise(env)


@pytest.mark.parametrize("cloud_fault", [CloudFault.EMPTY_BODY, CloudFault.HANG_UP, CloudFault.DELETE_IGNORED])
def test_an_end_that_comes_to_nothing_has_to_be_asked_for_again_in_time(cloud_fault):
    with sim_env("swallowed", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        (machine,) = env.living()
        end = Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT)
        for _ in range(3):
            env.world.run(seconds=280)
            env.simulator.faults.aim(cloud_fault, CloudVerb.TERMINATE)
            with suppress(HttpError):
                send(env, hand, end)
        assert env.living() == [machine]
        with caught("I2: no request owns simulated sim-"):
            env.world.run(seconds=301)
            a_noise(env)


def test_an_end_that_is_asked_for_in_vain_counts_for_nothing():
    """A wrong id is no fault of the provider's."""
    with sim_env("in vain", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        env.world.run(seconds=280)
        env.simulator.faults.aim(CloudFault.HANG_UP, CloudVerb.TERMINATE)
        with suppress(HttpError):
            send(env, hand, Call("DELETE", "/v1/machines/sim-another-owners", timeout=SHORT))
        with caught("I2: no request owns simulated sim-"):
            env.world.run(seconds=30)
            a_noise(env)


def a_noise(env) -> None:
    """So that a process reads."""
    env.world.trace.note("test", "noise")
    env.world.run(seconds=0.001)


def reign(env, host, identity: str, seconds: float) -> None:
    """A leader renews its Lease every ten seconds."""
    for _ in range(int(seconds // 10)):
        take_lease(env, host, identity)
        env.world.run(seconds=10)
    take_lease(env, host, identity)


def test_leaders_who_are_gone_within_a_minute_do_not_age_an_orphan():
    with sim_env("brief reigns", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        take_lease(env, hand, "first")
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        for number in range(20):
            reign(env, hand, f"brief-{number}", 50)
        reign(env, hand, "lasts", 280)
        with caught("I2: no request owns .* for 30. s now"):
            reign(env, hand, "lasts", 40)


def test_leaders_who_stay_are_held_to_all_of_their_time_and_the_wait_for_the_next():
    with sim_env("reigns", invariants=[NoOrphan]) as env:
        hand = a_hand(env.world)
        take_lease(env, hand, "first")
        order(env, hand, token_for(env.recorder.cluster, "f" * 32, 1))
        reign(env, hand, "one", 70)
        env.world.run(seconds=60)  # it is gone
        reign(env, hand, "brief", 40)
        take_lease(env, hand, "")  # lets go in good order
        env.world.run(seconds=100)
        reign(env, hand, "two", 160)
        with caught("I2: no request owns .* for 30. s now"):
            reign(env, hand, "two", 20)


def test_leaders_who_are_gone_within_a_minute_do_not_age_duplicates_either():
    with sim_env("brief reigns over twins", invariants=[OneMachine]) as env:
        hand = a_hand(env.world)
        env.wants()
        take_lease(env, hand, "first")
        env.simulator.faults.aim(CloudFault.MADE_TWICE)
        order(env, hand, token_of(env))
        for number in range(20):
            reign(env, hand, f"brief-{number}", 50)
        reign(env, hand, "lasts", 280)
        with caught("I1: two machines for one request, for 30. s now"):
            reign(env, hand, "lasts", 40)


def test_an_older_attempt_and_a_duplicate_are_orphans_too():
    with sim_env("older", invariants=[NoOrphan]) as env, caught(r"I2: no request owns .*-1, "):
        hand = a_hand(env.world)
        env.wants()
        order(env, hand, token_of(env, attempt=1))
        reserve(env, number=2)
        env.world.run(seconds=301)
        a_noise(env)


@pytest.mark.parametrize(
    ("limits", "words"),
    [
        ({"maxNodes": 1}, "I3: class rented has 2 machines"),
        ({"maxHourlyCost": "0.40"}, r"I3: class rented costs \$0.48"),
        ({"resources": {"nvidia.com/gpu": 1}}, "I3: class rented has 2 nvidia.com/gpu"),
        ({"resources": {"memory": "24Gi"}}, "I3: class rented has .* memory"),
    ],
)
def test_a_limit_that_is_exceeded_on_paper_is_exceeded(limits, words):
    with sim_env("limits", invariants=[WithinLimits]) as env, caught(words):
        a_class(env.world, "rented", limits=limits)
        for name in ("one", "two"):
            env.wants(name)
            reserve(env, name)
            env.world.run(seconds=1)


def test_the_limit_of_a_pool_that_is_exceeded_on_paper_is_exceeded():
    words = "I3: pool default/team has 2 nodes, at most 1 is allowed"
    with sim_env("pool limits", invariants=[WithinLimits]) as env, caught(words):
        a_class(env.world, "rented")
        a_pool(env.world, "team", "rented", limits={"resources": {"nodes": 1}})
        for name in ("one", "two"):
            env.pool_wants("team", name)
            reserve(env, name)
            env.world.run(seconds=1)


def test_a_machine_that_lives_counts_though_its_attempt_was_declared_over():
    with sim_env("counted", invariants=[WithinLimits]) as env, caught("I3: class rented has 2 machines"):
        hand = a_hand(env.world)
        a_class(env.world, "rented", limits={"maxNodes": 1})
        env.wants("one")
        order(env, hand, reserve(env, "one"))
        write(env, "one", attempts=[an_attempt(env, 1, "one", endedAt="2026-01-05T09:31:00Z")])
        env.wants("two")
        reserve(env, "two")
        a_noise(env)


def test_an_order_above_the_ceiling_or_without_a_price_is_accepted_but_seen():
    for price, words in (("0.51", r"I4: .* at \$0.51 an hour, above its \$0.50"), (None, "I4: .* at no price")):
        with sim_env("dear", invariants=[WithinPrice]) as env, caught(words):
            hand = a_hand(env.world)
            env.wants(maxHourlyPrice="0.50")
            order(env, hand, reserve(env, price=price))


def test_a_machine_without_our_mark_is_seen():
    with sim_env("unmarked", invariants=[Findable]) as env, caught("I5: no mark of ours"):
        order(env, a_hand(env.world), "my-lovely-machine")


def test_an_order_that_is_not_on_paper_is_seen():
    with sim_env("paper", invariants=[OneOrderPerAttempt]) as env, caught("I6: .* where no such attempt is open"):
        env.wants()
        order(env, a_hand(env.world), token_of(env))


def test_an_attempt_that_is_ordered_twice_is_seen():
    with sim_env("again", invariants=[OneOrderPerAttempt]) as env:
        hand = a_hand(env.world)
        env.wants()
        token = reserve(env)
        env.simulator.faults.aim(CloudFault.SOLD_OUT)
        order(env, hand, token)  # refused for certain: this one did not count
        order(env, hand, token)
        with caught("I6: .* which was ordered before"):
            order(env, hand, token)


def test_an_attempt_before_the_last_one_is_over_is_seen():
    with sim_env("hasty", invariants=[OneOrderPerAttempt]) as env, caught("I6: .* is not over"):
        hand = a_hand(env.world)
        env.wants()
        reserve(env)
        write(env, attempts=[an_attempt(env, 1), an_attempt(env, 2)])
        order(env, hand, token_of(env, attempt=2))


def test_a_request_that_never_stops_trying_is_seen():
    with sim_env("breeding", invariants=[BoundedOrders]) as env:
        hand = a_hand(env.world)
        env.wants()
        env.simulator.faults.aim(CloudFault.SOLD_OUT, times=3)
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.LAUNCH, times=10)
        for number in range(1, 9):
            order(env, hand, token_of(env, attempt=number))
        with caught("I7: .* the 6th for that request"):
            order(env, hand, token_of(env, attempt=9))


def test_ending_a_foreign_machine_is_seen():
    with sim_env("theirs", invariants=[EndsOnlyOurs]) as env, caught("I8: we ended .* which is not ours"):
        hand = a_hand(env.world)
        order(env, hand, token_for("0123456789", "f" * 32, 1))
        env.world.run(seconds=10)
        (machine,) = env.living()
        send(env, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))


def test_ending_a_machine_in_use_without_a_word_is_seen():
    with sim_env("unsaid", invariants=[NoEndWithoutReason]) as env, caught("I9: .* does not say why"):
        hand = a_hand(env.world)
        env.wants()
        order(env, hand, reserve(env))
        env.world.run(seconds=10)
        (machine,) = env.living()
        send(env, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))


def test_declaring_an_attempt_over_while_its_machine_runs_is_seen():
    with (
        sim_env("believed", invariants=[NoEndWithoutReason]) as env,
        caught(r"I9: .* declares an attempt over \(Lost\)"),
    ):
        env.wants()
        order(env, a_hand(env.world), reserve(env))
        write(env, attempts=[an_attempt(env, endedAt="2026-01-05T09:31:00Z", outcome="Lost")])
        a_noise(env)


# -- machines you own --------------------------------------------------------------------------------------------------


def switch(env, host, button):
    """As an operator would: the status is read, then the machine is switched."""
    with suppress(HttpError):
        send(env, host, Call("GET", "/cellar-1/status", timeout=SHORT), POWER)
    kind = {"on": "machine.power_on", "off": "machine.power_off"}[button]
    body = {"type": kind, "machine": "cellar-1", "token": token_of(env), "timestamp": "2026-01-05T09:00:00Z"}
    headers = (("webhook-id", f"{button} at {env.recorder.now}"),)
    call = json_call("POST", f"/cellar-1/{button}", body, timeout=SHORT)
    send(env, host, replace(call, headers=(*call.headers, *headers)), POWER)


def an_owned_machine(env):
    """On for a request, and its Node is Ready."""
    settings = msgspec.json.decode(msgspec.json.encode(settings_at(POWER, (0,))))
    a_class(env.world, "rented", providers=[{"name": "webhook", "settings": settings}])
    env.wants()
    hand = a_hand(env.world)
    reserve(env)
    switch(env, hand, "on")
    env.world.run(minutes=5)
    return hand


def test_a_power_call_without_a_status_is_seen():
    with sim_env("unread", "webhook", invariants=[NoCallOnMissingData]) as env:
        hand = an_owned_machine(env)
        env.simulator.faults.aim(CloudFault.ERROR, CloudVerb.STATUS, times=9)
        with caught("P1: cellar-1 is switched off, and its status was last read at"):
            switch(env, hand, "off")


def test_a_power_off_that_the_node_contradicts_is_seen():
    with sim_env("contradicted", "webhook", invariants=[NoCallOnMissingData]) as env:
        hand = an_owned_machine(env)
        says_off = Reply(200, b'{"state": "off"}')
        env.simulator._status = lambda _tenant, _name: says_off
        send(env, hand, Call("GET", "/cellar-1/status", timeout=SHORT), POWER)
        env.world.run(minutes=3)
        with caught("P1: cellar-1 is switched off, its status says that it is, and its Node is Ready"):
            switch(env, hand, "off")


def test_a_power_call_on_a_status_that_agrees_is_no_fault():
    with sim_env("agrees", "webhook", invariants=[NoCallOnMissingData]) as env:
        hand = an_owned_machine(env)
        switch(env, hand, "off")
        switch(env, hand, "off")
        env.world.run(minutes=5)

        assert env.living() == []


def test_a_machine_that_stays_on_without_a_pod_is_seen():
    with sim_env("stays-on", "webhook", invariants=[NotOnForLonger]) as env:
        an_owned_machine(env)
        env.world.run(minutes=50)
        with caught("P2: cellar-1 has been on for longer than 3600 s without a pod"):
            env.world.run(minutes=20)


# -- objects -----------------------------------------------------------------------------------------------------------


def test_an_order_before_the_finalizer_is_seen():
    with sim_env("unguarded", invariants=[FinalizerHolds]) as env, caught("I13: .* no finalizer guards yet"):
        env.wants()
        write(env, attempts=[an_attempt(env)])
        order(env, a_hand(env.world), token_of(env))


def test_a_finalizer_that_goes_before_the_machine_is_seen():
    with sim_env("early", invariants=[FinalizerHolds]) as env, caught("I13: default/train was let go while"):
        env.wants()
        order(env, a_hand(env.world), reserve(env))
        env.world.api.local_api.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        a_noise(env)


def test_a_write_that_would_overwrite_anything_is_seen():
    with sim_env("blind", invariants=[ConditionalWrites]) as env, caught("I14: hand wrote .* whatever stood there"):
        env.wants()
        patch = a_patch(f"{REQUESTS}/train/status", {"status": {"phase": "Pending"}})
        send(env, a_hand(env.world), patch, KUBERNETES)


def test_a_write_or_an_order_in_a_quiet_hour_is_seen():
    with sim_env("loud", invariants=[]) as env, caught("I14: 1 changing calls in a quiet world: hand#1 POST"):
        hand = a_hand(env.world)
        with Quiet(env.world):
            order(env, hand, "x")


def test_an_order_for_an_object_that_is_gone_is_seen():
    with sim_env("gone", invariants=[OwnUid]) as env, caught("I16: .* for a request that does not exist"):
        env.wants()
        token = token_of(env)
        env.drops()
        env.wants()
        order(env, a_hand(env.world), token)


def test_a_node_of_an_earlier_object_of_that_name_is_not_taken():
    with sim_env("adopted", invariants=[OwnUid]) as env, caught("I16: default/train took Node n1 for its own"):
        env.wants()
        old = token_of(env)
        env.drops()
        env.wants()
        create(env.world, NODE, "n1", spec={"providerID": f"tgp://simulated/{old}"})
        write(env, nodeName="n1", conditions=[a_condition("Ready", "Ready")])
        a_noise(env)


def test_loose_ends_are_told_one_by_one():
    with sim_env("loose", invariants=[]) as env:
        hand = a_hand(env.world)
        for name in ("unattended", "ready", "over"):
            env.wants(name)
        write(env, "ready", phase="Ready")
        write(env, "over", phase="Finished")
        order(env, hand, token_of(env, "over"))
        left = f"tgp://simulated/{token_of(env, 'ready', 7)}"
        create(env.world, NODE, "n1", spec={"providerID": left})

        said = "\n".join(loose_ends(env.recorder))
        assert "I17: no controller handled default/unattended" in said
        assert "I18: default/ready is Ready with no machine" in said
        assert "I18: default/over is Finished with simulated sim-" in said
        assert "I18: no request owns simulated sim-" in said
        assert "I18: Node n1 is left over" in said


# -- leadership and time -----------------------------------------------------------------------------------------------

LEASES = "/apis/coordination.k8s.io/v1/namespaces/tgp-system/leases"


def take_lease(env, host, identity: str) -> None:
    found = env.world.api.local_api.get(LEASE, NAMESPACE_NAME, "tgp")
    renewed = env.world.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 15, "renewTime": renewed}
    if found is None:
        call = json_call("POST", LEASES, {"metadata": {"name": "tgp"}, "spec": spec}, timeout=SHORT)
    else:
        call = a_patch(f"{LEASES}/tgp", {"spec": spec})
    assert send(env, host, call, KUBERNETES).ok


def test_a_replica_without_the_lease_changes_nothing():
    with sim_env("usurper", invariants=[OneLeader]) as env:
        one, two = a_hand(env.world, "one"), a_hand(env.world, "two")
        take_lease(env, one, "one-abc")
        order(env, one, "x")
        take_lease(env, two, "two-def")
        order(env, two, "y")
        with caught("I19: one/1 sent POST .* while two-def held the Lease"):
            order(env, one, "z")


def test_a_leader_past_its_term_changes_nothing():
    with sim_env("late", invariants=[OneLeader]) as env:
        one = a_hand(env.world, "one")
        take_lease(env, one, "one-abc")
        env.world.run(seconds=9)
        order(env, one, "x")
        env.world.run(seconds=2)
        with caught(r"I19: one/1 sent POST .* 11\.. s after its last renewal"):
            order(env, one, "y")


def test_a_life_that_ends_by_a_wrong_clock_is_seen():
    with sim_env("hurried", invariants=[TrueTime]) as env, caught("I20: default/train ends as Expired after 36"):
        env.wants(maxLifetime="2h")
        env.world.run(hours=1)
        write(env, conditions=[a_condition("Terminating", "Expired")])
        a_noise(env)


def test_idleness_that_a_pod_disproves_is_seen():
    with sim_env("busy", invariants=[TrueTime]) as env, caught("I20: default/train ends as Idle while 1 pods"):
        env.wants()
        write(env, nodeName="n1")
        env.world.cluster.power_on(Hardware("n1", devices={GPU: 1}))
        env.world.run(minutes=1)
        env.world.api.local_api.create(POD, a_pod(gpus=1))
        env.world.run(hours=1)
        write(env, conditions=[a_condition("Terminating", "Idle")])
        a_noise(env)


def test_idleness_that_has_not_lasted_is_seen():
    with sim_env("restless", invariants=[TrueTime]) as env, caught("I20: default/train ends as Idle after 600 s"):
        env.wants()
        write(env, nodeName="n1")
        env.world.cluster.power_on(Hardware("n1", devices={GPU: 1}))
        env.world.run(minutes=1)
        env.world.api.local_api.create(POD, a_pod(gpus=1))
        env.world.run(hours=1)
        env.world.api.local_api.delete(POD, "default", "pod", grace_seconds=0)
        env.world.run(minutes=10)
        write(env, conditions=[a_condition("Terminating", "Idle")])
        a_noise(env)


# -- secrets and places ------------------------------------------------------------------------------------------------

CANARY = "canary-9f31-never-to-be-said"


@pytest.mark.parametrize("where", ["object", "address", "log"])
def test_a_planted_secret_that_is_said_is_heard(where):
    with sim_env("canary", invariants=[]) as env:
        hand = a_hand(env.world)
        ears = env.recorder.add(NoCanary(env.recorder, [CANARY]))
        words = {"object": "what hand wrote", "address": "an address that hand called", "log": "a log line of tgp.test"}
        with caught(f"I21: the secret canary-9… is in {words[where]}"):
            if where == "object":
                body = {"metadata": {"name": "x"}, "data": {"note": f"key {CANARY}"}}
                send(env, hand, json_call("POST", "/api/v1/namespaces/default/configmaps", body), KUBERNETES)
            elif where == "address":
                send(env, hand, Call("GET", "/v1/offers", (("api_key", CANARY),), timeout=SHORT))
            else:
                logging.getLogger("tgp.test").warning("careless: %s", CANARY)
            a_noise(env)
        ears.close()


@pytest.mark.parametrize(
    "path", ["/api/v1/secrets", "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/kube-system/secrets/x"]
)
def test_a_secret_read_anywhere_else_is_seen(path):
    with sim_env("prying", invariants=[OwnSecretsOnly]) as env:
        hand = a_hand(env.world)
        send(env, hand, Call("GET", f"/api/v1/namespaces/{NAMESPACE_NAME}/secrets/x", timeout=SHORT), KUBERNETES)
        with caught("I22: hand/1 asked for GET"):
            send(env, hand, Call("GET", path, timeout=SHORT), KUBERNETES)


def test_a_call_to_a_place_that_is_not_configured_is_seen():
    with sim_env("astray", invariants=[]) as env, caught("I23: hand/1 called GET http://169.254.169.254/latest"):
        env.recorder.add(KnownPlaces(env.recorder, [SHOP]))
        hand = a_hand(env.world)
        send(env, hand, Call("GET", "/v1/offers", timeout=SHORT))
        with pytest.raises(HttpError):
            send(env, hand, Call("GET", "/latest", timeout=SHORT), "http://169.254.169.254")
        a_noise(env)


def test_other_accounts_machines_are_ignored():
    """What another tool runs in the same account is neither ours nor unmarked."""
    with sim_env("others") as env:
        env.simulator.fleet.add_foreign(env.simulator.fleet.accounts.open(Tenant("other")), 3)
        env.world.run(hours=1)
        a_noise(env)

        assert env.recorder.everything() == []


def test_guarding_alone_is_no_order():
    with sim_env("still") as env:
        env.wants()
        guard(env)
        env.world.run(hours=1)

        assert env.recorder.accusations == ()
