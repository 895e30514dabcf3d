"""Rows of services and what leads to them."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from tgp.sim.apiserver.tables.column import Printer, columns
from tgp.sim.apiserver.tables.text import NONE, UNKNOWN, at, born, name, pairs, selector_text

_SHOWN = 3  # of a list of addresses, ports or hosts; the rest becomes "+ n more..."
_DEFAULT_INGRESS_CLASS = "ingressclass.kubernetes.io/is-default-class"


def _shortened(listed: Sequence[str], otherwise: str) -> str:
    text = ",".join(listed[:_SHOWN])
    return f"{text} + {len(listed) - _SHOWN} more..." if len(listed) > _SHOWN else text or otherwise


def _service(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    spec = obj.get("spec") or {}
    address = next(iter(spec.get("clusterIPs") or ()), "") or spec.get("clusterIP") or NONE
    ports = ",".join(_port(port) for port in spec.get("ports") or ()) or NONE
    kind = spec.get("type") or ""
    return [name(obj), kind, address, _external(obj, spec), ports, born(obj, now), pairs(spec.get("selector"))]


def _port(port: Mapping[str, Any]) -> str:
    node = f":{port['nodePort']}" if port.get("nodePort") else ""
    return f"{port.get('port')}{node}/{port.get('protocol', 'TCP')}"


def _external(obj: Mapping[str, Any], spec: Mapping[str, Any]) -> str:
    fixed = spec.get("externalIPs") or []
    match spec.get("type"):
        case "ClusterIP" | "NodePort":
            return ",".join(fixed) or NONE
        case "LoadBalancer":
            return ",".join([*_balancers(obj), *fixed]) or "<pending>"
        case "ExternalName":
            return str(spec.get("externalName", ""))
        case _:
            return UNKNOWN


def _balancers(obj: Mapping[str, Any]) -> list[str]:
    ways = at(obj, "status", "loadBalancer", "ingress") or ()
    return sorted({way.get("ip") or way.get("hostname") or "" for way in ways} - {""})


def _endpoints(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    found = []
    for subset in obj.get("subsets") or ():
        for port in subset.get("ports") or (None,):
            tail = f":{port.get('port')}" if port else ""
            found += [f"{entry.get('ip')}{tail}" for entry in subset.get("addresses") or ()]
    return [name(obj), _shortened(found, "") if obj.get("subsets") else NONE, born(obj, now)]


def _endpoint_slice(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    ports = [str(port.get("port") or port.get("name") or "*") for port in obj.get("ports") or ()]
    addresses = [address for endpoint in obj.get("endpoints") or () for address in endpoint.get("addresses") or ()]
    cells = [_shortened(ports, "<unset>"), _shortened(addresses, "<unset>")]
    return [name(obj), obj.get("addressType", ""), *cells, born(obj, now)]


def _ingress(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    rules = at(obj, "spec", "rules") or ()
    hosts = [rule["host"] for rule in rules if rule.get("host")]
    ports = "80, 443" if at(obj, "spec", "tls") else "80"
    kind = at(obj, "spec", "ingressClassName") or NONE
    return [name(obj), kind, _shortened(hosts, "*"), ",".join(_balancers(obj)), ports, born(obj, now)]


def _ingress_class(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    default = (obj["metadata"].get("annotations") or {}).get(_DEFAULT_INGRESS_CLASS) == "true"
    parameters = at(obj, "spec", "parameters")
    text = NONE
    if parameters:
        group = f".{parameters['apiGroup']}" if parameters.get("apiGroup") else ""
        text = f"{parameters.get('kind', '')}{group}/{parameters.get('name', '')}"
    shown = f"{name(obj)} (default)" if default else name(obj)
    return [shown, at(obj, "spec", "controller") or "", text, born(obj, now)]


def _network_policy(obj: Mapping[str, Any], now: datetime) -> list[Any]:
    return [name(obj), selector_text(at(obj, "spec", "podSelector")) or NONE, born(obj, now)]


NETWORKING = {
    ("", "Service"): Printer(columns("Name|Type|Cluster-IP|External-IP|Port(s)|Age", "Selector"), _service),
    ("", "Endpoints"): Printer(columns("Name|Endpoints|Age"), _endpoints),
    ("discovery.k8s.io", "EndpointSlice"): Printer(columns("Name|AddressType|Ports|Endpoints|Age"), _endpoint_slice),
    ("networking.k8s.io", "Ingress"): Printer(columns("Name|Class|Hosts|Address|Ports|Age"), _ingress),
    ("networking.k8s.io", "IngressClass"): Printer(columns("Name|Controller|Parameters|Age"), _ingress_class),
    ("networking.k8s.io", "NetworkPolicy"): Printer(columns("Name|Pod-Selector|Age"), _network_policy),
}
