"""The body of `POST /v2/pods` and the query of the catalogue, judged as the published schema judges them.

Unknown keys, wrong types and missing ones are 422 with every complaint listed; broken rules between fields are 400.
"""

import re
from collections.abc import Callable
from typing import Any, TypeAlias

from tgp.sim.clouds.runpod import commands

Check: TypeAlias = Callable[[Any], str]  # what is wrong with a value; empty: nothing
CUDA = re.compile(r"\d{1,4}\.\d{1,4}\Z", re.ASCII)
LEAST_CUDA = re.compile(r"\d{1,4}(\.\d{1,4})?\Z", re.ASCII)
COUNT = re.compile(r"[1-9][0-9]{0,8}\Z")
COUNTRY = re.compile(r"[A-Z]{2}\Z")
CATALOG_FILTERS = ("product", "count", "cloud", "countryCodes", "cudaVersions", "minCudaVersion")
PRODUCTS = ("POD", "CLUSTER", "SERVERLESS")
CLOUDS = ("SECURE", "COMMUNITY")
# The first two are seen in the schema's prose, the others are a guess at what a market of continents has.
REGIONS = ("NORTH_AMERICA", "SOUTH_AMERICA", "EUROPE", "ASIA", "OCEANIA", "AFRICA", "MIDDLE_EAST")


def _text(least: int = 0) -> Check:
    return lambda value: "" if isinstance(value, str) and len(value) >= least else f"expected string of {least}+"


def _number(least: int) -> Check:
    def check(value: Any) -> str:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        return "" if fits else f"expected integer >= {least}"

    return check


def _flag(value: Any) -> str:
    return "" if isinstance(value, bool) else "expected boolean"


def _one_of(*words: str) -> Check:
    return lambda value: "" if isinstance(value, str) and value in words else f"expected one of {', '.join(words)}"


def _texts(pattern: re.Pattern[str] | None = None, most: int | None = None) -> Check:
    def check(value: Any) -> str:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            return "expected array of strings"
        if pattern and not all(pattern.match(each) for each in value):
            return "expected strings of the pattern"
        return "expected fewer items" if most is not None and len(value) > most else ""

    return check


def _text_map(value: Any) -> str:
    fits = isinstance(value, dict) and all(isinstance(each, str) for each in value.values())
    return "" if fits else "expected object of strings"


def _text_or_null(value: Any) -> str:
    return "" if value is None or isinstance(value, str) else "expected string or null"


GPU: dict[str, Check] = {
    "id": _text(),
    "count": _number(1),
    "allowedCudaVersions": _texts(CUDA),
    "minCudaVersion": lambda value: "" if isinstance(value, str) and CUDA.match(value) else "expected major.minor",
    "minRamPerGpu": _number(1),
    "minVcpuCountPerGpu": _number(1),
}
CPU: dict[str, Check] = {"id": _text(1), "vcpuCount": _number(2)}
PERSISTENT: dict[str, Check] = {"size": _number(10), "path": _text()}
NETWORK: dict[str, Check] = {"volumeId": _text(), "path": _text()}
POD: dict[str, Check] = {
    "name": _text(1),
    "image": _text(),
    "templateId": _text(1),
    "args": _text(),
    "entrypoint": _texts(),
    "cmd": _texts(),
    "disk": _number(1),
    "env": _text_map,
    "ports": _texts(),
    "registry": _text_or_null,
    "cloud": _one_of(*CLOUDS),
    "dataCenterIds": _texts(),
    "globalNetworking": _flag,
    "startSsh": _flag,
    "startJupyter": _flag,
    "gpu": lambda _value: "",
    "cpu": lambda _value: "",
    "mounts": lambda _value: "",
}
MUTABLE = (
    "name",
    "image",
    "args",
    "entrypoint",
    "cmd",
    "disk",
    "ports",
    "env",
    "registry",
    "mounts",
    "globalNetworking",
)
CHANGEABLE: dict[str, Check] = {**{name: POD[name] for name in MUTABLE}, "locked": _flag}


def complaints(body: Any) -> list[str]:
    """Everything the schema has against a body, each with where it stands; 422 where there is any."""
    found = _object(body, POD, ("name",), "$")
    if not isinstance(body, dict):
        return found
    if "image" not in body and "templateId" not in body:
        found.append(_complaint("$.image", "required when templateId is not set"))
    if "gpu" in body:
        found += _object(body["gpu"], GPU, ("id",), "$.gpu")
    if "cpu" in body:
        found += _object(body["cpu"], CPU, ("id", "vcpuCount"), "$.cpu")
    return found + _mounts(body)


def complaints_of_change(body: Any) -> list[str]:
    """The same for `PATCH /v2/pods/{id}`: every field can be left out, and only some can change."""
    found = _object(body, CHANGEABLE, (), "$")
    return found + _mounts(body) if isinstance(body, dict) else found


def broken_rule(body: dict[str, Any]) -> str:
    """A rule between fields that a well-formed body breaks: 400. Empty: none."""
    if ("gpu" in body) == ("cpu" in body):
        return "exactly one of gpu or cpu must be set"
    if "templateId" not in body and "disk" not in body:
        return "disk must be set"
    if "gpu" in body and "count" not in body["gpu"]:
        return "gpu.count must be set"
    if not commands.agree(body):
        return "args and entrypoint or cmd must describe the same command"
    mounts = body.get("mounts", {})
    if "persistent" in mounts and "network" in mounts:
        return "mounts.persistent and mounts.network are mutually exclusive"
    if "cpu" in body and "persistent" in mounts:
        return "mounts.persistent is invalid for CPU pods"
    gpu = body.get("gpu", {})
    if gpu.get("allowedCudaVersions") and "minCudaVersion" in gpu:
        return "allowedCudaVersions and minCudaVersion are mutually exclusive"
    return ""


def catalog_fault(query: dict[str, str]) -> tuple[int, str]:
    """Status and text for a query the catalogue does not answer; (0, "") where it does."""
    include = query.get("include")
    if include not in (None, "AVAILABILITY"):
        return 422, "include must be AVAILABILITY"
    stray = [name for name in CATALOG_FILTERS if name in query]
    if include is None and stray:
        return 400, f"{stray[0]} is valid only with include=AVAILABILITY"
    if include and "product" not in query:
        return 400, "product is required with include=AVAILABILITY"
    if include and not all(each in PRODUCTS for each in query["product"].split(",")):
        return 422, "product must be of POD, CLUSTER, SERVERLESS"
    if query.get("cloud", "SECURE") not in CLOUDS:
        return 422, "cloud must be SECURE or COMMUNITY"
    if not COUNT.match(query.get("count", "1")):
        return 422, "count must be an integer >= 1"
    if not all(COUNTRY.match(each) for each in query.get("countryCodes", "US").split(",")):
        return 422, "countryCodes must be codes of two capitals"
    if not all(CUDA.match(each) for each in query.get("cudaVersions", "12.8").split(",")):
        return 422, "cudaVersions must be of major.minor"
    if not LEAST_CUDA.match(query.get("minCudaVersion", "12")):
        return 422, "minCudaVersion must be major or major.minor"
    if "cudaVersions" in query and "minCudaVersion" in query:
        return 400, "cudaVersions and minCudaVersion are mutually exclusive"
    return 0, ""


def centres_fault(query: dict[str, str]) -> tuple[int, str]:
    """The same for data centres."""
    if query.get("include") not in (None, "GPU_AVAILABILITY"):
        return 422, "include must be GPU_AVAILABILITY"
    if not all(each in REGIONS for each in query.get("regions", "EUROPE").split(",")):
        return 422, f"regions must be of {', '.join(REGIONS)}"
    return 0, ""


def _mounts(body: dict[str, Any]) -> list[str]:
    if "mounts" not in body:
        return []
    mounts = body["mounts"]
    found = _object(mounts, {"persistent": lambda _value: "", "network": _list_of_one}, (), "$.mounts")
    if not isinstance(mounts, dict):
        return found
    if "persistent" in mounts:
        found += _object(mounts["persistent"], PERSISTENT, ("size", "path"), "$.mounts.persistent")
    for each in mounts["network"] if isinstance(mounts.get("network"), list) else ():
        found += _object(each, NETWORK, ("volumeId", "path"), "$.mounts.network")
    return found


def _list_of_one(value: Any) -> str:
    return "" if isinstance(value, list) and len(value) <= 1 else "expected array of at most one"


def _object(value: Any, known: dict[str, Check], required: tuple[str, ...], where: str) -> list[str]:
    if not isinstance(value, dict):
        return [_complaint(where, "expected object")]
    found = [_complaint(f"{where}.{key}", "expected required property") for key in required if key not in value]
    for key, each in value.items():
        if key not in known:
            found.append(_complaint(f"{where}.{key}", "unexpected property"))
        elif wrong := known[key](each):
            found.append(_complaint(f"{where}.{key}", wrong))
    return found


def _complaint(where: str, what: str) -> str:
    return f"{where}: {what}"
