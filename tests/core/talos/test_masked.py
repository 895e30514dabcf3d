"""A config as people may see it."""

import pytest

from tests.core.talos.a_plan import a_join, a_plan, early_template
from tests.core.talos.test_generate import a_tunnel
from tgp.core.joining.talos.redacted import masked
from tgp.core.joining.talos.render import compose
from tgp.core.joining.talos.stream import read_stream
from tgp.core.model.mesh import NoMesh, TailscaleJoin
from tgp.core.model.secret import Secret

CANARIES = {
    "machine_token": Secret("canary-machine-token"),
    "cluster_id": Secret("canary-cluster-id"),
    "cluster_secret": Secret("canary-cluster-secret"),
}


@pytest.mark.parametrize("template", [None, early_template()], ids=["generated", "early"])
@pytest.mark.parametrize("talos", ["v1.10.5", "v1.13.0"])
@pytest.mark.parametrize(
    "mesh", [NoMesh(), TailscaleJoin(Secret("canary-key"), "host"), a_tunnel(private_key=Secret("canary-private"))]
)
def test_no_secret_is_shown(mesh, talos, template):
    plan = a_plan(talos, mesh=mesh, bootstrap_token=Secret("canary-bootstrap"))
    composed = compose(plan, a_join(**CANARIES), template)
    shown = masked(composed.text)

    assert "canary" in composed.text
    assert "canary" not in shown
    assert "ca:\n    crt: " in shown  # certificates are no secrets


@pytest.mark.parametrize(
    "template",
    [
        "machine: {env: {MY_PASSWORD: canary, HTTPS_PROXY: 'http://canary:canary@10.0.0.1'}}",
        "machine: {registries: {config: {r: {auth: {username: u, password: canary, auth: canary}}}}}",
        "machine: {files: [{path: /var/a, op: create, permissions: 0o600, content: canary}]}",
        "machine: {systemDiskEncryption: {state: {keys: [{slot: 0, static: {passphrase: canary}}]}}}",
        "kind: ExtensionServiceConfig\nname: x\nenvironment: [API_TOKEN=canary, A=b]",
        "kind: ExtensionServiceConfig\nname: x\nconfigFiles: [{content: canary, mountPath: /a}]",
    ],
)
def test_nor_one_that_a_template_holds_itself(template):
    assert "canary" not in masked(compose(a_plan(), a_join(), template).text)


def test_everything_else_stays_as_it_is():
    composed = compose(a_plan(), a_join(), None)
    config, *_, tailscale = (document.data for document in read_stream(masked(composed.text)))

    assert config["machine"]["kubelet"] == composed.documents[0]["machine"]["kubelet"]
    assert config["machine"]["token"] == "*** (23 characters)"
    assert tailscale["environment"] == ["TS_AUTHKEY=*** (9 characters)", "TS_HOSTNAME=inert", "TS_AUTH_ONCE=true"]


def test_the_key_of_a_taint_opens_nothing():
    text = "machine:\n  kubelet:\n    extraConfig:\n      registerWithTaints:\n        - key: tgp.io/ephemeral\n"

    assert "tgp.io/ephemeral" in masked(text)
