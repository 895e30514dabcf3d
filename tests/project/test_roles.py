"""The roles that are shipped for tenants."""

import pytest

from tgp.controllers.budgets.admission import PARTS
from tgp.core.budgets.admission import binding_of
from tgp.core.classes.rights import KubeRight, grants_all
from tgp.services.shipped import operator_rights
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


@pytest.mark.parametrize("several", [False, True])
def test_the_operator_may_read_every_policy_and_binding_that_budgets_need(several):
    """One that it may not read makes each budget with that `admission` Degraded, whatever is installed."""
    rules = [rule for role in operator_rights() if role["kind"] == "ClusterRole" for rule in role["rules"]]
    for (policy, binding), name in PARTS.values():
        for resource, needed in ((policy, name), (binding, binding_of(name, several=several))):
            right = KubeRight("get", resource.group, resource.plural, needed)
            assert grants_all(rules, right), right.text
