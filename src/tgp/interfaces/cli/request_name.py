"""The name of an object as a user types it: `request/x`, `x`, `namespace/x`, `pod/namespace/x`, `node/y`."""

import click

from tgp.core.model.object_key import ObjectKey

OURS = frozenset({"request", "requests", "gpurequest", "gpurequests", "gpurequest.tgp.io", "gpurequests.tgp.io", "gr"})
PODS = frozenset({"pod", "pods", "po"})
NODES = frozenset({"node", "nodes", "no"})
POOLS = frozenset(
    {"pool", "pools", "gpunodepool", "gpunodepools", "gpunodepool.tgp.io", "gpunodepools.tgp.io", "gnp", "nodepool"}
)
BUDGETS = frozenset(
    {"budget", "budgets", "gpuworkloadbudget", "gpuworkloadbudgets", "gpuworkloadbudgets.tgp.io", "gwb", "gwbs"}
)
KINDS = {"request": OURS, "pod": PODS, "node": NODES, "pool": POOLS, "budget": BUDGETS}
# Words that mean another kind, so that they are not taken for a namespace of that name.
CLASSES = frozenset(
    {"class", "classes", "gnc", "gpunodeclass", "gpunodeclasses", "gpunodeclass.tgp.io", "gpunodeclasses.tgp.io"}
)
MOST_PARTS = 3


def read_name(text: str, namespace: str = "") -> ObjectKey:
    """A request's name; without a namespace it gets `namespace`, and empty is the kubeconfig's. Raises UsageError."""
    kind, key = read_subject(text, namespace)
    if kind != "request":
        raise click.UsageError(f"{text!r}: only requests are supported here; write request/NAME.")
    return key


def read_subject(text: str, namespace: str = "") -> tuple[str, ObjectKey]:
    """The kind (a key of KINDS) and the name; without a kind it is a request. Raises UsageError."""
    parts = text.split("/")
    word = parts[0].lower()
    if len(parts) > 1 and word in CLASSES:
        describe = f"kubectl describe gpunodeclass {parts[-1] or 'NAME'}"
        raise click.UsageError(
            f"{text!r}: {_known()} are supported. For a class, {describe} shows its conditions, and tgp check lists "
            "what is missing with the command that adds it."
        )
    kind = next((kind for kind, words in KINDS.items() if word in words), "") if len(parts) > 1 else ""
    named = parts[1:] if kind else parts
    kind = kind or "request"
    if len(parts) > MOST_PARTS or len(named) > (1 if kind == "node" else 2) or not all(named):
        raise click.UsageError(f"{text!r} is not the name of a {kind}; write {_shapes(kind)}.")
    if len(named) == 1:
        return kind, ObjectKey("" if kind == "node" else namespace, named[0])
    if namespace and namespace != named[0]:
        raise click.UsageError(f"{text!r} contradicts --namespace {namespace}.")
    return kind, ObjectKey(named[0], named[1])


def _shapes(kind: str) -> str:
    if kind == "request":
        return "request/NAME, NAME or NAMESPACE/NAME"
    return "node/NAME" if kind == "node" else f"{kind}/NAME or {kind}/NAMESPACE/NAME"


def _known() -> str:
    return ", ".join(f"{kind}/NAME" for kind in KINDS)
