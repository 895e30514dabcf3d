"""`tgp mesh policy`: rules to paste, for the class that is meant."""

import json
from pathlib import Path

from click.testing import CliRunner, Result

from tests.cli.boot_world import Person
from tests.core.mesh.test_policy import read
from tests.sim.an_operator import a_class, furnish
from tgp.api.crds import as_yaml
from tgp.app.main import tgp
from tgp.sim.world import World

EARLY = Path(__file__).parents[2] / "deploy" / "examples" / "seeds" / "readme-gpunodeclass.yaml"


def run(*words: str) -> Result:
    return CliRunner().invoke(tgp, ["mesh", "policy", *words])


def a_file(folder: Path, **spec) -> str:
    file = folder / "class.yaml"
    whole = {"providers": [{"name": "vultr"}], **spec}
    file.write_text(
        as_yaml({"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "x"}, "spec": whole})
    )
    return str(file)


def test_without_a_class_it_is_for_the_usual_tag():
    assert read(run().stdout)["tagOwners"]["tag:tgp-gpu"] == ["tag:tgp-operator"]


def test_as_json_it_is_the_same_policy_without_comments():
    assert json.loads(run("-o", "json").stdout) == read(run().stdout)


def test_the_first_readme_s_class_gets_rules_for_its_own_tags():
    result = run("--class-file", str(EARLY))

    assert result.exit_code == 0
    assert read(result.stdout)["grants"][0]["src"] == ["tag:k8s", "tag:gpu"]


def test_a_class_at_a_headscale_gets_its_form(tmp_path):
    config = {"loginServer": "https://hs.example.org", "apiKeySecretRef": {"name": "hs", "key": "k"}, "tags": ["tag:x"]}
    file = a_file(tmp_path, tailscaleConfig={**config, "advertiseRoutes": ["10.9.0.0/24"]})

    assert "acls" in read(run("--class-file", file).stdout)
    assert "grants" in read(run("--class-file", file, "--for", "tailscale").stdout)
    assert read(run("--class-file", file).stdout)["autoApprovers"] == {"routes": {"10.9.0.0/24": ["tag:x"]}}


def test_a_class_without_a_tailnet_needs_no_rules(tmp_path):
    result = run("--class-file", a_file(tmp_path, networking={"backend": "kubespan"}))

    assert result.exit_code == 1
    assert "joins by kubespan" in result.output


def test_a_class_of_the_cluster_is_read_there():
    with World("policies") as world:
        furnish(world)
        tailnet = {"tailscaleConfig": {"tags": ["tag:mine"]}, "networking": {"backend": "tailscale"}}
        a_class(world, "rented", **tailnet)
        person = Person(world)

        assert read(person.tgp("mesh", "policy", "--class", "rented").stdout)["grants"][0]["src"] == ["tag:mine"]
        assert person.tgp("mesh", "policy", "--class", "rentd").exit_code == 2


def test_wrong_use_ends_with_two():
    assert run("--class", "a", "--class-file", "b").exit_code == 2
    assert run("--operator-tag", "operator").exit_code == 2
    assert run("--for", "kubespan").exit_code == 2
