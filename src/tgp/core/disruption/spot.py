"""Which pods may be moved from an on-demand machine to a spot one, which its provider may interrupt.

A pod that is interrupted loses its work, whatever it costs. So a lower price is no reason to move it there unless its
manifest, or its pool's, names spot machines.
"""

from collections.abc import Iterable

import msgspec

from tgp.api.nodepool import GPUNodePool
from tgp.core.disruption.causes import Standing
from tgp.core.disruption.machine_state import as_waiting, pods_to_move
from tgp.core.model.labels import LabelRequirement
from tgp.core.model.placement import NodeTerm
from tgp.core.model.pod import Pod

SPOT_LABELS = {"tgp.io/capacity-type": "spot", "tgp.io/spot": "true"}  # of the Nodes of spot machines
OFF_SPOT = LabelRequirement("tgp.io/capacity-type", "NotIn", ("spot",))


def moved_pods(standing: Standing) -> tuple[Pod, ...]:
    """The pods of a machine that may be exchanged, as they will wait: where it is on demand, for no spot machine."""
    waiting = tuple(as_waiting(pod) for pod in pods_to_move(standing.machine.pods))
    if standing.spot_loss > 0 or _names_spot_in(standing.pool):
        return waiting
    return tuple(pod if names_spot(pod) else _off_spot(pod) for pod in waiting)


def names_spot(pod: Pod) -> bool:
    """By its node selector, by a node affinity that it requires or prefers, or by a toleration of that key."""
    if any(pod.node_selector.get(key) == value for key, value in SPOT_LABELS.items()):
        return True
    terms = (*(pod.affinity.node_terms or ()), *(each.term for each in pod.affinity.preferred_nodes))
    named = any(_includes_spot((each.key, each.operator, each.values) for each in term.labels) for term in terms)
    return named or any(each.key in SPOT_LABELS for each in pod.tolerations)


def _names_spot_in(pool: GPUNodePool) -> bool:
    wanted = pool.spec.template.spec.requirements
    return _includes_spot((each.key, each.operator, each.values) for each in wanted)


def _includes_spot(requirements: Iterable[tuple[str, str, tuple[str, ...]]]) -> bool:
    return any(operator == "In" and SPOT_LABELS.get(key) in values for key, operator, values in requirements)


def _off_spot(pod: Pod) -> Pod:
    terms = pod.affinity.node_terms
    if terms is None:
        terms = (NodeTerm((OFF_SPOT,)),)
    else:  # an empty term admits no Node, and stays so
        terms = tuple(NodeTerm((*each.labels, OFF_SPOT), each.fields) if each != NodeTerm() else each for each in terms)
    return msgspec.structs.replace(pod, affinity=msgspec.structs.replace(pod.affinity, node_terms=terms))
