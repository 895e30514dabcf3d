"""The rules a CRD cannot express, in one list.

`RULES` names them all. Those that one object alone can answer are functions here, and return problems as the API server
phrases them; the controllers turn them into conditions. Some are also in the admission policies of the chart, from
Kubernetes 1.30 on (`policy` below; `tools/kind_policies.py` writes them). The others need a second object or the
cluster, and name the component that checks them.
"""

import ipaddress
import json
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from typing import Any

import msgspec

from tgp.api.budget import GPUWorkloadBudget
from tgp.api.field import ApiStruct
from tgp.api.field_error import FieldError, Invalid, Reason
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.nodepool import GPUNodePool
from tgp.api.request import GPURequest, GPURequestSpec
from tgp.api.schema import said_of
from tgp.api.talos import TailscaleConfig, TalosConfig, WireGuardConfig
from tgp.api.values import Version, talos_version
from tgp.core.inventory.limits import COUNTED, USD
from tgp.core.joining.talos.template import foreign_actions
from tgp.core.model import gpus
from tgp.core.model.cron import NotASchedule, read_schedule
from tgp.core.model.offer import UNKNOWN_REGION
from tgp.core.model.regions import atlas

OLDEST_TALOS, NEWEST_TALOS = (1, 10), (1, 14)


class SemanticProblem(msgspec.Struct, frozen=True):
    """One rule beyond the CRD: what is refused, and by which component."""

    what: str
    where: str
    judged_by: str
    policy: str = ""  # the validation of an admission policy that refuses the same; empty: none can


VARIABLES_RULE, VERSION_RULE, GPU_RULE, LIMIT_RULE = "template-variables", "talos-version", "gpu-names", "limited"
SCHEDULE_RULE, NETWORK_RULE, MESH_RULE, NAMESPACE_RULE = "schedule", "network", "class-mesh", "class-namespaces"
CLASS_GPU_RULE, CLASS_SPOT_RULE, NARROW_RULE, FREE_RULE = (
    "class-gpus",
    "class-spot",
    "class-requirements",
    "class-price",
)
# Asked of no policy.
TIME_ZONE_RULE, BUDGET_RULE, REQUIREMENTS_RULE, HOST_RULE = "time-zone", "budget", "requirements", "host"
REGION_RULE = "region"

# What policies and controllers say of one rule begins or ends with the same words; only the latter know nearest names.
UNKNOWN_GPU = "is an unknown GPU model"
UNSUPPORTED_TALOS = "is not supported: v1.10 to v1.14 are"
NOT_COUNTED = "is not counted"
THESE_ARE = f"these are: {', '.join(COUNTED)}"
NO_SPOT = "does not allow spot machines"
CLASS_HAS_ONLY = "the class has only"
FREE_MACHINES = "is 0, and every machine of the class costs more"
CLASS_MISSING = "does not exist; kubectl get gpunodeclasses lists those that do"
NAMESPACE_REFUSED = "does not allow this namespace: ask its administrator about spec.allowedNamespaces"
SAME_VALUE = "use the same value, or omit the field"

RULES = (
    SemanticProblem(
        "an unknown {{.Variable}} in a template", "talosConfig.machineConfigTemplate", "class_problems", VARIABLES_RULE
    ),
    SemanticProblem(
        "a Talos version outside v1.10 to v1.14", "talosConfig.image", "class_problems, request_problems", VERSION_RULE
    ),
    SemanticProblem(
        "an unknown GPU model",
        "gpuTypes, gpuType, requirements on tgp.io/gpu-type",
        "class_problems and so on",
        GPU_RULE,
    ),
    SemanticProblem("an unknown region", "requirements on tgp.io/region", "pool_problems"),
    SemanticProblem(
        "a schedule cron cannot read", "budgets[].schedule, keepOn.schedule", "class_problems, pool_problems"
    ),
    SemanticProblem(
        "a limit of a resource that is not counted", "limits.resources", "class_problems, pool_problems", LIMIT_RULE
    ),
    SemanticProblem("requirements that no machine satisfies", "requirements", "the pool controller"),
    SemanticProblem(
        "a namespaceSelector elsewhere than in the operator's namespace", "GPUWorkloadBudget", "the budget controller"
    ),
    SemanticProblem("a time zone IANA does not list", "budgets[].timeZone, keepOn.timeZone", "unknown_time_zones"),
    SemanticProblem("a network whose host part is not zero", "wireGuardConfig.addressPool", "class_problems"),
    SemanticProblem("a kubelet newer than the API server", "talosConfig.kubeletImage", "kubelet_problems"),
    SemanticProblem(
        "tags, image or booleans that contradict the class",
        "GPURequest talosConfig",
        "request_against_class",
        MESH_RULE,
    ),
    SemanticProblem(
        "a Secret in another namespace than the operator's", "every Secret reference", "the class controller"
    ),
    SemanticProblem("a Secret or key that is missing", "every Secret reference", "the class controller"),
    SemanticProblem(
        "a value that changes the template's structure", "talosConfig.machineConfigTemplate", "the renderer"
    ),
    SemanticProblem(
        "a host that must not be called",
        "settings.machines[] endpoints",
        "endpoint_problems; the power adapter, after DNS resolution",
    ),
    SemanticProblem(
        "a class that does not exist or does not allow the namespace",
        "nodeClassRef",
        "the pool controller",
        NAMESPACE_RULE,
    ),
    SemanticProblem(
        "a pool that asks for more than its class allows", "requirements", "the pool controller", NARROW_RULE
    ),
    SemanticProblem(
        "a pool that pays nothing, of a class that has no owned machines",
        "maxHourlyPrice",
        "the pool controller",
        FREE_RULE,
    ),
    SemanticProblem("a GPU model that the class does not allow", "GPURequest gpuType", "beyond_class", CLASS_GPU_RULE),
    SemanticProblem("a spot machine of a class without them", "GPURequest spot", "beyond_class", CLASS_SPOT_RULE),
)


def class_problems(node_class: GPUNodeClass) -> list[FieldError]:
    """What is wrong with a class that its CRD accepted."""
    spec = node_class.spec
    problems = list(_unknown_gpus(spec.instance_requirements.gpu_types, "spec.instanceRequirements.gpuTypes"))
    if spec.limits is not None:
        problems += _not_counted(spec.limits.resources, "set spec.limits.maxHourlyCost")
    if spec.talos_config is not None:
        problems += _of_talos(spec.talos_config, "spec.talosConfig")
    for place, provider in enumerate(spec.providers):
        path = f"spec.providers[{place}]"
        if provider.talos_config is not None:
            problems += _of_talos(provider.talos_config, f"{path}.talosConfig")
        for number, machine in enumerate(provider.settings.machines if provider.settings else ()):
            at = f"{path}.settings.machines[{number}]"
            if machine.gpu_type is not None and not gpus.known(machine.gpu_type):
                problems.append(_unknown_gpu(machine.gpu_type, f"{at}.gpuType"))
            if machine.keep_on is not None:
                problems += _of_schedule(machine.keep_on.schedule, f"{at}.keepOn.schedule")
    return problems


def pool_problems(pool: GPUNodePool) -> list[FieldError]:
    """What is wrong with a pool that its CRD accepted."""
    problems: list[FieldError] = []
    for place, requirement in enumerate(pool.spec.template.spec.requirements):
        if requirement.key == "tgp.io/gpu-type" and requirement.operator in {"In", "NotIn"}:
            problems += _unknown_gpus(requirement.values, f"spec.template.spec.requirements[{place}].values")
        if requirement.key == "tgp.io/region" and requirement.operator in {"In", "NotIn"}:
            problems += _unknown_regions(requirement.values, f"spec.template.spec.requirements[{place}].values")
    for place, budget in enumerate(pool.spec.disruption.budgets):
        if budget.schedule is not None:
            problems += _of_schedule(budget.schedule, f"spec.disruption.budgets[{place}].schedule")
    if pool.spec.limits is not None:
        problems += _not_counted(pool.spec.limits.resources, "money is limited by the class, limits.maxHourlyCost")
    return problems


def request_problems(request: GPURequest) -> list[FieldError]:
    """What is wrong with a request that its CRD accepted."""
    spec = request.spec
    problems: list[FieldError] = []
    if spec.gpu_type is not None and not gpus.known(spec.gpu_type):
        problems.append(_unknown_gpu(spec.gpu_type, "spec.gpuType"))
    if spec.talos_config is not None and spec.talos_config.image is not None:
        problems += _of_version(spec.talos_config.image, "spec.talosConfig.image")
    return problems


def budget_problems(_budget: GPUWorkloadBudget) -> list[FieldError]:
    """Nothing yet: the CRD covers it. Here so that every kind has the same function."""
    return []


def request_against_class(request: GPURequest, node_class: GPUNodeClass) -> list[FieldError]:
    """Where a tenant's request contradicts its class about the mesh."""
    talos = request.spec.talos_config
    said = talos.tailscale_config if talos is not None else None
    if said is None:
        return []
    places = _tailscale_places(node_class)
    configs = [config for place in places for config in place]
    path = "spec.talosConfig.tailscaleConfig"
    tags = tuple(dict.fromkeys(tag for config in configs for tag in config.tags))
    problems = [
        FieldError(
            f"{path}.tags",
            Reason.FORBIDDEN,
            f"{tag} is not among the class's tags: {', '.join(tags) or 'none'}",
            rule=MESH_RULE,
        )
        for tag in said.tags
        if tag not in tags
    ]
    routes = {route for config in configs for route in config.advertise_routes}
    ephemeral = {next((each.ephemeral for each in place if each.ephemeral is not None), True) for place in places}
    accepts = {
        next((each.accept_routes for each in place if each.accept_routes is not None), False) for place in places
    }
    if said.ephemeral is not None and said.ephemeral not in ephemeral:
        problems.append(_contradicts(f"{path}.ephemeral", not said.ephemeral))
    if said.accept_routes is not None and said.accept_routes not in accepts:
        problems.append(_contradicts(f"{path}.acceptRoutes", not said.accept_routes))
    problems += [
        FieldError(
            f"{path}.advertiseRoutes", Reason.FORBIDDEN, f"{route} is not among the class's routes", rule=MESH_RULE
        )
        for route in said.advertise_routes
        if route not in routes
    ]
    return problems


def beyond_class(spec: GPURequestSpec, node_class: GPUNodeClass, name: str) -> Iterator[FieldError]:
    """Where a request asks for a machine that its class never launches. `name`: of the class."""
    wants = node_class.spec.instance_requirements
    if spec.spot and not wants.spot_allowed:
        yield FieldError("spec.spot", Reason.FORBIDDEN, f"class {name} {NO_SPOT}", rule=CLASS_SPOT_RULE)
    if spec.gpu_type is not None and not gpus.common_models(spec.gpu_type, wants.gpu_types):
        detail = f"class {name} does not allow {spec.gpu_type}"
        yield FieldError("spec.gpuType", Reason.FORBIDDEN, detail, rule=CLASS_GPU_RULE)


def names_time_zone(named: GPUNodeClass | GPUNodePool) -> bool:
    return any(_time_zones(named))


def unknown_time_zones(named: GPUNodeClass | GPUNodePool, zones: frozenset[str]) -> list[FieldError]:
    """Time zones that `zones`, the IANA names this system has, does not list."""
    return [
        FieldError(
            path,
            Reason.INVALID,
            f"is not an IANA time zone{_hint(get_close_matches(zone, sorted(zones), n=3))}",
            _quoted(zone),
            TIME_ZONE_RULE,
        )
        for path, zone in _time_zones(named)
        if zone not in zones
    ]


def kubelet_problems(node_class: GPUNodeClass, server: Version) -> list[FieldError]:
    """Kubelets newer than the API server: Kubernetes supports the other way round only."""
    places = [("spec.talosConfig", node_class.spec.talos_config)]
    places += [
        (f"spec.providers[{place}].talosConfig", provider.talos_config)
        for place, provider in enumerate(node_class.spec.providers)
    ]
    problems = []
    for path, config in places:
        if config is None or config.kubelet_image is None:
            continue
        wanted = _parsed(config.kubelet_image, f"{path}.kubeletImage")
        if isinstance(wanted, FieldError):
            problems.append(wanted)
        elif (wanted.major, wanted.minor) > (server.major, server.minor):
            detail = f"is newer than the API server, which is {server}: a kubelet may be older, never newer"
            problems.append(FieldError(f"{path}.kubeletImage", Reason.INVALID, detail, _quoted(config.kubelet_image)))
    return problems


def deprecated_in(thing: ApiStruct) -> tuple[str, ...]:
    """Each deprecated field that is in use, with the release that drops it: `spec.ttl (until v2): …`."""
    return tuple(f"{path}: {doc} Dropped in {release}." for path, release, doc in _deprecated(thing, ""))


def _tailscale_places(node_class: GPUNodeClass) -> list[list[TailscaleConfig]]:
    """For each provider of a class: where its tailnet settings may be, the one that wins first."""
    spec = node_class.spec
    inner = [config.tailscale_config for config in (spec.talos_config,) if config is not None]
    places = [
        (spec.tailscale_config, provider.talos_config.tailscale_config if provider.talos_config else None, *inner)
        for provider in spec.providers
    ]
    return [[config for config in place if config is not None] for place in places]


# ---- one object at a time


def _of_talos(config: TalosConfig, path: str) -> Iterator[FieldError]:
    if config.image is not None:
        yield from _of_version(config.image, f"{path}.image")
    if config.machine_config_template is not None:
        yield from unknown_variables(config.machine_config_template, f"{path}.machineConfigTemplate")
    if config.wire_guard_config is not None:
        yield from _of_wireguard(config.wire_guard_config, f"{path}.wireGuardConfig")


def unknown_variables(template: str, path: str) -> Iterator[FieldError]:
    """Each {{…}} that is not one of the closed list: there is no template engine behind it."""
    for action in foreign_actions(template):
        yield FieldError(
            path, Reason.INVALID, f"line {action.line}: {action.message}", _quoted(action.shown), VARIABLES_RULE
        )


def _of_version(image: str, path: str) -> Iterator[FieldError]:
    version = _parsed(image, path)
    if isinstance(version, FieldError):
        yield version
    elif not OLDEST_TALOS <= (version.major, version.minor) <= NEWEST_TALOS:
        yield FieldError(path, Reason.INVALID, f"Talos {version} {UNSUPPORTED_TALOS}", _quoted(image), VERSION_RULE)


def _parsed(image: str, path: str) -> Version | FieldError:
    try:
        return talos_version(image, path)
    except Invalid as error:  # an object older than the CRD's rule
        return error.problems[0]


def _of_wireguard(config: WireGuardConfig, path: str) -> Iterator[FieldError]:
    if config.address_pool is None:
        return
    try:
        ipaddress.ip_network(config.address_pool)
    except ValueError as error:
        yield FieldError(f"{path}.addressPool", Reason.INVALID, str(error), _quoted(config.address_pool), NETWORK_RULE)


def _unknown_gpus(names: Iterable[str], path: str) -> Iterator[FieldError]:
    for place, name in enumerate(names):
        if not gpus.known(name):
            yield _unknown_gpu(name, f"{path}[{place}]")


def _unknown_gpu(name: str, path: str) -> FieldError:
    return FieldError(path, Reason.INVALID, f"{UNKNOWN_GPU}{_hint(gpus.nearest(name))}", _quoted(name), GPU_RULE)


def _unknown_regions(names: Iterable[str], path: str) -> Iterator[FieldError]:
    """Of the label tgp.io/region, which has tgp's names alone."""
    known = (*atlas().regions, UNKNOWN_REGION)
    for place, name in enumerate(names):
        if name not in known:
            hint = _hint(get_close_matches(name.lower(), known, n=3)) or f"; these are known: {', '.join(known)}"
            detail = f"is an unknown region{hint}"
            yield FieldError(f"{path}[{place}]", Reason.INVALID, detail, _quoted(name), REGION_RULE)


def _not_counted(resources: Iterable[str], instead: str) -> Iterator[FieldError]:
    """`instead`: of money among the resources, what limits it."""
    for name in resources:
        if name not in COUNTED:
            what = f": {instead}" if name == USD else _hint(_counted_near(name)) or f"; {THESE_ARE}"
            yield FieldError(
                f"spec.limits.resources[{name}]", Reason.FORBIDDEN, f"{NOT_COUNTED}{what}", rule=LIMIT_RULE
            )


def _counted_near(name: str) -> list[str]:
    """Also without the vendor: gpu is near to nvidia.com/gpu."""
    near = get_close_matches(name, COUNTED, n=1, cutoff=0.8)
    return near or [each for each in COUNTED if get_close_matches(_bare(name), [_bare(each)], cutoff=0.75)]


def _bare(resource: str) -> str:
    return resource.rpartition("/")[2]


def _of_schedule(schedule: str, path: str) -> Iterator[FieldError]:
    try:
        read_schedule(schedule)
    except NotASchedule as error:
        yield FieldError(path, Reason.INVALID, str(error), _quoted(schedule), SCHEDULE_RULE)


def _time_zones(named: GPUNodeClass | GPUNodePool) -> Iterator[tuple[str, str]]:
    if isinstance(named, GPUNodePool):
        for place, budget in enumerate(named.spec.disruption.budgets):
            if budget.time_zone is not None:
                yield f"spec.disruption.budgets[{place}].timeZone", budget.time_zone
        return
    for place, provider in enumerate(named.spec.providers):
        for number, machine in enumerate(provider.settings.machines if provider.settings else ()):
            if machine.keep_on is not None and machine.keep_on.time_zone is not None:
                yield f"spec.providers[{place}].settings.machines[{number}].keepOn.timeZone", machine.keep_on.time_zone


def _contradicts(path: str, of_class: bool) -> FieldError:
    return FieldError(path, Reason.FORBIDDEN, f"the class has {str(of_class).lower()}: {SAME_VALUE}", rule=MESH_RULE)


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _hint(names: Iterable[str]) -> str:
    listed = ", ".join(names)
    return f"; did you mean {listed}?" if listed else ""


def _deprecated(thing: Any, path: str) -> Iterator[tuple[str, str, str]]:
    if isinstance(thing, tuple):
        for place, item in enumerate(thing):
            yield from _deprecated(item, f"{path}[{place}]")
    if not isinstance(thing, ApiStruct):
        return
    for name, attribute, said in said_of(type(thing)):
        value = getattr(thing, attribute)
        where = f"{path}.{name}" if path else name
        if value is None or value == ():
            continue
        if said.deprecated:
            yield where, said.deprecated, said.doc
        yield from _deprecated(value, where)
