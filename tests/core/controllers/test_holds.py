"""A class and a Secret outlive the machines that need them, and no longer."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from tests.core.controllers.accounts import Paper, accounts_on
from tests.core.controllers.holding import HOME, KEYS, House, secret_key
from tgp.adapters.kube.noting import NotingCluster
from tgp.api.nodeclass import ProviderSettings
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, SECRET
from tgp.controllers.holds import ENSURED_FOR, LET_GO_AFTER, ClassHolds, SecretHolds
from tgp.core.model.cloud_account import CloudAccount, account_of
from tgp.core.model.key import Key
from tgp.core.model.till import Till
from tgp.core.rules.holds import IN_USE, edited
from tgp.ports.cluster import Conflict
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop

OTHERS = ["example.com/theirs"]
RENTED = Key("", "rented")


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    close_loop(loop)


@pytest.fixture
def house(loop):
    return House(loop)


def classes_of(house: House) -> ClassHolds:
    return ClassHolds(house.classes, house.requests, house.cluster, house.clock)


def secrets_of(house: House, *known: CloudAccount) -> SecretHolds:
    known = known or (replace(KEYS, empty_since=house.clock.now()),)
    accounts = accounts_on(Paper(*known), house.requests, house.clock)
    return SecretHolds(house.requests, accounts, house.cluster, house.clock, namespace=HOME)


@pytest.mark.parametrize(
    ("before", "held", "after"),
    [
        ([], True, [IN_USE]),
        (["a", "b"], True, ["a", "b", IN_USE]),
        (["a", IN_USE, "b"], False, ["a", "b"]),
        (["a", IN_USE], True, None),
        (["a"], False, None),
    ],
)
def test_only_our_own_finalizer_is_put_in_or_taken_out(before, held, after):
    assert edited(before, held=held) == after


def test_a_class_is_held_while_a_machine_of_it_may_live(loop, house):
    house.a_class(metadata={"finalizers": OTHERS})
    house.a_request()
    house.look()
    holds = classes_of(house)

    loop.run_until_complete(holds.reconcile(RENTED))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == [*OTHERS, IN_USE]

    house.attempt("train", endedAt="2026-11-16T12:00:00Z", outcome="Returned")
    house.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == OTHERS
    assert len(house.line.changes) == 2

    house.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert len(house.line.changes) == 2, "what is right is not written"


def test_a_class_that_is_deleted_goes_when_its_last_machine_is_gone(loop, house):
    house.a_class()
    house.a_request()
    house.look()
    holds = classes_of(house)
    loop.run_until_complete(holds.reconcile(RENTED))
    house.server.backstage.delete(GPU_NODE_CLASS, "", "rented")
    house.look()

    loop.run_until_complete(holds.reconcile(RENTED))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == [IN_USE]
    assert loop.run_until_complete(holds.ensure("rented")) == "GPUNodeClass rented is being deleted"

    loop.run_until_complete(_pass(LET_GO_AFTER))
    house.attempt("train", endedAt="2026-11-16T12:00:00Z")
    house.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") is None


def test_a_hold_that_a_purchase_asked_for_is_not_let_go_by_a_view_that_lags(loop, house):
    house.a_class()
    house.a_secret()
    house.look()
    classes, secrets = classes_of(house), secrets_of(house)
    assert loop.run_until_complete(classes.ensure("rented")) is None
    assert loop.run_until_complete(secrets.ensure("keys")) is None
    house.look()

    again = loop.run_until_complete(classes.reconcile(RENTED))
    later = loop.run_until_complete(secrets.reconcile(secret_key()))

    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == [IN_USE]
    assert house.finalizers(SECRET, HOME, "keys") == [IN_USE]
    for moment in (again, later):
        assert moment is not None
        assert 0 < (moment - house.clock.now()).total_seconds() <= LET_GO_AFTER
    loop.run_until_complete(_pass(LET_GO_AFTER))
    loop.run_until_complete(classes.reconcile(RENTED))
    loop.run_until_complete(secrets.reconcile(secret_key()))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == []
    assert house.finalizers(SECRET, HOME, "keys") == []


def test_a_secret_is_held_while_an_attempt_that_names_it_is_open(loop, house):
    house.a_secret(metadata={"finalizers": OTHERS})
    house.a_request()
    house.look()
    holds = secrets_of(house)

    again = loop.run_until_complete(holds.reconcile(secret_key()))
    assert house.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]
    assert again is not None, "Secrets are not watched: it is looked at again"

    house.server.backstage.delete(SECRET, HOME, "keys")
    loop.run_until_complete(holds.reconcile(secret_key()))
    assert house.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]
    assert loop.run_until_complete(holds.ensure("keys")) == "Secret keys is being deleted"

    house.attempt("train", endedAt="2026-11-16T12:00:00Z")
    house.look()
    assert loop.run_until_complete(holds.reconcile(secret_key())) is None
    assert house.finalizers(SECRET, HOME, "keys") == OTHERS


def test_no_patch_carries_a_secrets_value(loop, house):
    house.a_secret()
    loop.run_until_complete(secrets_of(house).ensure("keys"))

    (call,) = house.line.changes
    assert set(msgspec.json.decode(call.body)) == {"metadata"}
    assert set(msgspec.json.decode(call.body)["metadata"]) == {"finalizers", "resourceVersion", "uid"}


def test_a_secret_that_is_not_there_is_nothing_to_hold(loop, house):
    house.a_request()
    house.look()
    holds = secrets_of(house)

    assert loop.run_until_complete(holds.reconcile(secret_key())) is None
    assert loop.run_until_complete(holds.ensure("keys")) == f"there is no Secret keys in namespace {HOME}"
    assert house.line.changes == []


def test_many_purchases_with_one_key_look_at_its_secret_once_a_minute(loop, house):
    house.a_secret()
    holds = secrets_of(house)
    for _ in range(20):
        assert loop.run_until_complete(holds.ensure("keys")) is None
    assert house.line.looks == 1

    loop.run_until_complete(_pass(ENSURED_FOR))
    loop.run_until_complete(holds.ensure("keys"))
    assert house.line.looks == 2
    assert len(house.line.changes) == 1


def test_purchases_that_begin_at_once_write_each_hold_once(loop, house):
    house.a_class()
    house.a_secret()
    house.look()
    noting = NotingCluster(house.cluster, {GPU_NODE_CLASS: (house.classes,)})
    classes = ClassHolds(house.classes, house.requests, noting, house.clock)
    secrets = secrets_of(house)

    async def begin() -> list[str | None]:
        tasks = [
            asyncio.create_task(each) for _ in range(16) for each in (classes.ensure("rented"), secrets.ensure("keys"))
        ]
        await asyncio.sleep(1)
        house.look()
        return await asyncio.gather(*tasks)

    assert loop.run_until_complete(begin()) == [None] * 32
    assert len(house.line.changes) == 2


def test_a_secret_that_others_write_at_the_same_time_loses_nothing(loop, house):
    house.a_secret()
    holds = secrets_of(house)
    read = house.cluster.read

    async def overtaken(resource, key):
        found = await read(resource, key)
        if house.line.looks == 1:
            house.server.backstage.merge_patch(SECRET, HOME, "keys", {"metadata": {"finalizers": OTHERS}})
        return found

    house.cluster.read = overtaken
    assert loop.run_until_complete(holds.ensure("keys")) is None
    assert house.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]


def test_a_class_that_changed_since_it_was_seen_is_not_overwritten(loop, house):
    house.a_class()
    house.a_request()
    house.look()
    house.server.backstage.merge_patch(GPU_NODE_CLASS, "", "rented", {"metadata": {"finalizers": OTHERS}})

    with pytest.raises(Conflict):
        loop.run_until_complete(classes_of(house).reconcile(RENTED))
    assert house.finalizers(GPU_NODE_CLASS, "", "rented") == OTHERS


def test_the_headers_of_a_machine_you_own_are_held_like_its_key(loop, house):
    switch = {"name": "cellar", "gpuCount": 1, "scaleUpEndpoint": "http://a/", "scaleDownEndpoint": "http://b/"}
    machine = {**switch, "headersSecretRef": {"name": "headers", "key": "h"}}
    settings = msgspec.convert({"machines": [machine]}, ProviderSettings)
    holds = secrets_of(house, account_of(Till("webhook", settings=settings), ""))
    house.a_secret("headers")
    loop.run_until_complete(holds.reconcile(secret_key("headers")))

    assert house.finalizers(SECRET, HOME, "headers") == [IN_USE]


def test_the_key_of_a_remembered_account_with_machines_is_held_although_no_request_names_it(loop, house):
    """No class names it any more, and the operator was restarted since: its machines are terminated with that key."""
    house.a_secret()
    loop.run_until_complete(secrets_of(house, KEYS).reconcile(secret_key()))
    assert house.finalizers(SECRET, HOME, "keys") == [IN_USE]

    loop.run_until_complete(secrets_of(house).reconcile(secret_key()))
    assert house.finalizers(SECRET, HOME, "keys") == [], "it was seen empty"


def test_what_begins_or_ceases_to_be_needed_wakes_its_keeper(house):
    house.a_request()
    house.look()
    classes, secrets = classes_of(house), secrets_of(house)
    before = house.requests.get(Key("default", "train"))
    house.status("train", message="getting on")
    house.look()
    same = house.requests.get(Key("default", "train"))
    house.attempt("train", endedAt="2026-11-16T12:00:00Z")
    house.look()
    over = house.requests.get(Key("default", "train"))

    assert list(classes.of_request(None, before)) == [RENTED]
    assert list(classes.of_request(before, same)) == []
    assert list(classes.of_request(same, over)) == [RENTED]
    assert list(secrets.of_request(None, before)) == [secret_key()]
    assert list(secrets.of_request(before, same)) == []
    assert list(secrets.of_request(same, over)) == [secret_key()]
    assert list(secrets.of_request(None, over)) == [secret_key()], "a new leader may have to let it go"
    assert list(secrets.of_request(over, None)) == [secret_key()]


def test_a_request_that_only_a_newer_version_can_read_still_holds(house):
    house.a_request()
    house.look()
    record = house.requests.get(Key("default", "train"))
    assert record is not None
    unreadable = msgspec.structs.replace(record, object=None, unreadable="from the future")

    assert list(classes_of(house).of_request(None, unreadable)) == [RENTED]
    assert list(secrets_of(house).of_request(None, unreadable)) == [secret_key()]
    assert house.finalizers(GPU_REQUEST, "default", "train") == []


async def _pass(seconds: float) -> None:
    await asyncio.sleep(seconds)
