"""The lean world: what it leaves out must not be missed. Its parts keep the promises that the real ones make."""

from collections import Counter

import pytest

from bench.safety.demand import Demand
from bench.safety.environment import HOME, apply, people, place, simulator_of
from bench.safety.lean import fast_env
from bench.safety.replica import readers
from tgp.adapters.clouds.simulated.client import SimulatedCloud
from tgp.adapters.kube.reflector import State
from tgp.adapters.kube.store import Store
from tgp.api.resource import CONFIG_MAP, DEPLOYMENT, GPU_REQUEST, NAMESPACE, NODE, POD
from tgp.controllers.requests.reconciler import RequestReconciler
from tgp.core.model.hold import HOLD
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.token import plain_uid, token_for
from tgp.ports.cluster import AlreadyExists, Conflict, NotFound, WriteUnknown
from tgp.ports.leadership import NotLeading
from tgp.sim.checkers.recorder import Violation
from tgp.sim.clouds.accounts import Tenant
from tgp.sim.clouds.cloud_faults import CloudFault, CloudVerb
from tgp.sim.clouds.fleet import WantedMachine
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.clouds.machine import Phase
from tgp.sim.fast.cloud import FastCloud, SharedProvider
from tgp.sim.fast.cluster import FastCluster
from tgp.sim.fast.lease import SHIPPED, LeanLease
from tgp.sim.fast.views import FastView, ViewFaults
from tgp.sim.fast.world import FastWorld
from tgp.sim.faults import Fault, Faults
from tgp.sim.world import KUBERNETES

PAGE = ObjectKey("default", "page")
A_PAGE = {"metadata": {"namespace": "default", "name": "page"}, "data": {"a": "1"}}
FOR_EVER = 10**9


class AlwaysLeads:
    def deadline(self):
        return float("inf")

    def epoch(self):
        return "1"

    def check(self):
        pass


@pytest.fixture
def world():
    with FastWorld("lean") as found:
        yield found


def as_process(world, deed, name="one"):
    """Let a process of that name do it; returns a list that will hold what came of it."""
    came = []

    async def main(host):
        came.append(await deed(host))
        await host.for_ever()

    world.process(name, main)
    return came


# -- objects -----------------------------------------------------------------------------------------------------------


def test_a_write_is_refused_unless_it_knows_what_stands_there(world):
    made = world.objects.create(CONFIG_MAP, A_PAGE)
    version, uid = made["metadata"]["resourceVersion"], made["metadata"]["uid"]

    world.objects.patch(CONFIG_MAP, PAGE, {"data": {"a": "2"}}, resource_version=version, uid=uid)

    with pytest.raises(Conflict):
        world.objects.patch(CONFIG_MAP, PAGE, {"data": {"a": "3"}}, resource_version=version)
    with pytest.raises(Conflict):
        world.objects.delete(CONFIG_MAP, PAGE, uid="another")
    with pytest.raises(AlreadyExists):
        world.objects.create(CONFIG_MAP, A_PAGE)
    with pytest.raises(NotFound):
        world.objects.patch(CONFIG_MAP, ObjectKey("default", "other"), {})


def test_what_changes_nothing_is_no_commit(world):
    made = world.objects.create(CONFIG_MAP, A_PAGE)

    assert world.objects.patch(CONFIG_MAP, PAGE, {"data": {"a": "1"}}) is made


def test_a_status_is_written_apart(world):
    world.objects.create(NODE, {"metadata": {"name": "n"}, "spec": {"x": 1}})
    world.objects.patch(NODE, ObjectKey("", "n"), {"status": {"y": 1}, "spec": {"x": 2}}, status=True)
    world.objects.patch(NODE, ObjectKey("", "n"), {"status": {"y": 2}, "spec": {"x": 3}})
    stored = world.objects.get(NODE, ObjectKey("", "n"))

    assert (stored["status"], stored["spec"], stored["metadata"]["generation"]) == ({"y": 1}, {"x": 3}, 2)


def test_a_finalizer_holds_what_is_being_deleted(world):
    world.objects.create(CONFIG_MAP, {**A_PAGE, "metadata": {**A_PAGE["metadata"], "finalizers": ["held"]}})
    world.objects.delete(CONFIG_MAP, PAGE)

    assert "deletionTimestamp" in world.objects.get(CONFIG_MAP, PAGE)["metadata"]
    world.objects.patch(CONFIG_MAP, PAGE, {"metadata": {"finalizers": []}})
    assert world.objects.get(CONFIG_MAP, PAGE) is None


# -- writing -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "raises", "happens"),
    [
        (Fault.LOST, WriteUnknown, False),
        (Fault.LOST_ANSWER, WriteUnknown, True),
        (Fault.SLOW, WriteUnknown, True),
        (Fault.ERROR, WriteUnknown, False),
        (Fault.ERROR_AFTER, WriteUnknown, True),
        (Fault.API_TIMEOUT_AFTER, WriteUnknown, True),
        (Fault.API_CONFLICT, Conflict, False),
    ],
)
def test_each_fault_of_a_write_means_what_it_means_on_the_wire(fault, raises, happens):
    with FastWorld("faulty", faults=Faults({fault: 0.999})) as world:

        async def write(host):
            cluster = FastCluster(world, host, AlwaysLeads(), lambda _left: None)
            with pytest.raises(raises):
                await cluster.create(CONFIG_MAP, A_PAGE)
            return True

        came = as_process(world, write)
        world.run(minutes=2)

        assert came == [True]
        assert (world.objects.get(CONFIG_MAP, PAGE) is not None) == happens


def test_what_has_left_happens_although_its_sender_is_gone(world):
    async def write(host):
        await FastCluster(world, host, AlwaysLeads(), lambda _left: None).create(CONFIG_MAP, A_PAGE)

    came = as_process(world, write)
    world.run(seconds=0.0005)  # it is on its way
    world.processes["one"].stop()
    world.run(seconds=1)

    assert came == []
    assert world.objects.get(CONFIG_MAP, PAGE) is not None


# -- seeing ------------------------------------------------------------------------------------------------------------


def a_view(world, faults):
    world.objects.readers = readers()
    store = Store(NAMESPACE)

    async def watch(host):
        await FastView(world, host, store, State.WATCHING, faults).run()

    as_process(world, watch)
    world.run(seconds=1)
    return store


def test_a_view_shows_what_was_written_a_moment_ago(world):
    store = a_view(world, ViewFaults())
    world.objects.create(NAMESPACE, {"metadata": {"name": "new"}})
    world.run(seconds=1)
    world.objects.delete(NAMESPACE, ObjectKey("", "new"))
    assert store.get(ObjectKey("", "new")) is not None
    world.run(seconds=1)

    assert store.get(ObjectKey("", "new")) is None


def test_a_process_that_is_cut_off_sees_the_old_world_until_it_lists_again(world):
    store = a_view(world, ViewFaults())
    world.network.partition("one", KUBERNETES)
    world.objects.create(NAMESPACE, {"metadata": {"name": "new"}})
    world.run(seconds=20)
    assert store.get(ObjectKey("", "new")) is None
    world.network.heal("one", KUBERNETES)
    world.run(minutes=2)

    assert store.get(ObjectKey("", "new")) is not None


def test_a_process_that_stands_still_hears_its_news_when_it_goes_on(world):
    store = a_view(world, ViewFaults())
    world.processes["one"].pause(30)
    world.objects.create(NAMESPACE, {"metadata": {"name": "new"}})
    world.run(seconds=29)
    assert store.get(ObjectKey("", "new")) is None
    world.run(seconds=2)

    assert store.get(ObjectKey("", "new")) is not None


@pytest.mark.parametrize("kind", ["silent", "broken", "gone", "late", "coalesced"])
def test_with_any_faults_a_view_catches_up(kind):
    with FastWorld(kind, faults=Faults({Fault.CLOCK: 1e-9})) as world:  # a run with faults, of nothing else
        store = a_view(world, ViewFaults(**{kind: 60.0}))
        for number in range(40):
            world.objects.create(NAMESPACE, {"metadata": {"name": f"n{number}"}})
            world.run(seconds=9)
        world.calm()
        world.run(minutes=3)

        assert {key.name for key in store.records} == {f"n{number}" for number in range(40)}


# -- leading -----------------------------------------------------------------------------------------------------------


def two_candidates(world):
    lease, standings = LeanLease(world), {}

    async def main(host):
        standings[host.name] = standing = lease.stand(host, host.name)
        await standing.won()
        await host.for_ever()

    for name in ("one", "two"):
        world.process(name, main)
    world.run(seconds=1)
    (first,) = [name for name, standing in standings.items() if standing.leads]
    return standings, first, "two" if first == "one" else "one"


def may_act(standing):
    try:
        standing.check()
    except NotLeading:
        return False
    return True


def test_one_leads_for_as_long_as_nothing_happens_to_it(world):
    standings, first, second = two_candidates(world)
    world.run(hours=5)

    assert may_act(standings[first])
    assert not may_act(standings[second])


@pytest.mark.parametrize("how", ["crash", "pause", "cut off"])
def test_another_begins_only_after_the_first_may_act_no_more(world, how):
    standings, first, second = two_candidates(world)
    if how == "crash":
        world.processes[first].crash(restart_after=FOR_EVER)
    elif how == "pause":
        world.processes[first].pause(60)
    else:
        world.network.partition(first, KUBERNETES)
    began = world.loop.time()
    while not may_act(standings[second]):
        world.run(seconds=0.25)
        assert how == "crash" or not (may_act(standings[first]) and may_act(standings[second]))
        assert world.loop.time() < began + 60

    assert world.loop.time() - began >= SHIPPED.duration - SHIPPED.retry


def test_a_leader_that_wakes_up_late_is_held_by_its_fence_before_it_is_notified(world):
    standings, first, _ = two_candidates(world)
    world.processes[first].pause(SHIPPED.renew_within + SHIPPED.retry)
    world.run(seconds=SHIPPED.renew_within + SHIPPED.retry + 0.001)

    assert standings[first].leads  # as it believes
    assert not may_act(standings[first])


def test_a_short_pause_does_not_cost_the_lease(world):
    standings, first, _ = two_candidates(world)
    world.processes[first].pause(SHIPPED.renew_within - SHIPPED.retry - 1)
    world.run(minutes=5)

    assert may_act(standings[first])


# -- looking at a provider ---------------------------------------------------------------------------------------------


def test_what_is_seen_without_a_wire_is_what_the_wire_shows(world):
    """Machines in every phase, offers, the account: otherwise the lean world would prove something else."""
    simulator = simulator_of(world, 1)
    product = next(iter(simulator.fleet.stands))
    tenant: Tenant = simulator.fleet.accounts.of("")
    made = [
        simulator.fleet.rent(tenant, WantedMachine(product, f"tgp-{number}", tags=(("a", "b"),))) for number in range(6)
    ]
    world.run(minutes=10)
    now = world.clock.now()
    simulator.fleet.stop(made[0], now, "outbid")
    simulator.fleet.lose(made[1], now)
    simulator.fleet.interrupt(made[2], now)
    simulator.fleet.end(made[3])
    late = simulator.fleet.rent(tenant, WantedMachine(product, "tgp-late"))
    late.visible_at = now

    async def look(host):
        client = SimulatedCloud(Dialler(world.network, world.clock)("http://127.0.0.1:8010"))
        lean = FastCloud(client, SharedProvider(simulator, place()), world, host)
        names = [machine.id for machine in made]
        for cloud in (lean, client):
            assert (await cloud.status("absent")) is None
        assert await lean.owned("tgp-") == await client.owned("tgp-")
        assert [await lean.status(name) for name in names] == [await client.status(name) for name in names]
        assert await lean.offers() == await client.offers()
        assert await lean.identity() == await client.identity()
        assert (await lean.check()).account == (await client.check()).account
        return True

    came = as_process(world, look)
    world.run(seconds=1)

    assert came == [True]
    assert {machine.phase for machine in (*made, late)} == set(Phase) - {Phase.GONE}


# -- the scheduler -----------------------------------------------------------------------------------------------------


def a_node(world, name, gpus):
    ready = {"type": "Ready", "status": "True"}
    amounts = {"nvidia.com/gpu": str(gpus)}
    status = {"allocatable": amounts, "conditions": [ready]}
    world.objects.create(NODE, {"metadata": {"name": name}, "spec": {}, "status": status})


def a_deployment(world, name, gpus):
    """Of one pod."""
    work = {"name": "work", "resources": {"requests": {"nvidia.com/gpu": str(gpus)}}}
    template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [work]}}
    meta = {"namespace": "default", "name": name}
    world.objects.create(DEPLOYMENT, {"metadata": meta, "spec": {"replicas": 1, "template": template}})


def nodes_of_pods(world):
    """By Deployment."""
    return {pod["metadata"]["labels"]["app"]: pod["spec"].get("nodeName", "") for pod in world.objects.all(POD)}


def nominate(world, app, node):
    pod = next(each for each in world.objects.all(POD) if each["metadata"]["labels"]["app"] == app)
    key = ObjectKey("default", pod["metadata"]["name"])
    world.objects.patch(POD, key, {"status": {"nominatedNodeName": node}}, status=True)


def test_the_scheduler_keeps_the_room_of_a_nominated_pod(world):
    """Small pods are older here, and the machine of the large one is ready first."""
    a_deployment(world, "small", 1)
    a_deployment(world, "large", 4)
    world.run(seconds=5)
    nominate(world, "large", "large")

    a_node(world, "large", 4)
    world.run(seconds=5)
    assert nodes_of_pods(world) == {"small": "", "large": "large"}

    a_node(world, "small", 1)
    world.run(seconds=5)
    assert nodes_of_pods(world) == {"small": "small", "large": "large"}


def test_the_scheduler_gives_the_room_that_a_nominated_pod_leaves(world):
    a_deployment(world, "small", 1)
    a_deployment(world, "large", 4)
    world.run(seconds=5)
    nominate(world, "large", "larger")

    a_node(world, "larger", 5)
    world.run(seconds=5)

    assert nodes_of_pods(world) == {"small": "larger", "large": "larger"}


def test_the_scheduler_keeps_no_room_on_a_node_that_is_not_there(world):
    a_deployment(world, "small", 1)
    world.run(seconds=5)
    nominate(world, "small", "gone")

    a_node(world, "other", 1)
    world.run(seconds=5)

    assert nodes_of_pods(world) == {"small": "other"}


# -- what counting hours taught ----------------------------------------------------------------------------------------


# Most turns of one request in each phase, with five seeds: 3, 8, 14, 3, 7, 14, 11 and 8; in one second of a life: 6.
MOST_TURNS = {
    "": 4,
    "Pending": 8,
    "Provisioning": 16,
    "Booting": 4,
    "Joining": 8,
    "Ready": 15,
    "Terminating": 12,
    "Finished": 9,
}
MOST_IN_A_SECOND = 6


def test_a_moment_within_a_second_is_not_waited_for_in_circles(monkeypatch):
    """Turns see whole seconds: one that was due at 12:00:00.6 looked every 50 ms until 12:00:01."""
    of_phase, of_second = Counter(), Counter()
    reconcile = RequestReconciler.reconcile

    async def counted(self, key):
        stored = here.world.api.local_api.get(GPU_REQUEST, key.namespace, key.name) or {}
        of_phase[key, stored.get("status", {}).get("phase", "")] += 1
        of_second[key, int(here.world.loop.time())] += 1
        return await reconcile(self, key)

    monkeypatch.setattr(RequestReconciler, "reconcile", counted)
    monkeypatch.setattr("bench.safety.pools.PLACES", 0)  # pods that come and go are reasons to look, too
    with fast_env(1, faulty=False, replicas=("one",)) as here:
        people(here, 1, 3600, meddle=False)
        here.world.run(hours=2)

    assert len({key for key, _ in of_phase}) >= 8
    assert {phase for _, phase in of_phase} == set(MOST_TURNS)
    assert {at: turns for at, turns in of_phase.items() if turns > MOST_TURNS[at[1]]} == {}
    assert max(of_second.values()) <= MOST_IN_A_SECOND


def test_a_node_is_not_deleted_in_circles_while_the_view_shows_it_on(monkeypatch):
    """A delete that the view does not show yet was repeated fourteen times a second: now once in a while."""
    monkeypatch.setattr("bench.safety.rates.VIEWS", ViewFaults(late=3000.0))
    monkeypatch.setattr("bench.safety.rates.NETWORK_FAULTS", Faults({Fault.CLOCK: 1e-9}))
    with fast_env(1, faulty=True, replicas=("one",)) as here:
        here.simulator.faults.calm()
        here.node_bootstrap.node_faults.calm()
        people(here, 1, 3600, meddle=False)
        here.world.run(hours=1.5)

    deletes = Counter(
        effect.path for effect in here.world.effects if effect.method == "DELETE" and effect.path.startswith("/nodes/")
    )
    assert len(deletes) >= 5
    assert max(deletes.values()) <= 10


def test_a_machine_that_its_provider_hides_is_not_overdue():
    """A launch was hidden for four minutes, and called forgotten a minute after it became visible."""
    with fast_env(1, faulty=False, replicas=()) as here:
        simulator, token = here.simulator, token_for(here.recorder.cluster, "a" * 32, 1)
        simulator.fault, simulator.verb = CloudFault.LIST_LAGS, CloudVerb.LAUNCH
        simulator.fleet.rent(
            simulator.fleet.accounts.of(""),
            WantedMachine(next(iter(simulator.fleet.stands)), token),
            CloudFault.LIST_LAGS,
        )
        simulator.fault = simulator.verb = None
        for _ in range(24):
            here.world.trace.note("absent", "looks")
            here.world.run(seconds=10)
        assert here.orphans.oldest <= 10

        with pytest.raises(Violation, match="I2"):
            for _ in range(32):
                here.world.trace.note("absent", "looks")
                here.world.run(seconds=10)


def test_a_lost_record_stays_lost_when_another_replica_takes_over():
    """Status wiped, leader gone while it waited: the next one read "only ever waited", and numbered from 1 again."""
    with fast_env(1, faulty=False, replicas=("one", "two")) as here:
        local_api = here.world.api.local_api
        apply(here, Demand("train", 0.0, FOR_EVER, 7200, "T4"))
        here.world.run(minutes=20)
        status = local_api.get(GPU_REQUEST, "default", "train")["status"]
        assert status["phase"] == "Ready"
        local_api.merge_patch(NAMESPACE, "", HOME, {"metadata": {"annotations": {HOLD: "a test"}}})
        for machine in here.machines():  # with its Node, or it would be adopted again
            here.simulator.fleet.end(machine)
        local_api.delete(NODE, "", status["nodeName"])
        here.world.run(seconds=3)
        local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": dict.fromkeys(status)}, "status")
        here.world.run(minutes=20)
        waits = local_api.get(GPU_REQUEST, "default", "train")["status"]
        assert (waits["phase"], waits.get("attempts")) == ("Pending", None)
        for process in here.world.processes.values():
            process.crash()
        here.world.run(minutes=2)
        local_api.merge_patch(NAMESPACE, "", HOME, {"metadata": {"annotations": {HOLD: None}}})
        here.world.run(minutes=20)  # an order under a used number is a violation
        numbers = [row["number"] for row in local_api.get(GPU_REQUEST, "default", "train")["status"]["attempts"]]

    assert numbers
    assert min(numbers) > 1


def test_of_duplicates_of_the_same_moment_the_recorder_keeps_the_same_one_as_the_operator():
    """Two for one order, the answer not on paper yet: the collector kept the first id, the recorder the first made."""
    with fast_env(1, faulty=False, replicas=()) as here:
        apply(here, Demand("train", 0.0, FOR_EVER, 7200, "T4"))
        local_api, fleet = here.world.api.local_api, here.simulator.fleet
        uid = local_api.get(GPU_REQUEST, "default", "train")["metadata"]["uid"]
        token = token_for(here.recorder.cluster, uid, 1)
        row = {"number": 1, "token": token}
        local_api.merge_patch(GPU_REQUEST, "default", "train", {"status": {"attempts": [row]}}, "status")
        for _ in range(4):  # some order of ids is not the order of making
            fleet.rent(fleet.accounts.of(""), WantedMachine(next(iter(fleet.stands)), token))
        duplicates = sorted(here.recorder.of_uid(plain_uid(uid)), key=lambda one: one.machine.id)

        assert [here.recorder.owner(one) is not None for one in duplicates] == [True, False, False, False]
