"""The name of a request as people type it: `request/x`, `x`, `namespace/x`, `request/namespace/x`."""

import click

from tgp.core.model.key import Key

OURS = frozenset({"request", "requests", "gpurequest", "gpurequests", "gpurequest.tgp.io", "gpurequests.tgp.io", "gr"})
# Words that mean another kind, so that nobody is told of a namespace called "pod".
OTHERS = frozenset({"pod", "pods", "po", "node", "nodes", "no", "pool", "class", "gnp", "gnc", "gwb", "budget"})
MOST_PARTS = 3


def read_name(text: str, namespace: str = "") -> Key:
    """Without a namespace in it: of `namespace`, which may be empty for the kubeconfig's own. Raises UsageError."""
    parts = text.split("/")
    kind = parts[0].lower()
    if len(parts) > 1 and kind in OTHERS:
        raise click.UsageError(f"{text!r}: only requests can be asked about so far; write request/NAME.")
    named = parts[1:] if len(parts) > 1 and kind in OURS else parts
    if len(parts) > MOST_PARTS or len(named) > 2 or not all(named):
        raise click.UsageError(f"{text!r} is no name of a request; write request/NAME, NAME or NAMESPACE/NAME.")
    if len(named) == 1:
        return Key(namespace, named[0])
    if namespace and namespace != named[0]:
        raise click.UsageError(f"{text!r} names another namespace than --namespace {namespace}.")
    return Key(named[0], named[1])
