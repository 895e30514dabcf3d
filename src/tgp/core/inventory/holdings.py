"""What would go on costing money without the operator: a sentence on its Namespace, which guards against uninstalling.

A policy of the chart refuses to delete the operator, its rights and its kinds while the sentence is there.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from tgp.api.common import PROVIDERS
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest
from tgp.api.resource import GPU_NODE_CLASS
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.costs import hourly_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.money import dollars

STAND_IN = "tgp-holdings"  # the class that has both annotations while there is no other
HOLDINGS = "tgp.io/holdings"  # on the operator's Namespace, and copied to every class; absent: no machine
ABANDON = "tgp.io/abandon"  # the same: it allows to uninstall in spite of machines
COPIED = "as on the operator's Namespace"


def held_by(record: KubeObject[GPURequest] | None) -> tuple[str, int] | None:
    """The token and the hourly price of the machine that a request has, or may have; None: it has none."""
    if record is None or copied(record):
        return None
    attempt = open_attempt(attempts_of(record))
    return (attempt.token, hourly_of(attempt)) if attempt is not None else None


def holdings(requests: Iterable[KubeObject[GPURequest]], without_request: Mapping[str, int | None]) -> str:
    """Every machine once, also an order whose outcome is not known; empty: there is none.

    Of machines without a request the price by token; None: it is unknown.
    """
    held = (each for record in requests if (each := held_by(record)) is not None)
    prices = {**without_request, **{token: price or None for token, price in held}}
    return cost_words(tuple(prices.values())) if prices else ""


def cost_words(prices: Sequence[int | None]) -> str:
    """Of one machine or more: how many, and what they cost. None: the price is unknown."""
    unknown = sum(price is None for price in prices)
    rest = f", plus {unknown} of unknown price" if unknown else ""
    machines = "1 machine costs" if len(prices) == 1 else f"{len(prices)} machines cost"
    return f"{machines} {dollars(sum(price or 0 for price in prices))} an hour{rest}"


def told(annotations: Mapping[str, str]) -> str:
    """What the Namespace says now; empty: nothing."""
    return annotations.get(HOLDINGS, "")


def class_changes(
    home: Mapping[str, str], classes: Iterable[KubeObject[GPUNodeClass]], words: str
) -> Iterator[tuple[KubeObject[GPUNodeClass], dict[str, str | None]]]:
    """Classes whose copies of both annotations are not as they should be, with what to write; None: remove it.

    The sentence is about every machine, not only those of this class: an order whose outcome is not known, a machine
    without a request and one of the implicit class have no other class to be counted by. A `tgp.io/abandon` that a
    person wrote on a class stays.
    """
    for record in classes:
        changes: dict[str, str | None] = {}
        if record.annotations.get(HOLDINGS, "") != words:
            changes[HOLDINGS] = words or None
        here = record.annotations.get(ABANDON)
        if ABANDON in home and here is None:
            changes[ABANDON] = COPIED
        elif ABANDON not in home and here == COPIED:
            changes[ABANDON] = None
        if changes:
            yield record, changes


def stand_in(words: str) -> dict[str, Any]:
    """A class that buys nothing, for the guard to see where a request is served without any class in the cluster."""
    what = "Made for the guard against uninstalling, which sees only classes. This class serves no request."
    return {
        "apiVersion": GPU_NODE_CLASS.api_version,
        "kind": GPU_NODE_CLASS.kind,
        "metadata": {"name": STAND_IN, "annotations": {HOLDINGS: words, "kubernetes.io/description": what}},
        "spec": {"providers": [{"name": PROVIDERS[0]}], "suspend": True},  # a class needs one
    }
