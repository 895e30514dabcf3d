"""Which Node is a request's own. Tenants may write statuses: the name is derived, and the Node itself is the proof."""

from collections.abc import Iterable

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, is_owned, open_attempt, provider_of
from tgp.core.model.kube_object import KubeObject
from tgp.core.model.node import REQUEST_UID, Node
from tgp.core.requests.attempt_account import has_foreign_token
from tgp.core.requests.node_names import node_name_for
from tgp.core.requests.node_state import provider_id_of


def reserved_node_name(request: KubeObject[GPURequest]) -> str:
    """That its Node has or will have; empty: there is none now. Of a machine you own its record says it: no proof."""
    attempt = open_attempt(attempts_of(request))
    if attempt is None or has_foreign_token(request, attempt):
        return ""
    if is_owned(attempt):
        return (attempt.offer.instance_type or "") if attempt.offer is not None else ""
    return node_name_for(request.key, attempt.token)


def is_own_node(request: KubeObject[GPURequest], node: Node | None) -> bool:
    """By its name, the label that the operator sets, and its provider ID unless it is a machine you own."""
    attempt = open_attempt(attempts_of(request))
    if node is None or attempt is None or node.unreadable or node.name != reserved_node_name(request):
        return False
    if node.labels.get(REQUEST_UID) != request.uid_text:
        return False
    return is_owned(attempt) or node.provider_id == provider_id_of(provider_of(attempt), attempt.token)


def owners_of(node: Node, named: Iterable[KubeObject[GPURequest]]) -> list[KubeObject[GPURequest]]:
    """Of requests that reserve a Node of this name, those whose own it is."""
    return [each for each in named if is_own_node(each, node)]
