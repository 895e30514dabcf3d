"""What one pod counts: the units it asks for, by resource, times the weight of the GPU model of its Node."""

from collections.abc import Iterator
from datetime import datetime
from decimal import ROUND_CEILING, Decimal

import msgspec

from tgp.api.budget import GPUWorkloadBudgetSpec
from tgp.api.quantity import exact
from tgp.core.model.gpus import family_members, known, nearest, plain
from tgp.core.model.node import Node
from tgp.core.model.pod import Pod
from tgp.core.model.resources import Resources

MODEL_LABELS = ("tgp.io/gpu-type", "nvidia.com/gpu.product")  # of a Node; the first that is there
ONE = Decimal(1)


class Weights(msgspec.Struct, frozen=True):
    resource: str
    others: tuple[tuple[str, Decimal], ...] = ()  # resources that count beside it
    models: tuple[tuple[str, Decimal], ...] = ()  # the first that names the Node's GPU holds; none: 1

    @property
    def resources(self) -> tuple[str, ...]:
        return (self.resource, *(resource for resource, _ in self.others))

    def asked(self, pod: Pod) -> Iterator[tuple[str, Decimal]]:
        """The counted resources that it asks for, and the weight of a unit."""
        for resource, weight in ((self.resource, ONE), *self.others):
            if pod.requests.of(resource) > 0:
                yield resource, weight

    def milli(self, pod: Pod, node: Node | None) -> int:
        """Thousandths of a GPU, rounded up."""
        if not self.models:
            return self.units(pod.requests)
        return _whole(self._units(pod.requests) * self._model(node))

    def units(self, requests: Resources) -> int:
        """Thousandths of a GPU of any model, rounded up: of what has no Node yet."""
        return _whole(self._units(requests)) if self.others else requests.milli(self.resource)

    def _units(self, requests: Resources) -> Decimal:
        counted = ((self.resource, ONE), *self.others)
        return sum((weight * requests.milli(resource) for resource, weight in counted), Decimal())

    def started(self, pod: Pod) -> datetime | None:
        """The first start of a container that asks for any of it; None: none has started."""
        starts = (pod.started(resource) for resource, _ in self.asked(pod))
        return min((start for start in starts if start is not None), default=None)

    def _model(self, node: Node | None) -> Decimal:
        told = model_of(node)
        return next((weight for name, weight in self.models if told and _names(name, told)), ONE)


def weights_of(spec: GPUWorkloadBudgetSpec) -> Weights:
    return Weights(
        spec.gpu_resource_name,
        tuple((row.resource, exact(row.weight)) for row in spec.weights if row.resource is not None),
        tuple((row.gpu_type, exact(row.weight)) for row in spec.weights if row.gpu_type is not None),
    )


def weights_problem(spec: GPUWorkloadBudgetSpec) -> str:
    """A model that no Node can have, or that an earlier row means already; empty: every weight can count.

    A name with a hyphen may be a Node's label that feature discovery wrote (of a slice, or of a GPU that is in no
    table): it counts as it is written.
    """
    rows = [(number, row.gpu_type) for number, row in enumerate(spec.weights) if row.gpu_type is not None]
    for at, (number, name) in enumerate(rows):
        path = f"spec.weights[{number}].gpuType {name}"
        if not known(name) and "-" not in name and (near := nearest(name)):
            return f"{path} is an unknown GPU model; did you mean {', '.join(near)}? Nothing is counted"
        if (first := next((earlier for earlier, other in rows[:at] if _names(other, name)), None)) is not None:
            rest = "Nothing is counted. Remove one of them, or put the row of fewer models first"
            return f"{path} never counts: spec.weights[{first}] means the same GPUs and comes first. {rest}"
    return ""


def _whole(amount: Decimal) -> int:
    return int(amount.to_integral_value(ROUND_CEILING))


def model_of(node: Node | None) -> str:
    """Empty: it is not known."""
    return next((node.labels[label] for label in MODEL_LABELS if label in node.labels), "") if node is not None else ""


def _names(name: str, told: str) -> bool:
    """Whether a model or a family of them is meant: H100 is any H100."""
    models = set(family_members(told))
    return plain(name) == plain(told) or (bool(models) and models <= set(family_members(name)))
