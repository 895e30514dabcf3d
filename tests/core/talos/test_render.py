"""From plan, join values and template to a config that is ready to be handed over."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.core.talos.a_plan import VERSIONS, a_join, a_plan, early_template, line_of, version
from tests.core.talos.hostile import CANONICAL, enormous, hostile_values
from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.joining.talos.render import compose, inspect, render
from tgp.core.joining.talos.stream import read_stream, write_stream
from tgp.core.joining.talos.template import shape
from tgp.core.model.machine_config import Severity, TemplateRefused
from tgp.core.model.mesh import Backend, TailscaleJoin
from tgp.core.model.secret import Secret


def documents(text):
    return [document.data for document in read_stream(text)]


def with_values(values):
    """A plan and join values that hold these."""
    mesh = TailscaleJoin(Secret(values["TailscaleAuthKey"]), "host")
    plan = a_plan(
        bootstrap_token=Secret(values["ClusterToken"]),
        node_name=values["NodeName"],
        pool=values["NodePool"],
        mesh=mesh,
        labels={"tgp.io/a": values["NodePool"]},
    )
    join = a_join(
        machine_token=Secret(values["MachineToken"]),
        machine_ca=values["MachineCA"],
        cluster_ca=values["ClusterCA"],
        cluster_id=Secret(values["ClusterID"]),
        cluster_secret=Secret(values["ClusterSecret"]),
        endpoint=values["ControlPlaneEndpoint"],
        cluster_name=values["ClusterName"],
        pod_subnets=values["PodSubnets"] or ("",),
        service_subnets=values["ServiceSubnets"] or ("",),
        dns_domain=values["DNSDomain"],
    )
    return plan, join


@pytest.mark.parametrize("template", [None, early_template()], ids=["generated", "early"])
@settings(deadline=None, max_examples=40)
@given(values=hostile_values())
def test_no_value_changes_the_structure_of_the_config(template, values):
    plan, join = with_values(values)
    composed = compose(plan, join, template)

    calm = {name: tuple("x" for _ in value) if isinstance(value, tuple) else "x" for name, value in values.items()}
    assert shape(documents(composed.text)) == shape(compose(*with_values(calm), template).documents)
    assert documents(composed.text)[0]["cluster"]["secret"] == values["ClusterSecret"]


@pytest.mark.parametrize(
    ("template", "line"),
    [
        ("apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: {{.NodePool}}\nenvironment: [a=b]", 3),
        ("apiVersion: v1alpha1\nkind: x{{.NodePool}}", 2),
        ("kind: ExtensionServiceConfig\nname: tailscale\nenvironment:\n  - {{.NodePool}}", 4),
        ("kind: ExtensionServiceConfig\nname: tailscale\nenvironment:\n  - TS_{{.NodePool}}=x", 4),
        ("machine:\n  kernel:\n    modules:\n      - name: nv{{.NodePool}}", 4),
        ("machine:\n  network:\n    interfaces:\n      - interface: {{.NodePool}}", 4),
    ],
)
def test_a_value_cannot_choose_which_part_of_the_config_it_is_in(template, line):
    """A pool named tailscale must not become the tailscale document."""
    with pytest.raises(TemplateRefused) as caught:
        compose(a_plan(pool="tailscale"), a_join(), template)

    assert [finding.line for finding in caught.value.findings] == [line]


def test_a_mebibyte_of_name_is_a_long_name():
    values = dict.fromkeys(CANONICAL, "x")
    name = enormous()[0]
    plan, join = with_values(values | {"NodeName": name, "PodSubnets": (), "ServiceSubnets": ()})

    assert documents(compose(plan, join, None).text)[1]["hostname"] == name


def test_half_a_character_is_refused_by_the_name_of_its_variable():
    with pytest.raises(TemplateRefused, match="the value of ClusterName"):
        compose(a_plan(), a_join(cluster_name="a\ud800"), None)
    with pytest.raises(TemplateRefused, match="half a surrogate pair"):
        compose(a_plan(), a_join(), "machine: {sysctls: {a: '\ud800'}}")


def test_equal_plans_give_equal_texts():
    assert render(a_plan(), a_join(), early_template()).text == render(a_plan(), a_join(), early_template()).text


def test_a_config_shows_nothing_of_itself():
    join = a_join(cluster_secret=Secret("Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2FuYXJ5Y2E="))

    assert "Y2FuYXJ5" not in repr(render(a_plan(), join, None))
    assert "Y2FuYXJ5" not in repr(compose(a_plan(), join, None))


# ---- the template's word


def test_what_the_template_says_counts():
    template = """\
machine:
  kubelet:
    image: ghcr.io/siderolabs/kubelet:v1.34.1
    nodeIP: {validSubnets: [100.64.0.0/10, "!100.64.1.0/24"]}
    extraConfig: {maxPods: 50}
  features:
    kubePrism: {enabled: true, port: 7446}
  sysctls: {net.core.somaxconn: "4096"}
  nodeLabels: {tgp.io/a: mine}
cluster:
  network: {dnsDomain: home.arpa}
---
apiVersion: v1alpha1
kind: ExtensionServiceConfig
name: tailscale
environment:
  - TS_HOSTNAME=other
  - TS_AUTH_ONCE=false
  - TS_ROUTES=10.0.0.0/8
---
apiVersion: v1alpha1
kind: TrustedRootsConfig
name: mine
certificates: |
  none
"""
    plan = a_plan(labels={"tgp.io/a": "ours", "tgp.io/b": "ours"}, node_name="reserved", provider_id="tgp://x/y")
    config, _, tailscale, roots = documents(compose(plan, a_join(), template).text)
    kubelet = config["machine"]["kubelet"]

    assert kubelet["image"] == "ghcr.io/siderolabs/kubelet:v1.34.1"
    assert kubelet["nodeIP"] == {"validSubnets": ["100.64.0.0/10", "!100.64.1.0/24"]}
    assert kubelet["extraConfig"] == {"providerID": "tgp://x/y", "maxPods": 50}
    assert config["machine"]["features"]["kubePrism"]["port"] == 7446
    assert config["machine"]["features"]["hostDNS"]["enabled"] is True
    assert config["machine"]["nodeLabels"] == {"tgp.io/a": "mine", "tgp.io/b": "ours"}
    assert config["cluster"]["network"]["dnsDomain"] == "home.arpa"
    assert config["cluster"]["network"]["podSubnets"] == ["10.244.0.0/16"]
    assert tailscale["environment"] == [
        "TS_AUTHKEY=inert-key",
        "TS_HOSTNAME=inert",
        "TS_AUTH_ONCE=true",
        "TS_ROUTES=10.0.0.0/8",
    ]
    assert roots["name"] == "mine"


def test_modules_and_interfaces_add_up():
    """A list in the template would otherwise take away the GPUs' modules, or the tunnel."""
    template = (
        "machine:\n  kernel: {modules: [{name: zfs}, {name: nvidia, parameters: [a=1]}]}\n"
        "  network: {interfaces: [{interface: eth1, dhcp: true}]}\n"
    )
    config, *_ = documents(render(a_plan("v1.10.5", Backend.WIREGUARD), a_join(), template).text)

    assert [module["name"] for module in config["machine"]["kernel"]["modules"]] == [
        "zfs",
        "nvidia",
        "nvidia_uvm",
        "nvidia_drm",
        "nvidia_modeset",
    ]
    assert [each["interface"] for each in config["machine"]["network"]["interfaces"]] == ["eth1", "tgp0"]


def test_a_key_without_a_value_says_nothing():
    config, *_ = documents(render(a_plan(), a_join(), "machine:\n  kubelet:\ncluster:\n").text)

    assert config["machine"]["kubelet"]["image"]
    assert config["cluster"]["token"]


@pytest.mark.parametrize("talos", ["v1.12.5", "v1.13.0"])
def test_kubespan_in_the_old_place_is_switched_on_there(talos):
    template = "machine: {network: {kubespan: {mtu: 1300}}}"
    config, *others = documents(render(a_plan(talos, Backend.KUBESPAN), a_join(), template).text)

    assert config["machine"]["network"]["kubespan"] == {"mtu": 1300, "enabled": True}
    assert "KubeSpanConfig" not in [other["kind"] for other in others]


def test_an_empty_template_is_a_generated_config():
    for template in ("", "# nothing yet\n", "---\n"):
        assert render(a_plan(), a_join(), template).text == render(a_plan(), a_join(), None).text


def test_lists_become_lists():
    join = a_join(pod_subnets=("10.1.0.0/16", "fd00:1::/56"))
    config, *_ = documents(render(a_plan(), join, "cluster: {network: {podSubnets: {{.PodSubnets}}}}").text)

    assert config["cluster"]["network"]["podSubnets"] == ["10.1.0.0/16", "fd00:1::/56"]


# ---- what a machine must not get


def test_a_strangers_host_gets_no_shared_secret_from_a_template_either():
    rendered = render(a_plan(shared_secrets=False), a_join(), early_template())
    config, *_ = documents(rendered.text)

    assert "token" not in config["machine"]
    assert "secret" not in config["cluster"]
    assert config["cluster"]["discovery"] == {"enabled": False}
    told = {conversion.path for conversion in rendered.conversions if "untrusted host" in conversion.message}
    assert told == {"machine.token", "cluster.id", "cluster.secret"}


@pytest.mark.parametrize("name", ["MachineToken", "ClusterID", "ClusterSecret"])
def test_nor_by_another_place(name):
    template = f"machine:\n  files:\n    - path: /var/a\n      op: create\n      content: x{{{{.{name}}}}}\n"
    with pytest.raises(TemplateRefused) as caught:
        render(a_plan(shared_secrets=False), a_join(), template)

    assert caught.value.findings[0].line == 5
    assert f"{{{{.{name}}}}}" in caught.value.findings[0].message


@pytest.mark.parametrize("template", [None, "machine: {network: {kubespan: {enabled: true}}}"])
def test_kubespan_is_not_for_strangers(template):
    backend = Backend.NONE if template else Backend.KUBESPAN
    with pytest.raises(TemplateRefused, match="secret"):
        render(a_plan(backend=backend, shared_secrets=False), a_join(), template)


@pytest.mark.parametrize("backend", [Backend.WIREGUARD, Backend.KUBESPAN, Backend.NONE])
def test_a_key_that_the_mesh_does_not_have_is_told(backend):
    template = "machine:\n  nodeAnnotations:\n    a: {{.AuthKey}}\n"
    with pytest.raises(TemplateRefused) as caught:
        render(a_plan(backend=backend), a_join(), template)

    assert (caught.value.findings[0].line, caught.value.findings[0].path) == (3, "machine.nodeAnnotations.a")


# ---- what is said about it


def test_a_mistake_is_told_by_the_templates_line():
    template = "# a comment\nmachine:\n  type: worker\n  kubelett: {}\n"
    _, findings = inspect(template, version("v1.13.0"))

    assert [(finding.line, finding.path) for finding in findings] == [(4, "machine.kubelett")]


def test_a_mistake_in_another_document_too():
    template = "machine: {}\n---\napiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: gvisor\nenvironmnt: [a=b]\n"
    _, findings = inspect(template, version("v1.13.0"))

    assert line_of(template, "environmnt") in {finding.line for finding in findings}


def test_a_refused_template_still_tells_what_would_be_converted():
    template = early_template() + "  nonsense: 1\n"
    conversions, findings = inspect(template, version("v1.13.0"))

    assert [finding.path for finding in findings] == ["cluster.nonsense"]
    assert "machine.systemd" in {conversion.path for conversion in conversions}


def test_looking_at_a_template_needs_no_secret():
    conversions, findings = inspect(early_template(), version("v1.12.5"))

    assert conversions
    assert findings == ()
    assert inspect(None, version("v1.12.5")) == ((), ())


def test_a_template_can_be_looked_at_as_a_strangers_host_would_get_it():
    template = "machine:\n  nodeAnnotations:\n    a: {{.ClusterSecret}}\n"

    assert inspect(template, version("v1.13.0")) == ((), ())
    _, findings = inspect(template, version("v1.13.0"), shared_secrets=False)
    assert [finding.line for finding in findings] == [3]


def test_a_magic_name_of_the_control_plane_is_warned_about():
    template = "cluster:\n  controlPlane:\n    endpoint: https://k8s-api.tailnet.ts.net:6443\n"
    rendered = render(a_plan(), a_join(), template)

    (warning,) = [each for each in rendered.warnings if "MagicDNS" in each.message]
    assert (warning.line, warning.severity) == (3, Severity.WARNING)
    assert render(a_plan(backend=Backend.NONE), a_join(), template).warnings == ()


def test_what_is_expected_besides_the_plan_is_checked_too():
    plan = a_plan()
    with pytest.raises(TemplateRefused, match="bytes"):
        render(plan, a_join(), None, expects=replace(NodeExpectations.of(plan), user_data_bytes=512))


@pytest.mark.parametrize("talos", VERSIONS)
@pytest.mark.parametrize("backend", list(Backend))
@pytest.mark.parametrize("template", [None, early_template()], ids=["generated", "early"])
def test_what_leaves_here_has_no_finding(talos, backend, template):
    assert render(a_plan(talos, backend), a_join(), template).warnings == ()


# ---- templates that make no sense

KEYS = (
    "machine cluster version persist debug kind name apiVersion type token ca crt certSANs kubelet extraConfig "
    "extraArgs files path content op permissions systemd services nodeLabels nodeTaints install image extensions "
    "network hostname interfaces interface cidr addresses kubespan kernel modules features environment "
    "controlPlane endpoint discovery id secret write_files nodeIP"
)
WORDS = (
    "worker v1alpha1 tailscale ExtensionServiceConfig HostnameConfig KubeSpanConfig TS_EXTRA_ARGS=--ssh "
    "/etc/tailscale/a /etc/systemd/system/tailscaled.service /etc/cri/conf.d/20-nvidia.part {{.NodeName}} "
    "{{.PodSubnets}} {{.ClusterCA}}"
)
leaves = st.sampled_from(WORDS.split()) | st.booleans() | st.none() | st.integers(-1, 3) | st.just("[a]\nb = 1\n")
nonsense = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS.split()), inner, max_size=4),
    max_leaves=15,
)


@settings(deadline=None, max_examples=50)
@given(
    st.lists(nonsense, max_size=3),
    st.sampled_from(list(Backend)),
    st.sampled_from(["v1.10.5", "v1.12.5", "v1.14.0"]),
    st.booleans(),
)
def test_no_template_makes_the_renderer_stumble(parts, backend, talos, shared):
    """It is refused with a finding, or becomes a config; never anything else."""
    plan = a_plan(talos, backend, shared_secrets=shared)
    try:
        rendered = render(plan, a_join(), write_stream(parts))
    except TemplateRefused as refusal:
        told = refusal.findings
    else:
        told = rendered.warnings
    assert all(finding.message for finding in told)


def the_machine(inside):
    return write_stream([{"machine": inside}])


@settings(deadline=None, max_examples=50)
@given(st.dictionaries(st.sampled_from(KEYS.split()), nonsense, max_size=5), st.sampled_from(list(Backend)))
def test_nor_does_one_that_begins_well(inside, backend):
    plan = a_plan("v1.13.0", backend)
    for template in (the_machine(inside), write_stream([{"cluster": inside}]), write_stream([inside])):
        try:
            render(plan, a_join(), template)
        except TemplateRefused:
            continue


# ---- what is written in odd ways

EMOJI = '"\\ud83d\\ude00"'  # as JSON escapes it
GRIN = "\U0001f600"


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("machine:\n  nodeAnnotations:\n    example.org/a: {}\n", ("machine", "nodeAnnotations", "example.org/a")),
        (
            "machine:\n  files:\n    - {{path: /var/a, op: create, permissions: 0o600, content: {}}}\n",
            ("machine", "files", 0, "content"),
        ),
    ],
)
def test_characters_in_two_halves_become_one(template, path):
    """JSON writes them so; Go's YAML refuses each half."""
    rendered = render(a_plan(), a_join(), template.format(EMOJI))

    at = read_stream(rendered.text)[0].data
    for step in path:
        at = at[step]
    assert at == GRIN
    assert "\\ud83d" not in rendered.text


@pytest.mark.parametrize(
    ("template", "where"),
    [
        ('machine:\n  nodeAnnotations:\n    example.org/a: "\\ud83d"\n', 'machine.nodeAnnotations["example.org/a"]'),
        ('machine:\n  env:\n    A: "x\\ude00\\ud83d"\n', "machine.env.A"),
        ('machine:\n  env:\n    "\\ude00": a\n', "machine.env"),
    ],
)
def test_half_a_character_is_refused_by_its_field(template, where):
    _, (finding,) = inspect(template, version("v1.13.0"))

    assert finding.path == where
    assert finding.line == 3
    assert "half a surrogate pair" in finding.message


def test_braces_that_are_meant_as_such_reach_the_node():
    template = (
        "machine:\n  files:\n    - {path: /var/a, op: create, permissions: 0o600, content: '{{\"{{\"}}.Name}}'}\n"
    )

    rendered = render(a_plan(), a_join(), template)

    assert read_stream(rendered.text)[0].data["machine"]["files"][0]["content"] == "{{.Name}}"
    assert rendered.warnings == ()


@pytest.mark.parametrize(
    "line", ["TS_AUTHKEY=tskey-auth-k1-abc", "TS_AUTHKEY=hs-0123", "TS_EXTRA_ARGS=--auth-key=tskey-auth-k1-abc"]
)
def test_a_key_of_the_tailnet_that_is_written_out_is_warned_of(line):
    template = f"apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\nenvironment:\n  - {line}\n"

    _, findings = inspect(template, version("v1.13.0"))

    (finding,) = [finding for finding in findings if finding.severity is Severity.WARNING]
    assert (finding.line, finding.path) == (5, "ExtensionServiceConfig/tailscale.environment[0]")
    assert "tskey" not in str(finding)


def test_a_key_of_the_tailnet_by_its_variable_is_fine():
    template = (
        "apiVersion: v1alpha1\nkind: ExtensionServiceConfig\nname: tailscale\n"
        "environment:\n  - TS_AUTHKEY={{.TailscaleAuthKey}}\n"
    )

    assert inspect(template, version("v1.13.0")) == ((), ())


def test_what_is_not_looked_into_is_told():
    template = "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: a\n"

    _, (finding,) = inspect(template, version("v1.14.0"))

    assert finding.severity is Severity.UNCHECKED
    assert finding.path == "KubeletConfig"
