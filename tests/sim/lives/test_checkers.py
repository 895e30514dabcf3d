"""Every checker catches what it is there for: a checker that cannot fail is worth nothing."""

import logging
from contextlib import suppress
from datetime import timedelta

import msgspec
import pytest

from tests.sim.an_operator import NAMESPACE_NAME, a_class, create
from tests.sim.cluster.manifests import GPU, a_pod
from tests.sim.lives.an_estate import a_hand, an_attempt, guard, lives, reserve, token_of, write
from tgp.api.resource import GPU_REQUEST, LEASE, NODE, POD
from tgp.core.model.token import token_for
from tgp.ports.http import Call, HttpError, json_call
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
from tgp.sim.checkers.secrecy import KnownPlaces, NoCanary, OwnSecretsOnly
from tgp.sim.checkers.witness import Violation
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.mishaps import Mishap, Verb
from tgp.sim.cluster.machines import Machine
from tgp.sim.world import KUBERNETES

SHOP = "http://127.0.0.1:8010"
REQUESTS = "/apis/tgp.io/v1/namespaces/default/gpurequests"
SHORT = timedelta(seconds=10)


def an_order(name: str) -> Call:
    body = {"type": "t4.1", "place": "us-west-1", "market": "on-demand", "name": name}
    return json_call("POST", "/v1/machines", body, timeout=SHORT)


def send(stage, host, call, place=SHOP):
    return stage.world.until(host.http(place).send(call))


def order(stage, host, name):
    return send(stage, host, an_order(name))


def a_patch(path: str, body: object) -> Call:
    headers = (("Content-Type", "application/merge-patch+json"),)
    return Call("PATCH", path, headers=headers, body=msgspec.json.encode(body), timeout=SHORT)


def caught(words: str):
    return pytest.raises(Violation, match=words)


def test_a_witness_of_a_good_purchase_says_nothing():
    """On paper, guarded, ordered once, given back with a reason, shown gone, let go: no accusation at all."""
    with lives("good") as stage:
        hand = a_hand(stage.world)
        a_class(stage.world, "rented", limits={"maxNodes": 1})
        stage.wants(maxHourlyPrice="1.00")
        order(stage, hand, reserve(stage))
        (machine,) = stage.living()
        stage.world.run(minutes=30)
        write(stage, conditions=[a_condition("Terminating", "Deleted")])
        send(stage, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))
        stage.world.run(minutes=1)
        write(stage, attempts=[an_attempt(stage, endedAt="2026-01-05T09:31:00Z", outcome="Returned")])
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        stage.drops()
        stage.world.run(minutes=10)

        assert stage.living() == []
        assert stage.witness.accusations == ()


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
    with lives("two", invariants=[OneMachine]) as stage, caught("I1: two machines for one request"):
        hand = a_hand(stage.world)
        stage.wants()
        order(stage, hand, token_of(stage, attempt=1))
        order(stage, hand, token_of(stage, attempt=2))


def test_a_second_machine_that_only_the_provider_made_has_the_settle_window():
    with lives("twins", invariants=[OneMachine]) as stage:
        hand = a_hand(stage.world)
        stage.wants()
        stage.shop.mishaps.aim(Mishap.MADE_TWICE)
        order(stage, hand, token_of(stage))
        stage.world.run(minutes=4)
        assert len(stage.living()) == 2
        with caught("I1: two machines for one request, for 30"):
            for _ in range(20):
                stage.world.run(seconds=10)
                send(stage, hand, Call("GET", "/v1/account", timeout=SHORT))


def test_a_machine_that_nobody_owns_is_an_orphan_after_300_seconds():
    with lives("orphan", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        stage.world.run(seconds=290)
        with caught("I2: nobody owns simulated sim-"):
            stage.world.run(seconds=20)
            send(stage, hand, Call("GET", "/v1/account", timeout=SHORT))


def test_the_orphans_clock_stands_while_its_provider_cannot_be_listed():
    with lives("standing", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        stage.world.run(seconds=100)
        send(stage, hand, Call("GET", "/v1/machines", timeout=SHORT))
        stage.world.network.partition("hand", SHOP)
        stage.world.run(hours=2)
        a_noise(stage)
        stage.world.network.heal("hand", SHOP)
        stage.shop.mishaps.aim(Mishap.ERROR, Verb.LIST)
        send(stage, hand, Call("GET", "/v1/machines", timeout=SHORT))
        stage.world.run(hours=2)
        a_noise(stage)
        send(stage, hand, Call("GET", "/v1/machines", timeout=SHORT))
        with caught("I2: nobody owns"):
            stage.world.run(seconds=250)
            a_noise(stage)


@pytest.mark.parametrize("mishap", [Mishap.EMPTY_BODY, Mishap.HANG_UP, Mishap.DELETE_IGNORED])
def test_an_end_that_comes_to_nothing_has_to_be_asked_for_again_in_time(mishap):
    with lives("swallowed", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        (machine,) = stage.living()
        end = Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT)
        for _ in range(3):
            stage.world.run(seconds=280)
            stage.shop.mishaps.aim(mishap, Verb.TERMINATE)
            with suppress(HttpError):
                send(stage, hand, end)
        assert stage.living() == [machine]
        with caught("I2: nobody owns simulated sim-"):
            stage.world.run(seconds=301)
            a_noise(stage)


def test_an_end_that_is_asked_for_in_vain_counts_for_nothing():
    """A wrong id is no mishap of the provider's."""
    with lives("in vain", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        stage.world.run(seconds=280)
        stage.shop.mishaps.aim(Mishap.HANG_UP, Verb.TERMINATE)
        with suppress(HttpError):
            send(stage, hand, Call("DELETE", "/v1/machines/sim-somebody-elses", timeout=SHORT))
        with caught("I2: nobody owns simulated sim-"):
            stage.world.run(seconds=30)
            a_noise(stage)


def a_noise(stage) -> None:
    """So that somebody looks."""
    stage.world.trace.note("test", "noise")
    stage.world.run(seconds=0.001)


def reign(stage, host, identity: str, seconds: float) -> None:
    """Somebody leads, and renews its Lease every ten seconds."""
    for _ in range(int(seconds // 10)):
        take_lease(stage, host, identity)
        stage.world.run(seconds=10)
    take_lease(stage, host, identity)


def test_leaders_who_are_gone_within_a_minute_do_not_age_an_orphan():
    with lives("brief reigns", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        take_lease(stage, hand, "first")
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        for number in range(20):
            reign(stage, hand, f"brief-{number}", 50)
        reign(stage, hand, "lasts", 280)
        with caught("I2: nobody owns .* for 30. s now"):
            reign(stage, hand, "lasts", 40)


def test_leaders_who_stay_are_held_to_all_of_their_time_and_the_wait_for_the_next():
    with lives("reigns", invariants=[NoOrphan]) as stage:
        hand = a_hand(stage.world)
        take_lease(stage, hand, "first")
        order(stage, hand, token_for(stage.witness.cluster, "f" * 32, 1))
        reign(stage, hand, "one", 70)
        stage.world.run(seconds=60)  # it is gone
        reign(stage, hand, "brief", 40)
        take_lease(stage, hand, "")  # lets go in good order
        stage.world.run(seconds=100)
        reign(stage, hand, "two", 160)
        with caught("I2: nobody owns .* for 30. s now"):
            reign(stage, hand, "two", 20)


def test_leaders_who_are_gone_within_a_minute_do_not_age_twins_either():
    with lives("brief reigns over twins", invariants=[OneMachine]) as stage:
        hand = a_hand(stage.world)
        stage.wants()
        take_lease(stage, hand, "first")
        stage.shop.mishaps.aim(Mishap.MADE_TWICE)
        order(stage, hand, token_of(stage))
        for number in range(20):
            reign(stage, hand, f"brief-{number}", 50)
        reign(stage, hand, "lasts", 280)
        with caught("I1: two machines for one request, for 30. s now"):
            reign(stage, hand, "lasts", 40)


def test_an_older_attempt_and_a_twin_are_orphans_too():
    with lives("older", invariants=[NoOrphan]) as stage, caught(r"I2: nobody owns .*-1, "):
        hand = a_hand(stage.world)
        stage.wants()
        order(stage, hand, token_of(stage, attempt=1))
        reserve(stage, number=2)
        stage.world.run(seconds=301)
        a_noise(stage)


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
    with lives("limits", invariants=[WithinLimits]) as stage, caught(words):
        a_class(stage.world, "rented", limits=limits)
        for name in ("one", "two"):
            stage.wants(name)
            reserve(stage, name)
            stage.world.run(seconds=1)


def test_a_machine_that_lives_counts_though_its_attempt_was_declared_over():
    with lives("counted", invariants=[WithinLimits]) as stage, caught("I3: class rented has 2 machines"):
        hand = a_hand(stage.world)
        a_class(stage.world, "rented", limits={"maxNodes": 1})
        stage.wants("one")
        order(stage, hand, reserve(stage, "one"))
        write(stage, "one", attempts=[an_attempt(stage, 1, "one", endedAt="2026-01-05T09:31:00Z")])
        stage.wants("two")
        reserve(stage, "two")
        a_noise(stage)


def test_an_order_above_the_ceiling_or_without_a_price_is_refused_by_nobody_but_seen():
    for price, words in (("0.51", r"I4: .* at \$0.51 an hour, above its \$0.50"), (None, "I4: .* at no price")):
        with lives("dear", invariants=[WithinPrice]) as stage, caught(words):
            hand = a_hand(stage.world)
            stage.wants(maxHourlyPrice="0.50")
            order(stage, hand, reserve(stage, price=price))


def test_a_machine_without_our_mark_is_seen():
    with lives("unmarked", invariants=[Findable]) as stage, caught("I5: no mark of ours"):
        order(stage, a_hand(stage.world), "my-lovely-machine")


def test_an_order_that_is_not_on_paper_is_seen():
    with lives("paper", invariants=[OneOrderPerAttempt]) as stage, caught("I6: .* where no such attempt is open"):
        stage.wants()
        order(stage, a_hand(stage.world), token_of(stage))


def test_an_attempt_that_is_ordered_twice_is_seen():
    with lives("again", invariants=[OneOrderPerAttempt]) as stage:
        hand = a_hand(stage.world)
        stage.wants()
        token = reserve(stage)
        stage.shop.mishaps.aim(Mishap.SOLD_OUT)
        order(stage, hand, token)  # refused for certain: this one did not count
        order(stage, hand, token)
        with caught("I6: .* which was ordered before"):
            order(stage, hand, token)


def test_an_attempt_before_the_last_one_is_over_is_seen():
    with lives("hasty", invariants=[OneOrderPerAttempt]) as stage, caught("I6: .* is not over"):
        hand = a_hand(stage.world)
        stage.wants()
        reserve(stage)
        write(stage, attempts=[an_attempt(stage, 1), an_attempt(stage, 2)])
        order(stage, hand, token_of(stage, attempt=2))


def test_a_request_that_never_stops_trying_is_seen():
    with lives("breeding", invariants=[BoundedOrders]) as stage:
        hand = a_hand(stage.world)
        stage.wants()
        stage.shop.mishaps.aim(Mishap.SOLD_OUT, times=3)
        stage.shop.mishaps.aim(Mishap.ERROR, Verb.LAUNCH, times=10)
        for number in range(1, 9):
            order(stage, hand, token_of(stage, attempt=number))
        with caught("I7: .* the 6th for that request"):
            order(stage, hand, token_of(stage, attempt=9))


def test_ending_somebody_elses_machine_is_seen():
    with lives("theirs", invariants=[EndsOnlyOurs]) as stage, caught("I8: we ended .* which is not ours"):
        hand = a_hand(stage.world)
        order(stage, hand, token_for("0123456789", "f" * 32, 1))
        stage.world.run(seconds=10)
        (machine,) = stage.living()
        send(stage, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))


def test_ending_a_machine_in_use_without_a_word_is_seen():
    with lives("unsaid", invariants=[NoEndWithoutReason]) as stage, caught("I9: .* does not say why"):
        hand = a_hand(stage.world)
        stage.wants()
        order(stage, hand, reserve(stage))
        stage.world.run(seconds=10)
        (machine,) = stage.living()
        send(stage, hand, Call("DELETE", f"/v1/machines/{machine.id}", timeout=SHORT))


def test_declaring_an_attempt_over_while_its_machine_runs_is_seen():
    with (
        lives("believed", invariants=[NoEndWithoutReason]) as stage,
        caught(r"I9: .* declares an attempt over \(Lost\)"),
    ):
        stage.wants()
        order(stage, a_hand(stage.world), reserve(stage))
        write(stage, attempts=[an_attempt(stage, endedAt="2026-01-05T09:31:00Z", outcome="Lost")])
        a_noise(stage)


# -- objects -----------------------------------------------------------------------------------------------------------


def test_an_order_before_the_finalizer_is_seen():
    with lives("unguarded", invariants=[FinalizerHolds]) as stage, caught("I13: .* no finalizer guards yet"):
        stage.wants()
        write(stage, attempts=[an_attempt(stage)])
        order(stage, a_hand(stage.world), token_of(stage))


def test_a_finalizer_that_goes_before_the_machine_is_seen():
    with lives("early", invariants=[FinalizerHolds]) as stage, caught("I13: default/train was let go while"):
        stage.wants()
        order(stage, a_hand(stage.world), reserve(stage))
        stage.world.api.backstage.merge_patch(GPU_REQUEST, "default", "train", {"metadata": {"finalizers": None}})
        a_noise(stage)


def test_a_write_that_would_overwrite_anything_is_seen():
    with lives("blind", invariants=[ConditionalWrites]) as stage, caught("I14: hand wrote .* whatever stood there"):
        stage.wants()
        patch = a_patch(f"{REQUESTS}/train/status", {"status": {"phase": "Pending"}})
        send(stage, a_hand(stage.world), patch, KUBERNETES)


def test_a_write_or_an_order_in_a_quiet_hour_is_seen():
    with lives("loud", invariants=[]) as stage, caught("I14: 1 changing calls in a quiet world: hand#1 POST"):
        hand = a_hand(stage.world)
        with Quiet(stage.world):
            order(stage, hand, "x")


def test_an_order_for_an_object_that_is_gone_is_seen():
    with lives("gone", invariants=[OwnUid]) as stage, caught("I16: .* for a request that does not exist"):
        stage.wants()
        token = token_of(stage)
        stage.drops()
        stage.wants()
        order(stage, a_hand(stage.world), token)


def test_a_node_of_an_earlier_object_of_that_name_is_not_taken():
    with lives("adopted", invariants=[OwnUid]) as stage, caught("I16: default/train took Node n1 for its own"):
        stage.wants()
        old = token_of(stage)
        stage.drops()
        stage.wants()
        create(stage.world, NODE, "n1", spec={"providerID": f"tgp://simulated/{old}"})
        write(stage, nodeName="n1", conditions=[a_condition("Ready", "Ready")])
        a_noise(stage)


def test_loose_ends_are_told_one_by_one():
    with lives("loose", invariants=[]) as stage:
        hand = a_hand(stage.world)
        for name in ("unattended", "ready", "over"):
            stage.wants(name)
        write(stage, "ready", phase="Ready")
        write(stage, "over", phase="Finished")
        order(stage, hand, token_of(stage, "over"))
        left = f"tgp://simulated/{token_of(stage, 'ready', 7)}"
        create(stage.world, NODE, "n1", spec={"providerID": left})

        said = "\n".join(loose_ends(stage.witness))
        assert "I17: nobody has attended to default/unattended" in said
        assert "I18: default/ready is Ready with no machine" in said
        assert "I18: default/over is Finished with simulated sim-" in said
        assert "I18: nobody owns simulated sim-" in said
        assert "I18: Node n1 is left over" in said


# -- leadership and time -----------------------------------------------------------------------------------------------

LEASES = "/apis/coordination.k8s.io/v1/namespaces/tgp-system/leases"


def take_lease(stage, host, identity: str) -> None:
    found = stage.world.api.backstage.get(LEASE, NAMESPACE_NAME, "tgp")
    renewed = stage.world.clock.now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    spec = {"holderIdentity": identity, "leaseDurationSeconds": 15, "renewTime": renewed}
    if found is None:
        call = json_call("POST", LEASES, {"metadata": {"name": "tgp"}, "spec": spec}, timeout=SHORT)
    else:
        call = a_patch(f"{LEASES}/tgp", {"spec": spec})
    assert send(stage, host, call, KUBERNETES).ok


def test_whoever_does_not_hold_the_lease_changes_nothing():
    with lives("usurper", invariants=[OneLeader]) as stage:
        one, two = a_hand(stage.world, "one"), a_hand(stage.world, "two")
        take_lease(stage, one, "one-abc")
        order(stage, one, "x")
        take_lease(stage, two, "two-def")
        order(stage, two, "y")
        with caught("I19: one/1 sent POST .* while two-def held the Lease"):
            order(stage, one, "z")


def test_a_leader_past_its_term_changes_nothing():
    with lives("late", invariants=[OneLeader]) as stage:
        one = a_hand(stage.world, "one")
        take_lease(stage, one, "one-abc")
        stage.world.run(seconds=9)
        order(stage, one, "x")
        stage.world.run(seconds=2)
        with caught(r"I19: one/1 sent POST .* 11\.. s after its last renewal"):
            order(stage, one, "y")


def test_a_life_that_ends_by_a_wrong_clock_is_seen():
    with lives("hurried", invariants=[TrueTime]) as stage, caught("I20: default/train ends as Expired after 36"):
        stage.wants(maxLifetime="2h")
        stage.world.run(hours=1)
        write(stage, conditions=[a_condition("Terminating", "Expired")])
        a_noise(stage)


def test_idleness_that_a_pod_disproves_is_seen():
    with lives("busy", invariants=[TrueTime]) as stage, caught("I20: default/train ends as Idle while 1 pods"):
        stage.wants()
        write(stage, nodeName="n1")
        stage.world.cluster.power_on(Machine("n1", devices={GPU: 1}))
        stage.world.run(minutes=1)
        stage.world.api.backstage.create(POD, a_pod(gpus=1))
        stage.world.run(hours=1)
        write(stage, conditions=[a_condition("Terminating", "Idle")])
        a_noise(stage)


def test_idleness_that_has_not_lasted_is_seen():
    with lives("restless", invariants=[TrueTime]) as stage, caught("I20: default/train ends as Idle after 600 s"):
        stage.wants()
        write(stage, nodeName="n1")
        stage.world.cluster.power_on(Machine("n1", devices={GPU: 1}))
        stage.world.run(minutes=1)
        stage.world.api.backstage.create(POD, a_pod(gpus=1))
        stage.world.run(hours=1)
        stage.world.api.backstage.delete(POD, "default", "pod", grace_seconds=0)
        stage.world.run(minutes=10)
        write(stage, conditions=[a_condition("Terminating", "Idle")])
        a_noise(stage)


# -- secrets and places ------------------------------------------------------------------------------------------------

CANARY = "canary-9f31-nobody-says-this"


@pytest.mark.parametrize("where", ["object", "address", "log"])
def test_a_planted_secret_that_is_said_is_heard(where):
    with lives("canary", invariants=[]) as stage:
        hand = a_hand(stage.world)
        ears = stage.witness.add(NoCanary(stage.witness, [CANARY]))
        words = {"object": "what hand wrote", "address": "an address that hand called", "log": "a log line of tgp.test"}
        with caught(f"I21: the secret canary-9… is in {words[where]}"):
            if where == "object":
                body = {"metadata": {"name": "x"}, "data": {"note": f"key {CANARY}"}}
                send(stage, hand, json_call("POST", "/api/v1/namespaces/default/configmaps", body), KUBERNETES)
            elif where == "address":
                send(stage, hand, Call("GET", "/v1/offers", (("api_key", CANARY),), timeout=SHORT))
            else:
                logging.getLogger("tgp.test").warning("careless: %s", CANARY)
            a_noise(stage)
        ears.close()


@pytest.mark.parametrize(
    "path", ["/api/v1/secrets", "/api/v1/namespaces/default/secrets", "/api/v1/namespaces/kube-system/secrets/x"]
)
def test_a_secret_read_anywhere_else_is_seen(path):
    with lives("prying", invariants=[OwnSecretsOnly]) as stage:
        hand = a_hand(stage.world)
        send(stage, hand, Call("GET", f"/api/v1/namespaces/{NAMESPACE_NAME}/secrets/x", timeout=SHORT), KUBERNETES)
        with caught("I22: hand/1 asked for GET"):
            send(stage, hand, Call("GET", path, timeout=SHORT), KUBERNETES)


def test_a_call_to_a_place_nobody_named_is_seen():
    with lives("astray", invariants=[]) as stage, caught("I23: hand/1 called GET http://169.254.169.254/latest"):
        stage.witness.add(KnownPlaces(stage.witness, [SHOP]))
        hand = a_hand(stage.world)
        send(stage, hand, Call("GET", "/v1/offers", timeout=SHORT))
        with pytest.raises(HttpError):
            send(stage, hand, Call("GET", "/latest", timeout=SHORT), "http://169.254.169.254")
        a_noise(stage)


def test_other_accounts_machines_are_nobodys_business():
    """What another tool runs in the same account is neither ours nor unmarked."""
    with lives("others") as stage:
        stage.shop.fleet.add_foreign(stage.shop.fleet.accounts.open(Tenant("other")), 3)
        stage.world.run(hours=1)
        a_noise(stage)

        assert stage.witness.everything() == []


def test_guarding_alone_is_no_order():
    with lives("still") as stage:
        stage.wants()
        guard(stage)
        stage.world.run(hours=1)

        assert stage.witness.accusations == ()
