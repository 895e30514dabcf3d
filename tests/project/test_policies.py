"""The policies of budgets say each condition once, in the words of the predicate."""

from typing import Any

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


def rows(policy: dict[str, Any], *parts: str) -> list[dict[str, str]]:
    return [row for part in parts for row in policy["spec"][part]]


def test_conditions_of_one_name_are_the_same_in_all_policies():
    expressions: dict[str, set[str]] = {}
    for policy in POLICIES.values():
        for row in rows(policy, "matchConditions", "variables"):
            expressions.setdefault(row["name"], set()).add(row["expression"])

    assert {name: len(texts) for name, texts in expressions.items() if len(texts) > 1} == {}
    for policy in POLICIES.values():
        names = {row["name"] for row in rows(policy, "matchConditions", "variables")}
        assert {"selects", "requests", "covers"} <= names


def test_what_changes_pods_asks_about_the_pod_where_it_is_asked_again():
    """A policy that a match condition skips is not asked again after another one has changed the pod."""
    for policy in POLICIES.values():
        if policy["kind"] == "MutatingAdmissionPolicy":
            assert policy["spec"]["reinvocationPolicy"] == "IfNeeded"
            assert [row["name"] for row in rows(policy, "matchConditions") if "object" in row["expression"]] == []
            said = str(policy["spec"]["mutations"])
            assert [row["name"] for row in rows(policy, "variables") if f"variables.{row['name']}" not in said] == []


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
