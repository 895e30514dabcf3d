"""Services get an address; claims, storage classes and limit ranges get what they leave unsaid."""

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Address

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, at, list_at, mapping_at
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import invalid_value
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause, plain_500

SERVICE_RANGE = IPv4Address("10.0.0.0")  # --service-cluster-ip-range=10.0.0.0/24
ADDRESSES = range(2, 255)  # .1 is the API server's own
NODE_PORTS = range(30000, 32768)
HEADLESS = "None"
BALANCED = frozenset({"NodePort", "LoadBalancer"})
CLAIM_FINALIZER = "kubernetes.io/pvc-protection"


class ServiceStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        kind = spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or ():
            port.setdefault("protocol", "TCP")
            if port.get("targetPort") in {None, "", 0}:
                port["targetPort"] = port.get("port", 0)
        if kind != "ExternalName":
            spec.setdefault("internalTrafficPolicy", "Cluster")
        if kind in BALANCED:
            spec.setdefault("externalTrafficPolicy", "Cluster")
        if kind == "LoadBalancer":
            spec.setdefault("allocateLoadBalancerNodePorts", True)

    def prepare_create(self, write: Write, obj: Json) -> None:
        super().prepare_create(write, obj)
        _allocate(write, obj)

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        """What was allocated stays, also when the writer leaves it out."""
        spec, before = mapping_at(obj, "spec"), mapping_at(old, "spec")
        if spec.get("type") != "ExternalName" and before.get("clusterIP") and not spec.get("clusterIP"):
            for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy"):
                spec[name] = before.get(name)
        _allocate(write, obj)

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        before, after = at(old, "spec", "clusterIP"), at(obj, "spec", "clusterIP")
        if before and before != after and at(obj, "spec", "type") != "ExternalName":
            return [invalid_value("spec.clusterIPs[0]", [after], "may not change once set")]
        return []


def _allocate(write: Write, obj: Json) -> None:
    spec = obj["spec"]
    if spec.get("type") == "ExternalName":
        return
    others = [record.obj for record in write.core.store.kind_storage(write.served.storage).records.values()]
    if not spec.get("clusterIP"):
        taken = {at(other, "spec", "clusterIP") for other in others}
        spec["clusterIP"] = _first_free((str(SERVICE_RANGE + n) for n in ADDRESSES), taken, "service addresses")
    spec["clusterIPs"] = [spec["clusterIP"]]
    spec["ipFamilies"] = ["IPv4"]
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    if spec.get("type") in BALANCED and spec.get("allocateLoadBalancerNodePorts") is not False:
        used = {port.get("nodePort") for other in others for port in list_at(other, "spec", "ports")}
        for port in spec.get("ports") or ():
            if not port.get("nodePort"):
                port["nodePort"] = _first_free(NODE_PORTS, used, "node ports")
            used.add(port["nodePort"])


def _first_free(candidates: Iterable[int | str], taken: Iterable[object], what: str) -> int | str:
    free: Iterator[int | str] = (candidate for candidate in candidates if candidate not in set(taken))
    found = next(free, None)
    if found is None:
        raise plain_500(f"no {what} are left")
    return found


class ClaimStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        obj.setdefault("spec", {}).setdefault("volumeMode", "Filesystem")

    def prepare_create(self, write: Write, obj: Json) -> None:
        obj["status"] = {"phase": "Pending"}
        meta = obj["metadata"]
        if CLAIM_FINALIZER not in meta.get("finalizers", ()):
            meta["finalizers"] = [*meta.get("finalizers", ()), CLAIM_FINALIZER]


class StorageClassStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        obj.setdefault("reclaimPolicy", "Delete")
        obj.setdefault("volumeBindingMode", "Immediate")


class LimitRangeStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        """A container's limit defaults to the most allowed, its request to that limit, or else to the least allowed."""
        for limit in list_at(obj, "spec", "limits"):
            if limit.get("type") == "Container":
                limits = {**(limit.get("max") or {}), **(limit.get("default") or {})}
                requests = {**(limit.get("min") or {}), **limits, **(limit.get("defaultRequest") or {})}
                limit["default"], limit["defaultRequest"] = limits, requests
