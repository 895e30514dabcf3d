"""What deploy/examples gives people to begin with: accepted as it is, and the request becomes a machine."""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.sim.an_operator import a_class, create, operator_main
from tests.sim.lives.an_estate import lives
from tgp.api.decoding import strict
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.resource import GPU_REQUEST
from tgp.core.rules.beyond_crd import class_problems

EXAMPLES = Path(__file__).parents[3] / "deploy" / "examples"


def documents(name: str) -> list[dict[str, Any]]:
    return list(YAML(typ="safe", pure=True).load_all((EXAMPLES / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", sorted(path.name for path in EXAMPLES.glob("*.yaml")))
def test_an_example_is_accepted_to_the_letter(name):
    for document in documents(name):
        manifest = strict(document)
        assert not isinstance(manifest, GPUNodeClass) or class_problems(manifest) == []


def test_only_the_example_of_a_request_costs_anything():
    """Whoever applies the class and the pool has not rented a machine."""
    buying = [path.name for path in EXAMPLES.glob("*.yaml") if any(_buys(one) for one in documents(path.name))]

    assert buying == ["request.yaml"]


def _buys(document: dict[str, Any]) -> bool:
    return document["kind"] == "GPURequest" or "replicas" in document["spec"]


def test_the_example_of_a_request_becomes_a_machine_within_its_price():
    (request,) = documents("request.yaml")
    name = request["metadata"]["name"]
    with lives("example") as stage:
        a_class(stage.world, "rented")
        stage.world.process("operator", operator_main())
        stage.world.run(minutes=1)
        create(stage.world, GPU_REQUEST, name, request["metadata"]["namespace"], spec=request["spec"])
        stage.until(lambda: stage.phase(name) == "Ready", minutes=10)
        (machine,) = stage.living()

        assert machine.charged_microusd <= 600_000
