"""What stops a request, what would help it, and the next command."""

from tgp.api.common import canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.request import GPURequest, GPURequestSpec
from tgp.core.model.attempts import is_owned, machine_name, open_attempt
from tgp.core.model.gpus import family_members
from tgp.core.reports.request_timeline import OVER, RequestTimeline, condition_of, is_true
from tgp.core.requests.lifecycle import TERMINATION_REQUESTED
from tgp.core.requests.purchase import ALLOW_UNTRUSTED
from tgp.services.request_answers import Enquiry

TERMINATING = "Terminating"  # a phase, and the condition with its reason
DELETE = "kubectl delete gpurequest {name} -n {namespace}"
LOOK_AT_CLASS = "kubectl describe gpunodeclass {node_class}"
_PASSES = "nothing to do: the operator continues without help"
# What removes the reason, if its message does not say so; by reason. The text may name the request.
_HELPS = {
    "PurchasesPaused": "tgp release, once the reason for the pause is gone",
    "Suspended": "tgp release class/{node_class}, once the reason for the suspension is gone",
    "InvalidSpec": f"a corrected request: {DELETE}, and create it again",
    "Restored": f"{DELETE}, and create it again if the machine is still needed",
    "NotInClass": "another class (kubectl get gpunodeclasses, then tgp rent --class NAME), "
    "or this GPU in the class's instanceRequirements.gpuTypes",
    "SpotNotAllowed": f"the class's instanceRequirements.spotAllowed; or {DELETE}, and rent again without --spot",
    "NamespaceNotAllowed": "a namespace that the class serves (its allowedNamespaces), or another class",
    "NodeClassNotFound": "that class; or another class, which needs a new request: "
    f"{DELETE}, and tgp rent --class NAME",
    "SeveralDefaultClasses": f"a request that names its class: {DELETE}, and tgp rent --class NAME",
    "KindsOutdated": "newer CRDs: tgp crds apply",
    "NodeClassNotReady": f"a ready class; its conditions name the problem: {LOOK_AT_CLASS}",
    "NodeClassDeleting": f"another class: {DELETE}, and tgp rent --class NAME",
    "NodeClassUnreadable": f"a ready class; its conditions name the problem: {LOOK_AT_CLASS}",
    "ProviderInconsistent": "an hour of consistent lists; or, if the provider's console shows that the lists are "
    "right, the command in the message",
    "ProviderUnavailable": f"the provider's key, balance or answer: {LOOK_AT_CLASS}",
    "Observing": "an operator that runs without --observe",
    "DevicePluginMissing": "a DaemonSet with the GPU's device plugin that tolerates the node's taints",
    **dict.fromkeys(
        (
            "OffersNotSeen",
            "NodeClassNotSeen",
            "Waiting",
            "Ordering",
            "BackingOff",
            "ProviderBusy",
            "OrderQueued",
            "LaunchOutcomePending",
            "UnclaimedInstance",
        ),
        _PASSES,
    ),
}
_NEXT = {
    "LimitReached": "kubectl get gpurequests -A",
    "DevicePluginMissing": "kubectl get daemonsets -A",
    "KindsOutdated": "tgp crds apply",
    "InvalidSpec": DELETE,
    "Restored": DELETE,
    "NodeClassNotFound": "kubectl get gpunodeclasses",
    "SeveralDefaultClasses": "kubectl get gpunodeclasses",
    "NotInClass": "kubectl get gpunodeclasses",
    **dict.fromkeys(
        ("NodeClassNotReady", "NodeClassDeleting", "NodeClassUnreadable", "NamespaceNotAllowed", "ProviderUnavailable"),
        LOOK_AT_CLASS,
    ),
}


def foreign_provider(spec: GPURequestSpec, node_class: GPUNodeClass) -> str:
    """A message that names the providers of the class; empty: the request names none, or one that the class has."""
    wanted = canonical_provider(spec.offer.provider if spec.offer is not None else spec.provider or "")
    enabled = [canonical_provider(each.name) for each in node_class.spec.providers if each.enabled]
    if not wanted or wanted in enabled:
        return ""
    off = any(canonical_provider(each.name) == wanted for each in node_class.spec.providers)
    state = "has disabled" if off else "does not have"
    there = f" (enabled: {', '.join(dict.fromkeys(enabled))})" if enabled else ""
    return f"class {node_class.metadata.name} {state} provider {wanted}{there}"


def obstacles(asked: Enquiry) -> tuple[str, ...]:
    """What blocks the request whatever the market offers, and the command that removes it."""
    found: list[str] = []
    if asked.request.status.phase in OVER:
        return ()
    if asked.held:
        found.append(f"all purchases are paused: {asked.hold or 'no reason was given'}. Resume: tgp release")
    if asked.node_class is not None and asked.node_class.spec.suspend:
        found.append(f"class {asked.class_name} is suspended. Resume: tgp release class/{asked.class_name}")
    found += [f"class {asked.class_name}: {gap}" for gap in asked.gaps]
    if is_true(asked.request, "Restored"):
        restored = condition_of(asked.request, "Restored")
        assert restored is not None
        found.append(f"the request does not buy: {restored.message}")
    if asked.node_class is not None and (foreign := foreign_provider(asked.request.spec, asked.node_class)):
        found.append(foreign)
    reachable = condition_of(asked.request, "ProviderReachable")
    if reachable is not None and reachable.status == "False":
        found.append(f"the provider does not answer ({reachable.reason}): {reachable.message}")
    return tuple(found)


def advice(timeline: RequestTimeline, asked: Enquiry) -> tuple[str, ...]:
    """What the user could do, derived from the reason."""
    spec, cause = asked.request.spec, timeline.cause
    if timeline.over or cause is None:
        return ()
    words = f"{cause.reason} {timeline.message}"
    found = []
    if "maxHourlyPrice" in words:
        found.append(
            "a higher price: maxHourlyPrice is immutable, so delete the request and rent again with another --max-price"
        )
    if ALLOW_UNTRUSTED in words:
        found.append(
            "community hosts, if the pods may run on untrusted machines: "
            f"kubectl label namespace {timeline.key.namespace} {ALLOW_UNTRUSTED}=true"
        )
    if asked.node_class is not None and foreign_provider(spec, asked.node_class):
        found.append(
            f"that provider in the class: kubectl edit gpunodeclass {asked.class_name}; or delete the request and rent "
            "again with another --provider or --class"
        )
    if "limits." in words or "Limit" in cause.reason:
        found.append(
            "terminating a machine of the class (listed below), or a higher limit: "
            f"kubectl edit gpunodeclass {asked.class_name}"
        )
    known = _HELPS.get(cause.reason)
    if known is _PASSES and obstacles(asked):
        known = None  # an API key, a Secret or a provider's answer is missing: waiting does not add it
    if known is not None and not timeline.ready:
        found.append(_named(known, timeline, asked))
    if cause.reason == "PodsLeft" or (timeline.phase == TERMINATING and condition_false(asked.request, "Drained")):
        drained = condition_of(asked.request, "Drained")
        found.append(
            "the end of the pods on the machine"
            + (f": {drained.message}" if drained is not None and drained.message else "")
        )
    attempt = open_attempt(timeline.attempts)
    if attempt is not None and is_owned(attempt) and termination_fails(timeline):
        found.append(
            f"powering {machine_name(attempt)} off by hand, or a correct scaleDownEndpoint: "
            f"kubectl edit gpunodeclass {asked.class_name}"
        )
    if timeline.phase == "Pending" and not found and (market := _market(asked)):
        found.append(f"an offer that fits: {market} --join talos")
    return tuple(found)


def termination_fails(timeline: RequestTimeline) -> bool:
    """The last request to terminate its machine failed; the message says why."""
    cause = timeline.cause
    return cause is not None and cause.type == TERMINATING and TERMINATION_REQUESTED in cause.message


def _named(words: str, timeline: RequestTimeline, asked: Enquiry) -> str:
    return words.format(name=timeline.key.name, namespace=timeline.key.namespace, node_class=asked.class_name)


def _market(asked: Enquiry) -> str:
    """The command that lists matching offers; empty: unknown GPU."""
    spec = asked.request.spec
    if not spec.gpu_type or not family_members(spec.gpu_type):
        return ""
    return f"tgp offers --gpu {spec.gpu_type}" + (f" --provider {spec.provider}" if spec.provider else "")


def condition_false(request: GPURequest, name: str) -> bool:
    condition = condition_of(request, name)
    return condition is not None and condition.status == "False"


def next_command(timeline: RequestTimeline, asked: Enquiry) -> str:
    if asked.held and not timeline.over:
        return "tgp release"
    if asked.node_class is not None and asked.node_class.spec.suspend and not timeline.over:
        return f"tgp release class/{asked.class_name}"
    if timeline.over:
        return f"kubectl delete gpurequest {timeline.key.name} -n {timeline.key.namespace}"
    if timeline.cause is not None and timeline.cause.reason in _NEXT:
        return _named(_NEXT[timeline.cause.reason], timeline, asked)
    if timeline.phase == "Pending" and (market := _market(asked)):
        return market
    return f"tgp watch {timeline.key}"
