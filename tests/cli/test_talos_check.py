"""`tgp talos check`: what is wrong with a template, on which line, without a secret and without a cluster."""

import json
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from tests.cli.boot_world import Person
from tests.core.talos.a_plan import early_template
from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_secret, furnish
from tgp.api.crds import as_yaml
from tgp.app.main import tgp
from tgp.core.joining.talos.releases import USUAL
from tgp.sim.world import World

EARLY = Path(__file__).parents[2] / "deploy" / "examples" / "seeds" / "readme-gpunodeclass.yaml"
BROKEN = """\
machine:
  token: abcdef.0123456789abcdef
  bogus: 1
  files:
    - content: hunter2
      path: /etc/foo
      op: create
"""
A_CLASS = """\
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: NAME}
spec:
  providers: [{name: vultr}]
  talosConfig:
    machineConfigTemplate: |
      machine:
        bogus: 1
"""


def run(*words: str, given: str = "", columns: int = 100) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(tgp, ["talos", "check", *words], input=given)


def told(*words: str, given: str = "") -> dict:
    return json.loads(run(*words, "-o", "json", given=given).output)


def test_the_first_readme_s_class_boots_and_every_old_thing_is_told_on_its_line():
    result = run(str(EARLY))
    lines = EARLY.read_text().splitlines()

    assert result.exit_code == 0, result.output
    assert "standard-gpu-class  Talos v1.10.5, joining by tailscale" in result.output
    assert "The template boots, after 16 conversions to current Talos settings." in result.output
    for row in (row for row in result.output.splitlines() if " │ " in row):
        number, _, source = row.partition(" │ ")
        assert lines[int(number) - 1].strip() == source.strip(), "the file's own line, under its own number"
    assert f"next: tgp talos render --class-file {EARLY}" in result.output.replace("\n", "")


def test_a_bare_template_is_looked_at_as_well_and_from_a_pipe(tmp_path):
    file = tmp_path / "template.yaml"
    file.write_text(early_template())

    assert run(str(file), "--talos", "v1.10.5").exit_code == 0
    assert len(told(str(file), "--talos", "v1.10.5")["templates"][0]["conversions"]) == 16
    assert run("-", given=early_template()).exit_code == 0
    assert f"standard input  Talos {USUAL}" in run("-", given=early_template()).output


def test_errors_end_with_one_and_stand_below_their_lines():
    result = run("-", given=BROKEN)
    rows = result.output.splitlines()

    assert result.exit_code == 1
    assert "  bogus: 1" in rows[1]
    assert "machine.bogus" in rows[2]
    assert "The template has 2 errors: no machine is bought with it." in result.output


def test_secrets_written_out_in_a_template_are_not_shown():
    leaky = BROKEN.replace("  bogus: 1\n", "  token: abcdef.0123456789abcdef\n")
    both = run("-", given=leaky).output + run("-", "-o", "json", given=leaky).output + run("-", given=BROKEN).output

    assert "token: ***" in both
    assert "0123456789abcdef" not in both
    assert "hunter2" not in both


def test_an_unknown_variable_comes_with_the_nearest():
    result = run("-", given="machine:\n  token: {{.MachineTokn}}\n")

    assert result.exit_code == 1
    assert "did you mean {{.MachineToken}}?" in result.output


def test_classes_in_lists_and_behind_one_another_are_found(tmp_path):
    one = A_CLASS.replace("\n", "\n    ")
    listed = "".join(f"  - {one.replace('NAME', name)}\n" for name in ("first", "second"))
    other = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: beside}\n"
    file = tmp_path / "all.yaml"
    file.write_text(f"apiVersion: v1\nkind: List\nitems:\n{listed}---\n{other}---\n{A_CLASS.replace('NAME', 'third')}")
    found = told(str(file))["templates"]

    assert [each["title"] for each in found] == ["first", "second", "third"]
    assert [each["findings"][0]["path"] for each in found] == ["machine.bogus"] * 3
    source = file.read_text().splitlines()
    assert all("bogus" in source[each["findings"][0]["fileLine"] - 1] for each in found)


def test_lines_are_the_template_s_own_where_the_file_has_none_for_them(tmp_path):
    file = tmp_path / "class.json"
    file.write_text(json.dumps(YAML(typ="safe").load(A_CLASS.replace("NAME", "any"))))
    (found,) = told(str(file))["templates"][0]["findings"]

    assert (found["line"], found["fileLine"]) == (2, None)


def test_each_provider_s_own_template_is_looked_at(tmp_path):
    file = tmp_path / "class.yaml"
    own = {"name": "gcp", "talosConfig": {"machineConfigTemplate": "machine:\n  bogus: 1\n", "image": "v1.12.0"}}
    spec = {"providers": [{"name": "vultr"}, own, {"name": "webhook", "settings": {"machines": []}}]}
    file.write_text(
        as_yaml({"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "two"}, "spec": spec})
    )
    found = told(str(file))["templates"]

    assert [(each["title"], each["talos"], each["fine"]) for each in found] == [
        ("two at vultr", USUAL, True),
        ("two at gcp", "v1.12.0", False),
    ]


def test_a_class_that_is_not_right_is_refused_by_its_field(tmp_path):
    file = tmp_path / "class.yaml"
    spec = {"providers": [{"name": "vultr"}], "talosConfg": {}}
    file.write_text(
        as_yaml({"apiVersion": "tgp.io/v1", "kind": "GPUNodeClass", "metadata": {"name": "x"}, "spec": spec})
    )
    result = run(str(file))

    assert result.exit_code == 2
    assert "did you mean talosConfig?" in result.output


@pytest.mark.parametrize(
    "words", [(), ("a", "--class", "b"), ("/nowhere/at/all",), ("-", "--talos", "v1.5.0"), ("-", "--backend", "smoke")]
)
def test_wrong_use_ends_with_two(words):
    assert run(*words).exit_code == 2


def test_a_template_in_a_secret_is_read_from_the_cluster_and_from_nowhere_else(tmp_path):
    with World("templates") as world:
        furnish(world)
        ref = {"machineConfigSecretRef": {"name": "templates", "key": "gpu"}}
        a_class(world, "kept", providers=[{"name": "vultr"}], talosConfig=ref, networking={"backend": "kubespan"})
        person = Person(world)
        missing = person.tgp("talos", "check", "--class", "kept")
        a_secret(world, "templates", gpu=BROKEN)
        found = person.tgp("talos", "check", "--class", "kept")
        person.forbidden = f"/namespaces/{NAMESPACE_NAME}/secrets/templates"
        forbidden = person.tgp("talos", "check", "--class", "kept")

    assert (missing.exit_code, found.exit_code, forbidden.exit_code) == (1, 1, 1)
    assert "Secret templates with the machine config template does not exist" in missing.output
    assert "joining by kubespan" in found.output
    assert "machine.bogus" in found.output
    assert "0123456789abcdef" not in found.output
    assert "you may not read Secret templates" in forbidden.output


# ---- who can boot it

AT = """\
apiVersion: tgp.io/v1
kind: GPUNodeClass
metadata: {name: a}
spec:
  providers: [PROVIDERS]
"""


def large(kilobytes: int) -> str:
    """A template of about that size, of a kind that does not pack well."""
    luck = Random(7)
    lines = (f"    A{number}: {luck.randbytes(48).hex()}\n" for number in range(kilobytes * 10))
    return "machine:\n  env:\n" + "".join(lines)


def test_each_provider_is_told_whether_it_boots_talos():
    given = AT.replace("PROVIDERS", "{name: runpod}, {name: vultr}")
    result = run("-", given=given)

    assert result.exit_code == 0, result.output
    assert "runpod: cannot boot Talos: RunPod rents containers" in result.output
    assert "✓ vultr: boots it: " in result.output
    assert "of 16,384 bytes of user data" in result.output
    assert [(each["name"], each["boots"]) for each in told("-", given=given)["templates"][0]["providers"]] == [
        ("runpod", False),
        ("vultr", True),
    ]


def test_a_class_of_containers_alone_does_not_boot():
    result = run("-", given=AT.replace("PROVIDERS", "{name: runpod}, {name: vast}"))

    assert result.exit_code == 1
    assert "✗ No provider here boots Talos." in result.output
    assert "it boots" not in result.output.lower()


def test_a_config_too_large_for_a_provider_is_told_of_that_provider():
    result = run("-", given=large(100), columns=300)

    assert result.exit_code == 1
    assert "✗ vultr: vultr accepts at most 16384 bytes of user data" in result.output
    assert "✓ lambdalabs: boots it" in result.output


def test_a_template_that_no_class_holds_is_checked_and_rendered_all_the_same(tmp_path):
    file = tmp_path / "large.yaml"
    file.write_text(large(150))

    assert "use machineConfigSecretRef" in run(str(file), columns=300).output
    made = CliRunner().invoke(tgp, ["talos", "render", "--class-file", str(file)])
    assert made.exit_code == 0, made.output
    assert len(made.stdout) > 131_072


def test_characters_in_halves_are_no_traceback():
    whole = run("-", given='machine:\n  nodeAnnotations:\n    example.org/a: "\\ud83d\\ude00"\n')
    half = run("-", given='machine:\n  nodeAnnotations:\n    example.org/a: "\\ud83d"\n')

    assert (whole.exit_code, half.exit_code) == (0, 1)
    assert "has half a surrogate pair" in half.output.replace("\n", " ")


def test_what_is_passed_through_is_marked_and_no_reason_to_fail():
    given = "apiVersion: v1alpha1\nkind: KubeletConfig\nimage: a\n"
    result = run("-", "--talos", "v1.14.0", given=given)

    assert result.exit_code == 0, result.output
    assert "? KubeletConfig: is a kind that tgp cannot check for Talos 1.14" in result.output
    assert told("-", "--talos", "v1.14.0", given=given)["templates"][0]["findings"][0]["severity"] == "unchecked"
