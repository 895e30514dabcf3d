"""`tgp check -f`: the whole verdict, against the objects beside a manifest, in the words of the controllers."""

import pytest

from tgp.api.values import Version
from tgp.core.reports.manifest_verdict import Surroundings, among, verdict

ZONES = frozenset({"UTC", "Europe/Berlin"})


def an_object(kind, spec, name="x", namespace="ml"):
    meta = {"name": name} | ({"namespace": namespace} if namespace else {})
    return {"apiVersion": "tgp.io/v1", "kind": kind, "metadata": meta, "spec": spec}


def a_class(**spec):
    return an_object("GPUNodeClass", {"providers": [{"name": "vultr"}], **spec}, "c", "")


def a_namespace(**labels):
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "ml", "labels": labels}}


def a_pool(*rows, **spec):
    ref = {"nodeClassRef": {"name": "c"}}
    return an_object("GPUNodePool", {**ref, "template": {"spec": {"requirements": [*rows]}}, **spec})


def a_request(**spec):
    return an_object("GPURequest", {"gpuType": "A100", "nodeClassRef": {"name": "c"}, **spec})


def a_budget(spec=None, **quota):
    usual = {"selector": {"matchLabels": {"team": "x"}}, "enforcement": {"action": "AlertOnly"}}
    return an_object("GPUWorkloadBudget", {**usual, **(spec or {}), "quota": {"gpuHours": 1, **quota}})


def told(manifest, *beside, known=None):
    found = among([manifest, *beside], known or Surroundings(time_zones=ZONES))
    return [str(each) for each in verdict(manifest, found)]


REFUSED = (
    "spec.nodeClassRef.name: Forbidden: GPUNodeClass c does not allow this namespace: ask its administrator about "
    "spec.allowedNamespaces"
)
FOR_X = {"allowedNamespaces": {"matchLabels": {"team": "x"}}}


@pytest.mark.parametrize("manifest", [a_pool(), a_request()], ids=["pool", "request"])
def test_a_namespace_that_the_class_does_not_allow_is_refused(manifest):
    assert told(manifest, a_class(**FOR_X), a_namespace(team="y")) == [REFUSED]
    assert told(manifest, a_class(**FOR_X), a_namespace(team="x")) == []
    assert told(manifest, a_class(**FOR_X)) == [], "the labels of the Namespace are not known"
    assert told(manifest, a_class(), a_namespace()) == []
    required = Surroundings(time_zones=ZONES, namespaces_required=True)
    assert told(manifest, a_class(), a_namespace(), known=required) == [REFUSED]


def test_a_namespace_may_be_selected_by_its_name():
    named = {"allowedNamespaces": {"matchLabels": {"kubernetes.io/metadata.name": "ml"}}}

    assert told(a_pool(), a_class(**named), a_namespace()) == []


@pytest.mark.parametrize("manifest", [a_pool(), a_request()], ids=["pool", "request"])
def test_a_class_that_is_missing_is_named_where_all_classes_are_known(manifest):
    assert told(manifest) == []
    (said,) = told(manifest, known=Surroundings(every_class=True))
    assert "GPUNodeClass 'c' does not exist; kubectl get gpunodeclasses lists those that do" in said


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ({"key": "tgp.io/gpu-type", "operator": "In", "values": ["H100"]}, "tgp.io/gpu-type: the class has only A100-"),
        (
            {"key": "tgp.io/region", "operator": "In", "values": ["us-west"]},
            "tgp.io/region: the class has only eu-west",
        ),
        ({"key": "tgp.io/capacity-type", "operator": "In", "values": ["spot"]}, "the class has only on-demand"),
        ({"key": "tgp.io/gpu-type", "operator": "In", "values": ["A100"]}, ""),
    ],
)
def test_a_pool_that_asks_for_more_than_its_class_allows_is_refused(row, said):
    node_class = a_class(instanceRequirements={"gpuTypes": ["A100"], "regions": ["eu-west"]})
    found = told(a_pool(row), node_class)

    assert bool(found) is bool(said)
    assert all(each.startswith("spec.template.spec.requirements: Forbidden: ") and said in each for each in found)


def test_a_pool_that_pays_nothing_and_one_that_contradicts_itself_are_refused():
    rows = [{"key": "tgp.io/region", "operator": "In", "values": [value]} for value in ("us-west", "us-east")]

    assert told(a_pool(maxHourlyPrice="0"), a_class()) == [
        "spec.maxHourlyPrice: Forbidden: is 0, and every machine of the class costs more"
    ]
    assert told(a_pool(*rows)) == [
        "spec.template.spec.requirements: Forbidden: the requirements on tgp.io/region contradict each other"
    ]


def test_a_request_beyond_its_class_is_refused():
    node_class = a_class(instanceRequirements={"gpuTypes": ["A100"]}, tailscaleConfig={"tags": ["tag:a"]})
    tags = {"talosConfig": {"tailscaleConfig": {"tags": ["tag:b"]}}}

    assert told(a_request(gpuType="H100", spot=True), node_class) == [
        "spec.spot: Forbidden: class c does not allow spot machines",
        "spec.gpuType: Forbidden: class c does not allow H100",
    ]
    assert told(a_request(**tags), node_class) == [
        "spec.talosConfig.tailscaleConfig.tags: Forbidden: tag:b is not among the class's tags: tag:a"
    ]


def test_a_time_zone_that_is_unknown_is_refused():
    window = {"nodes": "1", "schedule": "0 0 * * *", "duration": "1h", "timeZone": "Mars/Olympus"}
    pool = a_pool(disruption={"budgets": [window]})

    assert told(pool) == [
        'spec.disruption.budgets[0].timeZone: Invalid value: "Mars/Olympus": is not an IANA time zone'
    ]
    assert told(pool, known=Surroundings()) == [], "the names are not known"
    (said,) = told(a_budget(calendar="Month", timeZone="Mars/Olympus"))
    assert said.startswith(
        "spec.quota.timeZone: Invalid value: Mars/Olympus is not a time zone that the operator knows"
    )


def test_an_endpoint_that_is_never_called_is_refused():
    urls = {"scaleUpEndpoint": "http://169.254.169.254/latest", "scaleDownEndpoint": "http://power-api/off"}
    machines = [{"name": "box", "gpuCount": 1, **urls}]
    owned = a_class(providers=[{"name": "webhook", "settings": {"machines": machines}}])
    path = "spec.providers[0].settings.machines[0].scaleUpEndpoint"

    assert told(owned) == [f"{path}: Forbidden: 169.254.169.254: link-local"]


def test_a_kubelet_newer_than_the_api_server_is_refused_where_its_version_is_known():
    node_class = a_class(talosConfig={"kubeletImage": "ghcr.io/siderolabs/kubelet:v1.34.0"})

    assert told(node_class) == []
    (said,) = told(node_class, known=Surroundings(server=Version(1, 33, 0)))
    assert "is newer than the API server, which is v1.33.0" in said


def test_a_budget_of_namespaces_belongs_to_the_operator_s_namespace():
    budget = a_budget({"namespaceSelector": {"matchLabels": {"team": "x"}}}, calendar="Month")
    (said,) = told(budget)

    assert "works only in the operator's namespace, tgp-system" in said
    assert told(budget, known=Surroundings(operators="ml")) == []
