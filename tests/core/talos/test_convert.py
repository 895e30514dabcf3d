"""Old templates, and what becomes of them."""

import tomllib

import pytest

from tests.core.talos.a_plan import VERSIONS, a_join, a_plan, early_cloud_config, early_template, line_of, version
from tgp.core.joining.talos.cri import CUSTOMIZATION, without_nvidia, write_toml
from tgp.core.joining.talos.render import inspect, render
from tgp.core.joining.talos.stream import read_stream
from tgp.core.joining.talos.tailscale_up_flags import joined_arguments, read_up
from tgp.core.model.machine_config import TemplateRefused
from tgp.core.model.mesh import Backend, TailscaleJoin
from tgp.core.model.secret import Secret

NVIDIA_PART = """\
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia]
  container_annotations = ["nvidia.cdi.k8s.io/*"]
  privileged_without_host_devices = false
  runtime_type = "io.containerd.runc.v2"
  [plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.nvidia.options]
    BinaryName = "/var/nvidia/toolkit/nvidia-container-runtime"
"""


def made(template, plan=None, join=None):
    rendered = render(plan or a_plan(), join or a_join(), template)
    return [document.data for document in read_stream(rendered.text)], rendered.conversions


def told(conversions):
    return {conversion.path: conversion for conversion in conversions}


def indented(text, by):
    return "".join(f"{' ' * by}{line}\n" for line in text.splitlines())


def a_file(path, content, op="create"):
    return f"machine:\n  files:\n    - path: {path}\n      op: {op}\n      content: |\n{indented(content, 8)}"


@pytest.mark.parametrize("talos", VERSIONS)
@pytest.mark.parametrize("backend", [Backend.TAILSCALE, Backend.HEADSCALE, Backend.WIREGUARD, Backend.NONE])
def test_the_early_readmes_template_becomes_what_boots(talos, backend):
    (config, *others), _ = made(early_template(), a_plan(talos, backend, pool="trainers"))
    machine = config["machine"]

    assert machine["type"] == "worker"
    assert "systemd" not in machine
    assert "files" not in machine
    assert "persist" not in config
    assert machine["ca"]["crt"] == a_join().machine_ca
    assert config["cluster"]["ca"]["crt"] == a_join().cluster_ca
    assert config["cluster"]["token"] == a_plan().bootstrap_token.reveal()
    assert any(other["kind"] == "ExtensionServiceConfig" for other in others) is (
        backend in {Backend.TAILSCALE, Backend.HEADSCALE}
    )
    # What its author wrote and what works is still there.
    assert machine["kubelet"]["extraMounts"] == [
        {
            "destination": "/var/mnt/extra",
            "type": "bind",
            "source": "/var/mnt/extra",
            "options": ["bind", "rshared", "rw"],
        }
    ]
    assert machine["nodeLabels"] == {"tgp.io/nodepool": "trainers", "tgp.io/provisioned": "true"}
    assert machine["token"] == a_join().machine_token.reveal()


def test_every_change_to_it_is_told_with_its_line():
    template = early_template()
    _, conversions = made(template)

    lines = {path: conversion.line for path, conversion in told(conversions).items()}
    assert lines == {
        "debug": line_of(template, "^debug"),
        "persist": line_of(template, "^persist"),
        "machine.type": line_of(template, "^machine"),
        "machine.features": line_of(template, "^machine"),
        "machine.ca.crt": line_of(template, r"crt: \{\{.ClusterCA"),
        "machine.certSANs": line_of(template, "certSANs"),
        "machine.kubelet.image": line_of(template, "kubelet:"),
        "machine.kubelet.nodeIP": line_of(template, "kubelet:"),
        "machine.files[0]": line_of(template, "path: /etc/tailscale/authkey"),
        "machine.files[1]": line_of(template, "path: /etc/systemd"),
        "machine.systemd": line_of(template, "systemd:$"),
        'machine.nodeLabels["node.kubernetes.io/instance-type"]': line_of(template, "instance-type"),
        "cluster.ca": line_of(template, "^cluster"),
        "cluster.token": line_of(template, "^cluster"),
        "cluster.network": line_of(template, "^cluster"),
        "cluster.discovery": line_of(template, "^cluster"),
    }
    assert list(conversions) == sorted(conversions)


def test_a_cloud_config_for_another_linux_is_refused_with_what_to_write_instead():
    template = early_cloud_config()
    _, findings = inspect(template, version("v1.13.0"))

    assert [(finding.path, finding.line) for finding in findings] == [
        ("write_files", line_of(template, "^write_files")),
        ("runcmd", line_of(template, "^runcmd")),
    ]
    for word in ("cloud-init", "keep machine and cluster only", "tailscaleConfig", "without machineConfigTemplate"):
        assert word in findings[0].message


def test_a_first_line_that_talos_skips_is_no_reason_to_refuse():
    (config, *_), _ = made("#cloud-config\nmachine:\n  sysctls: {vm.swappiness: 0}\n")

    assert config["machine"]["sysctls"] == {"vm.swappiness": 0}


def test_a_script_is_refused():
    _, findings = inspect("#!/bin/bash\ncurl https://example.org | sh\n", version("v1.13.0"))

    assert [finding.line for finding in findings] == [1]
    assert "script" in findings[0].message


# ---- files


def test_nvidias_runtime_needs_no_file():
    (config, *others), conversions = made(a_file("/etc/cri/conf.d/20-nvidia.part", NVIDIA_PART))

    assert "files" not in config["machine"]
    assert "CRICustomizationConfig" not in [other["kind"] for other in others]
    assert "registers the runtime" in told(conversions)["machine.files[0]"].message


@pytest.mark.parametrize("plugin", ["io.containerd.cri.v1.runtime", "io.containerd.grpc.v1.cri"])
@pytest.mark.parametrize("talos", ["v1.10.5", "v1.13.0", "v1.14.0"])
def test_what_such_a_file_says_besides_is_kept_where_talos_reads_it(talos, plugin):
    part = f"version = 2\n[plugins.'{plugin}'.containerd]\n  default_runtime_name = \"nvidia\"\n{NVIDIA_PART}"
    (config, *_), conversions = made(a_file("/etc/cri/conf.d/20-nvidia.part", part), a_plan(talos))

    (file,) = config["machine"]["files"]
    assert (file["path"], file["op"], file["permissions"]) == (CUSTOMIZATION, "create", 0o644)
    assert tomllib.loads(file["content"]) == {
        "plugins": {"io.containerd.cri.v1.runtime": {"containerd": {"default_runtime_name": "nvidia"}}}
    }
    assert "were moved to the customization" in told(conversions)["machine.files[0]"].message


def test_two_parts_and_a_customization_become_one():
    template = a_file("/etc/cri/conf.d/20-a.part", "[a]\nx = 1\n") + (
        f"    - path: {CUSTOMIZATION}\n      op: create\n      content: |\n        [b]\n        y = 2\n"
        "    - path: /etc/cri/conf.d/30-c.part\n      op: create\n      content: |\n        [a]\n        z = 'three'\n"
    )
    (config, *_), _ = made(template)

    (file,) = config["machine"]["files"]
    assert tomllib.loads(file["content"]) == {"a": {"x": 1, "z": "three"}, "b": {"y": 2}}


def test_parts_that_contradict_each_other_are_refused():
    template = a_file("/etc/cri/conf.d/20-a.part", "[a]\nx = 1\n") + (
        "    - path: /etc/cri/conf.d/30-b.part\n      op: create\n      content: |\n        [a]\n        x = 2\n"
    )
    _, findings = inspect(template, version("v1.13.0"))

    assert [finding.path for finding in findings] == ["machine.files[1]"]


def test_a_part_that_is_no_toml_is_refused():
    _, findings = inspect(a_file("/etc/cri/conf.d/20-nvidia.part", "[oops"), version("v1.13.0"))

    assert [finding.path for finding in findings] == ["machine.files[0].content"]


def test_a_file_that_works_stays_as_it_was_written():
    (config, *_), conversions = made(a_file("/var/lib/mine/settings", "a: {{.NodeName}}"), a_plan(node_name="n-1"))

    assert config["machine"]["files"] == [{"path": "/var/lib/mine/settings", "op": "create", "content": "a: n-1\n"}]
    assert conversions == ()


def test_a_finding_about_a_file_that_moved_up_has_the_line_it_had_in_the_template():
    template = a_file("/etc/tailscale/authkey", "x") + (
        "    - path: /etc/mine\n      op: create\n      content: x\n      permissions: 0o600\n"
    )
    _, findings = inspect(template, version("v1.13.0"))

    assert [finding.line for finding in findings] == [line_of(template, "path: /etc/mine")]


def test_toml_is_written_as_it_is_read():
    said = {"a": 1, "b": {"c.d": {"e": [1, "two", True], "f": 'q"\\\n'}, "g": {}}, "h": {"i": 1.5}}

    assert tomllib.loads(write_toml(said)) == said
    assert without_nvidia(NVIDIA_PART) == {}


# ---- the old Tailscale unit


@pytest.mark.parametrize(
    ("command", "environment", "left_out"),
    [
        ("tailscale up --authkey-file=/etc/tailscale/authkey --hostname={{.NodeName}}", {}, ()),
        ("tailscale up --accept-routes --authkey x", {"TS_EXTRA_ARGS": "--accept-routes"}, ()),
        ("tailscale up --accept-routes=false", {"TS_EXTRA_ARGS": "--accept-routes=false"}, ()),
        ("tailscale up --advertise-routes 10.0.0.0/8,fd00::/8 --ssh", None, ()),
        ("tailscale up --advertise-routes={{.PodSubnets}}", {"TS_ROUTES": "{{.PodSubnets}}"}, ()),
        ("tailscale up --accept-dns", {"TS_ACCEPT_DNS": "true"}, ()),
        ("tailscale up --unknown=1 --reset && echo --ssh", {}, ("unknown", "reset")),
        ("tailscale up \\\n  --ssh \\\n  --authkey=x", {"TS_EXTRA_ARGS": "--ssh"}, ()),
        ("tailscaled --state=x", {}, ()),
        ("tailscale up --hostname 'a", {}, ()),
    ],
)
def test_what_the_old_unit_asked_for_is_kept(command, environment, left_out):
    asked = read_up(f"[Service]\nExecStartPost=/usr/bin/{command}\nRestart=always\n")

    wanted = {"TS_ROUTES": "10.0.0.0/8,fd00::/8", "TS_EXTRA_ARGS": "--ssh"} if environment is None else environment
    assert asked.environment == wanted
    assert asked.left_out == left_out


def test_its_flags_join_those_of_the_class():
    unit = "ExecStartPost=/usr/bin/tailscale up --ssh --login-server=https://elsewhere --advertise-routes=10.1.0.0/16"
    mesh = TailscaleJoin(Secret("k"), "n", accept_routes=True, login_server="https://hs.example.org")
    (_, *others), conversions = made(
        a_file("/etc/systemd/system/tailscaled.service", unit), a_plan(mesh=mesh, node_name="n")
    )

    (document,) = [other for other in others if other["kind"] == "ExtensionServiceConfig"]
    assert document["environment"] == [
        "TS_AUTHKEY=k",
        "TS_HOSTNAME=n",
        "TS_AUTH_ONCE=true",
        "TS_EXTRA_ARGS=--login-server=https://hs.example.org --accept-routes --ssh",
        "TS_ROUTES=10.1.0.0/16",
    ]
    assert "kept: TS_EXTRA_ARGS, TS_ROUTES" in told(conversions)["machine.files[0]"].message


def test_of_two_words_about_one_flag_the_templates_counts_but_not_about_the_server():
    assert joined_arguments("--login-server=a --accept-routes", "--accept-routes=false --login-server=b --ssh") == (
        "--login-server=a --accept-routes=false --ssh"
    )


def test_another_service_cannot_be_converted():
    template = "machine:\n  systemd:\n    services:\n      - name: tailscaled.service\n      - name: nginx.service\n"
    _, findings = inspect(template, version("v1.13.0"))

    assert [(finding.path, finding.line) for finding in findings] == [("machine.systemd.services[1]", 5)]
    assert "DaemonSet" in findings[0].message


@pytest.mark.parametrize("path", ["/etc/wireguard/wg0.conf", "/etc/systemd/system/wg-quick@wg0.service"])
def test_an_old_tunnels_files_give_way_to_the_classs(path):
    (config, *_), conversions = made(a_file(path, "[Interface]"), a_plan(backend=Backend.WIREGUARD))

    assert "files" not in config["machine"]
    assert "wireGuardConfig" in told(conversions)["machine.files[0]"].message


# ---- whose node it is


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("machine: {network: {hostname: mine}}", "machine.network.hostname"),
        ("machine: {kubelet: {extraConfig: {providerID: x}}}", "machine.kubelet.extraConfig.providerID"),
        (
            "machine: {kubelet: {extraConfig: {registerWithTaints: [{key: a, effect: NoSchedule}]}}}",
            "machine.kubelet.extraConfig.registerWithTaints",
        ),
        ("machine: {kubelet: {extraArgs: {hostname-override: a}}}", "machine.kubelet.extraArgs.hostname-override"),
        ("machine: {kubelet: {extraArgs: {provider-id: a}}}", "machine.kubelet.extraArgs.provider-id"),
        (
            "machine: {kubelet: {extraArgs: {register-with-taints: a}}}",
            "machine.kubelet.extraArgs.register-with-taints",
        ),
        ("machine: {kubelet: {registerWithFQDN: true}}", "machine.kubelet.registerWithFQDN"),
        ("machine: {kubelet: {skipNodeRegistration: true}}", "machine.kubelet.skipNodeRegistration"),
        ("machine: {nodeTaints: {a: NoSchedule}}", "machine.nodeTaints"),
        ("cluster: {token: abcdef.0123456789abcdef}", "cluster.token"),
        ("apiVersion: v1alpha1\nkind: HostnameConfig\nhostname: mine", "HostnameConfig"),
    ],
)
@pytest.mark.parametrize("talos", ["v1.10.5", "v1.13.0"])
def test_what_would_make_it_another_node_is_ours_and_told(talos, template, path):
    plan = a_plan(talos, node_name="reserved")
    documents, conversions = made(template, plan)

    generated = [document.data for document in read_stream(render(plan, a_join(), None).text)]
    assert documents == generated
    assert path in told(conversions)


@pytest.mark.parametrize(("talos", "kept"), [("v1.10.5", True), ("v1.13.0", False)])
def test_a_stable_host_name_goes_where_it_would_clash_with_ours(talos, kept):
    """Since the host name has a document of its own, Talos refuses both together."""
    (config, *_), conversions = made("machine: {features: {stableHostname: true}}", a_plan(talos))

    assert ("stableHostname" in config["machine"]["features"]) is kept
    assert ("machine.features.stableHostname" in told(conversions)) is not kept


@pytest.mark.parametrize(
    "template",
    [
        "machine: {network: {hostname: '{{.NodeName}}'}}",
        "machine: {type: worker}\n---\napiVersion: v1alpha1\nkind: HostnameConfig\nhostname: {{.Hostname}}",
        "cluster: {token: '{{.ClusterToken}}'}",
    ],
)
def test_who_says_what_we_say_is_told_nothing(template):
    _, conversions = made(template)

    assert conversions == ()


def test_a_control_plane_is_never_made():
    for kind in ("controlplane", "init", "{{.NodePool}}"):
        _, findings = inspect(f"machine:\n  type: {kind}\n", version("v1.13.0"))
        assert findings[0].path == "machine.type"
        assert findings[0].line == 2


def test_deprecated_keys_that_strict_talos_refuses_are_replaced():
    template = (
        "machine:\n  type: join\n  install:\n    image: ghcr.io/siderolabs/installer:v1.10.5\n"
        "    extensions: [{image: ghcr.io/x/y:1}]\n"
        "  network:\n    interfaces:\n      - interface: eth1\n        cidr: 10.0.0.1/24\n"
    )
    (config, *_), conversions = made(template, a_plan("v1.10.5"))

    assert config["machine"]["install"] == {"image": a_plan("v1.10.5").installer}
    assert config["machine"]["network"]["interfaces"] == [{"interface": "eth1", "addresses": ["10.0.0.1/24"]}]
    assert set(told(conversions)) == {
        "machine.type",
        "machine.install.image",
        "machine.install.extensions",
        "machine.network.interfaces[0].cidr",
    }


def test_documents_that_stand_there_twice_are_refused():
    document = "apiVersion: v1alpha1\nkind: TrustedRootsConfig\nname: a\ncertificates: x\n"
    with pytest.raises(TemplateRefused) as caught:
        made(f"{document}---\n{document}")

    assert caught.value.findings[0].line == 7
