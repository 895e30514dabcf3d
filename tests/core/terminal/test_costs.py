"""What an object costs, as a screen reads it."""

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from tests.core.requests.an_observation import NOW, a_machine, ago, an_observation, over
from tgp.api.common import NodeClassRef
from tgp.api.nodeclass import GPUNodeClass, GPUNodeClassSpec, GPUNodeClassStatus, ProviderConfig
from tgp.api.nodepool import GPUNodePool, GPUNodePoolSpec, GPUNodePoolStatus
from tgp.app.view.gatherer import cost_row_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.object_key import ObjectKey
from tgp.interfaces.terminal.snapshot import CostRow


def test_a_request_costs_on_as_time_passes_and_says_until_when():
    until = NOW + timedelta(hours=1)
    running = a_machine(2, launched_at=ago(hours=2))
    lost = over(1, "Lost", launched_at=ago(hours=4), ended_at=ago(hours=3), spent="0.40")
    record = an_observation(lost, running, status={"termination_scheduled_at": until}).record

    assert cost_row_of(record, NOW) == CostRow(400_000, 1_200_000, until)
    assert cost_row_of(record, NOW + timedelta(hours=1)) == CostRow(400_000, 1_600_000, until)


def test_a_request_without_a_machine_costs_nothing_more():
    record = an_observation(over(1, "Terminated", launched_at=ago(hours=2), ended_at=ago(hours=1), spent="0.40")).record

    assert cost_row_of(record, NOW) == CostRow(0, 400_000)


def test_a_restored_copy_costs_nothing():
    """The machine in its status is another object's."""
    assert cost_row_of(an_observation(replace(a_machine(), token=f"tgp-abcdef0123-{'9' * 32}-1")).record, NOW) is None


def test_a_class_costs_what_its_status_says_and_nonsense_is_nothing():
    def a_class(**status: str) -> KubeObject[GPUNodeClass]:
        spec = GPUNodeClassSpec(providers=(ProviderConfig(name="vast"),))
        return KubeObject(key=ObjectKey("", "c"), value=GPUNodeClass(spec=spec, status=GPUNodeClassStatus(**status)))

    assert cost_row_of(a_class(hourly_cost="1.50", total_cost="20"), NOW) == CostRow(1_500_000, 20_000_000)
    assert cost_row_of(a_class(hourly_cost="plenty"), NOW) == CostRow(0, 0)


def test_a_pool_costs_what_its_status_says():
    spec = GPUNodePoolSpec(node_class_ref=NodeClassRef(name="c"))
    pool = GPUNodePool(spec=spec, status=GPUNodePoolStatus(hourly_cost="1.50"))

    assert cost_row_of(KubeObject(key=ObjectKey("ml", "p"), value=pool), NOW) == CostRow(1_500_000, 0)


def test_what_cannot_be_read_has_no_purse():
    unreadable = msgspec.structs.replace(an_observation(a_machine()).record, value=None)

    assert cost_row_of(unreadable, NOW) is None
