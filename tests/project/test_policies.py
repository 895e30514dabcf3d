"""The policies of budgets say each condition once, in the words of the predicate."""

from tgp.core.budgets.admission import (
    DENY_POLICY,
    EXACT_POLICY,
    GATE,
    GATE_POLICY,
    LABEL,
    LABEL_OF_SEVERAL,
    binding_of,
)
from tgp.core.model.pod import COUNTED
from tgp.services.shipped import budget_policies

POLICIES = {each["metadata"]["name"]: each for each in budget_policies() if not each["kind"].endswith("Binding")}
BINDINGS = {each["metadata"]["name"]: each for each in budget_policies() if each["kind"].endswith("Binding")}


def test_conditions_of_one_name_are_the_same_in_all_policies():
    rows = [row for policy in POLICIES.values() for row in policy["spec"]["matchConditions"]]
    expressions: dict[str, set[str]] = {}
    for row in rows:
        expressions.setdefault(row["name"], set()).add(row["expression"])

    assert {name: len(texts) for name, texts in expressions.items() if len(texts) > 1} == {}
    for policy in POLICIES.values():
        assert {"selects", "requests"} <= {row["name"] for row in policy["spec"]["matchConditions"]}


def test_which_namespaces_are_meant_is_said_the_same_in_all_policies():
    variables = [policy["spec"]["variables"] for policy in POLICIES.values()]

    assert variables.count(variables[0]) == len(POLICIES)


def test_pods_are_created_when_a_policy_cannot_be_evaluated():
    assert {policy["spec"]["failurePolicy"] for policy in POLICIES.values()} == {"Ignore"}


def test_names_label_gate_and_finalizer_are_those_of_the_predicate():
    assert set(POLICIES) == {DENY_POLICY, GATE_POLICY, EXACT_POLICY}
    assert set(BINDINGS) == {binding_of(name, several=several) for name in POLICIES for several in (False, True)}
    for binding_name, binding in BINDINGS.items():
        (row,) = binding["spec"]["paramRef"]["selector"]["matchExpressions"]
        name = binding["spec"]["policyName"]
        several = binding_name != name
        key = LABEL_OF_SEVERAL if several else LABEL
        assert (binding_of(name, several=several), row["key"], row["operator"]) == (binding_name, key, "In")
        assert binding["spec"]["paramRef"].get("namespace") == ("tgp-system" if several else None)
        word = name.rpartition("-")[2].capitalize()
        assert all(word in value.split("-") for value in row["values"])
    assert f'"{GATE}"' in str(POLICIES[GATE_POLICY]["spec"]["mutations"])
    assert f'"{COUNTED}"' in str(POLICIES[EXACT_POLICY]["spec"]["mutations"])
