"""The name of a request as a user types it: `request/x`, `x`, `namespace/x`, `request/namespace/x`."""

import click

from tgp.core.model.object_key import ObjectKey

OURS = frozenset({"request", "requests", "gpurequest", "gpurequests", "gpurequest.tgp.io", "gpurequests.tgp.io", "gr"})
# Words that mean another kind, so that they are not taken for a namespace called "pod".
OTHERS = frozenset({"pod", "pods", "po", "node", "nodes", "no", "pool", "class", "gnp", "gnc", "gwb", "budget"})
MOST_PARTS = 3


def read_name(text: str, namespace: str = "") -> ObjectKey:
    """A name without a namespace gets `namespace`; empty means the kubeconfig's own. Raises UsageError."""
    parts = text.split("/")
    kind = parts[0].lower()
    if len(parts) > 1 and kind in OTHERS:
        raise click.UsageError(f"{text!r}: only requests are supported so far; write request/NAME.")
    named = parts[1:] if len(parts) > 1 and kind in OURS else parts
    if len(parts) > MOST_PARTS or len(named) > 2 or not all(named):
        raise click.UsageError(f"{text!r} is not the name of a request; write request/NAME, NAME or NAMESPACE/NAME.")
    if len(named) == 1:
        return ObjectKey(namespace, named[0])
    if namespace and namespace != named[0]:
        raise click.UsageError(f"{text!r} contradicts --namespace {namespace}.")
    return ObjectKey(named[0], named[1])
