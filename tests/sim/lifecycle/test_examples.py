"""What deploy/examples and the README give users to begin with: accepted, sold by real providers, and it works."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.sim.an_operator import ALONE, a_class, create, open_market, operator_main
from tests.sim.lifecycle.a_world import sim_env
from tgp.adapters.clouds.registry import AllClouds, facts_of
from tgp.api.decoding import decode, strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, GPU_REQUEST, JOB
from tgp.core.classes.semantic_validation import class_problems
from tgp.core.market.sources import source_for
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.core.model.price_book import PriceBook
from tgp.core.model.secret import Secret
from tgp.core.requests.purchase import Purchase, PurchaseInput, decide_purchase, every_source
from tgp.sim.clouds.http_factory import Dialler
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import World
from tools.demo_simulation import DemoSimulation

ROOT = Path(__file__).parents[3]
EXAMPLES = ROOT / "deploy" / "examples"
REAL = ("vast", "runpod", "lambdalabs", "paperspace", "vultr", "gcp")
OURS = "tgp.io/v1"


def documents(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all((EXAMPLES / name).read_text(encoding="utf-8")))


def shown(page: str) -> list[dict[str, Any]]:
    """The manifests that a page writes."""
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.DOTALL)
    read = (YAML(typ="safe", pure=True).load(block) for block in blocks if "{{" not in block)
    return [document for document in read if "kind" in document]


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_an_example_is_accepted_to_the_letter(name):
    for document in documents(name):
        if document["apiVersion"] != OURS:
            continue
        manifest = strict(document)
        assert not isinstance(manifest, GPUNodeClass) or class_problems(manifest) == []


def test_only_the_example_of_a_request_costs_anything():
    """Applying the class and the pool launches no machine."""
    buying = [path.name for path in EXAMPLES.glob("*.yaml") if any(_buys(one) for one in documents(path.name))]

    assert buying == ["request.yaml"]


def _buys(document: dict[str, Any]) -> bool:
    return document["apiVersion"] == OURS and (document["kind"] == "GPURequest" or "replicas" in document["spec"])


def test_the_example_of_a_request_becomes_a_machine_within_its_price():
    (request,) = documents("request.yaml")
    name = request["metadata"]["name"]
    with sim_env("example") as env:
        a_class(env.world, "rented")
        env.world.process("operator", operator_main(ALONE))
        env.world.run(minutes=1)
        create(env.world, GPU_REQUEST, name, request["metadata"]["namespace"], spec=request["spec"])
        env.until(lambda: env.phase(name) == "Ready", minutes=10)
        (machine,) = env.living()

        assert machine.charged_microusd <= 2_000_000


# -- sold by a provider ----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def book() -> Iterator[PriceBook]:
    """Everything that the six real providers sell, as their simulators have it."""
    with World("examples") as world:
        clouds = AllClouds(
            Dialler(world.network, world.clock), world.clock, SeededEntropy(world.seed, "shop"), world.resolver
        )
        everywhere, found = decode(GPUNodeClass, EVERYWHERE), PriceBook()
        for provider in everywhere.spec.providers:
            key = open_market(world, provider.name).key_at(facts_of(provider.name).endpoint)
            source = source_for(provider)
            listing = world.until(clouds.open(source, Secret(key), {}).offers())
            found = found.with_listing(source.name, listing, world.clock.now())
        yield found


EVERYWHERE: dict[str, Any] = {
    "apiVersion": OURS,
    "kind": "GPUNodeClass",
    "metadata": {"name": "everywhere"},
    "spec": {"providers": [{"name": name} for name in REAL], "networking": {"backend": "none"}},
}
STANDARD = documents("pool.yaml")[0]
REQUESTS = [
    ("deploy/examples/request.yaml", documents("request.yaml")[0]),
    *((page, one) for page in ("README.md", "docs/requests.md") for one in shown(page) if one["kind"] == "GPURequest"),
]


@pytest.mark.parametrize("written", [STANDARD, EVERYWHERE], ids=lambda written: written["metadata"]["name"])
@pytest.mark.parametrize(("page", "document"), REQUESTS, ids=lambda value: value if isinstance(value, str) else "")
def test_what_is_asked_for_is_sold_by_a_real_provider_and_boots_talos(page, document, written, book):
    request, node_class = decode(GPURequest, document), decode(GPUNodeClass, written)
    assert isinstance(request, GPURequest)
    assert isinstance(node_class, GPUNodeClass)
    choice = decide_purchase(
        PurchaseInput(
            KubeObject(key=ObjectKey("default", "asked"), value=request),
            node_class.metadata.name,
            node_class,
            book,
            every_source(node_class),
            now=max(state.seen_at for state in book.sources if state.seen_at is not None),
        )
    )

    assert isinstance(choice, Purchase), choice
    assert choice.offer.provider in REAL


def test_the_examples_pool_asks_for_what_its_class_can_buy():
    node_class, pool = documents("pool.yaml")
    models = node_class["spec"]["instanceRequirements"]["gpuTypes"]

    assert pool["spec"]["nodeClassRef"]["name"] == node_class["metadata"]["name"]
    assert any(models == [document["spec"]["gpuType"]] for _, document in REQUESTS)


# -- and it runs -----------------------------------------------------------------------------------------------------


def test_readmes_first_manifest_and_job_run_to_completion_on_the_embedded_world():
    request, job = (one for one in shown("README.md") if one["kind"] in {"GPURequest", "Job"})
    with DemoSimulation() as rehearsal:
        rehearsal.run(minutes=3, with_view=False)  # prices were read
        people = rehearsal.world.server.local_api
        people.create(GPU_REQUEST, {**request, "metadata": {**request["metadata"], "namespace": "default"}})
        people.create(JOB, {**job, "metadata": {**job["metadata"], "namespace": "default"}})
        for _ in range(20):
            rehearsal.run(minutes=1, with_view=False)
            if _succeeded(people.get(JOB, "default", job["metadata"]["name"])):
                break
        found = people.get(GPU_REQUEST, "default", request["metadata"]["name"])

    assert _succeeded(people.get(JOB, "default", job["metadata"]["name"])), found["status"]
    assert found["status"]["phase"] == "Ready"


def test_the_examples_pool_buys_for_the_examples_job_on_the_embedded_world_as_it_is():
    """Class, pool and Job as they are written: machines come, the Job ends, and they go."""
    node_class, pool = documents("pool.yaml")
    (job,) = documents("training.yaml")
    with DemoSimulation() as rehearsal:
        rehearsal.run(minutes=5, with_view=False)  # keys are there, and prices were read
        people = rehearsal.world.server.local_api
        for resource, manifest in ((GPU_NODE_CLASS, node_class), (GPU_NODE_POOL, pool), (JOB, job)):
            people.create(resource, manifest)
        bought: dict[str, Any] = {}
        for _ in range(40):
            rehearsal.run(minutes=1, with_view=False)
            bought |= {one["metadata"]["name"]: one for one in people.objects(GPU_REQUEST) if _of_pool(one, pool)}
            if _succeeded(people.get(JOB, "default", job["metadata"]["name"]), 2) and not any(
                _of_pool(one, pool) for one in people.objects(GPU_REQUEST)
            ):
                break
        told = people.get(GPU_NODE_POOL, "default", pool["metadata"]["name"])

    assert _succeeded(people.get(JOB, "default", job["metadata"]["name"]), 2), told["status"]
    assert {one["spec"]["offer"]["provider"] for one in bought.values()} == {"vultr"}
    assert (len(bought), told["status"]["nodeCount"]) == (2, 0)


def _of_pool(request: dict[str, Any], pool: dict[str, Any]) -> bool:
    owners = request["metadata"].get("ownerReferences", ())
    return any((one["kind"], one["name"]) == ("GPUNodePool", pool["metadata"]["name"]) for one in owners)


def _succeeded(job: dict[str, Any], pods: int = 1) -> bool:
    return job.get("status", {}).get("succeeded") == pods
