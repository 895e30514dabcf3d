"""`tgp talos render`: the config that a node would get, with nothing made for it and nothing given away."""

from pathlib import Path

from click.testing import CliRunner, Result

from tests.cli.boot_world import Person
from tests.sim.joining.a_tailnet import a_tailnet_class, joining
from tgp.api.crds import as_yaml
from tgp.api.resource import SECRET
from tgp.app.demo.fixtures import join_secret
from tgp.app.main import tgp
from tgp.core.joining.talos.stream import read_stream

EARLY = Path(__file__).parents[2] / "deploy" / "examples" / "seeds" / "readme-gpunodeclass.yaml"


def run(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(tgp, ["talos", "render", *words], input=given)


def config_of(text: str) -> dict:
    return read_stream(text)[0].data


def test_without_a_cluster_the_values_are_inert_and_that_is_said():
    result = run("--class-file", str(EARLY), "--node", "gpu-7")

    assert result.exit_code == 0, result.output
    assert "# the join values are placeholders" in result.stderr
    assert "# converted: line 34: machine.systemd" in result.stderr
    assert "#" not in result.stdout
    assert config_of(result.stdout)["machine"]["network"]["hostname"] == "gpu-7"
    assert "inert0" not in result.stdout, "also what opens nothing is masked"


def test_secrets_are_shown_to_who_asks_for_them(tmp_path):
    file = tmp_path / "join.yaml"
    file.write_text(as_yaml(join_secret()))
    masked, shown = run("--join-file", str(file)), run("--join-file", str(file), "--show-secrets")
    token = join_secret()["stringData"]["machine-token"]

    assert config_of(masked.stdout)["machine"]["token"] == "*** (23 characters)"
    assert token not in masked.output
    assert config_of(shown.stdout)["machine"]["token"] == token
    assert "minted.foreachnode00000" in shown.stdout, "what is minted is a placeholder"
    assert config_of(shown.stdout)["cluster"]["clusterName"] == "home"


def test_a_bare_template_is_taken_too_and_every_mesh_can_be_tried(tmp_path):
    file = tmp_path / "template.yaml"
    file.write_text("machine:\n  sysctls:\n    vm.nr_hugepages: '8'\n")

    for backend in ("tailscale", "headscale", "wireguard", "kubespan", "none"):
        result = run("--class-file", str(file), "--backend", backend, "--talos", "v1.12.0", "--provider", "vultr")
        assert result.exit_code == 0, result.output
        assert config_of(result.stdout)["machine"]["sysctls"]["vm.nr_hugepages"] == "8"


def test_an_untrusted_host_gets_no_shared_secrets():
    result = run("--untrusted", "--show-secrets")

    assert "secret" not in config_of(result.stdout)["cluster"]
    assert "token" not in config_of(result.stdout)["machine"]


def test_a_template_that_is_refused_says_so_and_prints_nothing(tmp_path):
    file = tmp_path / "template.yaml"
    file.write_text("machine:\n  type: controlplane\n")
    result = run("--class-file", str(file))

    assert result.exit_code == 1
    assert result.stdout == ""
    assert "# error: line 2: machine.type" in result.stderr


def test_wrong_use_ends_with_two():
    assert run("--provider", "unknown").exit_code == 2
    assert run("--class", "a", "--class-file", "b").exit_code == 2
    assert run("--class-file", str(EARLY), "--provider", "vultr").exit_code == 2


def test_what_is_shown_of_a_request_is_what_its_machine_was_handed_but_for_what_is_minted():
    with joining("handed over") as stage:
        a_tailnet_class(stage, talosConfig={"machineConfigTemplate": "machine:\n  sysctls: {a.b: '{{.NodeName}}'}\n"})
        stage.operate()
        stage.world.run(seconds=60)
        stage.wants(taints=[{"key": "team", "value": "ml", "effect": "NoSchedule"}])
        stage.until(lambda: stage.phase() == "Ready")
        machine = next(iter(stage.simulators["simulated"].fleet.machines.values()))
        handed = [each.data for each in read_stream(machine.user_data.decode())]
        keys = len(stage.tailnet.keys)
        result = Person(stage.world).tgp("talos", "render", "--request", "default/train", "--show-secrets")
        shown = [each.data for each in read_stream(result.stdout)]

        assert result.exit_code == 0, result.output
        assert len(stage.tailnet.keys) == keys, "nothing is minted"
        for documents in (handed, shown):
            documents[0]["cluster"]["token"] = documents[0]["machine"]["install"]["image"] = "minted"
            documents[-1]["environment"][0] = documents[-1]["environment"][0].partition("=")[0]
        assert shown == handed


def test_a_class_of_the_cluster_needs_its_join_secret():
    with joining("joins") as stage:
        a_tailnet_class(stage)
        person = Person(stage.world)
        assert "100.64.0.1:6443" in person.tgp("talos", "render", "--class", "rented").stdout
        stage.world.api.local_api.delete(SECRET, "tgp-system", "tgp-join")
        result = person.tgp("talos", "render", "--class", "rented")

        assert result.exit_code == 1
        assert "tgp talos join-secret" in result.output
