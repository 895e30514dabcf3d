"""`tgp rent`: it shows what the operator would rent, asks, writes one request, and never buys."""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from ruamel.yaml import YAML

from tests.cli.program import Terminal, a_market
from tests.cli.program import tgp as program
from tests.cli.sample_requests import BOUGHT, START, after, become, document, drawn, furnish, send
from tests.contracts.kube_client.scripted import ScriptedHttp, a_status, in_virtual_time, json_reply
from tests.contracts.kubectl.mounted import Mounted
from tests.core.cli.rows import an_offer
from tests.core.market.offers import NOW
from tgp.adapters.entropy import SystemEntropy
from tgp.adapters.kube.connect import Connection
from tgp.api.decoding import decode
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.app.main import tgp
from tgp.core.classes.default_class import Why
from tgp.core.inventory.limits import NOTHING_USED, Reservation, Usage, usage_of
from tgp.core.model.cloud_errors import CloudBusy
from tgp.core.model.offer import Offer, Stock
from tgp.core.model.price_book import OfferRow
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.core.model.source import source_of
from tgp.core.model.workload import DaemonSet
from tgp.core.requests.purchase import NoPurchase, Purchase
from tgp.interfaces.cli.rent import checked, manifest_of, rent, spec_of
from tgp.interfaces.cli.rent_view import cost_words, limits_words, render
from tgp.ports.cloud import Listing
from tgp.ports.cluster import AlreadyExists, WriteUnknown
from tgp.ports.http import NoAnswer
from tgp.services.credentials import ProviderAccess
from tgp.services.documents.rent import rent_plan
from tgp.services.market import MarketService
from tgp.services.purchase_preview import ClusterState, planned
from tgp.services.request_answers import PriceSource, RentPlan
from tgp.services.requests import RequestService

KEYS = ("VAST_API_KEY", "RUNPOD_API_KEY", "LAMBDA_LABS_API_KEY", "PAPERSPACE_API_KEY", "VULTR_API_KEY")
BARE = {
    **dict.fromkeys(KEYS, ""),
    "TGP_WORLD": "",
    "GCP_SERVICE_ACCOUNT_JSON": "",
    "GOOGLE_APPLICATION_CREDENTIALS": "",
}
CLASS: dict[str, Any] = {
    "apiVersion": "tgp.io/v1",
    "kind": "GPUNodeClass",
    "metadata": {"name": "standard"},
    "spec": {
        "providers": [{"name": "vultr", "regions": ["ewr"]}, {"name": "lambda"}],
        "networking": {"backend": "none"},
        "limits": {"maxNodes": 2, "maxHourlyCost": "4.0"},
        "instanceRequirements": {"minVCPU": 8, "minTrust": "Datacenter"},
    },
}
STATUS = {
    "conditions": [
        {
            "type": "Ready",
            "status": "True",
            "reason": "Valid",
            "message": "",
            "observedGeneration": 1,
            "lastTransitionTime": "2026-11-16T13:00:00Z",
        }
    ],
    "providers": {
        "vultr": {"credentialsValid": True, "offers": 12, "lastPricingUpdate": "2026-11-16T13:00:00Z"},
        "lambda": {
            "credentialsValid": True,
            "offers": 3,
            "bootMode": "takeover",
            "lastPricingUpdate": "2026-11-16T14:00:10Z",
        },
    },
    "availableGPUs": [
        {"gpuType": "L40S", "provider": "vultr", "region": "us-east", "pricePerHour": "1.67", "gpuCount": 1},
        {"gpuType": "A10", "provider": "lambda", "region": "us-west", "pricePerHour": "0.75", "gpuCount": 1},
    ],
}
PLUGIN: dict[str, Any] = {
    "metadata": {"name": "nvidia-device-plugin", "namespace": "kube-system"},
    "spec": {
        "selector": {"matchLabels": {"app": "plugin"}},
        "template": {
            "metadata": {"labels": {"app": "plugin"}},
            "spec": {
                "containers": [{"name": "plugin", "image": "nvcr.io/nvidia/k8s-device-plugin:v0.17.0"}],
                "tolerations": [{"operator": "Exists"}],
            },
        },
    },
}


def a_class(status: Mapping[str, Any] = STATUS, **spec: Any) -> GPUNodeClass:
    read = decode(GPUNodeClass, {**CLASS, "spec": {**CLASS["spec"], **spec}, "status": status})
    assert isinstance(read, GPUNodeClass), read
    return read


def wanted(gpu: str = "L40S", **said: Any) -> GPURequest:
    return checked(manifest_of("train", "ml", spec_of(gpu=gpu, **said)))


# -- what would be rented --------------------------------------------------------------------------------------------


class AMarket:
    """Clouds that tell what they are given, and count who is asked."""

    def __init__(self, **offers: tuple[Offer, ...] | Exception) -> None:
        self.offers = offers
        self.asked: list[str] = []

    def open(self, source, _key, _secrets):
        self.asked.append(source.name)
        told = self.offers[source.provider]

        class Cloud:
            async def offers(self) -> Listing:
                if isinstance(told, Exception):
                    raise told
                return Listing(told)

        return Cloud()


class AClock:
    def now(self):
        return START

    def boottime(self) -> float:
        return 0.0


def facts(provider: str) -> CloudFacts:
    from tgp.adapters.clouds.registry import facts_of

    return facts_of(provider)


def a_counter(provider: str, *, key: bool = True) -> ProviderAccess:
    return ProviderAccess(source_of(provider, "", "", None), facts(provider), Secret("k") if key else None)


async def plan_for(
    request: GPURequest,
    *accesses: ProviderAccess,
    market: AMarket | None = None,
    node_class: GPUNodeClass | None = None,
    held: Usage | None = NOTHING_USED,
    hold: str = "",
    why: Why | None = None,
    plugins: tuple[DaemonSet, ...] | None = None,
) -> RentPlan:
    market_service = MarketService(accesses, market or AMarket(), AClock())
    return await planned(
        ClusterState(request, "standard", node_class or a_class(), why, START, held, hold, plugins), market_service
    )


async def test_without_a_key_the_classs_status_tells_and_its_age_is_said():
    """Whatever region the class narrows to: the operator judged that before it wrote the status."""
    plan = await plan_for(wanted(), a_counter("vultr", key=False))
    said = drawn(render(plan, 110), 110)

    assert isinstance(plan.choice, Purchase)
    assert plan.choice.hourly_microusd == 1_670_000
    assert "would rent  1x L40S at $1.67/h from vultr in us-east" in said
    assert "is          talos-node (native), as last seen by the operator" in said
    assert "from the class's status: vultr (62m old), lambda (2m old)" in said


async def test_with_a_key_the_provider_itself_is_asked_by_the_classs_rules():
    cheap = an_offer(sku="few-cpus", vcpus=4, hourly_microusd=900_000)
    good = an_offer(sku="fits", hourly_microusd=1_500_000)
    far = an_offer(sku="far", place="ams", region="eu-west", hourly_microusd=1_000_000)
    market = AMarket(vultr=(cheap, good, far))
    plan = await plan_for(wanted(), a_counter("vultr"), market=market)

    assert isinstance(plan.choice, Purchase)
    assert plan.choice.offer.sku == "fits"
    assert plan.price_sources[0].live
    assert "availability unknown; 48 GiB of GPU memory each, 16 vCPUs, 180 GiB" in drawn(render(plan, 200), 200)
    assert "asked just now, with the API keys of this terminal: vultr" in drawn(render(plan, 200), 200)


async def test_how_a_machine_would_join_is_what_the_status_says_of_its_provider():
    plan = await plan_for(wanted("A10"))

    assert "talos-node (takeover, unproven)" in drawn(render(plan, 110), 110)


async def test_only_the_classs_providers_are_asked():
    market = AMarket(vultr=(an_offer(),))
    await plan_for(wanted(), a_counter("vultr"), a_counter("runpod"), market=market)

    assert len(market.asked) == 1


async def test_a_key_is_never_sent_where_only_a_class_says_it_should_go():
    elsewhere = a_class(providers=[{"name": "vultr", "settings": {"endpoint": "https://elsewhere.example"}}])
    market = AMarket(vultr=(an_offer(),))
    plan = await plan_for(wanted(), a_counter("vultr"), market=market, node_class=elsewhere)

    assert market.asked == []
    assert plan.fits, "the class's status still tells"


async def test_a_provider_that_does_not_answer_is_told_and_the_status_serves():
    from datetime import timedelta

    market = AMarket(vultr=CloudBusy("vultr is unreachable", timedelta(seconds=5)))
    plan = await plan_for(wanted(), a_counter("vultr"), market=market)

    assert plan.fits
    assert not plan.price_sources[0].live


async def test_nothing_that_fits_says_why_and_what_a_status_cannot_tell():
    plan = await plan_for(wanted(max_price="0.50"))
    said = drawn(render(plan, 110), 110)

    assert isinstance(plan.choice, NoPurchase)
    assert plan.choice.reason == "NoOfferFits"
    assert "$1.17 above maxHourlyPrice" in said
    assert "only the cheapest machine of each model" in " ".join(said.split())


async def test_what_others_hold_counts_against_the_limits():
    one = Reservation("a" * 32, 2_000_000)
    money = await plan_for(wanted(), held=usage_of([Reservation("a" * 32, 3_000_000)]))
    nodes = await plan_for(wanted(), held=usage_of([one, Reservation("b" * 32, 1)]))

    assert isinstance(money.choice, NoPurchase)
    assert money.choice.reason == "LimitReached"
    assert isinstance(nodes.choice, NoPurchase)
    assert "limits.maxNodes is 2" in nodes.choice.message
    assert limits_words(nodes) == "standard, 0 of 2 machines left, $2.00 of $4.00 an hour left"


async def test_a_hold_and_an_unwilling_class_are_shown_before_the_question():
    held = await plan_for(wanted(), hold="rebuilding")
    suspended = await plan_for(wanted(), why=Why("Suspended", "it is suspended; to go on: tgp release class/standard"))

    assert "rebuilding" in held.stopped
    assert suspended.stopped.endswith("tgp release class/standard")
    assert suspended.fits
    assert "stopped by" in drawn(render(suspended, 100), 100)


async def test_a_missing_device_plugin_is_shown_before_the_question():
    assert "DevicePluginMissing" in (await plan_for(wanted(), plugins=())).stopped
    assert (await plan_for(wanted(), plugins=None)).stopped == "", "who may not look cannot tell"


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (
            {"max_price": "2", "lifetime": "4h"},
            "$1.67 an hour; $6.68 for its whole lifetime of 4h; at most $8.00, at --max-price",
        ),
        ({"lifetime": "4h"}, "no --max-price: any price that the class allows"),
        ({"max_price": "2", "lifetime": "Never"}, "$1.67 an hour; $40.08 a day, without end"),
    ],
)
async def test_the_cost_is_told_by_the_hour_for_its_life_and_at_most(said, words):
    assert words in cost_words(await plan_for(wanted(**said)))


# -- what is typed ---------------------------------------------------------------------------------------------------


class FakeServices:
    """Services that return a given plan and record what was created."""

    namespace = "home"

    def __init__(self, choice: Any, refusal: Exception | None = None, **plan: Any) -> None:
        self._choice = choice
        self._refusal = refusal
        self._plan = plan
        self.created: list[Mapping[str, Any]] = []

    @asynccontextmanager
    async def requests(self, kubeconfig: str, context: str) -> AsyncIterator["FakeServices"]:
        del kubeconfig, context
        yield self

    def fresh_name(self, stem: str) -> str:
        return f"{stem}-abcde"

    async def plan(self, request: GPURequest) -> RentPlan:
        return RentPlan(
            request,
            START,
            self._choice,
            "standard",
            a_class(),
            price_sources=(PriceSource("vultr", True, START),),
            **self._plan,
        )

    async def create(self, manifest: Mapping[str, Any]) -> None:
        if self._refusal is not None:
            raise self._refusal
        self.created.append(manifest)


LISTED = an_offer(hourly_microusd=1_200_000, stock=Stock.CONFIRMED)
BUY = Purchase(OfferRow(LISTED, "vultr", NOW), 1_200_000)
STAY = NoPurchase("NoOfferFits", "none of 3 offers fits: 3 too expensive")


def run(services: FakeServices, *words: str):
    return CliRunner().invoke(rent, ["--gpu", "L40S", "--max-price", "1.50", *words], obj=services)


def test_every_flag_becomes_its_field_and_what_was_not_said_is_left_out():
    services = FakeServices(BUY)
    words = [
        "--count",
        "2",
        "--provider",
        "vultr",
        "--region",
        "us",
        "--region",
        "eu",
        "--class",
        "standard",
        "--for",
        "4h",
        "--idle",
        "Never",
        "--spot",
    ]
    run(services, *words, "--name", "train", "-n", "ml", "--yes")
    bare = FakeServices(BUY)
    run(bare, "--yes")

    assert services.created[0]["metadata"] == {"name": "train", "namespace": "ml"}
    assert services.created[0]["spec"] == {
        "gpuType": "L40S",
        "gpuCount": 2,
        "nodeClassRef": {"name": "standard"},
        "provider": "vultr",
        "regions": ["us", "eu"],
        "spot": True,
        "maxHourlyPrice": "1.50",
        "maxLifetime": "4h",
        "idleTimeout": "Never",
    }
    assert bare.created[0]["metadata"] == {"name": "l40s-abcde", "namespace": "home"}
    assert bare.created[0]["spec"] == {"gpuType": "L40S", "gpuCount": 1, "maxHourlyPrice": "1.50"}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--max-price", "1,50"), '--max-price: "1,50": must be a price in dollars'),
        (("--for", "4 hours"), '--for: "4 hours": must be a duration'),
        (("--idle", "0s"), "--idle:"),
        (("--count", "0"), "--count: 0: should be greater than or equal to 1\n"),
        (("--provider", "aws"), '--provider: "aws": supported values: "vast", '),
        (("--name", "a" * 64), "--name: must have at most 63 characters"),
        (("--name", "Train"), "--name:"),
        (("--region", "a b"), "--region:"),
        (("--class", "No"), "--class:"),
        (("--gpu", "L40X"), "Did you mean"),
    ],
)
def test_bad_input_names_the_flag_before_any_question(words, said):
    services = FakeServices(BUY)
    answer = run(services, *words, "--yes")

    assert answer.exit_code == 2
    assert said in answer.output
    assert "null" not in answer.output, "skipped rules are not reported here"
    assert services.created == []


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "terminated  after 24h (--for), or after 30m without a pod (--idle), or when the request is deleted"),
        (("--for", "Never"), "after 30m without a pod (--idle), or when the request is deleted (--for Never)"),
        (("--idle", "Never"), "after 24h (--for), or when the request is deleted (--idle Never)"),
        (("--for", "Never", "--idle", "Never"), "terminated  only when the request is deleted"),
    ],
)
def test_how_it_ends_is_one_sentence(words, said):
    assert said in run(FakeServices(BUY), "--dry-run", *words).output


def test_a_provider_that_the_class_does_not_have_is_said_instead_of_what_others_offer():
    answer = run(FakeServices(STAY), "--dry-run", "--provider", "runpod")

    assert "class standard does not have provider runpod (enabled: vultr, lambdalabs)" in " ".join(
        answer.output.split()
    )
    assert "none of 3 offers" not in answer.output
    assert "none of 3 offers" in run(FakeServices(STAY), "--dry-run", "--provider", "lambda").output


def test_a_dry_run_creates_nothing_and_its_exit_code_says_whether_something_fits():
    fits, none = FakeServices(BUY), FakeServices(STAY)

    assert (run(fits, "--dry-run").exit_code, run(none, "--dry-run").exit_code) == (0, 3)
    assert fits.created == none.created == []


def test_without_a_person_or_a_yes_nothing_is_created():
    services = FakeServices(BUY)
    answer = run(services)

    assert answer.exit_code == 2
    assert "--yes" in answer.output
    assert "would rent" in answer.output
    assert services.created == []


def test_what_was_confirmed_binds():
    """The price that was shown and a tenth more, to the cent; --max-price says otherwise."""
    services = FakeServices(BUY)
    said = CliRunner().invoke(rent, ["--gpu", "L40S", "--yes"], obj=services).output

    assert services.created[0]["spec"]["maxHourlyPrice"] == "1.32"
    assert "up to $1.32 an hour (10 % more; change with --max-price)" in " ".join(said.split())

    told = FakeServices(BUY)
    run(told, "--yes")
    assert told.created[0]["spec"]["maxHourlyPrice"] == "1.50"


@pytest.mark.parametrize("how", [(), ("-o", "json")])
def test_a_request_that_no_offer_fits_is_created_with_a_maximum_price_only(how):
    """It may wait for days: without one it would then buy at any price."""
    waiting = FakeServices(STAY, nearest="1x L40S at $1.67/h from vultr: sold out")
    refused = CliRunner().invoke(rent, ["--gpu", "L40S", "--yes", *how], obj=waiting)
    said = " ".join(refused.output.split())

    assert refused.exit_code == 2
    assert waiting.created == []
    assert "The nearest offer: 1x L40S at $1.67/h from vultr: sold out. Add --max-price" in said
    assert how or "no price to confirm, so --max-price is required" in said
    assert CliRunner().invoke(rent, ["--gpu", "L40S", "--dry-run"], obj=waiting).exit_code == 3

    assert run(waiting, "--yes").exit_code == 0
    assert waiting.created[0]["spec"]["maxHourlyPrice"] == "1.50"


async def test_the_nearest_offer_is_one_of_the_wanted_model():
    sold_out = an_offer(hourly_microusd=1_670_000, stock=Stock.NONE)
    market = AMarket(vultr=(sold_out,))

    assert (await plan_for(wanted(), a_counter("vultr"), market=market)).nearest.endswith("sold out")
    assert (await plan_for(wanted("H100"), a_counter("vultr"), market=market)).nearest == ""
    assert (await plan_for(wanted())).nearest == "", "one fits"


def test_what_was_created_is_said_with_the_next_command():
    said = run(FakeServices(BUY), "--name", "train", "-n", "ml", "--yes").output
    waits = run(FakeServices(STAY), "--name", "train", "-n", "ml", "--yes").output

    assert "gpurequest.tgp.io/train created in namespace ml" in said
    assert said.endswith("next: tgp watch request/ml/train\n")
    assert waits.endswith("next: tgp why request/ml/train\n")


def test_a_refusal_of_the_cluster_is_told_without_a_traceback():
    answer = run(FakeServices(BUY, AlreadyExists("there is a request ml/train already")), "--yes")

    assert answer.exit_code == 1
    assert "already" in answer.output


def test_yaml_is_a_manifest_to_apply_and_json_the_plan():
    manifest = YAML(typ="safe", pure=True).load(
        run(FakeServices(BUY), "--dry-run", "-o", "yaml", "--name", "train").output
    )
    plan = json.loads(run(FakeServices(BUY), "--dry-run", "-o", "json").output)
    made = json.loads(run(FakeServices(BUY), "--yes", "-o", "json").output)

    assert checked(manifest).metadata.name == "train"
    assert plan["kind"] == "RentPlan"
    assert plan["usdPerHour"] == 1.2
    assert plan["usdAtMost"] == 36.0
    assert (plan["created"], made["created"]) == (False, True)


def test_a_plan_that_waits_has_no_price_for_programs():
    plan = rent_plan(RentPlan(wanted(), after(0), STAY), created=False)

    assert (plan["fits"], plan["usdPerHour"], plan["reason"]) == (False, None, "NoOfferFits")


def test_programs_are_not_asked_questions():
    assert run(FakeServices(BUY), "-o", "json").exit_code == 2


# -- a lost answer ---------------------------------------------------------------------------------------------------


def creating(*answers: Any) -> int:
    """How many writes left, when these were the answers. Raises what the requests raises."""

    async def create(http: ScriptedHttp) -> None:
        requests = RequestService(Connection(http, AClock(), SystemEntropy(), "https://x", "", "tgp-system"), no_market)
        await requests.create(manifest_of("train", "ml", spec_of(gpu="L40S")))

    http = ScriptedHttp(*answers)
    try:
        in_virtual_time(create(http))
    finally:
        assert [call.method for call in http.calls].count("POST") == 1, "what may have happened is never sent again"
    return len(http.calls)


def no_market(_providers: tuple[str, ...]):
    raise AssertionError("creating a request asks no provider")


LOST = NoAnswer("the connection broke")


def test_an_answer_that_is_lost_is_looked_up():
    assert creating(LOST, json_reply(200, document())) == 2


def test_a_request_that_was_there_before_is_not_taken_for_the_new_one():
    older = document(meta={"creationTimestamp": "2026-11-15T14:02:10Z"})
    with pytest.raises(AlreadyExists, match="request ml/train already existed"):
        creating(LOST, json_reply(200, older))


def test_what_cannot_be_found_out_is_said_so():
    with pytest.raises(WriteUnknown, match="before you rent again"):
        creating(LOST, a_status(404, "NotFound", "no such thing"))


# -- against an API server, and a market -----------------------------------------------------------------------------


def furnished(server: Mounted) -> None:
    """With a class that an operator has looked at, and one machine that counts against it."""
    address = furnish(server)
    classes = f"{server.url}/apis/tgp.io/v1/gpunodeclasses"
    send(classes, "POST", CLASS)
    send(f"{classes}/standard/status", "PATCH", {"status": STATUS}, "application/merge-patch+json")
    send(f"{server.url}/apis/apps/v1/namespaces/kube-system/daemonsets", "POST", PLUGIN)
    become(address, json.dumps({"phase": "Ready", "nodeClass": "standard", "attempts": [BOUGHT], "conditions": []}))


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Mounted]:
    with Mounted(tmp_path) as server:
        furnished(server)
        yield server


def on(server: Mounted, *words: str, **environment: str):
    command = ["rent", *words, "--kubeconfig", str(server.kubeconfig)]
    return CliRunner().invoke(tgp, command, env={**BARE, **environment})


def requests(server: Mounted) -> list[dict[str, Any]]:
    import urllib.request

    with urllib.request.urlopen(f"{server.url}/apis/tgp.io/v1/gpurequests") as answer:  # noqa: S310 - on loopback
        return json.load(answer)["items"]


def names(server: Mounted) -> list[str]:
    return [item["metadata"]["name"] for item in requests(server)]


def test_from_a_terminal_without_keys_to_a_request_in_the_cluster(cluster: Mounted):
    dry = on(cluster, "--gpu", "L40S", "--dry-run")
    made = on(cluster, "--gpu", "L40S", "--max-price", "2", "--name", "mine", "-n", "ml", "--yes")
    again = on(cluster, "--gpu", "L40S", "--name", "mine", "-n", "ml", "--yes")
    lost = on(cluster, "--gpu", "L40S", "--name", "mine", "-n", "nowhere", "--yes")

    assert dry.exit_code == 0, dry.output
    assert "standard, 1 of 2 machines left, $2.80 of $4.00 an hour left" in dry.output
    assert made.exit_code == 0, made.output
    assert sorted(names(cluster)) == ["mine", "train"]
    assert again.exit_code == 1
    assert "Request ml/mine already exists" in again.output
    assert lost.exit_code == 1
    assert "nowhere" in lost.output


def test_a_class_that_names_no_namespaces_serves_none_where_the_operator_requires_it(cluster: Mounted, world: str):
    home = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "tgp-system"}}
    send(f"{cluster.url}/api/v1/namespaces", "POST", home)
    before = on(cluster, "--gpu", "L40S", "--dry-run", "-n", "ml")
    said = {"metadata": {"annotations": {"tgp.io/require-allowed-namespaces": "true"}}}
    send(f"{cluster.url}/api/v1/namespaces/tgp-system", "PATCH", said, "application/merge-patch+json")
    refused = on(cluster, "--gpu", "L40S", "--dry-run", "-n", "ml")

    send(f"{cluster.url}/apis/tgp.io/v1/gpunodeclasses/standard", "DELETE", {})
    implicit = on(cluster, "--gpu", "L40S", "--dry-run", "-n", "ml", TGP_WORLD=world)

    assert "stopped by" not in before.output
    assert "stopped by  GPUNodeClass standard does not allow this namespace" in refused.output
    assert "stopped by  The implicit class does not allow this namespace" in implicit.output


def test_a_person_is_asked_and_no_is_the_default(cluster: Mounted, tmp_path: Path):
    words = ("rent", "--gpu", "L40S", "--max-price", "2", "-n", "ml", "--kubeconfig", str(cluster.kubeconfig))
    codes, said = [], []
    for alone, answer in ((b"\n", b"\n"), (b"\n", b"y\n"), (b"y\n", b"y\n")):
        terminal = Terminal(tmp_path, *program(*words), **BARE)
        try:
            terminal.wait_for(b"Keep other pods off the machine (exclusive)? [y/N]:")
            terminal.type(alone)
            terminal.wait_for(b"Rent this machine?")
            terminal.type(answer)
            codes.append(terminal.wait())
        finally:
            terminal.close()
        said.append(terminal.written.decode().replace("\r\n", "\n"))
    made = [request["spec"].get("exclusive", False) for request in requests(cluster)]

    assert codes == [1, 0, 0]
    assert "No request was created, and nothing is rented." in said[0]
    assert sorted(made) == [False, False, True]


def test_what_a_pod_needs_to_land_there_is_printed_ready_to_be_applied(cluster: Mounted):
    """Behind the words stands a Job that the API server takes, and beside it the way to follow the request."""
    made = on(cluster, "--gpu", "L40S", "--max-price", "2", "--name", "mine", "-n", "ml", "--yes", "--exclusive")
    printed = made.output.partition("A Job that runs on this machine:\n\n")[2].partition("\nnext: ")[0]
    job = YAML(typ="safe", pure=True).load(printed)
    pod = job["spec"]["template"]["spec"]

    assert made.exit_code == 0, made.output
    assert pod["nodeSelector"] == {"tgp.io/request": "mine"}
    assert pod["tolerations"] == [
        {"key": "tgp.io/ephemeral", "operator": "Exists", "effect": "NoSchedule"},
        {"key": "tgp.io/request", "operator": "Equal", "value": "mine", "effect": "NoSchedule"},
    ]
    send(f"{cluster.url}/apis/batch/v1/namespaces/ml/jobs", "POST", job)
    last = made.output.splitlines()[-1]
    assert last == f"next: tgp watch --kubeconfig {cluster.kubeconfig} --namespace ml request/ml/mine"


def test_a_region_that_no_table_knows_is_named_with_the_nearest(cluster: Mounted):
    plan = on(cluster, "--gpu", "L40S", "--max-price", "2", "--region", "us-eastt", "--dry-run")

    assert plan.exit_code == 3
    assert "region us-eastt is unknown" in " ".join(plan.output.split())
    assert "us-east" in plan.output.partition("did you mean")[2]


@pytest.fixture(scope="module")
def world() -> Iterator[str]:
    with a_market() as url:
        yield url


def test_with_keys_at_hand_the_market_is_asked_and_nothing_is_bought(cluster: Mounted, world: str):
    plan = on(cluster, "--gpu", "L40S", "--dry-run", "-o", "json", TGP_WORLD=world)
    made = on(cluster, "--gpu", "L40S", "--name", "mine", "-n", "ml", "--yes", TGP_WORLD=world)
    fleet = CliRunner().invoke(tgp, ["sim", "fleet", "-o", "json"], env={"TGP_WORLD": world})

    assert {row["provider"]: row["live"] for row in json.loads(plan.output)["prices"]} == {
        "vultr": True,
        "lambda": True,
    }
    assert made.exit_code == 0, made.output
    assert json.loads(fleet.output)["machines"] == []


def test_a_cluster_without_a_class_plans_with_the_keys_at_hand(tmp_path: Path, world: str):
    with Mounted(tmp_path) as server:
        furnish(server)
        answer = on(server, "--gpu", "L40S", "--dry-run", TGP_WORLD=world)
        poor = on(server, "--gpu", "L40S", "--dry-run")

    assert answer.exit_code == 0, answer.output
    assert "there is no GPUNodeClass" in answer.output
    assert poor.exit_code == 3
