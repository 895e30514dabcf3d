"""What is wrong with a config is said by line, by path, with what would be right, and without a value."""

import pytest

from tests.core.talos.a_plan import early_template, line_of, version
from tgp.core.joining.talos.check import NodeExpectations, check
from tgp.core.joining.talos.keys import KeyForm, kinds, parsed
from tgp.core.model.machine_config import ConfigFinding, Severity
from tools.judge.broken import BROKEN
from tools.judge.page import sheet
from tools.judge.paper import add, document, drop, expected, good, put, several, text, written

V13 = version("v1.13.9")
SECRETS = ("inert0.inert00inert0000", "inert-key", "A" * 43)


def found(change, talos=V13, **expects):
    return check(written(change(good(talos))), talos, expects=NodeExpectations(**expects))


def said(change, talos=V13, **expects):
    return [str(finding).partition(": ")[2] for finding in found(change, talos, **expects)]


def test_a_good_config_has_no_finding():
    for talos in ("v1.10.5", "v1.11.5", "v1.12.5", "v1.13.0", "v1.14.0"):
        at = version(talos)
        assert check(written(good(at)), at, expects=expected(at)) == ()


def test_a_finding_names_line_path_and_what_would_be_right():
    config = written(put("machine.files", [{"path": "/etc/x", "op": "create", "content": ""}])(good(V13)))

    (finding,) = check(config, V13)

    assert finding.line == line_of(config, r"^ +- path: /etc/x|^ +path: /etc/x")
    assert finding.path == "machine.files[0].path"
    assert str(finding).endswith("is outside /var, where Talos cannot create files: the machine would not boot")


def test_findings_come_in_the_order_of_the_lines():
    lines = [
        finding.line
        for finding in found(several(drop("cluster.token"), put("machine.systemd", {}), put("machine.type", "x")))
    ]

    assert lines == sorted(lines)
    assert len(lines) == 3


def test_the_nearest_name_is_told():
    assert said(put("machine.nodeLables", {})) == [
        "machine.nodeLables: is not a key of Talos 1.13; did you mean nodeLabels?"
    ]
    assert said(add(document("HostNameConfig", hostname="a"))) == [
        "HostNameConfig.kind: is not a kind of Talos 1.13; did you mean HostnameConfig?"
    ]


def test_a_kind_that_is_like_none_has_no_nearest_name():
    assert said(add(document("FooConfig", name="a"))) == ["FooConfig/a.kind: is not a kind of Talos 1.13"]


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "must be 1 to 4094"), (4095, "must be 1 to 4094"), (70000, "must be a number from 0 to 65535")],
)
def test_a_vlan_that_is_out_of_range_is_one_error(number, words):
    assert said(add(document("VLANConfig", name="v", parent="eth0", vlanID=number))) == [
        f"VLANConfig/v.vlanID: {words}"
    ]


def test_a_kind_of_a_later_release_is_told_as_such():
    assert said(add(document("WireguardConfig", name="wg0")), version("v1.11.0")) == [
        "WireguardConfig/wg0.kind: is a kind of Talos 1.12 and later, but this is 1.11"
    ]


def test_an_unknown_release_is_refused():
    assert check("", version("v1.9.0")) == (
        ConfigFinding(0, "", "is for Talos v1.9.0, which this version of tgp does not know"),
    )


def test_without_expectations_only_what_holds_for_every_worker_is_checked():
    assert (
        found(several(drop("machine.kernel"), drop("machine.kubelet.nodeIP"), drop("machine.kubelet.extraConfig")))
        == ()
    )


def test_what_does_no_harm_is_a_warning():
    (finding,) = found(put("cluster.proxy", {"disabled": True}))

    assert finding.severity is Severity.WARNING
    assert (
        found(put("machine.files", [{"path": "/etc/hosts", "op": "append", "content": "a"}]))[0].severity
        is Severity.WARNING
    )


def test_an_unfilled_placeholder_is_one_finding_and_not_one_of_its_form_too():
    assert said(put("machine.network.interfaces", [{"interface": "eth0", "mtu": "{{.MTU}}"}])) == [
        "machine.network.interfaces[0].mtu: has a {{…}} that was not replaced"
    ]


def test_what_is_no_yaml_is_told_by_its_line():
    (finding,) = found(text(lambda config: config + "\n  : ["))

    assert finding.line > 50


def test_the_early_template_is_wrong_in_many_ways():
    paths = {
        finding.path for finding in check(early_template().replace("{{", "'").replace("}}", "'"), version("v1.10.5"))
    }

    assert {"machine.systemd", "machine.type", "cluster.token", "cluster.ca.crt"} <= paths
    assert any(path.startswith("machine.files") for path in paths)


@pytest.mark.parametrize("talos", ["v1.10.5", "v1.13.9"])
def test_no_finding_quotes_a_secret(talos):
    at = version(talos)
    for case in BROKEN:
        if case.since <= at.minor <= case.until:
            config, expects = sheet(case, at)
            for finding in check(config, at, expects=expects):
                assert not any(secret in str(finding) for secret in SECRETS), case.name


def test_a_value_of_the_wrong_form_is_not_quoted():
    for path in (
        "machine.token",
        "cluster.token",
        "machine.ca.crt",
        "cluster.ca.crt",
        "cluster.secret",
        "cluster.controlPlane.endpoint",
    ):
        findings = found(put(path, "hunter2 https:/!"))
        assert findings, path
        assert not any("hunter2" in str(finding) for finding in findings), path


@pytest.mark.parametrize(
    ("kubelet", "api_server", "good_enough"),
    [
        ("v1.36.0", "v1.36.3", True),
        ("v1.36.9", "v1.36.3", True),  # patch releases may differ
        ("v1.35.0", "v1.36.3", True),
        ("v1.36.0", "v1.35.9", False),
        ("v1.36.0", "", True),
    ],
)
def test_a_kubelet_is_never_newer_than_its_api_server(kubelet, api_server, good_enough):
    change = put("machine.kubelet.image", f"ghcr.io/siderolabs/kubelet:{kubelet}")

    assert (not found(change, api_server=api_server)) == good_enough


def test_an_installer_must_carry_the_schematic():
    right = put("machine.install.image", f"factory.talos.dev/metal-installer/{'a' * 64}:v1.13.9")

    assert found(right, schematic="a" * 64) == ()
    assert said(right, schematic="b" * 64) == [
        f"machine.install.image: must be the installer of schematic {'b' * 64}: this one does not have its extensions"
    ]


# ---- the notation of the tables


def test_the_notation_says_forms_containers_and_releases():
    table = "A:\n  b c? d[]# e{}* f@12+ g@-11 h@11-12\n  i[]:\n    j=cidr\nB@13+:\n  k~\n"

    at_11, at_13 = parsed(table, 11), parsed(table, 13)

    assert list(at_11) == ["A"]
    assert list(at_13) == ["A", "B"]
    assert list(at_11["A"].keys) == ["b", "c", "d", "e", "g", "h", "i"]
    assert list(at_13["A"].keys) == ["b", "c", "d", "e", "f", "i"]
    assert at_11["A"].keys["i"].of.keys["j"].form is KeyForm.CIDR
    assert at_11["A"].keys["d"].of.form is KeyForm.NUMBER


@pytest.mark.parametrize("minor", range(10, 15))
def test_every_release_has_its_table(minor):
    assert {"v1alpha1", "ExtensionServiceConfig"} <= set(kinds(minor))
    assert ("HostnameConfig" in kinds(minor)) == (minor >= 12)
    assert ("KubeSpanConfig" in kinds(minor)) == (minor >= 13)
