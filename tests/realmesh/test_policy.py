"""The rules that `tgp mesh policy` prints, read by Headscale itself."""

import json
import subprocess

import pytest

from tgp.core.model.mesh import Backend, MeshSettings
from tgp.core.rules.mesh.policy import as_acls, as_grants, policy_for
from tools.toolbox import HEADSCALE_SERVER

BOUND_S = 60


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
    assert bad.returncode != 0, "it does look: a tag that nobody owns is refused"


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
