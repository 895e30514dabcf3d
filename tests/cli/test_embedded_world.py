"""The embedded world itself: what is planned, how its time runs, its kubeconfig, and a whole day of it."""

import asyncio
import json
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random

import pytest

from tests.amounts import amount
from tests.cli.money_world import WorldServices
from tgp.adapters.clock import SystemClock
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.events import CORE_EVENT
from tgp.adapters.kube.watch import USUAL
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, GPU_WORKLOAD_BUDGET, JOB, NODE, POD
from tgp.app.commands.demo import StallFreeLoop, speed_text, world_seconds
from tgp.app.demo import kubeconfig, scenario
from tgp.app.demo.machines import MACHINES
from tgp.app.demo.operator import RESTARTS, DemoOperator, settings_at, watches_at
from tgp.app.demo.scenario import (
    ChangeImage,
    DeleteOwnRequest,
    GainPower,
    LosePower,
    LoseSpot,
    Rent,
    ScaleService,
    StartJob,
    SupplyKeys,
    Suspend,
    WantGpus,
    WithdrawKeys,
    plan,
)
from tgp.app.demo.world import EmbeddedWorld, container_log, stretched
from tgp.app.null_adapters import no_http
from tgp.ports.http import Call, Reply
from tgp.ports.leadership import LeadershipLost
from tgp.sim.clouds.cloud_faults import CloudVerb
from tgp.sim.scaled import FACTOR, ScaledClock, WorldSpeed
from tools.demo_simulation import ENDPOINT, DemoSimulation

STEPS_OF_A_WEEK = 400
HOURS = amount(2, 24)  # of the embedded world
STORY = {"BudgetAlert", "closed", "Evicted", "waits", "GateLifted"}  # of a budget in the first minutes
TOLD_ON = {"GPUWorkloadBudget", "Pod"}


def steps(seed: int):
    return list(islice(plan(Random(seed)), STEPS_OF_A_WEEK))


@pytest.mark.parametrize("seed", range(20))
def test_the_plan_is_in_order_of_time_and_puts_right_what_it_breaks(seed):
    planned = steps(seed)
    off, suspended, withdrawn = set(), False, False
    for _, step in planned:
        match step:
            case LosePower(machine, _):
                assert machine not in off
                off.add(machine)
            case GainPower(machine):
                off.remove(machine)
            case Suspend(_, now):
                assert now is not suspended
                suspended = now
            case WithdrawKeys():
                withdrawn = True
            case SupplyKeys():
                withdrawn = False
            case _:
                pass

    assert [minute for minute, _ in planned] == sorted(minute for minute, _ in planned)
    assert len(off) <= 1  # the list may be cut within an incident
    assert not (suspended and withdrawn)


def test_equal_seeds_give_equal_plans_and_no_two_jobs_one_name():
    jobs = [step for _, step in steps(3) if isinstance(step, StartJob)]

    assert steps(3) == steps(3)
    assert steps(3) != steps(4)
    assert len({(job.namespace, job.name) for job in jobs}) == len(jobs) > 50


def test_every_day_a_service_grows_and_shrinks_its_machines_drift_and_a_spot_machine_is_lost():
    for day in (0, 1):
        begin, end = day * 24 * 60, (day + 1) * 24 * 60
        told = [step for minute, step in steps(1) if begin <= minute < end]
        found = [step for step in told if isinstance(step, ScaleService | LoseSpot | ChangeImage)]
        assert found == [
            ScaleService("web", "chat", 6),
            LoseSpot(),
            ChangeImage("serving", scenario.IMAGES[day]),
            ScaleService("web", "chat", 2),
        ]


def test_something_of_everything_happens_in_the_first_half_minute():
    early = {type(step) for minute, step in steps(1) if minute <= 30}

    assert early == {SupplyKeys, WantGpus, Suspend, StartJob, LosePower, GainPower, Rent, DeleteOwnRequest}


@pytest.mark.parametrize(
    ("step", "told"),
    [
        (WithdrawKeys(scenario.OAUTH, 19.6), "the Tailscale key was removed from the operator's Secret for 20m"),
        (SupplyKeys(("VULTR_API_KEY",)), "an administrator put VULTR_API_KEY into the operator's Secret"),
        (WantGpus("ml", "training", ("H100",)), "the owner of pool ml/training now allows only H100"),
        (
            WantGpus("ml", "training", scenario.ANY_MODEL),
            "the owner of pool ml/training allowed RTX4090 and RTX3090 again",
        ),
        (Suspend("c", suspended=True), "an administrator suspended purchases of class c"),
        (Suspend("c", suspended=False), "an administrator resumed purchases of class c"),
        (StartJob("ml", "t", "ml", 2, 1, 14), "team ml started Job t: 1 pod with 2 GPUs each for 14m"),
        (StartJob("ml", "t", "ml", 1, 3, 9, fails=True), "team ml started Job t: 3 pods with 1 GPU each and will fail"),
        (LosePower("cellar-2", 7), "node cellar-2 lost power for 7m"),
        (GainPower("cellar-2"), "node cellar-2 has power again"),
        (
            Rent("ml", "n", "RTX4090", "0.60"),
            "team ml asked for a machine with RTX4090 for at most $0.60/h: request n",
        ),
        (DeleteOwnRequest("ml", "n"), "team ml deleted request n"),
        (ScaleService("web", "chat", 6), "team web scaled Deployment chat to 6 replicas"),
        (LoseSpot(), "a provider interrupted a spot machine"),
        (ChangeImage("c", "v1.13.1"), "an administrator set the Talos image of class c to v1.13.1"),
    ],
)
def test_every_step_has_a_sentence(step, told):
    assert scenario.describe(step) == told


def test_the_script_tells_what_it_did_the_providers_what_they_charged_and_metrics_how_exact_budgets_are():
    with DemoSimulation() as simulation:
        simulation.run(minutes=20)
        scenario_lines = simulation.snapshot("demo", "kubectl").scenario_lines
        (bill,) = simulation.world.market.bills()
        page = simulation.page("/operator/metrics")

    accuracy = re.findall(r"gwb_accounting_accuracy_ratio{.*} (.*)", page)
    assert [float(each) for each in accuracy] == [pytest.approx(1, abs=0.005)] * 2, "of each budget, with its truth"
    assert [one.text for one in scenario_lines[-4:]] == [
        "node cellar-2 has power again",
        "team research asked for a machine with A100 for at most $2.50/h: request protein",
        "team research deleted request dreamer",
        "an administrator put LAMBDA_LABS_API_KEY into the operator's Secret",
    ]
    assert list(scenario_lines) == sorted(scenario_lines, key=lambda one: one.at)
    assert bill.spent_microusd > 0
    assert bill.rented >= 1
    assert bill.terminated <= bill.rented


def test_within_two_minutes_a_team_is_warned_crosses_is_evicted_and_waits_at_the_gate_until_hours_are_back():
    seen: dict[str, float] = {}
    with DemoSimulation() as simulation:
        local_api = simulation.world.server.local_api
        for minute in range(2, round(2 * FACTOR) + 1, 2):
            simulation.run(minutes=2, with_view=False)
            status = local_api.get(GPU_WORKLOAD_BUDGET, "research", "students").get("status", {})
            shown = {"closed"} if "exceededAt" in status else set()
            shown |= {"waits"} if status.get("gatedPods") else set()
            events = local_api.objects(CORE_EVENT, "research")
            shown |= {event["reason"] for event in events if event["involvedObject"]["kind"] in TOLD_ON}
            for what in shown:
                seen.setdefault(what, minute)
            if seen.keys() >= STORY:
                break
    assert seen.keys() >= STORY
    assert seen["BudgetAlert"] <= seen["closed"] <= seen["Evicted"] <= seen["waits"] <= seen["GateLifted"]


def test_a_service_gets_machines_of_its_own_class_and_loses_one():
    with DemoSimulation() as simulation:
        take, local_api = simulation.world.player.take, simulation.world.server.local_api
        assert not take(LoseSpot()), "there is none yet"
        simulation.run(minutes=5, with_view=False)
        assert take(ScaleService("web", "chat", 2))
        simulation.run(minutes=10, with_view=False)
        chat = [pod for pod in local_api.objects(POD) if pod["metadata"]["name"].startswith("chat-")]
        assert [pod["status"]["phase"] for pod in chat] == ["Running", "Running"]
        assert take(LoseSpot())
        fleet = simulation.world.market.admin.simulators["simulated"].fleet
        assert [machine.interrupted for machine in fleet.living() if machine.spot].count(True) == 1


def test_machines_drift_to_the_image_of_the_scenario_and_are_replaced():
    with DemoSimulation(scenario=False) as simulation:
        take, local_api = simulation.world.player.take, simulation.world.server.local_api
        simulation.run(minutes=2, with_view=False)
        assert take(ScaleService("web", "chat", 1))
        simulation.run(minutes=10, with_view=False)
        (before,) = [one for one in local_api.objects(GPU_REQUEST) if one["metadata"]["namespace"] == "web"]
        assert before["status"]["phase"] == "Ready"
        assert take(ChangeImage("serving", scenario.IMAGES[0]))
        simulation.run(minutes=20, with_view=False)
        (after,) = [one for one in local_api.objects(GPU_REQUEST) if one["metadata"]["namespace"] == "web"]

        assert after["status"]["phase"] == "Ready"
        assert after["metadata"]["uid"] != before["metadata"]["uid"]
        assert 'tgp_moved_pods_total{reason="Drifted"} 1.0' in simulation.page("/operator/metrics")


def is_ready(simulation, name):
    node = simulation.world.server.local_api.get(NODE, "", name)
    return next(each["status"] for each in node["status"]["conditions"] if each["type"] == "Ready") == "True"


def test_an_owned_machine_sleeps_and_wakes_and_can_be_tested():
    with DemoSimulation(scenario=False) as simulation:
        take, power = simulation.world.player.take, simulation.world.market.power
        simulation.run(minutes=2, with_view=False)
        assert is_ready(simulation, "cellar-1"), "on from the start"
        assert (power.calls[CloudVerb.LAUNCH], power.calls[CloudVerb.TERMINATE]) == (0, 0)
        assert take(ScaleService("ml", "inference", 0))
        simulation.run(minutes=25, with_view=False)
        assert power.calls[CloudVerb.TERMINATE] >= 1, "its pool sent it to sleep"
        assert not is_ready(simulation, "cellar-1")
        assert not power.is_on("cellar-1")
        assert 'tgp_owned_machines{class="cellar",state="off"} 1.0' in simulation.page("/operator/metrics")

        tested = WorldServices(simulation.sim, simulation.world.server, ENDPOINT).tgp(
            "node", "test", "cellar-1", "-n", "ml", "--yes"
        )
        assert tested.exit_code == 0, tested.output
        assert "cellar-1 works: on in" in tested.output
        assert not power.is_on("cellar-1")

        simulation.run(minutes=2, with_view=False)
        assert take(ScaleService("ml", "inference", 5)), "three have room on cellar-2"
        simulation.run(minutes=12, with_view=False)
        assert is_ready(simulation, "cellar-1"), "pods woke it"
        assert power.calls[CloudVerb.LAUNCH] == 2
        page = simulation.page("/operator/metrics")
        assert 'tgp_owned_machines{class="cellar",state="on"} 2.0' in page
        (wake,) = re.findall(r'tgp_owned_machine_boot_seconds{class="cellar",machine="cellar-1"} (.*)', page)
        assert 60 < float(wake) < 600


def test_an_owned_machine_that_loses_power_is_off_until_it_has_some_again():
    with DemoSimulation(scenario=False) as simulation:
        take, power = simulation.world.player.take, simulation.world.market.power
        simulation.run(minutes=1, with_view=False)
        assert not take(GainPower("cellar-2")), "it has power"
        assert take(LosePower("cellar-2", minutes=7))
        assert not power.is_on("cellar-2")
        assert not take(LosePower("cellar-2", minutes=7)), "it has none to lose"
        assert take(GainPower("cellar-2"))
        simulation.run(minutes=8, with_view=False)
        assert is_ready(simulation, "cellar-2")
        assert power.calls[CloudVerb.LAUNCH] == 0


def test_hours_pass_without_an_error_and_without_a_failed_reconcile():
    """API server, machines, people, the operator under its shipped rights, and the view; a day in `make prove`."""
    with DemoSimulation() as simulation:
        local_api = simulation.world.server.local_api
        simulation.run(minutes=11)
        bad = simulation.snapshot("demo", "kubectl")
        simulation.run(hours=HOURS - 1, minutes=45, with_view=False)
        simulation.run(minutes=4)
        facts, last = simulation.operator.facts(), simulation.snapshot("demo", "kubectl")
        jobs = list(local_api.objects(JOB))
        troubles = [one for one in simulation.log_capture.rows if one.warning]
        written = [
            condition["reason"]
            for resource in (GPU_NODE_CLASS, GPU_NODE_POOL)
            for found in local_api.objects(resource)
            for condition in found["status"]["conditions"]
        ]

    assert facts["operator"] == "leads"
    assert facts["failed"] == "0"
    assert "restarts" not in facts
    assert troubles == []
    assert last.troubles == ()
    assert len(jobs) < 40  # finished Jobs are deleted, Jobs without a GPU give up
    assert {"CredentialsMissing", "NodeClassNotFound", "Observing"} <= set(written)
    states = {row.name: row.state for row in bad.objects}
    assert states["ml/training"] == "Unsatisfiable"
    assert states["standard-gpu-class"] == "Ready"
    assert [machine.name for machine in bad.machines if not machine.ready] == ["cellar-2"]
    # Lambda's key came: every listing is there, and RTX4090 and RTX3090 are only sold in containers.
    training = next(row for row in last.objects if row.name == "ml/training")
    assert (training.state, training.reason) == ("NotReady", "NodeClassCannotBuy")
    owned = {machine.name for machine in MACHINES}
    assert owned <= {machine.name for machine in last.machines}
    assert any(machine.name.startswith("jobs-") for machine in last.machines), "the pool serves the morning's jobs"
    assert bad.hint == "kubectl describe gpunodepool training -n ml", "the first problem of the table"


def test_equal_worlds_give_equal_scenes():
    def told() -> object:
        with DemoSimulation(7) as simulation:
            simulation.run(minutes=8)
            return simulation.snapshot("demo", "kubectl")

    assert told() == told()


async def test_a_page_from_elsewhere_is_sent_away():
    """Without a token one is the administrator: only for programs on this machine, which name it by its address."""
    with_host = [("evil.example:8001", 403), ("127.0.0.1:8001", 200), ("localhost:8001", 200), ("[::1]:8001", 200)]
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    try:
        seen = [
            (host, (await world.handle(Call("GET", "/api/v1/namespaces", headers=(("Host", host),)))).status)
            for host, _ in with_host
        ]
    finally:
        world.close()

    assert seen == with_host


@pytest.mark.parametrize("way", ["exec", "attach", "portforward"])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_the_way_into_a_container_is_refused_and_kubectl_prints_why(method, way):
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    try:
        path = f"/api/v1/namespaces/kube-system/pods/train-0/{way}"
        reply = await world.handle(Call(method, path, (("command", "sh"),), headers=(("Host", "127.0.0.1:8001"),)))
        pod = await world.handle(
            Call("GET", f"/api/v1/namespaces/kube-system/pods/{way}", headers=(("Host", "localhost"),))
        )
    finally:
        world.close()

    assert isinstance(reply, Reply)
    status = json.loads(reply.content)
    assert (reply.status, status["kind"], status["code"]) == (501, "Status", 501)
    assert status["message"] == "the demo runs no real containers; kubectl logs and kubectl describe work"
    assert isinstance(pod, Reply)
    assert pod.status == 404, "a pod may have this name"


@pytest.mark.parametrize(
    ("query", "headers", "lasts"),
    [
        ((("watch", "true"),), (), "108000"),
        ((("watch", "1"), ("timeoutSeconds", "300")), (), "18000"),
        ((("watch", "true"), ("timeoutSeconds", "300")), (("Authorization", "Bearer x"),), "300"),
        ((("timeoutSeconds", "300"),), (), "300"),
        ((), (), ""),
    ],
)
def test_a_visitors_watch_lasts_as_long_as_his_own_clock_says(query, headers, lasts):
    """Otherwise `kubectl get -w` would end after half a minute, and an observer would see every watch break off."""
    call = Call("GET", "/apis/tgp.io/v1/gpunodepools", query=query, headers=headers)

    assert stretched(call, 60.0).parameter("timeoutSeconds") == lasts
    assert stretched(call, 1.0) == call


async def test_the_world_hears_of_every_change_by_a_visitor_and_of_no_other():
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    seen: list[int] = []
    calls = [
        ("visitor", Call("POST", "/api/v1/namespaces", body=a_namespace("a"))),
        ("kubeconfig", Call("POST", "/api/v1/namespaces", body=a_namespace("b"))),
        ("visitor", Call("POST", "/api/v1/namespaces", (("dryRun", "All"),), body=a_namespace("c"))),
        ("visitor", Call("POST", "/api/v1/namespaces", body=a_namespace("a"))),  # refused: it is there
        ("operator", Call("PATCH", "/api/v1/namespaces/tgp-system", body=b'{"metadata":{"annotations":{"x":"y"}}}')),
        ("visitor", Call("GET", "/api/v1/namespaces")),
        ("visitor", Call("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", body=A_REVIEW)),
        ("visitor", Call("DELETE", "/api/v1/namespaces/a")),
    ]
    tokens = {"kubeconfig": world.visitors_token, "operator": world.viewer_token()}
    replies = []
    try:
        for number, (who, call) in enumerate(calls):
            world.on_visitors_change = lambda number=number: seen.append(number)
            shown = (("Authorization", f"Bearer {tokens[who]}"),) if who in tokens else ()
            kind = "application/merge-patch+json" if call.method == "PATCH" else "application/json"
            headers = (*shown, ("Content-Type", kind), ("Host", "localhost"))
            replies.append((await world.handle(replace(call, headers=headers))).status)
    finally:
        world.close()

    assert replies == [201, 201, 201, 409, 200, 200, 201, 200]
    assert seen == [0, 1, 7]


async def test_the_kubeconfigs_token_says_whose_it_is():
    """Clients ask with a TokenReview who they are."""
    world = EmbeddedWorld(SystemClock(), SystemEntropy())
    review = {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenReview",
        "spec": {"token": world.visitors_token},
    }
    headers = (
        ("Authorization", f"Bearer {world.visitors_token}"),
        ("Content-Type", "application/json"),
        ("Host", "localhost"),
    )
    call = Call(
        "POST", "/apis/authentication.k8s.io/v1/tokenreviews", headers=headers, body=json.dumps(review).encode()
    )
    try:
        reply = await world.handle(call)
    finally:
        world.close()
    status = reply.json()["status"]

    assert status["authenticated"] is True
    assert status["user"]["username"]


def a_namespace(name: str) -> bytes:
    return json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}).encode()


A_REVIEW = json.dumps(
    {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}},
    }
).encode()


class JumpyClock:
    """The machine's own, and a jump whenever the test wants one."""

    def __init__(self) -> None:
        self.extra = 0.0

    def now(self) -> datetime:
        return datetime.now(UTC)

    def boottime(self) -> float:
        return time.monotonic() + self.extra


def run_on(loop: StallFreeLoop, main):
    try:
        return loop.run_until_complete(main)
    finally:
        loop.close()


def test_a_stall_does_not_pass_in_the_world():
    """A laptop that slept for a minute and a half has not cost the world ninety minutes, nor the operator its Lease."""
    clock = JumpyClock()
    loop = StallFreeLoop(clock, factor=60.0, began_ago=timedelta(hours=24))

    async def main() -> float:
        before = loop.time()
        clock.extra += 90.0
        await asyncio.sleep(1.0)
        return loop.time() - before

    assert 1.0 <= run_on(loop, main()) < 10.0


def test_waits_are_as_long_in_the_world_as_they_were_meant_to_be():
    clock = JumpyClock()
    loop = StallFreeLoop(clock, factor=60.0, began_ago=timedelta(hours=24))

    async def main() -> tuple[float, float, list[float]]:
        wall, world = time.monotonic(), loop.time()
        seen = []
        for _ in range(20):
            await asyncio.sleep(0.6)
            seen.append(loop.time())
        return time.monotonic() - wall, loop.time() - world, seen

    wall, world, seen = run_on(loop, main())

    assert world >= 20 * 0.6
    assert wall >= 20 * 0.01 * 0.9
    assert seen == sorted(seen)


def test_no_timestamp_of_the_world_lies_in_the_future():
    clock = JumpyClock()
    loop = StallFreeLoop(clock, factor=600.0, began_ago=timedelta(seconds=60))
    scaled = ScaledClock(loop, clock)

    async def main() -> bool:
        for _ in range(40):
            assert scaled.now() <= clock.now()
            await asyncio.sleep(3.0)
            if loop.wait_for_own_write:
                break
        return loop.wait_for_own_write

    assert run_on(loop, main())


def test_the_pace_is_said_in_words_and_counted_in_both_times():
    pace = WorldSpeed(60.0, 86_400.0)

    assert speed_text(pace, 0.0) == "60x, catches up with the present in 24m"
    assert speed_text(pace, 86_400.0) == "real time"
    slowed = pace.slowed(100.0, 300.0)
    assert speed_text(slowed, 148.0) == "real time for 4m12s: you changed something"
    assert speed_text(slowed, 401.0) == "60x, catches up with the present in 22m"
    assert world_seconds(pace, 0.0, 2.0) == pytest.approx(120.0)
    assert world_seconds(pace, 86_400.0, 2.0) == pytest.approx(2.0)


def test_a_kubeconfig_lives_as_long_as_its_world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with kubeconfig.written("http://127.0.0.1:8001", "t") as path:
        content = json.loads(path.read_text())
        mode = path.stat().st_mode & 0o777
        assert kubeconfig.command(path) == f"kubectl --kubeconfig {tmp_path}/.tgp/kubeconfig", (
            "from wherever it is typed"
        )

    assert content["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:8001", "insecure-skip-tls-verify": True}
    assert content["users"][0]["user"] == {"token": "t"}, "some clients ask for something to show"
    assert mode == 0o600
    assert list(tmp_path.iterdir()) == []


def test_two_worlds_in_one_directory_do_not_mislead_each_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    with (
        kubeconfig.written("http://127.0.0.1:1", "t") as first,
        kubeconfig.written("http://127.0.0.1:2", "t") as second,
    ):
        assert first != second
        assert ":1" in first.read_text()
        assert ":2" in second.read_text()


def test_a_kubeconfig_left_by_a_world_that_was_killed_is_used_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".tgp").mkdir()
    (tmp_path / ".tgp" / "kubeconfig").write_text("of a world long gone, and longer than the new one " * 40)
    with kubeconfig.written("http://127.0.0.1:8001", "t") as path:
        assert path.name == "kubeconfig"
        assert json.loads(path.read_text())["kind"] == "Config"


async def test_a_lost_lease_starts_the_operator_again_a_few_times(monkeypatch: pytest.MonkeyPatch):
    """As Kubernetes would; but without another replica, losing the Lease for ever is a defect."""
    runs = []

    async def lose(self, **_how):
        runs.append(self)
        raise LeadershipLost("it lapsed")

    monkeypatch.setattr("tgp.app.operator.Operator.run", lose)
    operator = DemoOperator(None, JumpyClock(), settings_at(60.0), no_http)
    with pytest.raises(LeadershipLost):
        await operator.run()

    assert len(runs) == RESTARTS + 1
    assert len(set(map(id, runs))) == len(runs)


def test_a_container_says_when_it_began_and_how_it_ended():
    ended = {"terminated": {"startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:02:00Z", "exitCode": 1}}
    running = {"running": {"startedAt": "2026-01-01T10:02:10Z"}}
    pod = {"status": {"containerStatuses": [{"name": "c", "image": "i:1", "state": running, "lastState": ended}]}}

    lines = container_log(pod, "c").splitlines()

    assert lines[1] == "2026-01-01T10:02:00Z ended with exit code 1"
    assert lines[2].startswith("2026-01-01T10:02:10Z started from i:1")
    assert container_log(pod, "other") == ""


@pytest.mark.parametrize(("speed", "times"), [(0.5, 1), (1.0, 1), (4.0, 4), (60.0, 10), (3600.0, 10)])
def test_watches_last_longer_where_time_passes_faster(speed, times):
    """Each would otherwise begin again every half a second of a person's time; a silent one is noticed all the same."""
    watches = watches_at(speed)

    assert (watches.at_least, watches.at_most) == (USUAL.at_least * times, USUAL.at_most * times)
    assert timedelta(seconds=watches.at_most) < watches.silence


def test_a_kubeconfig_below_the_working_directory_is_named_from_there(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    assert kubeconfig.shown(tmp_path / ".tgp" / "kubeconfig") == ".tgp/kubeconfig"
    assert kubeconfig.shown(Path("/elsewhere/kube config")) == "'/elsewhere/kube config'"
