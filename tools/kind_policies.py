"""Admission policies for our own kinds: what the CRD cannot say and CEL can, written from the tables of the code.

They refuse at `kubectl apply` what the controllers refuse afterwards. Only a changed spec is looked at: an object that
was stored before keeps its status, its finalizers and its way out. `failurePolicy: Fail`, since they see our own kinds
alone; parameters are classes, never a built-in kind.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tgp.api.common import ALIASES
from tgp.api.crds import as_yaml
from tgp.core.classes.semantic_validation import (
    CLASS_GPU_RULE,
    CLASS_HAS_ONLY,
    CLASS_SPOT_RULE,
    FREE_MACHINES,
    FREE_RULE,
    GPU_RULE,
    LIMIT_RULE,
    MESH_RULE,
    NAMESPACE_REFUSED,
    NAMESPACE_RULE,
    NARROW_RULE,
    NEWEST_TALOS,
    NO_SPOT,
    NOT_COUNTED,
    OLDEST_TALOS,
    SAME_VALUE,
    THESE_ARE,
    UNKNOWN_GPU,
    UNSUPPORTED_TALOS,
    VARIABLES_RULE,
    VERSION_RULE,
)
from tgp.core.inventory.limits import COUNTED, USD
from tgp.core.joining.talos.variables import VARIABLES
from tgp.core.model import gpus
from tgp.core.model.attempts import FINALIZER
from tgp.core.model.regions import atlas

API = "admissionregistration.k8s.io/v1"
LABELS = "@labels@"  # replaced by the chart's own
NAMESPACES_REQUIRED = "@namespaces-required@"  # by settings.requireAllowedNamespaces
OPERATOR = "system:serviceaccount:@namespace@:tgp-operator"
USE_RULE = "class-use"
FINALIZER_RULE = "machine-finalizer"
HEAD = "# Made by `make manifests` from tools/kind_policies.py; do not edit.\n"


@dataclass(frozen=True, slots=True)
class Validation:
    rule: str
    expression: str
    message: str  # a CEL expression


# -- expressions -------------------------------------------------------------------------------------------------------


def text(words: str) -> str:
    """A string literal of CEL."""
    return json.dumps(words, ensure_ascii=False)


def gpu_known(name: str) -> str:
    """As `gpus.known`: letters and digits alone, without the vendor."""
    models = "|".join(sorted(gpus.catalogue().models))
    pattern = f"^(?:nvidia)?(?:amd)?(?:geforce)?(?:{models})$"
    return f"{name}.lowerAscii().findAll({text(LETTERS)}).join('').matches({text(pattern)})"


LETTERS = "[\\pL\\pN]+"


def variables_known(template: str) -> str:
    """As `unknown_variables`, but CEL cannot read YAML: a line with a # may be a comment, and is the controller's."""
    names = "|".join(VARIABLES)
    good = rf'\{{\{{[\t\x20]*(?:"\{{\{{"|\.(?:{names}))[\t\x20]*\}}\}}'
    line = rf"^(?:[^{{]|\{{[^{{]|{good})*\{{?$"
    shown = f"each.contains('#') || !each.contains({text('{')} + {text('{')}) || each.matches({text(line)})"
    return f"{template}.split('\\n').all(each, {shown})"


def version_supported(image: str) -> str:
    """As `_of_version`, of an image that the CRD accepted."""
    (major, oldest), (_, newest) = OLDEST_TALOS, NEWEST_TALOS
    minors = "|".join(str(each) for each in range(oldest, newest + 1))
    pattern = rf"(?:^|:)v?0*{major}\.0*(?:{minors})\.[0-9]+(?:-[0-9A-Za-z.-]+)?$"
    return f"{image}.split('@')[0].matches({text(pattern)})"


TALOS = "variables.talos"
CONFIGS = (
    "(has(object.spec.talosConfig) ? [object.spec.talosConfig] : []) + "
    "object.spec.providers.filter(p, has(p.talosConfig)).map(p, p.talosConfig)"
)
MACHINES = (
    "object.spec.providers.filter(p, has(p.settings) && has(p.settings.machines))"
    ".map(p, p.settings.machines.filter(m, has(m.gpuType)).map(m, m.gpuType))"
)
CLASS_GPUS = (
    "(has(object.spec.instanceRequirements) && has(object.spec.instanceRequirements.gpuTypes) ? "
    "object.spec.instanceRequirements.gpuTypes : [])"
)
POOL_GPUS = (
    "has(object.spec.template) && has(object.spec.template.spec) && has(object.spec.template.spec.requirements) ? "
    "object.spec.template.spec.requirements.filter(r, r.key == 'tgp.io/gpu-type' && r.operator in ['In', 'NotIn'] && "
    "has(r.values)).map(r, r.values) : []"
)
LIMITED = "(has(object.spec.limits) && has(object.spec.limits.resources) ? object.spec.limits.resources : {})"
ALL_COUNTED = f"{LIMITED}.all(k, k in {json.dumps(COUNTED)})"


def not_counted(instead: str) -> str:
    """`instead`: of money among the resources, what limits it."""
    first = f"{LIMITED}.filter(k, !(k in {json.dumps(COUNTED)}))[0]"
    return (
        f"'spec.limits.resources[' + {first} + ']: Forbidden: {NOT_COUNTED}' + "
        f"({first} == {text(USD)} ? {text(f': {instead}')} : {text(f'; {THESE_ARE}')})"
    )


SUPPORTED = f"Invalid value: this Talos {UNSUPPORTED_TALOS}"
NEAREST = "tgp check -f FILE names the nearest ones"


def unknown_gpu(names: str) -> str:
    listed = f"{names}.filter(g, !({gpu_known('g')}))"
    return f"'spec.instanceRequirements.gpuTypes: Invalid value: ' + {listed}.join(', ') + ' {UNKNOWN_GPU}; {NEAREST}'"


CLASS = (
    Validation(
        VARIABLES_RULE,
        f"{TALOS}.all(t, !has(t.machineConfigTemplate) || {variables_known('t.machineConfigTemplate')})",
        text(
            "machineConfigTemplate: double braces with something that is no template variable; tgp check -f FILE has "
            "the line"
        ),
    ),
    Validation(
        VERSION_RULE,
        f"{TALOS}.all(t, !has(t.image) || {version_supported('t.image')})",
        text(f"talosConfig.image: {SUPPORTED}"),
    ),
    Validation(
        GPU_RULE,
        f"variables.gpus.all(g, {gpu_known('g')}) && variables.machines.all(m, m.all(g, {gpu_known('g')}))",
        f"variables.gpus.all(g, {gpu_known('g')}) ? 'settings.machines: Invalid value: gpuType {UNKNOWN_GPU}; "
        f"{NEAREST}' : {unknown_gpu('variables.gpus')}",
    ),
    Validation(
        LIMIT_RULE,
        ALL_COUNTED,
        not_counted("set spec.limits.maxHourlyCost"),
    ),
)
POOL = (
    Validation(
        GPU_RULE,
        f"variables.gpus.all(v, v.all(g, {gpu_known('g')}))",
        text(f"spec.template.spec.requirements: Invalid value: a value of tgp.io/gpu-type {UNKNOWN_GPU}; {NEAREST}"),
    ),
    Validation(
        LIMIT_RULE,
        ALL_COUNTED,
        not_counted("money is limited by the class, limits.maxHourlyCost"),
    ),
)
REQUEST = (
    Validation(
        GPU_RULE,
        f"!has(object.spec.gpuType) || {gpu_known('object.spec.gpuType')}",
        f"'spec.gpuType: Invalid value: ' + object.spec.gpuType + ' {UNKNOWN_GPU}; {NEAREST}'",
    ),
    Validation(
        VERSION_RULE,
        "!has(object.spec.talosConfig) || !has(object.spec.talosConfig.image) || "
        + version_supported("object.spec.talosConfig.image"),
        text(f"spec.talosConfig.image: {SUPPORTED}"),
    ),
)


# -- against the class -------------------------------------------------------------------------------------------------

MEANT = "has(object.spec.nodeClassRef) && object.spec.nodeClassRef.name == params.metadata.name"


def selected(labels: str, selector: str) -> str:
    """As a label selector of Kubernetes."""
    there = f"row.key in {labels}"
    return (
        f"(!has({selector}.matchLabels) || {selector}.matchLabels.all(key, key in {labels} && "
        f"{labels}[key] == {selector}.matchLabels[key])) && "
        f"(!has({selector}.matchExpressions) || {selector}.matchExpressions.all(row, "
        f"row.operator == 'In' ? {there} && {labels}[row.key] in row.values : "
        f"row.operator == 'NotIn' ? !({there} && {labels}[row.key] in row.values) : "
        f"row.operator == 'Exists' ? {there} : !({there})))"
    )


def first_said(field: str, default: str) -> str:
    """Of a provider `p` of the class: the first of the places that says it."""
    places = ("params.spec", "p.talosConfig", "params.spec.talosConfig")
    said = default
    for place in reversed(places):
        parents = f"has({place}) && " if place.endswith("talosConfig") else ""
        told = f"{place}.tailscaleConfig"
        said = f"({parents}has({told}) && has({told}.{field}) ? {told}.{field} : {said})"
    return f"params.spec.providers.exists(p, {said} == variables.said.{field})"


ALLOWED = "params.spec.allowedNamespaces"
NAMESPACES = Validation(
    NAMESPACE_RULE,
    f"!variables.meant || (has({ALLOWED}) ? ({selected('variables.labels', ALLOWED)}) : !{NAMESPACES_REQUIRED})",
    f"'spec.nodeClassRef.name: Forbidden: GPUNodeClass ' + params.metadata.name + ' {NAMESPACE_REFUSED}'",
)
MESH = (
    Validation(
        MESH_RULE,
        "!variables.asks || !has(variables.said.tags) || variables.said.tags.all(tag, variables.configs.exists(c, "
        "has(c.tags) && tag in c.tags))",
        "'spec.talosConfig.tailscaleConfig.tags: Forbidden: one is not among the class\\'s tags'",
    ),
    Validation(
        MESH_RULE,
        "!variables.asks || !has(variables.said.advertiseRoutes) || variables.said.advertiseRoutes.all(route, "
        "variables.configs.exists(c, has(c.advertiseRoutes) && route in c.advertiseRoutes))",
        "'spec.talosConfig.tailscaleConfig.advertiseRoutes: Forbidden: one is not among the class\\'s routes'",
    ),
    *(
        Validation(
            MESH_RULE,
            f"!variables.asks || !has(variables.said.{field}) || {first_said(field, default)}",
            f"'spec.talosConfig.tailscaleConfig.{field}: Forbidden: the class has ' + "
            f"string(!variables.said.{field}) + ': {SAME_VALUE}'",
        )
        for field, default in (("ephemeral", "true"), ("acceptRoutes", "false"))
    ),
)
WANTS = "params.spec.instanceRequirements"
ALLOWED_GPUS = f"(has({WANTS}) && has({WANTS}.gpuTypes) ? {WANTS}.gpuTypes : [])"
REGIONS = json.dumps(atlas().regions)
# A country or a provider's own name is in some region that its offers tell.
ALLOWED_REGIONS = (
    f"(has({WANTS}) && has({WANTS}.regions) && {WANTS}.regions.all(r, r in {REGIONS}) ? {WANTS}.regions : [])"
)
SPOT_ALLOWED = f"(has({WANTS}) && has({WANTS}.spotAllowed) && {WANTS}.spotAllowed)"
ENABLED = "(!has(p.enabled) || p.enabled)"
MODELS = json.dumps(dict(sorted(gpus.catalogue().models.items())))  # plain name → models: a literal of CEL, too
PROVIDER_NAMES = json.dumps(ALIASES)


def members(names: str) -> str:
    """As `family_members` of each name: a list of lists."""
    bare = f"{names}.map(n, n.lowerAscii().findAll({text(LETTERS)}).join(''))"
    for vendor in ("nvidia", "amd", "geforce"):
        bare += f".map(n, n.startsWith('{vendor}') ? n.substring({len(vendor)}) : n)"
    return f"{bare}.map(n, n in variables.models ? variables.models[n] : [n])"


BEYOND_CLASS = (
    Validation(
        CLASS_SPOT_RULE,
        f"!variables.meant || !has(object.spec.spot) || !object.spec.spot || {SPOT_ALLOWED}",
        f"'spec.spot: Forbidden: class ' + params.metadata.name + ' {NO_SPOT}'",
    ),
    Validation(
        CLASS_GPU_RULE,
        f"!variables.meant || !has(object.spec.gpuType) || {ALLOWED_GPUS}.size() == 0 || "
        f"{members('[object.spec.gpuType]')}[0].exists(m, variables.allowed.exists(l, m in l))",
        "'spec.gpuType: Forbidden: class ' + params.metadata.name + ' does not allow ' + object.spec.gpuType",
    ),
)
ROWS = (
    "has(object.spec.template) && has(object.spec.template.spec) && has(object.spec.template.spec.requirements) ? "
    "object.spec.template.spec.requirements : []"
)
# What a class has of each label; an empty list: anything. As `_outside_class`, but Gt and Lt are the controller's.
OFFERED = (  # dyn: what stands in one map must be of one type
    f"{{'tgp.io/provider': dyn(params.spec.providers.filter(p, {ENABLED})"
    f".map(p, p.name in {PROVIDER_NAMES} ? {PROVIDER_NAMES}[p.name] : p.name)), "
    f"'tgp.io/region': dyn({ALLOWED_REGIONS}), 'topology.kubernetes.io/region': dyn({ALLOWED_REGIONS}), "
    f"'tgp.io/capacity-type': dyn({SPOT_ALLOWED} ? ['on-demand', 'spot'] : ['on-demand']), "
    f"'tgp.io/spot': dyn({SPOT_ALLOWED} ? ['false', 'true'] : ['false'])}}"
)
OFFERED_KEYS = (
    "['tgp.io/provider', 'tgp.io/region', 'topology.kubernetes.io/region', 'tgp.io/capacity-type', 'tgp.io/spot']"
)
NOT_OFFERED = (
    f"{OFFERED_KEYS}.filter(k, variables.rows.exists(r, r.key == k) && variables.offered[k].size() > 0 && "
    "!variables.offered[k].exists(v, variables.rows.all(r, r.key != k || (r.operator == 'In' ? v in r.values : "
    "r.operator == 'NotIn' ? !(v in r.values) : r.operator != 'DoesNotExist'))))"
)
POOL_VARIABLES = {
    "rows": ROWS,
    "offered": OFFERED,
    "outside": NOT_OFFERED,
    "models": MODELS,
    "allowed": members(ALLOWED_GPUS),
    "gpuRows": "variables.rows.filter(r, r.key == 'tgp.io/gpu-type')",
    "named": "variables.gpuRows.filter(r, r.operator == 'In').map(r, r.values)",
    "chosen": members(
        "(variables.named.size() == 0 ? [] : variables.named[0].filter(n, variables.named.all(l, n in l)))"
    ),
}
NARROW = (
    Validation(
        NARROW_RULE,
        "!variables.meant || variables.outside.size() == 0",
        f"'spec.template.spec.requirements: Forbidden: ' + variables.outside[0] + ': {CLASS_HAS_ONLY} ' + "
        "variables.offered[variables.outside[0]].join(', ')",
    ),
    Validation(
        NARROW_RULE,
        "!variables.meant || variables.gpuRows.size() == 0 || variables.allowed.size() == 0 || "
        "variables.allowed.exists(l, l.exists(m, (variables.named.size() == 0 || variables.chosen.exists(c, m in c)) "
        "&& variables.gpuRows.all(r, r.operator != 'NotIn' || !(m in r.values))))",
        f"'spec.template.spec.requirements: Forbidden: tgp.io/gpu-type: {CLASS_HAS_ONLY} ' + "
        "variables.allowed.map(l, l.join(', ')).join(', ')",
    ),
    Validation(
        FREE_RULE,
        "!variables.meant || !has(object.spec.maxHourlyPrice) || double(object.spec.maxHourlyPrice) > 0.0 || "
        f"params.spec.providers.exists(p, {ENABLED} && p.name == 'webhook')",
        text(f"spec.maxHourlyPrice: Forbidden: {FREE_MACHINES}"),
    ),
)
CLASS_VARIABLES = {
    "meant": MEANT,
    "labels": "has(namespaceObject.metadata.labels) ? namespaceObject.metadata.labels : {}",
}
MESH_VARIABLES = {
    "asks": "variables.meant && has(object.spec.talosConfig) && has(object.spec.talosConfig.tailscaleConfig)",
    "said": "object.spec.talosConfig.tailscaleConfig",
    "configs": (
        "(has(params.spec.tailscaleConfig) ? [params.spec.tailscaleConfig] : []) + "
        "params.spec.providers.filter(p, has(p.talosConfig) && has(p.talosConfig.tailscaleConfig))"
        ".map(p, p.talosConfig.tailscaleConfig) + "
        "(has(params.spec.talosConfig) && has(params.spec.talosConfig.tailscaleConfig) ? "
        "[params.spec.talosConfig.tailscaleConfig] : [])"
    ),
}
USE = Validation(
    USE_RULE,
    "has(object.spec.nodeClassRef) && authorizer.group('tgp.io').resource('gpunodeclasses')"
    ".name(object.spec.nodeClassRef.name).check('use').allowed()",
    # Without the field the operator would choose the default class, or the only one, which no role was asked about.
    "has(object.spec.nodeClassRef) ? request.userInfo.username + ' may not use GPUNodeClass ' + "
    "object.spec.nodeClassRef.name + ': it takes the verb use on gpunodeclasses of tgp.io, with that name' : "
    "'spec.nodeClassRef: Required value: name a GPUNodeClass that ' + request.userInfo.username + ' may use: "
    "policies.requireUse is set, so the default class is not chosen'",
)

# -- the finalizer -----------------------------------------------------------------------------------------------------

# Not ended: it runs, or an order was sent and its outcome is not known yet.
OPEN = "oldObject.status.attempts.filter(a, !has(a.endedAt))"
PRICES = (
    f"{OPEN}.map(a, has(a.hourlyPrice) ? a.hourlyPrice : has(a.offer) && has(a.offer.hourlyPrice) ? "
    "a.offer.hourlyPrice : '').filter(price, price != '')"
)


def _with_price(words: str) -> str:
    return f"({PRICES}.size() > 0 ? ' and {words} $' + {PRICES}[0] + ' an hour' : '')"


KEPT_FINALIZER = Validation(
    FINALIZER_RULE,
    f"!has(oldObject.status) || !has(oldObject.status.attempts) || {OPEN}.size() == 0",
    f"({OPEN}.exists(a, has(a.launchedAt)) ? 'a machine of this request runs' + {_with_price('costs')} : "
    f"'the outcome of an order of this request is not known yet: a machine may run' + {_with_price('cost')}) + "
    f"'. Without the finalizer {FINALIZER} the operator may forget it. Put it back, or terminate the machine: "
    "tgp doctor --fix'",
)


# -- objects -----------------------------------------------------------------------------------------------------------


def policy(
    name: str,
    resources: Sequence[str],
    validations: Sequence[Validation],
    *,
    variables: Mapping[str, str] | None = None,
    of_class: bool = False,
    conditions: Mapping[str, str] | None = None,
    operations: Sequence[str] = ("CREATE", "UPDATE"),
    fails: str = "Fail",
) -> dict[str, Any]:
    wanted = CHANGED if conditions is None else conditions
    rules = {"apiGroups": ["tgp.io"], "apiVersions": ["v1"], "operations": [*operations], "resources": [*resources]}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {
            "failurePolicy": fails,
            **({"paramKind": {"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass"}} if of_class else {}),
            "matchConstraints": {"resourceRules": [rules]},
            "matchConditions": [{"name": key, "expression": value} for key, value in wanted.items()],
            **(
                {"variables": [{"name": key, "expression": value} for key, value in variables.items()]}
                if variables
                else {}
            ),
            "validations": [
                {"expression": each.expression, "messageExpression": each.message, "reason": "Invalid"}
                for each in validations
            ],
        },
    }


def binding(name: str, *, of_class: bool = False, action: str = "Deny") -> dict[str, Any]:
    found = {"paramRef": {"selector": {}, "parameterNotFoundAction": "Allow"}} if of_class else {}
    return {
        "apiVersion": API,
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name, "labels": LABELS},
        "spec": {"policyName": name, "validationActions": [action], **found},
    }


NOT_THE_OPERATOR = {"others": f"request.userInfo.username != '{OPERATOR}'"}
CHANGED = {"changed": "request.operation == 'CREATE' || object.spec != oldObject.spec"}
TAKEN_OFF = {
    "taken-off": (
        f"has(oldObject.metadata.finalizers) && '{FINALIZER}' in oldObject.metadata.finalizers && "
        f"!(has(object.metadata.finalizers) && '{FINALIZER}' in object.metadata.finalizers)"
    )
}
ALWAYS: tuple[dict[str, Any], ...] = (
    policy(
        "tgp-classes",
        ["gpunodeclasses"],
        CLASS,
        variables={"talos": CONFIGS, "gpus": CLASS_GPUS, "machines": MACHINES},
    ),
    binding("tgp-classes"),
    policy("tgp-pools", ["gpunodepools"], POOL, variables={"gpus": POOL_GPUS}),
    binding("tgp-pools"),
    policy("tgp-requests", ["gpurequests"], REQUEST),
    binding("tgp-requests"),
    policy(
        "tgp-pools-of-class",
        ["gpunodepools"],
        [NAMESPACES, *NARROW],
        variables={**CLASS_VARIABLES, **POOL_VARIABLES},
        conditions={**CHANGED, **NOT_THE_OPERATOR},
        of_class=True,
    ),
    binding("tgp-pools-of-class", of_class=True),
    policy(
        "tgp-requests-of-class",
        ["gpurequests"],
        [NAMESPACES, *MESH, *BEYOND_CLASS],
        variables={**CLASS_VARIABLES, **MESH_VARIABLES, "models": MODELS, "allowed": members(ALLOWED_GPUS)},
        conditions={**CHANGED, **NOT_THE_OPERATOR},
        of_class=True,
    ),
    binding("tgp-requests-of-class", of_class=True),
    policy(
        "tgp-requests-finalizer",
        ["gpurequests"],
        [KEPT_FINALIZER],
        conditions={**TAKEN_OFF, **NOT_THE_OPERATOR},
        operations=("UPDATE",),
        fails="Ignore",
    ),
    binding("tgp-requests-finalizer", action="Warn"),
)
BY_VALUE: tuple[dict[str, Any], ...] = (
    policy("tgp-class-use", ["gpunodepools", "gpurequests"], [USE], conditions={**CHANGED, **NOT_THE_OPERATOR}),
    binding("tgp-class-use"),
)


def template() -> str:
    """The chart's template."""
    return (
        HEAD
        + '{{- if include "tgp-operator.policies" . }}\n'
        + _in_chart(ALWAYS)
        + "{{- if .Values.policies.requireUse }}\n---\n"
        + _in_chart(BY_VALUE)
        + "{{- end }}\n{{- end }}\n"
    )


def _in_chart(objects: Sequence[Mapping[str, Any]]) -> str:
    made = "---\n".join(as_yaml(each).removeprefix("---\n") for each in objects)
    assert "{{" not in made, "Helm would read it"
    labels = '\n    {{- include "tgp-operator.labels" . | nindent 4 }}'
    made = re.sub(r" '?@labels@'?", lambda _: labels, made)
    made = made.replace(NAMESPACES_REQUIRED, "{{ .Values.settings.requireAllowedNamespaces | default false }}")
    return made.replace("@namespace@", "{{ .Release.Namespace }}")


def plain(
    objects: Sequence[Mapping[str, Any]], namespace: str, *, namespaces_required: bool = False
) -> list[dict[str, Any]]:
    """As a cluster has them, for tests."""
    text_ = json.dumps([{**each, "metadata": {"name": each["metadata"]["name"]}} for each in objects])
    found: list[dict[str, Any]] = json.loads(
        text_.replace("@namespace@", namespace).replace(NAMESPACES_REQUIRED, str(namespaces_required).lower())
    )
    return found
