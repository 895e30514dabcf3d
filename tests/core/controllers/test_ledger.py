"""The one ledger: checking and noting is one step, and what is on its way counts."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.core.controllers.account_access import HandClock
from tests.core.controllers.accounts import MemoryConfigMap, accounts_on
from tests.core.requests.an_observation import ACCOUNT, CLUSTER, NOW, OFFER, a_machine, over
from tgp.adapters.kube.store import Store
from tgp.api.nodeclass import ClassLimits
from tgp.api.nodepool import PoolLimits
from tgp.api.request import GPURequest, GPURequestSpec, GPURequestStatus
from tgp.api.resource import GPU_REQUEST
from tgp.controllers.instances.accounts import AccountTable
from tgp.controllers.instances.cache import InstanceCache, InstanceSnapshot
from tgp.controllers.requests.indexes import INDEXES
from tgp.controllers.requests.ledger import BELIEVED_GONE_AFTER, GroupLimits, Ledger, VanishedRequests, groups_of
from tgp.core.inventory.limits import Reservation
from tgp.core.model.attempts import attempts_of, open_attempt
from tgp.core.model.instance import Instance, InstanceState
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.pod import OwnerRef
from tgp.core.model.record import pack_uid
from tgp.core.model.token import plain_uid, token_for

TWO = ClassLimits(max_nodes=2)


def uid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def a_record(number: int, *attempts, version: int = 1, node_class: str = "rented", **rest) -> KubeObject[GPURequest]:
    own = rest.pop("bought_by", number)
    rows = tuple(msgspec.structs.replace(row, token=token_for(CLUSTER, uid(own), row.number)) for row in attempts)
    status = GPURequestStatus(attempts=rows, node_class=node_class)
    fields = {"value": GPURequest(spec=GPURequestSpec(gpu_type="RTX4090"), status=status), **rest}
    return KubeObject(
        key=ObjectKey("default", f"r{number}"), uid=pack_uid(uid(number)), resource_version=version, **fields
    )


def a_ledger(*records, counts=lambda _record, _attempt: True):
    store = Store(GPU_REQUEST, INDEXES)
    for record in records:
        store.put(record)
    ledger = Ledger(counts=counts, now=lambda: NOW)
    store.subscribe(ledger.notice)
    return store, ledger


def reserve(ledger: Ledger, limits: ClassLimits, wanted: Reservation) -> str:
    return ledger.reserve([GroupLimits("rented", limits)], wanted)


def the_table(store: Store) -> AccountTable:
    return accounts_on(MemoryConfigMap(ACCOUNT), store, HandClock())


def wanted(number: int) -> Reservation:
    return Reservation(plain_uid(uid(number)), 400_000)


def test_what_lives_counts_and_what_is_over_does_not():
    _, ledger = a_ledger(a_record(1, a_machine()), a_record(2, over()), a_record(3, a_machine(), node_class="other"))

    assert ledger.used("rented").nodes == 1
    assert ledger.used("rented", without=plain_uid(uid(1))).nodes == 0


def test_a_reservation_counts_before_the_view_shows_it():
    _, ledger = a_ledger()

    assert reserve(ledger, TWO, wanted(1)) == ""
    assert reserve(ledger, TWO, wanted(2)) == ""
    assert "maxNodes" in reserve(ledger, TWO, wanted(3))


def test_a_request_counts_once_however_often_it_reserves():
    _, ledger = a_ledger(a_record(1, a_machine()))

    for _ in range(5):
        assert reserve(ledger, TWO, wanted(1)) == ""
    assert ledger.used("rented").nodes == 1


def test_a_reservation_that_was_never_written_is_terminated():
    _, ledger = a_ledger()
    reserve(ledger, ClassLimits(max_nodes=1), wanted(1))
    ledger.seen(uid(1))

    assert reserve(ledger, ClassLimits(max_nodes=1), wanted(2)) == ""


def test_an_object_of_a_newer_version_still_counts():
    attempt = {"number": 1, "token": token_for("abcdef0123", uid(1), 1), "offer": "an unknown shape"}
    document = msgspec.json.encode({"nodeClass": "rented", "attempts": [attempt]})
    _, ledger = a_ledger(a_record(1, value=None, status_document=document, unreadable="newer"))

    assert ledger.used("rented").nodes == 1


def test_a_restored_copy_holds_nothing():
    _, ledger = a_ledger(a_record(1, a_machine(), bought_by=9))

    assert ledger.used("rented").nodes == 0


def test_an_edited_annotation_makes_no_room():
    _, ledger = a_ledger(a_record(1, a_machine(), annotations={"tgp.io/uid": uid(9)}))

    assert ledger.used("rented").nodes == 1
    assert ledger.used("rented", without=plain_uid(uid(1))).nodes == 0


def test_a_record_that_becomes_anothers_counts_until_its_own_machine_is_shown_gone():
    """A client wrote another request's attempts over its own."""
    store, _ = a_ledger()
    ghosts = VanishedRequests(InstanceCache(lambda: 1000.0), the_table(store), HandClock())
    store.subscribe(ghosts.notice)
    store.put(a_record(1, a_machine()))
    store.put(a_record(1, a_machine(), version=2, bought_by=9))

    assert [each.uid for each in ghosts.of("rented")] == [plain_uid(uid(1))]


def test_a_request_that_vanished_with_its_machine_counts_until_the_machine_is_shown_gone():
    """The finalizer was removed by force: the machine is still billed."""
    clock = HandClock()
    store, _ = a_ledger()
    instance_cache = InstanceCache(clock.boottime)
    ghosts = VanishedRequests(instance_cache, the_table(store), clock)
    store.subscribe(ghosts.notice)
    attempt = a_machine()
    attempt = msgspec.structs.replace(attempt, token=token_for("abcdef0123", uid(1), 1), offer=OFFER)
    access = ACCOUNT.access
    machine = Instance("i-1", attempt.token, InstanceState.RUNNING)
    store.put(a_record(1, attempt))
    store.drop(a_record(1, attempt, version=2))
    ledger = Ledger(ghosts.of, now=lambda: NOW)
    store.subscribe(ledger.notice)

    assert ledger.used("rented").nodes == 1
    instance_cache.put(access.name, InstanceSnapshot("a-1", clock.seconds + 1, (machine,)))
    clock.seconds += 3600
    assert ledger.used("rented").nodes == 1
    instance_cache.put(access.name, InstanceSnapshot("a-1", 1000.0 + BELIEVED_GONE_AFTER, ()))
    assert ledger.used("rented").nodes == 1
    instance_cache.put(access.name, InstanceSnapshot("a-1", 1001.0 + BELIEVED_GONE_AFTER, ()))
    assert ledger.used("rented").nodes == 0


def test_a_machine_counts_on_when_the_status_that_named_it_is_erased():
    """The next request was admitted while the forgotten machine was still billed."""
    instance_cache = InstanceCache(lambda: 1000.0)
    ghosts = VanishedRequests(instance_cache, the_table(Store(GPU_REQUEST, INDEXES)), HandClock())
    before = a_record(1, msgspec.structs.replace(a_machine(), token=token_for("abcdef0123", uid(1), 1), offer=OFFER))

    ghosts.notice(before, a_record(1, version=2))

    assert [each.uid for each in ghosts.of("rented")] == [plain_uid(uid(1))]


POOL, OTHER = ObjectKey("default", "train"), ObjectKey("default", "serve")


def of_pool(key: ObjectKey) -> tuple[OwnerRef, ...]:
    return (OwnerRef(kind="GPUNodePool", name=key.name, uid="p-1", controller=True),)


def test_a_machine_of_a_pool_counts_against_its_class_and_its_pool():
    _, ledger = a_ledger(
        a_record(1, a_machine(), owners=of_pool(POOL)), a_record(2, a_machine(), owners=of_pool(OTHER))
    )
    one_each = PoolLimits(resources={"nodes": 1})

    assert [ledger.used(group).nodes for group in ("rented", POOL, OTHER)] == [2, 1, 1]
    limited = [GroupLimits("rented", ClassLimits(max_nodes=9)), GroupLimits(POOL, one_each)]
    why = "Pool default/train: limits.resources[nodes] is 1, and 1 are in use"
    assert ledger.reserve(limited, wanted(3)) == why
    assert ledger.used("rented").nodes == 2, "what does not fit one limit is noted for none"
    assert ledger.reserve([GroupLimits("rented", TWO), GroupLimits(POOL, None)], wanted(3)).startswith("Class rented: ")
    assert ledger.reserve([GroupLimits("rented", None), GroupLimits(POOL, None)], wanted(3)) == ""
    assert [ledger.used(group).nodes for group in ("rented", POOL, OTHER)] == [3, 2, 1]


def test_a_reservation_is_counted_by_the_record_once_that_shows_it():
    store, ledger = a_ledger(a_record(1, owners=of_pool(POOL)))
    ledger.reserve([GroupLimits("rented", None), GroupLimits(POOL, None)], wanted(1))
    store.put(a_record(1, a_machine(hourly_price="0.60"), version=2, owners=of_pool(POOL)))

    assert ledger.used(POOL).microusd == 400_000, "as it was reserved"
    ledger.seen(uid(1))
    assert [ledger.used(group).microusd for group in ("rented", POOL)] == [600_000, 600_000]
    store.put(a_record(1, over(), version=3, owners=of_pool(POOL)))
    assert [ledger.used(group).nodes for group in ("rented", POOL)] == [0, 0]


def test_a_vanished_request_of_a_pool_counts_against_the_pool_too():
    store, _ = a_ledger()
    ghosts = VanishedRequests(InstanceCache(lambda: 1000.0), the_table(store), HandClock())
    ghosts.notice(a_record(1, a_machine(), owners=of_pool(POOL)), None)

    assert [len(ghosts.of(group)) for group in ("rented", POOL, OTHER)] == [1, 1, 0]


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 3)), max_size=20))
def test_the_sums_are_those_of_the_records_whatever_happened_before(changes):
    store, ledger = a_ledger()
    version = 1
    for number, what in changes:
        version += 1
        if what == 0:
            store.drop(a_record(number, version=version))
        else:
            pools = (POOL, POOL, OTHER)
            rows = (a_machine(),) if what > 1 else ()
            store.put(a_record(number, *rows, version=version, owners=of_pool(pools[what - 1])))

    for group in ("rented", POOL, OTHER):
        living = [each for each in store.values() if group in groups_of(each) and open_attempt(attempts_of(each))]
        assert (ledger.used(group).nodes, ledger.used(group).microusd) == (len(living), 400_000 * len(living))


def lost(minutes: float, number: int = 1):
    until = NOW + timedelta(minutes=minutes)
    row = over(number, "Lost", instance_id="i-1", hourly_price="0.40", counts_until=until)
    return msgspec.structs.replace(row, ended_at=until - timedelta(hours=1))


def test_a_machine_that_lists_alone_declared_gone_counts_on_beside_its_successor():
    _, ledger = a_ledger(a_record(1, lost(1), a_machine(2)), a_record(2, lost(0)))

    used = ledger.used("rented")
    assert (used.nodes, used.microusd, used.presumed_nodes, used.presumed_microusd) == (2, 800_000, 1, 400_000)
    assert "(1 of them presumed lost, at $0.40/h)" in reserve(ledger, TWO, wanted(3))
    assert "presumed lost" in reserve(ledger, ClassLimits(max_hourly_cost="1.00"), wanted(3))


def test_deleting_its_request_frees_no_limit():
    clock = HandClock()
    store, _ = a_ledger()
    ghosts = VanishedRequests(InstanceCache(clock.boottime), the_table(store), clock)
    row = msgspec.structs.replace(lost(0), counts_until=clock.now() + timedelta(minutes=1))
    ghosts.notice(a_record(1, row), None)

    assert [each.presumed for each in ghosts.of("rented")] == [True]
    clock.seconds += 60
    assert ghosts.of("rented") == []


@pytest.mark.parametrize(
    ("ended", "until", "counts"),
    [
        (-50, 10, True),
        (-50, 1_000_000, True),
        (-61, 1_000_000, False),
        (1_000_000, 2_000_000, True),
    ],
    ids=["as the operator writes it", "for years, ended lately", "for years, ended long ago", "ends in the future"],
)
def test_no_record_counts_for_longer_than_an_hour(ended, until, counts):
    row = msgspec.structs.replace(lost(until), ended_at=NOW + timedelta(minutes=ended))
    moments = [NOW]
    ledger = Ledger(now=lambda: moments[-1])
    ledger.notice(None, a_record(1, row))

    assert ledger.used("rented").nodes == counts
    moments.append(NOW + timedelta(hours=1))
    assert ledger.used("rented").nodes == 0


def test_the_last_moment_of_the_calendar_is_no_error():
    end = datetime.max.replace(tzinfo=UTC)
    row = msgspec.structs.replace(lost(0), ended_at=end - timedelta(minutes=1), counts_until=end)
    _, ledger = a_ledger(a_record(1, row))

    assert ledger.used("rented").nodes == 1


def test_the_token_of_another_request_counts_nothing():
    rows = (lost(30), msgspec.structs.replace(a_machine(2)))
    record = a_record(1, *rows)
    status = record.value.status
    foreign = msgspec.structs.replace(status.attempts[0], token=token_for(CLUSTER, uid(9), 1))
    status = msgspec.structs.replace(status, attempts=(foreign, status.attempts[1]))
    _, ledger = a_ledger(msgspec.structs.replace(record, value=msgspec.structs.replace(record.value, status=status)))

    assert ledger.used("rented").nodes == 0


def test_a_record_that_nothing_proves_counts_against_its_own_pool_alone():
    """Until something shows its machine; once it is noted by a reservation it counts at once."""
    proved = set()
    _, ledger = a_ledger(counts=lambda record, _attempt: record.key.name in proved)
    ledger.notice(None, a_record(1, lost(30), a_machine(2), owners=of_pool(POOL)))

    assert (ledger.used("rented").nodes, ledger.used(POOL).nodes) == (0, 2)
    proved.add("r1")
    assert (ledger.used("rented").nodes, ledger.used(POOL).nodes) == (2, 2)
    assert ledger.used("rented", without=plain_uid(uid(1))).nodes == 1
    proved.clear()
    assert reserve(ledger, TWO, wanted(1)) == ""
    assert ledger.used("rented").nodes == 1


def test_a_reservation_of_this_process_counts_whatever_else_is_shown():
    store, ledger = a_ledger(counts=lambda _record, _attempt: False)
    reserve(ledger, TWO, wanted(1))
    store.put(a_record(1, a_machine()))

    ledger.seen(uid(1))
    assert ledger.used("rented").nodes == 1


def test_a_vanished_request_that_nothing_proved_counts_against_no_class():
    clock = HandClock()
    store, _ = a_ledger()
    ghosts = VanishedRequests(InstanceCache(clock.boottime), the_table(store), clock, lambda _record, _attempt: False)
    row = msgspec.structs.replace(lost(0), counts_until=clock.now() + timedelta(minutes=1), ended_at=clock.now())
    ghosts.notice(a_record(1, row, a_machine(2), owners=of_pool(POOL)), None)

    assert ghosts.of("rented") == []
    assert len(ghosts.of(POOL)) == 2
