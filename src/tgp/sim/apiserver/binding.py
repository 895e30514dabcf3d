"""The binding subresource: a pod gets its node, once."""

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, copied, mapping_at
from tgp.sim.apiserver.problems import not_supported
from tgp.sim.apiserver.status_errors import bad_request, conflict, not_found, plain_500
from tgp.sim.apiserver.storage import key_of
from tgp.sim.apiserver.verbs.update import change


def bind(write: Write, sent: Json) -> Json:
    """Assign the pod to the node in `sent.target`; returns the Status of success (HTTP 201)."""
    name = write.name
    meta, target = mapping_at(sent, "metadata"), mapping_at(sent, "target")
    if meta.get("name", name) != name:
        raise bad_request("name in URL does not match name in Binding object")
    if target.get("kind") not in {None, "", "Node"}:
        why = not_supported("target.kind", target["kind"], ("Node", "<empty>"))
        raise plain_500(f"{why.field}: {why.message}")
    if not target.get("name"):
        raise plain_500("target.name: Required value")
    existing = write.existing()
    if existing is None:
        raise not_found("", "pods", name)
    check_may_be_bound(existing.obj)
    write.core.semantics.check_update_uid(
        write.served, meta.get("uid") or "", existing.obj, key_of(write.namespace, name)
    )

    def make(live: Json | None) -> Json:
        return _bound(copied(live), target["name"], mapping_at(meta, "annotations"), write.core.now_text())

    change(write.through("binding"), make)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def check_may_be_bound(pod: Json) -> None:
    name = pod["metadata"]["name"]
    node = mapping_at(pod, "spec").get("nodeName")
    if "deletionTimestamp" in pod["metadata"]:
        raise conflict("", "pods/binding", name, f"pod {name} is being deleted, cannot be assigned to a host")
    if node:
        raise conflict("", "pods/binding", name, f'pod {name} is already assigned to node "{node}"')
    if mapping_at(pod, "spec").get("schedulingGates"):
        raise conflict("", "pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def _bound(pod: Json, node: str, annotations: Json, now: str) -> Json:
    pod["spec"]["nodeName"] = node
    if annotations:
        pod["metadata"]["annotations"] = {**mapping_at(pod, "metadata", "annotations"), **annotations}
    status = pod.setdefault("status", {})
    status.pop("nominatedNodeName", None)
    row = {"type": "PodScheduled", "status": "True", "lastProbeTime": None, "lastTransitionTime": now}
    rest = [known for known in status.get("conditions") or [] if known.get("type") != "PodScheduled"]
    status["conditions"] = [*rest, row]
    return pod
