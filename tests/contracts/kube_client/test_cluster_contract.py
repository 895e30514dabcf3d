"""The cluster's promises on the in-memory API server; the real one is tried beside the other control-plane tests."""

import pytest

from tests.contracts.kube_client.cluster_cases import CASES, Case, a_ground
from tgp.sim.apiserver.server import ApiServer
from tgp.sim.entropy import SeededEntropy
from tgp.sim.world import World


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_pretend_api_server_keeps_the_contract(case: Case):
    with World(1) as world:
        server = ApiServer(world.clock, SeededEntropy(1, "apiserver"))
        world.mount("kube", server.handle)
        ground = world.until(a_ground(world.visitor("kube"), world.clock, SeededEntropy(1, "case")))
        world.until(case(ground))
