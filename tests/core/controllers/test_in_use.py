"""A class and a Secret outlive the machines that need them, and no longer."""

import asyncio

import msgspec
import pytest
from msgspec.structs import replace

from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tests.core.controllers.inventory import HOME, KEYS, MemoryApi, secret_key
from tgp.adapters.kube.operator_cluster import OperatorCluster
from tgp.api.nodeclass import ProviderSettings
from tgp.api.resource import GPU_NODE_CLASS, GPU_REQUEST, SECRET
from tgp.controllers.instances.in_use import ENSURED_FOR, ClassInUse, SecretInUse
from tgp.core.inventory.in_use import IN_USE, LET_GO_AFTER, edited
from tgp.core.model.account_access import AccountAccess
from tgp.core.model.cloud_account import CloudAccount, account_of
from tgp.core.model.object_key import ObjectKey
from tgp.ports.cluster import Conflict
from tgp.sim.loop import VirtualLoop
from tgp.sim.loop import close as close_loop

OTHERS = ["example.com/theirs"]
RENTED = ObjectKey("", "rented")


@pytest.fixture
def loop():
    loop = VirtualLoop()
    yield loop
    close_loop(loop)


@pytest.fixture
def memory_api(loop):
    return MemoryApi(loop)


def classes_of(memory_api: MemoryApi) -> ClassInUse:
    return ClassInUse(memory_api.classes, memory_api.requests, memory_api.cluster, memory_api.clock)


def secrets_of(memory_api: MemoryApi, *known: CloudAccount) -> SecretInUse:
    known = known or (replace(KEYS, empty_since=memory_api.clock.now()),)
    accounts = accounts_on(MemoryConfigMap(*known), memory_api.requests, memory_api.clock)
    return SecretInUse(memory_api.requests, accounts, memory_api.cluster, memory_api.clock, namespace=HOME)


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


def test_a_class_is_held_while_a_machine_of_it_may_live(loop, memory_api):
    memory_api.a_class(metadata={"finalizers": OTHERS})
    memory_api.a_request()
    memory_api.look()
    holds = classes_of(memory_api)

    loop.run_until_complete(holds.reconcile(RENTED))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == [*OTHERS, IN_USE]

    memory_api.attempt("train", endedAt="2026-11-16T12:00:00Z", outcome="Terminated")
    memory_api.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == OTHERS
    assert len(memory_api.line.changes) == 2

    memory_api.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert len(memory_api.line.changes) == 2, "what is right is not written"


def test_a_class_that_is_deleted_goes_when_its_last_machine_is_gone(loop, memory_api):
    memory_api.a_class()
    memory_api.a_request()
    memory_api.look()
    holds = classes_of(memory_api)
    loop.run_until_complete(holds.reconcile(RENTED))
    memory_api.server.local_api.delete(GPU_NODE_CLASS, "", "rented")
    memory_api.look()

    loop.run_until_complete(holds.reconcile(RENTED))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == [IN_USE]
    assert loop.run_until_complete(holds.ensure("rented")) == "GPUNodeClass rented is being deleted"

    loop.run_until_complete(_pass(LET_GO_AFTER.total_seconds()))
    memory_api.attempt("train", endedAt="2026-11-16T12:00:00Z")
    memory_api.look()
    loop.run_until_complete(holds.reconcile(RENTED))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") is None


def test_a_hold_that_a_purchase_asked_for_is_not_let_go_by_a_view_that_lags(loop, memory_api):
    memory_api.a_class()
    memory_api.a_secret()
    memory_api.look()
    classes, secrets = classes_of(memory_api), secrets_of(memory_api)
    assert loop.run_until_complete(classes.ensure("rented")) is None
    assert loop.run_until_complete(secrets.ensure("keys")) is None
    memory_api.look()

    again = loop.run_until_complete(classes.reconcile(RENTED))
    later = loop.run_until_complete(secrets.reconcile(secret_key()))

    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == [IN_USE]
    assert memory_api.finalizers(SECRET, HOME, "keys") == [IN_USE]
    for moment in (again, later):
        assert moment is not None
        assert 0 < (moment - memory_api.clock.now()).total_seconds() <= LET_GO_AFTER.total_seconds()
    loop.run_until_complete(_pass(LET_GO_AFTER.total_seconds()))
    loop.run_until_complete(classes.reconcile(RENTED))
    loop.run_until_complete(secrets.reconcile(secret_key()))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == []
    assert memory_api.finalizers(SECRET, HOME, "keys") == []


def test_a_secret_is_held_while_an_attempt_that_names_it_is_open(loop, memory_api):
    memory_api.a_secret(metadata={"finalizers": OTHERS})
    memory_api.a_request()
    memory_api.look()
    holds = secrets_of(memory_api)

    again = loop.run_until_complete(holds.reconcile(secret_key()))
    assert memory_api.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]
    assert again is not None, "Secrets are not watched: it is looked at again"

    memory_api.server.local_api.delete(SECRET, HOME, "keys")
    loop.run_until_complete(holds.reconcile(secret_key()))
    assert memory_api.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]
    assert loop.run_until_complete(holds.ensure("keys")) == "Secret keys is being deleted"

    memory_api.attempt("train", endedAt="2026-11-16T12:00:00Z")
    memory_api.look()
    assert loop.run_until_complete(holds.reconcile(secret_key())) is None
    assert memory_api.finalizers(SECRET, HOME, "keys") == OTHERS


def test_no_patch_carries_a_secrets_value(loop, memory_api):
    memory_api.a_secret()
    loop.run_until_complete(secrets_of(memory_api).ensure("keys"))

    (call,) = memory_api.line.changes
    assert set(msgspec.json.decode(call.body)) == {"metadata"}
    assert set(msgspec.json.decode(call.body)["metadata"]) == {"finalizers", "resourceVersion", "uid"}


def test_a_secret_that_is_not_there_is_nothing_to_hold(loop, memory_api):
    memory_api.a_request()
    memory_api.look()
    holds = secrets_of(memory_api)

    assert loop.run_until_complete(holds.reconcile(secret_key())) is None
    assert loop.run_until_complete(holds.ensure("keys")) == f"Secret keys does not exist in namespace {HOME}"
    assert memory_api.line.changes == []


def test_many_purchases_with_one_key_look_at_its_secret_once_a_minute(loop, memory_api):
    memory_api.a_secret()
    holds = secrets_of(memory_api)
    for _ in range(20):
        assert loop.run_until_complete(holds.ensure("keys")) is None
    assert memory_api.line.looks == 1

    loop.run_until_complete(_pass(ENSURED_FOR))
    loop.run_until_complete(holds.ensure("keys"))
    assert memory_api.line.looks == 2
    assert len(memory_api.line.changes) == 1


def test_purchases_that_begin_at_once_write_each_hold_once(loop, memory_api):
    memory_api.a_class()
    memory_api.a_secret()
    memory_api.look()
    noting = OperatorCluster(memory_api.cluster, {GPU_NODE_CLASS: (memory_api.classes,)})
    classes = ClassInUse(memory_api.classes, memory_api.requests, noting, memory_api.clock)
    secrets = secrets_of(memory_api)

    async def begin() -> list[str | None]:
        tasks = [
            asyncio.create_task(each) for _ in range(16) for each in (classes.ensure("rented"), secrets.ensure("keys"))
        ]
        await asyncio.sleep(1)
        memory_api.look()
        return await asyncio.gather(*tasks)

    assert loop.run_until_complete(begin()) == [None] * 32
    assert len(memory_api.line.changes) == 2


def test_a_secret_that_others_write_at_the_same_time_loses_nothing(loop, memory_api):
    memory_api.a_secret()
    holds = secrets_of(memory_api)
    read = memory_api.cluster.read

    async def overtaken(resource, key):
        found = await read(resource, key)
        if memory_api.line.looks == 1:
            memory_api.server.local_api.merge_patch(SECRET, HOME, "keys", {"metadata": {"finalizers": OTHERS}})
        return found

    memory_api.cluster.read = overtaken
    assert loop.run_until_complete(holds.ensure("keys")) is None
    assert memory_api.finalizers(SECRET, HOME, "keys") == [*OTHERS, IN_USE]


def test_a_class_that_changed_since_it_was_seen_is_not_overwritten(loop, memory_api):
    memory_api.a_class()
    memory_api.a_request()
    memory_api.look()
    memory_api.server.local_api.merge_patch(GPU_NODE_CLASS, "", "rented", {"metadata": {"finalizers": OTHERS}})

    with pytest.raises(Conflict):
        loop.run_until_complete(classes_of(memory_api).reconcile(RENTED))
    assert memory_api.finalizers(GPU_NODE_CLASS, "", "rented") == OTHERS


def test_the_headers_of_a_machine_you_own_are_held_like_its_key(loop, memory_api):
    switch = {"name": "cellar", "gpuCount": 1, "scaleUpEndpoint": "http://a/", "scaleDownEndpoint": "http://b/"}
    machine = {**switch, "headersSecretRef": {"name": "headers", "key": "h"}}
    settings = msgspec.convert({"machines": [machine]}, ProviderSettings)
    holds = secrets_of(memory_api, account_of(AccountAccess("webhook", settings=settings), ""))
    memory_api.a_secret("headers")
    loop.run_until_complete(holds.reconcile(secret_key("headers")))

    assert memory_api.finalizers(SECRET, HOME, "headers") == [IN_USE]


def test_the_key_of_a_remembered_account_with_machines_is_held_although_no_request_names_it(loop, memory_api):
    """No class names it any more, and the operator was restarted since: its machines are terminated with that key."""
    memory_api.a_secret()
    loop.run_until_complete(secrets_of(memory_api, KEYS).reconcile(secret_key()))
    assert memory_api.finalizers(SECRET, HOME, "keys") == [IN_USE]

    loop.run_until_complete(secrets_of(memory_api).reconcile(secret_key()))
    assert memory_api.finalizers(SECRET, HOME, "keys") == [], "it was seen empty"


def test_what_begins_or_ceases_to_be_needed_wakes_its_keeper(memory_api):
    memory_api.a_request()
    memory_api.look()
    classes, secrets = classes_of(memory_api), secrets_of(memory_api)
    before = memory_api.requests.get(ObjectKey("default", "train"))
    memory_api.status("train", message="getting on")
    memory_api.look()
    same = memory_api.requests.get(ObjectKey("default", "train"))
    memory_api.attempt("train", endedAt="2026-11-16T12:00:00Z")
    memory_api.look()
    over = memory_api.requests.get(ObjectKey("default", "train"))

    assert list(classes.of_request(None, before)) == [RENTED]
    assert list(classes.of_request(before, same)) == []
    assert list(classes.of_request(same, over)) == [RENTED]
    assert list(secrets.of_request(None, before)) == [secret_key()]
    assert list(secrets.of_request(before, same)) == []
    assert list(secrets.of_request(same, over)) == [secret_key()]
    assert list(secrets.of_request(None, over)) == [secret_key()], "a new leader may have to let it go"
    assert list(secrets.of_request(over, None)) == [secret_key()]


def test_a_request_that_only_a_newer_version_can_read_still_holds(memory_api):
    memory_api.a_request()
    memory_api.look()
    record = memory_api.requests.get(ObjectKey("default", "train"))
    assert record is not None
    unreadable = msgspec.structs.replace(record, value=None, unreadable="from the future")

    assert list(classes_of(memory_api).of_request(None, unreadable)) == [RENTED]
    assert list(secrets_of(memory_api).of_request(None, unreadable)) == [secret_key()]
    assert memory_api.finalizers(GPU_REQUEST, "default", "train") == []


async def _pass(seconds: float) -> None:
    await asyncio.sleep(seconds)
