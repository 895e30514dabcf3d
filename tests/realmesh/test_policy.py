"""The rules that `tgp mesh policy` prints: Headscale reads them, and nothing gets through besides what they say."""

import json
import subprocess

import pytest

from tests.realmesh.machine import documents, environment_of
from tests.realmesh.traffic import carried, silent
from tgp.core.joining.mesh.policy import CONTROL_PLANE_TAG, as_acls, as_grants, policy_for
from tgp.core.model.mesh import Backend, MeshSettings, TailscaleJoin
from tgp.core.model.secret import Secret
from tools.lan.headscale import HeadscaleServer
from tools.lan.host import wait_for
from tools.lan.tailscale import Programs, TailscaleClient
from tools.toolbox import CONTAINERBOOT, HEADSCALE_SERVER, TAILSCALE_CLI, TAILSCALED

BOUND_S = 180
GPU = "tag:gpu"
API_SERVER, TRUSTD, KUBELET, APID, SSH = 6443, 50001, 10250, 50000, 22


@pytest.mark.parametrize("form", [as_grants, as_acls])
def test_headscale_takes_either_form(form, program_of, tmp_path):
    settings = MeshSettings(Backend.HEADSCALE, tags=("tag:a", "tag:b"), advertise_routes=("10.9.0.0/24",))
    policy, config = tmp_path / "policy.hujson", tmp_path / "config.yaml"
    policy.write_text(form(policy_for(settings)))
    config.write_text(json.dumps(headscale_in(tmp_path)))  # JSON is YAML
    words = ["policy", "check", "--force", "--bypass-grpc-and-access-database-directly"]
    command = [str(program_of(HEADSCALE_SERVER)), "--config", str(config), *words]

    good = subprocess.run(
        [*command, "--file", str(policy)], capture_output=True, text=True, timeout=BOUND_S, check=False
    )
    policy.write_text(policy.read_text().replace('"tag:a": ["tag:tgp-operator"],', ""))
    bad = subprocess.run(
        [*command, "--file", str(policy)], capture_output=True, text=True, timeout=BOUND_S, check=False
    )

    assert good.returncode == 0, good.stdout + good.stderr
    assert bad.returncode != 0, "it does look: a tag without an owner is refused"


@pytest.mark.parametrize("form", [as_grants, as_acls])
def test_joining_gets_through_and_nothing_else_does(form, lan, program_of):
    rules = form(policy_for(MeshSettings(Backend.HEADSCALE, tags=(GPU,))))
    server = HeadscaleServer(lan.host("server"), program_of(HEADSCALE_SERVER), policy=rules)
    programs = Programs(program_of(CONTAINERBOOT), program_of(TAILSCALED), program_of(TAILSCALE_CLI))

    def joined(name: str, tag: str):
        papers = TailscaleJoin(Secret(server.a_key(tag)), name, login_server=server.url)
        client = TailscaleClient(lan.host(name), programs, environment_of(documents(papers)), server.authority)
        return client.host, client.joined()

    control, at_control = joined("control", CONTROL_PLANE_TAG)
    train, at_train = joined("train", GPU)

    wait_for(lambda: arrives(train, control, at_control, API_SERVER), BOUND_S, lambda: "no way to the API server")
    wait_for(lambda: arrives(control, train, at_train, KUBELET), BOUND_S, lambda: "no way to the kubelet")
    assert carried(train, control, at_control, TRUSTD)
    assert carried(control, train, at_train, APID)
    assert silent(train, at_control, SSH)
    assert silent(train, at_control, KUBELET)
    assert silent(control, at_train, SSH)
    assert silent(control, at_train, API_SERVER)


def arrives(sender, receiver, address: str, port: int) -> bool:
    """While the way is being made nothing is told by a first failure."""
    try:
        return carried(sender, receiver, address, port)
    except OSError:
        return False


def headscale_in(folder) -> dict:
    return {
        "server_url": "http://127.0.0.1:18080",
        "listen_addr": "127.0.0.1:18080",
        "unix_socket": str(folder / "socket"),
        "noise": {"private_key_path": str(folder / "noise.key")},
        "prefixes": {"v4": "100.64.0.0/10", "v6": "fd7a:115c:a1e0::/48"},
        "derp": {"server": {"enabled": False}, "urls": [], "paths": []},
        "database": {"type": "sqlite", "sqlite": {"path": str(folder / "db.sqlite")}},
        "dns": {"magic_dns": False, "override_local_dns": False, "base_domain": "lan.example"},
        "disable_check_updates": True,
    }
