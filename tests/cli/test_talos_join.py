"""`tgp talos join-secret`: the worker's part of what an administrator has, and never a key of a CA."""

import json
from base64 import b64decode

import pytest
from click.testing import CliRunner, Result
from ruamel.yaml import YAML

from tests.cli.boot_world import Person
from tests.core.talos.test_join_values import KEY_PEM, in_base64
from tests.sim.an_operator import NAMESPACE_NAME, a_secret, furnish
from tgp.api.resource import SECRET
from tgp.app.main import tgp
from tgp.core.joining.talos.placeholder_values import placeholder_join
from tgp.core.model.join import NEEDED
from tgp.sim.world import World

JOIN = placeholder_join()
WORKER = {
    "machine": {"type": "worker", "token": "abcdef.0123456789abcdef", "ca": {"crt": JOIN.machine_ca, "key": ""}},
    "cluster": {
        "id": "aWQ=",
        "secret": "c2VjcmV0c2VjcmV0",
        "token": "wwwwww.0123456789wwwwww",
        "ca": {"crt": JOIN.cluster_ca, "key": ""},
        "controlPlane": {"endpoint": "https://203.0.113.7:6443"},
        "clusterName": "home",
        "network": {"podSubnets": ["10.1.0.0/16"], "serviceSubnets": ["10.2.0.0/16"], "dnsDomain": "home.arpa"},
    },
}
BUNDLE = {
    "cluster": {"id": "aWQ=", "secret": "c2VjcmV0c2VjcmV0"},
    "secrets": {"bootstraptoken": "wwwwww.0123456789wwwwww", "secretboxencryptionsecret": "Ym94"},
    "trustdinfo": {"token": "abcdef.0123456789abcdef"},
    "certs": {
        "os": {"crt": JOIN.machine_ca, "key": in_base64(KEY_PEM)},
        "k8s": {"crt": JOIN.cluster_ca, "key": in_base64(KEY_PEM)},
        "etcd": {"crt": JOIN.cluster_ca, "key": in_base64(KEY_PEM)},
        "k8sserviceaccount": {"key": in_base64(KEY_PEM)},
    },
}
TOLD = ("--endpoint", "https://100.64.0.1:6443", "--cluster-name", "home")
HIDDEN = ("0123456789abcdef", "0123456789wwwwww", "c2VjcmV0c2VjcmV0", in_base64(KEY_PEM)[:40], "Ym94")


@pytest.fixture
def worker(tmp_path):
    return written(tmp_path, WORKER)


@pytest.fixture
def bundle(tmp_path):
    return written(tmp_path, BUNDLE)


@pytest.fixture
def world():
    with World("join secrets") as found:
        furnish(found)
        yield found


def written(folder, content) -> str:
    file = folder / "file.yaml"
    file.write_text(json.dumps(content))  # JSON is YAML
    return str(file)


def run(*words: str) -> Result:
    return CliRunner(env={"COLUMNS": "120"}).invoke(tgp, ["talos", "join-secret", *words])


def stored(world: World) -> dict[str, str]:
    found = world.api.local_api.get(SECRET, NAMESPACE_NAME, "tgp-join") or {"data": {}}
    return {key: b64decode(value).decode() for key, value in found["data"].items()}


def test_what_was_taken_is_told_without_a_value_that_opens_anything(worker):
    result = run(worker)

    assert result.exit_code == 0, result.output
    assert "from a worker's config" in result.output
    assert "https://203.0.113.7:6443" in result.output
    assert "machine.token" in result.output
    assert "the cluster's own bootstrap token" in result.output, "it stays behind"
    assert f"tgp talos join-secret {worker} --apply" in result.output.replace("\n", "")
    assert not [secret for secret in HIDDEN if secret in result.output]


def test_the_manifest_holds_exactly_the_worker_s_part(bundle):
    result = run(bundle, *TOLD, "-o", "yaml")
    manifest = YAML(typ="safe").load(result.output)

    assert manifest["metadata"] == {"name": "tgp-join", "namespace": "tgp-system"}
    assert set(manifest["data"]) == set(NEEDED)
    assert "PRIVATE KEY" not in "".join(b64decode(value).decode() for value in manifest["data"].values())
    assert in_base64(KEY_PEM)[:40] not in result.output


def test_a_bundle_leaves_its_keys_behind_and_says_which(bundle):
    result = run(bundle, *TOLD)

    assert "from a secrets bundle" in result.output
    assert "the key of Talos's CA" in result.output
    assert "the key that signs service accounts" in result.output
    assert not [secret for secret in HIDDEN if secret in result.output]


def test_a_bundle_without_an_endpoint_asks_for_it(bundle):
    result = run(bundle)

    assert result.exit_code == 1
    assert "pass --endpoint" in result.output
    assert "pass --cluster-name" in result.output


def test_what_is_told_counts_before_what_stands_there(worker):
    assert "https://100.64.0.1:6443" in run(worker, *TOLD).output


def test_an_endpoint_that_no_rented_machine_reaches_is_refused_unless_forced(worker):
    lan = ("--endpoint", "https://192.168.7.10:6443")
    refused = run(worker, *lan, "-o", "yaml")

    assert refused.exit_code == 1
    assert "192.168.7.10 is a private address" in refused.output
    assert "--force" in refused.output
    assert run(worker, *lan, "--force", "-o", "yaml").exit_code == 0


def test_a_file_that_is_something_else_is_refused_by_what_is_missing(tmp_path):
    assert "machine" in run(written(tmp_path, {"some": "thing"})).output
    broken = {**WORKER, "machine": {**WORKER["machine"], "token": "nonsense"}}
    result = run(written(tmp_path, broken))

    assert result.exit_code == 1
    assert "machine-token is not a token" in result.output
    assert "nonsense" not in result.output


def test_it_is_written_into_the_operator_s_namespace_after_showing_what_changes(world, worker):
    person = Person(world)
    result = person.tgp("talos", "join-secret", worker, "--apply")

    assert result.exit_code == 0, result.output
    assert "new" in result.output
    assert "Secret tgp-system/tgp-join was created." in result.output
    assert stored(world)["endpoint"] == "https://203.0.113.7:6443"
    assert stored(world)["pod-subnets"] == "10.1.0.0/16"
    again = person.tgp("talos", "join-secret", worker, "--apply")
    assert "is up to date" in again.output


def test_values_that_differ_are_replaced_only_after_a_yes(world, worker):
    person = Person(world)
    person.tgp("talos", "join-secret", worker, "--apply")
    change = ("talos", "join-secret", worker, "--apply", *TOLD)

    refused = person.tgp(*change)
    assert refused.exit_code == 1
    assert "was not changed" in refused.output
    assert person.tgp(*change, typed="n\n").exit_code == 1
    assert stored(world)["endpoint"] == "https://203.0.113.7:6443"
    assert person.tgp(*change, typed="y\n").exit_code == 0
    assert stored(world)["endpoint"] == "https://100.64.0.1:6443"


def test_keys_of_ours_that_are_not_there_any_more_go_and_those_of_others_stay(world, worker, tmp_path):
    a_secret(world, "tgp-join", **{"dns-domain": "old.arpa", "note": "ask ada"})
    without = {**WORKER, "cluster": {key: value for key, value in WORKER["cluster"].items() if key != "network"}}
    result = Person(world).tgp("talos", "join-secret", written(tmp_path, without), "--apply", "--yes")

    assert result.exit_code == 0, result.output
    assert "dns-domain" not in stored(world)
    assert stored(world)["note"] == "ask ada"


def test_a_secret_that_would_still_be_refused_is_not_written(world, worker):
    a_secret(world, "tgp-join", **{"ca.key": KEY_PEM})
    result = Person(world).tgp("talos", "join-secret", worker, "--apply", "--yes")

    assert result.exit_code == 1
    assert "ca.key contains a private key" in result.output
    assert set(stored(world)) == {"ca.key"}


def test_a_namespace_that_is_missing_is_named(world, worker):
    result = Person(world).tgp("talos", "join-secret", worker, "--apply", "--operator-namespace", "nowhere")

    assert result.exit_code == 2
    assert "Namespace nowhere does not exist" in result.output


def test_wrong_use_ends_with_two(worker):
    assert run(worker, "--apply", "-o", "yaml").exit_code == 2
    assert run(worker, "--yes").exit_code == 2
    assert run("/nowhere/at/all").exit_code == 2
