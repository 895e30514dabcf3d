"""Renders a node's plan, the cluster's join values and the class's template into the config of its machine.

Read the template, convert what is old in it, put the values in, fill in what it leaves out, write it, and read it back:
the result has the structure of the template, whatever the values are, and passes the checks.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from tgp.core.joining.talos.convert import convert
from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.joining.talos.generate import generate
from tgp.core.joining.talos.overlay import overlay
from tgp.core.joining.talos.placeholder_values import placeholder_join, placeholder_plan
from tgp.core.joining.talos.plan import NodePlan
from tgp.core.joining.talos.stream import Document, filled_in, read_stream, spell, write_outline, write_stream
from tgp.core.joining.talos.template import read_template, shape, texts
from tgp.core.joining.talos.template_edit import TemplateEdit, prefix_of
from tgp.core.joining.talos.variables import ESCAPE, LISTS, VARIABLES, Values, fill, used
from tgp.core.model.join import JoinValues
from tgp.core.model.machine_config import ConfigFinding, Conversion, Rendered, Severity, TemplateRefused
from tgp.core.model.mesh import Backend, KubeSpanJoin, TailscaleJoin, TunnelJoin
from tgp.core.model.talos import TalosVersion

SHARED = ("MachineToken", "ClusterID", "ClusterSecret")  # of the whole cluster: not for untrusted hosts
TEMPLATES_REMEMBERED = OUTLINES_REMEMBERED = 16  # read once, not for each machine
_HALF = re.compile("[\ud800-\udfff]")  # of a surrogate pair: not valid in a string
_TAILSCALE_KEY = re.compile(r"tskey-[a-z]+-[A-Za-z0-9]")
_AUTH_KEY = re.compile(r"TS_(?:AUTHKEY|AUTH_KEY|CLIENT_SECRET)=(?!\{\{\.)\S")
_MAGIC_DNS = re.compile(r"\.ts\.net(?::|/|\Z)")
_MISSING = {
    "TailscaleAuthKey": "is used here, but the class's mesh is not Tailscale, so there is no such key",
    **dict.fromkeys(SHARED, "is a secret of the whole cluster, which untrusted hosts do not get"),
}
# What an old full template is missing and needs.
_ADDED = {
    ("machine", "type"): "was missing: set to worker",
    ("machine", "ca"): "was missing: Talos's own CA was added",
    ("machine", "token"): "was missing: added, for the certificate of the Talos API",
    ("machine", "kubelet", "image"): "was missing: the cluster's version was added, the default may be newer",
    ("machine", "kubelet", "nodeIP"): "was missing: the kubelet now waits for an address in the mesh",
    ("machine", "features"): "was missing: KubePrism and host DNS were enabled, as in the rest of the cluster",
    ("cluster", "ca"): "was missing: added, no kubelet joins without the Kubernetes CA",
    ("cluster", "token"): "was missing: added, no kubelet joins without it, and each node gets its own",
    ("cluster", "network"): "was missing: the cluster's subnets and domain were added",
    ("cluster", "discovery"): "was missing: enabled, the default is off",
}


@dataclass(frozen=True, slots=True)
class Composed:
    """A config that is not checked yet. It holds join secrets, so `repr` shows nothing."""

    text: str = field(repr=False)
    read_back: tuple[Document, ...] = field(repr=False)  # the text, as it reads
    documents: list[dict[str, Any]] = field(repr=False)
    conversions: tuple[Conversion, ...] = ()
    findings: tuple[ConfigFinding, ...] = ()  # warnings
    lines: dict[str, int] | None = None  # by path, in the template; None: there is none
    literal_braces: bool = False  # some {{ are literal


def render(
    plan: NodePlan, join: JoinValues, template: str | None, *, expects: NodeExpectations | None = None
) -> Rendered:
    """Raises TemplateRefused. `expects`: more than the plan, such as the provider's size limit."""
    made = compose(plan, join, template)
    expects = replace(expects or NodeExpectations.of(plan), literal_braces=made.literal_braces)
    from tgp.core.joining.talos.check import check  # here: every rule of Talos comes with it

    checked = check(made.text, plan.version, expects=expects, read=made.read_back)
    findings = (*made.findings, *_placed((*_unresolvable(made.documents[0], plan), *checked), made.lines))
    errors = tuple(finding for finding in findings if finding.severity is Severity.ERROR)
    if errors:
        raise TemplateRefused(errors)
    return Rendered(made.text, made.conversions, findings)


def inspect(
    template: str | None,
    version: TalosVersion,
    *,
    backend: Backend = Backend.TAILSCALE,
    nvidia: bool = True,
    kubelet_image: str = "",
    shared_secrets: bool = True,
) -> tuple[tuple[Conversion, ...], tuple[ConfigFinding, ...]]:
    """What would be converted, and all findings, without secrets: every value is a placeholder."""
    plan = placeholder_plan(version, backend, nvidia=nvidia, kubelet_image=kubelet_image)
    plan = replace(plan, shared_secrets=shared_secrets)
    try:
        rendered = render(plan, placeholder_join(), template)
    except TemplateRefused as refusal:
        return _conversions_alone(template, plan), refusal.findings
    return rendered.conversions, rendered.warnings


def inert_text(template: str | None, version: TalosVersion, *, backend: Backend, kubelet_image: str = "") -> str:
    """The config with placeholder values: as long as a real one, without secrets. Raises TemplateRefused."""
    return render(placeholder_plan(version, backend, kubelet_image=kubelet_image), placeholder_join(), template).text


def values_of(plan: NodePlan, join: JoinValues) -> Values:
    """The value of each variable for this node. A missing variable must not be given to the node."""
    values: dict[str, str | tuple[str, ...]] = {
        "MachineToken": join.machine_token.reveal(),
        "MachineCA": join.machine_ca,
        "ClusterCA": join.cluster_ca,
        "ClusterID": join.cluster_id.reveal(),
        "ClusterSecret": join.cluster_secret.reveal(),
        "ClusterToken": plan.bootstrap_token.reveal(),
        "ControlPlaneEndpoint": join.endpoint,
        "ClusterName": join.cluster_name,
        "NodeName": plan.node_name,
        "NodePool": plan.pool,
        "NodeIndex": str(plan.index),
        "PodSubnets": join.pod_subnets,
        "ServiceSubnets": join.service_subnets,
        "DNSDomain": join.dns_domain,
    }
    if isinstance(plan.mesh, TailscaleJoin):
        values["TailscaleAuthKey"] = plan.mesh.auth_key.reveal()
    if not plan.shared_secrets:
        for name in SHARED:
            del values[name]
    return values


def compose(plan: NodePlan, join: JoinValues, template: str | None) -> Composed:
    """The config before the checks: its structure is the template's, whatever the values are."""
    if not plan.shared_secrets and isinstance(plan.mesh, KubeSpanJoin):
        why = "KubeSpan needs the discovery secret of the whole cluster, which untrusted hosts do not get"
        raise TemplateRefused((ConfigFinding(0, "networking.backend", why),))
    values = values_of(plan, join)
    _refuse_halves(values)
    generated = generate(plan, join)
    if template is None:
        return Composed(*_written(generated), generated)
    draft = _converted(_read(template), plan)
    if not plan.shared_secrets:
        _keep_at_home(draft)
    _refuse(finding for finding in draft.findings if finding.severity is Severity.ERROR)
    parts = [draft.config, *draft.others]
    _refuse(_unfillable(draft, parts, values))
    documents = overlay(generated, [fill(part, values) for part in parts])
    inert = {name: _inert(name, values.get(name, "")) for name in VARIABLES}
    calm = overlay(generated, [fill(part, inert) for part in parts])
    assert shape(documents) == shape(calm), "a value became structure"  # a bug of ours: stop at once
    conversions = tuple(sorted((*draft.conversions, *_additions(draft, generated[0]))))
    findings = (*draft.findings, *_written_out(draft, parts))
    literal = any(ESCAPE in text for part in parts for _, text in texts(part))
    return Composed(*_written(documents), documents, conversions, findings, draft.lines(), literal)


# ---- making


@lru_cache(TEMPLATES_REMEMBERED)
def _read(template: str) -> tuple[Document, ...]:
    if _HALF.search(template):
        raise TemplateRefused((ConfigFinding(0, "", "is not valid Unicode text (half a surrogate pair)"),))
    if template.startswith("#!"):
        why = "is a script, and Talos has no shell: write a machine config, or leave the template out"
        raise TemplateRefused((ConfigFinding(1, "", why),))
    return read_template(template)


def _converted(documents: tuple[Document, ...], plan: NodePlan) -> TemplateEdit:
    tailscale, tunnel = isinstance(plan.mesh, TailscaleJoin), isinstance(plan.mesh, TunnelJoin)
    return convert(documents, plan.version, tailscale=tailscale, tunnel=tunnel)


def _conversions_alone(template: str | None, plan: NodePlan) -> tuple[Conversion, ...]:
    """For a template that is refused for another reason."""
    if template is None:
        return ()
    try:
        return tuple(sorted(_converted(_read(template), plan).conversions))
    except TemplateRefused:
        return ()


def _keep_at_home(draft: TemplateEdit) -> None:
    """With the cluster's secret discovery shows all nodes: an untrusted host must not have it."""
    for path in (("machine", "token"), ("cluster", "id"), ("cluster", "secret"), ("cluster", "discovery")):
        if draft.get(*path) is not None:
            draft.told(path, "untrusted host: removed, because the whole cluster shares it")
            draft.drop(*path)
    if draft.get("machine", "network", "kubespan") is not None or draft.other("KubeSpanConfig") is not None:
        draft.refused(
            ("machine", "network", "kubespan"), "needs the cluster's secret, which untrusted hosts do not get"
        )


def _unfillable(draft: TemplateEdit, parts: list[dict[str, Any]], values: Values) -> Iterator[ConfigFinding]:
    lines = draft.lines()
    for part in parts:
        prefix = prefix_of(part)
        for name, path in used(part):
            if name not in values:
                where = f"{prefix}.{spell(path)}" if prefix else spell(path)
                yield ConfigFinding(lines.get(where, 0), where, f"{{{{.{name}}}}} {_MISSING[name]}")


def _written_out(draft: TemplateEdit, parts: list[dict[str, Any]]) -> Iterator[ConfigFinding]:
    """Tailnet keys in the template itself: every reader of the class could use them."""
    lines = draft.lines()
    for part in parts:
        prefix = prefix_of(part)
        for path, text in texts(part):
            if _TAILSCALE_KEY.search(text) or _AUTH_KEY.match(text):
                where = f"{prefix}.{spell(path)}" if prefix else spell(path)
                why = "contains a tailnet key, which every reader of the class can use: write {{.TailscaleAuthKey}}"
                yield ConfigFinding(lines.get(where, 0), where, why, Severity.WARNING)


def _additions(draft: TemplateEdit, generated: dict[str, Any]) -> Iterator[Conversion]:
    """Reported for full configs only: a partial template is meant to be filled in."""
    if "machine" not in draft.written or "cluster" not in draft.written:
        return
    for path, message in _ADDED.items():
        if _stands(generated, path) and not _stands(draft.written, path):
            yield Conversion(draft.line(path), spell(path), message)


def _stands(data: Any, path: tuple[str, ...]) -> bool:
    for step in path:
        data = data.get(step) if isinstance(data, dict) else None
    return data is not None


def _unresolvable(config: dict[str, Any], plan: NodePlan) -> Iterator[ConfigFinding]:
    cluster = config.get("cluster")
    control_plane = cluster.get("controlPlane") if isinstance(cluster, dict) else None
    endpoint = control_plane.get("endpoint") if isinstance(control_plane, dict) else None
    if isinstance(plan.mesh, TailscaleJoin) and isinstance(endpoint, str) and _MAGIC_DNS.search(endpoint):
        why = "is a MagicDNS name, which Talos does not resolve: use a control plane's address in the tailnet"
        yield ConfigFinding(0, "cluster.controlPlane.endpoint", why, Severity.WARNING)


# ---- proving


def _refuse(findings: Iterable[ConfigFinding]) -> None:
    listed = tuple(findings)
    if listed:
        raise TemplateRefused(listed)


def _refuse_halves(values: Values) -> None:
    for name, value in values.items():
        if _HALF.search(value if isinstance(value, str) else "".join(value)):
            raise TemplateRefused((ConfigFinding(0, "", f"the value of {name} is not valid Unicode text"),))


def _inert(name: str, value: str | tuple[str, ...]) -> str | tuple[str, ...]:
    return tuple("inert" for _ in value) if name in LISTS else "inert"


def _written(documents: list[dict[str, Any]]) -> tuple[str, tuple[Document, ...]]:
    """The text, and what it reads as. Its outline is parsed once for all machines: a parser takes milliseconds."""
    read = _read_outline(write_outline(documents))
    pairs = zip(read, documents, strict=True)
    again = tuple(replace(each, data=filled_in(each.data, document)) for each, document in pairs)
    text = write_stream(documents)
    assert write_stream([document.data for document in again]) == text, "the written text reads back differently"
    return text, again


@lru_cache(OUTLINES_REMEMBERED)
def _read_outline(outline: str) -> tuple[Document, ...]:
    read = read_stream(outline)
    assert write_outline([document.data for document in read]) == outline, "the written text reads back differently"
    return read


def _placed(findings: Iterable[ConfigFinding], lines: dict[str, int] | None) -> Iterator[ConfigFinding]:
    """By the template's lines if there is one: users do not see those of the result."""
    for finding in findings:
        yield finding if lines is None else replace(finding, line=lines.get(finding.path, 0))
