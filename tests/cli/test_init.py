"""`tgp init`: from an empty cluster to a first class and pool, and nothing that exists is ever changed."""

import json
from base64 import b64decode

import pytest
from click.testing import Result
from ruamel.yaml import YAML

from tests.cli.boot_world import Person
from tests.cli.program import answer
from tests.cli.test_failures import KUBECONFIG as NOT_THERE
from tests.cli.test_talos_join import WORKER
from tests.sim.an_operator import NAMESPACE_NAME, a_class, a_secret, create, furnish, open_market
from tgp.adapters.mesh.tailscale.server_flavour import TAILSCALE_API
from tgp.api.common import DEFAULT_KEYS
from tgp.api.crds import crds
from tgp.api.decoding import strict
from tgp.api.resource import GPU_NODE_CLASS, GPU_NODE_POOL, NAMESPACE, NODE, SECRET
from tgp.core.classes.manifest_validation import problems_of
from tgp.sim.mesh.headscale import HeadscaleSimulator
from tgp.sim.mesh.v2 import TailscaleSimulator
from tgp.sim.world import World

KINDS = len(crds())


@pytest.fixture
def world(monkeypatch, tmp_path):
    for variable in DEFAULT_KEYS.values():
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.chdir(tmp_path)
    with World("init") as found:
        create(found, NODE, "control-1", status={"nodeInfo": {"osImage": "Talos (v1.11.2)"}})
        yield found


class Newcomer:
    """A person at an empty cluster, with accounts at Vultr and Tailscale."""

    def __init__(self, world: World, folder) -> None:
        self.world = world
        self.person = Person(world)
        self.vultr = open_market(world, "vultr")
        self.tailscale = TailscaleSimulator(world.clock, world.seed)
        world.mount(TAILSCALE_API, self.tailscale.handle)
        self.talos = folder / "cluster.yaml"
        self.talos.write_text(json.dumps(WORKER))

    @property
    def secrets(self) -> list[str]:
        return [self.vultr.key, self.tailscale.client.id, self.tailscale.client.secret]

    @property
    def lines(self) -> str:
        return "".join(f"{secret}\n" for secret in self.secrets)

    def init(self, *words: str, given: str | None = None, typed: str = "") -> Result:
        said = ("init", "--talos", str(self.talos), *words)
        if typed:
            return self.person.tgp(*said, typed=typed)
        return self.person.tgp(*said, given=self.lines if given is None else given)

    def first(self, *words: str) -> Result:
        return self.init("--provider", "vultr", "--yes", *words)

    def get(self, resource, name: str, namespace: str = "") -> dict | None:
        try:
            return self.world.api.local_api.get(resource, namespace, name)
        except KeyError:  # its kind is not installed
            return None

    def objects(self) -> list[object]:
        """As they are now, with their versions."""
        wanted = [(GPU_NODE_CLASS, "gpus", ""), (GPU_NODE_POOL, "gpus", "default")]
        wanted += [(SECRET, name, NAMESPACE_NAME) for name in ("tgp-operator-secret", "tgp-join")]
        return [self.get(*each) for each in wanted]

    def keys(self, name: str = "tgp-operator-secret") -> dict[str, str]:
        found = self.get(SECRET, name, NAMESPACE_NAME) or {"data": {}}
        return {key: b64decode(value).decode() for key, value in found["data"].items()}


@pytest.fixture
def newcomer(world, tmp_path):
    return Newcomer(world, tmp_path)


def test_an_empty_cluster_gets_kinds_namespace_secrets_class_and_pool(newcomer):
    result = newcomer.first()

    assert result.exit_code == 0, result.output
    node_class, pool = newcomer.get(GPU_NODE_CLASS, "gpus"), newcomer.get(GPU_NODE_POOL, "gpus", "default")
    assert node_class["spec"]["providers"][0]["name"] == "vultr"
    assert node_class["spec"]["limits"] == {"maxNodes": 1, "maxHourlyCost": "2.00"}
    assert len(node_class["spec"]["instanceRequirements"]["gpuTypes"]) == 1
    assert pool["spec"]["nodeClassRef"]["name"] == "gpus"
    assert pool["spec"]["disruption"]["expireAfter"] == "12h"
    assert newcomer.keys() == dict(zip(["VULTR_API_KEY", "client-id", "client-secret"], newcomer.secrets, strict=True))
    assert newcomer.keys("tgp-join")["endpoint"] == "https://203.0.113.7:6443"
    assert "helm install tgp-operator" in result.output, "the operator does not run yet"


def test_no_secret_is_ever_shown(newcomer):
    result = newcomer.first()

    assert not [secret for secret in newcomer.secrets if secret in result.output]
    assert "0123456789abcdef" not in result.output, "of the join Secret"
    assert "VULTR_API_KEY: '*** (" in result.output


def test_a_second_run_changes_nothing(newcomer):
    newcomer.first()
    before = newcomer.objects()
    result = newcomer.init("--yes", given="")

    assert result.exit_code == 0, result.output
    assert "Nothing to change" in result.output
    assert before == newcomer.objects()


def test_what_people_changed_stays(newcomer):
    furnish(newcomer.world)
    a_class(newcomer.world, "mine")
    a_secret(newcomer.world, "tgp-operator-secret", VULTR_API_KEY="another", other="x")
    result = newcomer.init("--yes", given="")

    assert result.exit_code == 0, result.output
    assert newcomer.keys() == {"VULTR_API_KEY": "another", "other": "x"}
    assert newcomer.get(GPU_NODE_CLASS, "gpus") is None
    assert newcomer.get(GPU_NODE_POOL, "gpus", "default")["spec"]["nodeClassRef"]["name"] == "mine"


def test_keys_are_added_to_a_secret_that_exists(newcomer):
    furnish(newcomer.world)
    a_secret(newcomer.world, "tgp-operator-secret", other="x")
    result = newcomer.first()

    assert result.exit_code == 0, result.output
    assert newcomer.keys() == {
        "other": "x",
        **dict(zip(["VULTR_API_KEY", "client-id", "client-secret"], newcomer.secrets, strict=True)),
    }
    assert "added to the Secret that exists: VULTR_API_KEY, client-id, client-secret" in result.output


def test_a_dry_run_shows_every_object_and_creates_none(newcomer):
    result = newcomer.init("--provider", "vultr", "--dry-run", "-o", "yaml")
    shown = list(YAML(typ="safe", pure=True).load_all(result.stdout))

    assert result.exit_code == 0, result.output
    assert [each["kind"] for each in shown] == ["Namespace", "Secret", "Secret", "GPUNodeClass", "GPUNodePool"]
    assert result.stdout.count("# CustomResourceDefinition") == KINDS
    assert [problems_of(each) for each in shown[-2:]] == [(), ()]
    assert strict(shown[-2]).metadata.name == "gpus"
    assert newcomer.get(GPU_NODE_CLASS, "gpus") is None
    assert "Nothing was created (--dry-run)" in result.stderr


def test_as_json_it_is_one_list_that_kubectl_reads(newcomer):
    result = newcomer.init("--provider", "vultr", "--dry-run", "-o", "json")
    found = json.loads(result.stdout)

    assert (found["kind"], len(found["items"])) == ("List", KINDS + 5)
    assert not [secret for secret in newcomer.secrets if secret in result.stdout]


def test_a_terminal_is_asked_for_what_is_missing_and_one_refused_key_is_asked_again(newcomer):
    typed = f"vultr\n3.00\nwrong-key\n{newcomer.lines}y\n"
    result = newcomer.init(typed=typed)

    assert result.exit_code == 0, result.output
    assert "refused" in result.output
    assert newcomer.get(GPU_NODE_CLASS, "gpus")["spec"]["limits"]["maxHourlyCost"] == "3.00"
    assert "wrong-key" not in result.output


def test_no_on_the_terminal_creates_nothing(newcomer):
    result = newcomer.init("--provider", "vultr", typed=f"\n{newcomer.lines}n\n")

    assert result.exit_code == 1
    assert "Nothing was created." in result.output
    assert newcomer.get(GPU_NODE_CLASS, "gpus") is None


def test_ctrl_c_says_what_was_created_and_what_was_not(newcomer, monkeypatch):
    from tgp.services.setup import SetupService

    write = SetupService.write

    async def interrupted(self, planned, survey):
        if planned.title == "GPUNodeClass gpus":
            raise KeyboardInterrupt
        return await write(self, planned, survey)

    monkeypatch.setattr(SetupService, "write", interrupted)
    result = newcomer.first()

    assert result.exit_code == 130
    assert "Secret tgp-system/tgp-join. Whether GPUNodeClass gpus was created is unknown." in result.output
    assert "Not created: GPUNodePool default/gpus. Run tgp init again" in result.output
    monkeypatch.setattr(SetupService, "write", write)
    assert newcomer.init("--provider", "vultr", "--yes", given="").exit_code == 0
    assert newcomer.get(GPU_NODE_POOL, "gpus", "default") is not None


def test_without_anything_every_gap_is_listed_with_its_command(world):
    result = Person(world).tgp("init", "--yes")
    lines = result.output.splitlines()

    assert result.exit_code == 1
    for gap, command in (
        ("✗ API key", "tgp init --provider vultr"),
        ("✗ Tailscale", "tgp init --mesh kubespan"),
        ("✗ Talos config", "talosctl get machineconfig"),
    ):
        place = next(number for number, line in enumerate(lines) if line.startswith(gap))
        assert command in "".join(lines[place : place + 4])
    assert "3 gaps. Nothing was created." in result.output


@pytest.mark.parametrize(
    ("kubeconfig", "command"),
    [("", "export KUBECONFIG=FILE && tgp init"), (NOT_THERE, "kubectl --kubeconfig {file} cluster-info")],
)
def test_a_cluster_that_does_not_answer_is_the_first_gap(tmp_path, kubeconfig, command):
    """A kubeconfig that was found is not asked for again."""
    file = tmp_path / "config"
    file.write_text(kubeconfig)
    said = answer("init", "--dry-run", "--kubeconfig", str(file))

    assert said.returncode == 1
    assert said.stdout.splitlines()[-1] == f"next: {command.format(file=file)}"


def test_a_cluster_without_talos_and_a_user_without_rights_are_told_at_once(newcomer):
    newcomer.world.api.local_api.delete(NODE, "", "control-1")
    create(newcomer.world, NODE, "other", status={"nodeInfo": {"osImage": "Ubuntu 24.04"}})
    newcomer.person.forbidden = "/secrets"
    result = newcomer.first()

    assert result.exit_code == 1
    assert "none of 1 nodes runs Talos" in result.output
    assert "you may not get secrets in namespace tgp-system, create secrets in namespace tgp-system" in result.output
    assert "2 gaps. Nothing was created." in result.output
    assert newcomer.get(GPU_NODE_CLASS, "gpus") is None


@pytest.mark.parametrize(
    ("words", "gap"),
    [
        (("--provider", "runpod"), "runpod has no machines that can join a Talos cluster"),
        (("--provider", "vultr", "--gpu", "RTX4090"), "Vultr sells no RTX4090 that Talos can boot now"),
        (("--provider", "vultr", "--max-hourly-cost", "0.0001"), "the cheapest machine is"),
        (("--provider", "vultr", "--max-hourly-cost", "much"), "--max-hourly-cost"),
        (("--provider", "vultr", "--endpoint", "https://10.0.0.1:6443"), "10.0.0.1 is a private address"),
        (("--provider", "vultr", "--talos", "/nowhere.yaml"), "No such file"),
    ],
)
def test_what_cannot_work_is_a_gap_before_anything_is_created(newcomer, words, gap):
    result = newcomer.init("--yes", *words)

    assert result.exit_code in {1, 2}
    assert gap in " ".join(result.output.split())
    assert newcomer.get(GPU_NODE_CLASS, "gpus") is None


def test_a_key_that_is_refused_is_a_gap_without_a_terminal(newcomer):
    result = newcomer.init("--provider", "vultr", "--yes", given=f"wrong\n{newcomer.lines}")

    assert result.exit_code == 1
    assert "Vultr key" in result.output
    assert "refused" in result.output


GOOD_ENDPOINT = "https://100.64.0.1:6443"


@pytest.mark.parametrize(
    ("typed", "said", "created"),
    [
        (f"100.64.0.1\n{GOOD_ENDPOINT}\ny\n", "Endpoint 100.64.0.1: ", True),
        (f"https://10.0.0.2:6443\n{GOOD_ENDPOINT}\ny\n", "Endpoint https://10.0.0.2:6443: 10.0.0.2 is a private", True),
        ("\n", "✗ endpoint", False),
        ("nothing\n" * 3, "✗ endpoint", False),
    ],
    ids=["no scheme", "private", "enter", "thrice"],
)
def test_an_endpoint_that_cannot_be_is_asked_again_after_the_keys_were_typed(newcomer, typed, said, created):
    newcomer.talos.write_text(json.dumps(WORKER).replace("203.0.113.7", "10.0.0.1"))
    result = newcomer.init("--provider", "vultr", typed=f"\n{newcomer.lines}{typed}")

    assert result.exit_code == (0 if created else 1), result.output
    assert said in result.output
    assert (newcomer.get(GPU_NODE_CLASS, "gpus") is not None) is created
    assert newcomer.keys("tgp-join").get("endpoint") == (GOOD_ENDPOINT if created else None)


def test_a_pool_goes_into_the_namespace_that_was_named(newcomer):
    """Whether it is there, and whether the user may, is looked at before anything is created."""
    missing = newcomer.first("-n", "ml")

    assert missing.exit_code == 1
    assert "namespace ml, where the pool would be, does not exist" in missing.output
    assert "kubectl create namespace ml" in missing.output
    assert newcomer.keys() == {}
    create(newcomer.world, NAMESPACE, "ml")
    newcomer.person.forbidden = "gpunodepools"
    refused = newcomer.first("-n", "ml")
    assert "you may not create gpunodepools in namespace ml" in refused.output
    newcomer.person.forbidden = ""
    assert newcomer.first("-n", "ml").exit_code == 0
    assert newcomer.get(GPU_NODE_POOL, "gpus", "ml") is not None


def test_a_tailnet_that_refuses_the_client_is_a_gap(newcomer):
    result = newcomer.init("--provider", "vultr", "--yes", given=f"{newcomer.vultr.key}\nabsent\ntskey-client-absent\n")

    assert result.exit_code == 1
    assert "✗ Tailscale" in result.output


def test_kubespan_needs_no_key_of_a_mesh(newcomer):
    result = newcomer.init("--provider", "vultr", "--yes", "--mesh", "kubespan", given=f"{newcomer.vultr.key}\n")

    assert result.exit_code == 0, result.output
    assert newcomer.get(GPU_NODE_CLASS, "gpus")["spec"]["networking"] == {"backend": "kubespan"}
    assert list(newcomer.keys()) == ["VULTR_API_KEY"]


def test_the_mesh_is_kubespan_where_the_nodes_have_its_addresses(newcomer):
    document = newcomer.world.api.local_api.get(NODE, "", "control-1")
    newcomer.world.api.local_api.delete(NODE, "", "control-1")
    meta = {"name": "control-2", "annotations": {"networking.talos.dev/kubespan-ip": "fd83::1"}}
    newcomer.world.api.local_api.create(NODE, {"metadata": meta, "status": document["status"]})
    result = newcomer.init("--provider", "vultr", "--yes", given=f"{newcomer.vultr.key}\n")

    assert result.exit_code == 0, result.output
    assert "kubespan: node control-2 has a KubeSpan address" in result.output
    assert newcomer.get(GPU_NODE_CLASS, "gpus")["spec"]["networking"] == {"backend": "kubespan"}


def test_a_flag_wins_over_what_is_found(newcomer):
    newcomer.talos.write_text(json.dumps(WORKER) + "\n---\n" + json.dumps({"kind": "KubeSpanConfig", "enabled": True}))

    assert "Mesh kubespan: the machine config enables KubeSpan" in newcomer.first("--dry-run").output
    newcomer.first("--mesh", "tailscale")
    assert "tailscaleConfig" in newcomer.get(GPU_NODE_CLASS, "gpus")["spec"]


def test_the_mesh_is_headscale_where_the_machine_config_names_its_server(newcomer):
    headscale = HeadscaleSimulator(newcomer.world.clock, newcomer.world.seed)
    newcomer.world.mount("https://headscale.example.org", headscale.handle)
    extension = {
        "kind": "ExtensionServiceConfig",
        "name": "tailscale",
        "environment": ["TS_EXTRA_ARGS=--accept-dns=false --login-server=https://headscale.example.org"],
    }
    newcomer.talos.write_text(json.dumps(WORKER) + "\n---\n" + json.dumps(extension))
    result = newcomer.init("--provider", "vultr", "--yes", given=f"{newcomer.vultr.key}\n{headscale.api_key}\n")

    assert result.exit_code == 0, result.output
    config = newcomer.get(GPU_NODE_CLASS, "gpus")["spec"]["tailscaleConfig"]
    assert config["loginServer"] == "https://headscale.example.org"
    assert newcomer.keys()[config["apiKeySecretRef"]["key"]] == headscale.api_key


def test_headscale_without_an_address_is_a_gap(newcomer):
    result = newcomer.init("--provider", "vultr", "--yes", "--mesh", "headscale")

    assert result.exit_code == 1
    assert "tgp init --mesh headscale --login-server https://HEADSCALE" in result.output


def test_a_question_without_a_terminal_is_wrong_use(newcomer):
    assert newcomer.init("--provider", "vultr").exit_code == 2
    assert newcomer.init("--provider", "vultr", "-o", "yaml").exit_code == 2
    assert newcomer.init("--provider", "absent", "--yes").exit_code == 2


def test_a_key_of_the_terminal_is_used_without_a_question(newcomer, monkeypatch):
    monkeypatch.setenv("VULTR_API_KEY", newcomer.vultr.key)
    result = newcomer.init("--yes", given="".join(f"{each}\n" for each in newcomer.secrets[1:]))

    assert result.exit_code == 0, result.output
    assert newcomer.keys()["VULTR_API_KEY"] == newcomer.vultr.key
