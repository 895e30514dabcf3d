"""Hosts that the provider does not own: who may use them, which taints they have, and which secrets they do not get."""

from dataclasses import replace

import msgspec
import pytest

from tests.core.joining.packing import pack
from tests.core.joining.test_mesh_selection import msgspec_class
from tests.core.market.offers import an_offer as on_sale
from tests.core.requests.test_node_metadata import a_node, metadata_of, worn
from tests.core.requests.test_purchase import at, bought, purchase_inputs, waits
from tgp.core.model.offer import BootMode, Trust
from tgp.core.requests.chosen_offer import untrusted
from tgp.core.requests.node_metadata import UNTRUSTED, metadata_patch
from tgp.core.requests.purchase import ALLOW_UNTRUSTED, cannot_boot
from tgp.ports.boot import BootRefused

SOMEBODYS = on_sale(provider="simulated", gpu="RTX4090", gpu_memory_gib=24, trust=Trust.ANY)
PROVIDERS_OWN = msgspec.structs.replace(SOMEBODYS, trust=Trust.DATACENTER)
WITH_SECRETS = """\
version: v1alpha1
machine:
  type: worker
  token: "{{.MachineToken}}"
  ca:
    crt: "{{.MachineCA}}"
cluster:
  id: "{{.ClusterID}}"
  secret: "{{.ClusterSecret}}"
  controlPlane:
    endpoint: "{{.ControlPlaneEndpoint}}"
"""


@pytest.mark.parametrize(("trust", "doubtful"), [(Trust.ANY, True), (Trust.VERIFIED, True), (Trust.DATACENTER, False)])
def test_hosts_of_third_parties_are_not_trusted(trust, doubtful):
    assert untrusted(msgspec.structs.replace(SOMEBODYS, trust=trust)) is doubtful


# -- who may use them --------------------------------------------------------------------------------------------------


def test_a_namespace_uses_them_only_where_it_says_so():
    cheap, dear = at("vast", "somebodys", 1.0, trust=Trust.VERIFIED), at("vultr", "own", 2.0, trust=Trust.DATACENTER)
    market = {"node_class": {"instanceRequirements": {"minTrust": "Any"}}}
    assert bought(purchase_inputs(cheap, dear, **market)) == "somebodys"
    assert bought(replace(purchase_inputs(cheap, dear, **market), untrusted_allowed=False)) == "own"


def test_who_finds_nothing_else_is_told_which_label_it_takes():
    shop = purchase_inputs(
        at("vast", "somebodys", trust=Trust.ANY), node_class={"instanceRequirements": {"minTrust": "Any"}}
    )
    assert f"label the namespace {ALLOW_UNTRUSTED}=true" in waits(replace(shop, untrusted_allowed=False)).message
    assert bought(shop) == "somebodys"


# -- what their Nodes wear ---------------------------------------------------------------------------------------------


def test_their_nodes_carry_a_taint_for_life():
    dress = metadata_of(untrusted=True)
    node = worn(a_node(), dress)
    assert UNTRUSTED in node.taints
    lifted = msgspec.structs.replace(node, taints=tuple(taint for taint in node.taints if taint != UNTRUSTED))
    patch = metadata_patch(lifted, dress, initialized=True)
    assert patch is not None
    assert {"key": "tgp.io/untrusted", "effect": "NoSchedule"} in patch["spec"]["taints"]
    assert metadata_patch(node, dress, initialized=True) is None


@pytest.mark.parametrize("offer", [{"untrusted": False}, {"untrusted": True, "boot_mode": "power"}], ids=str)
def test_no_other_node_carries_it(offer):
    assert UNTRUSTED not in metadata_of(**offer).taints


# -- what they are given -----------------------------------------------------------------------------------------------


def test_they_get_nothing_that_other_machines_have_too():
    theirs, own = pack(offer=SOMEBODYS), pack(offer=PROVIDERS_OWN)
    assert {"id", "secret"} <= own.cluster.keys()
    assert own.machine["token"]
    assert not {"id", "secret"} & theirs.cluster.keys()
    assert "token" not in theirs.machine
    assert theirs.cluster["discovery"]["enabled"] is False
    assert theirs.cluster["token"] != own.machine["token"]  # its own bootstrap token, which is this node's alone


def test_a_template_that_names_shared_secrets_is_filled_without_them():
    secret = "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
    spec = {"talosConfig": {"machineConfigTemplate": WITH_SECRETS}}
    assert pack(spec, offer=PROVIDERS_OWN).text.count(secret) == 2
    theirs = pack(spec, offer=SOMEBODYS)
    assert secret not in theirs.text
    assert "inert0.inert00inert0000" not in theirs.text


def test_shared_secrets_that_a_template_writes_out_are_taken_out_for_them():
    spec = {
        "talosConfig": {"machineConfigTemplate": WITH_SECRETS.replace("{{.MachineToken}}", "abcdef.0123456789abcdef")}
    }
    assert "abcdef.0123456789abcdef" in pack(spec, offer=PROVIDERS_OWN).text
    theirs = pack(spec, offer=SOMEBODYS)
    assert "abcdef.0123456789abcdef" not in theirs.text
    assert "token" not in theirs.machine


def test_kubespan_lets_none_of_them_in():
    spec = {"networking": {"backend": "kubespan"}}
    with pytest.raises(BootRefused, match="KubeSpan admits every holder of the cluster's secret"):
        pack(spec, offer=SOMEBODYS)

    node_class = msgspec_class({"providers": [{"name": "simulated"}], **spec})
    assert cannot_boot(SOMEBODYS, node_class, "")  # known before anything is reserved
    assert cannot_boot(PROVIDERS_OWN, node_class, "") == ""
    assert SOMEBODYS.boot is BootMode.NATIVE
