"""The roles that are shipped for tenants."""

from tools.manifests import RIGHTS, from_template

OURS = {"gpurequests", "gpunodepools", "gpuworkloadbudgets"}


def test_tenants_may_write_their_objects_and_no_status():
    """A status is the operator's: what stands there decides about money."""
    roles = from_template(RIGHTS, "rbac/tenants.yaml")

    assert {role["metadata"]["name"] for role in roles} == {"tgp-view", "tgp-edit"}
    for role in roles:
        assert any(label.startswith("rbac.authorization.k8s.io/aggregate-to-") for label in role["metadata"]["labels"])
        for rule in role["rules"]:
            assert set(rule["resources"]) == OURS
            assert rule["apiGroups"] == ["tgp.io"]
    verbs = {role["metadata"]["name"]: {verb for rule in role["rules"] for verb in rule["verbs"]} for role in roles}
    assert verbs["tgp-view"] == {"get", "list", "watch"}
    assert "create" in verbs["tgp-edit"]
