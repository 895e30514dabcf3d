"""What decoding fills into a pod's spec, in pods and in templates alike."""

from typing import Any

from tgp.sim.apiserver.json_value import Json, list_at, mapping_at
from tgp.sim.apiserver.quantities import check_pod_amounts

FILE_MODE = 420  # 0644


def default_pod_spec(spec: Json) -> None:
    check_pod_amounts(spec)
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    if spec.get("serviceAccountName"):
        spec.setdefault("serviceAccount", spec["serviceAccountName"])
    elif spec.get("serviceAccount"):
        spec["serviceAccountName"] = spec["serviceAccount"]
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    for name in ("initContainers", "containers"):
        for container in list_at(spec, name):
            if isinstance(container, dict):
                _default_container(container)
    for volume in list_at(spec, "volumes"):
        if isinstance(volume, dict):
            _default_volume(volume)
    for toleration in list_at(spec, "topologySpreadConstraints"):
        toleration.setdefault("whenUnsatisfiable", "DoNotSchedule")


def default_pod(spec: Json) -> None:
    """Only for pods: links to services, and requests that follow from limits."""
    spec.setdefault("enableServiceLinks", True)
    if spec.get("hostNetwork"):
        for container in list_at(spec, "containers"):
            for port in list_at(container, "ports"):
                port.setdefault("hostPort", port.get("containerPort"))
    for name in ("initContainers", "containers"):
        for container in list_at(spec, name):
            limits = mapping_at(container, "resources", "limits")
            if limits:
                requests = container["resources"].setdefault("requests", {})
                for resource, amount in limits.items():
                    requests.setdefault(resource, amount)


def _default_container(container: Json) -> None:
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    if "imagePullPolicy" not in container and container.get("image"):
        container["imagePullPolicy"] = "Always" if _tag(str(container["image"])) == "latest" else "IfNotPresent"
    for port in list_at(container, "ports"):
        port.setdefault("protocol", "TCP")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if isinstance(container.get(probe), dict):
            _default_probe(container[probe])
    for variable in list_at(container, "env"):
        reference = mapping_at(variable, "valueFrom", "fieldRef")
        if reference:
            reference.setdefault("apiVersion", "v1")


def _tag(image: str) -> str:
    if "@" in image:
        return ""
    name = image.rpartition("/")[2]
    return name.partition(":")[2] or "latest"


def _default_probe(probe: Json) -> None:
    for name, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(name, value)
    http = probe.get("httpGet")
    if isinstance(http, dict):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_volume(volume: Json) -> None:
    if not any(key != "name" for key in volume):
        volume["emptyDir"] = {}
    for source in ("secret", "configMap", "downwardAPI", "projected"):
        if isinstance(volume.get(source), dict):
            volume[source].setdefault("defaultMode", FILE_MODE)
    if isinstance(volume.get("hostPath"), dict):
        volume["hostPath"].setdefault("type", "")


def quality_of_service(spec: Json) -> str:
    """Guaranteed when every container limits cpu and memory to what it asks for; BestEffort when none asks."""
    asked: set[str] = set()
    guaranteed = True
    for container in [*list_at(spec, "initContainers"), *list_at(spec, "containers")]:
        requests: dict[str, Any] = mapping_at(container, "resources", "requests")
        limits: dict[str, Any] = mapping_at(container, "resources", "limits")
        for name in ("cpu", "memory"):
            if requests.get(name) or limits.get(name):
                asked.add(name)
            if not limits.get(name) or requests.get(name, limits.get(name)) != limits.get(name):
                guaranteed = False
    if not asked:
        return "BestEffort"
    return "Guaranteed" if guaranteed else "Burstable"
