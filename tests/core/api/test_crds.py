"""The CRDs are made from the types, checked in, and built as CRDs should be."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tgp.api.crds import DIGEST, NUMBER, as_yaml, crd, crds, digest, file_name
from tgp.api.kinds import KINDS, LEGACY, OUR_KINDS, REQUEST
from tgp.api.request import IMMUTABLE
from tools.reference import entries, markdown

ROOT = Path(__file__).parents[3]
STORED = ROOT / "deploy" / "crds"


def nodes(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, schema
    for name, inner in schema.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    if "items" in schema:
        yield from nodes(schema["items"], f"{path}[]")
    if "additionalProperties" in schema:
        yield from nodes(schema["additionalProperties"], f"{path}{{}}")


def all_nodes() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind in KINDS:
        schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        for part in ("spec", "status"):
            yield from nodes(schema["properties"][part], f"{kind.resource.kind}.{part}")


@pytest.mark.parametrize("kind", KINDS, ids=file_name)
def test_the_checked_in_file_is_what_the_types_say(kind):
    """`python -m tgp.api.crds` makes them agree again."""
    assert (STORED / file_name(kind)).read_text(encoding="utf-8") == as_yaml(crd(kind))


def test_no_file_lies_about_that_no_kind_made():
    made = sorted(file_name(kind) for kind in KINDS)

    assert sorted(str(path.relative_to(STORED)) for path in STORED.rglob("*.yaml")) == made


def test_no_field_answers_with_a_regular_expression():
    """A bare `pattern` does: a rule says with a sentence what would be right."""
    assert [where for where, node in all_nodes() if "pattern" in node] == []


def test_the_checked_in_reference_is_what_the_types_say():
    """`python -m tools.reference` makes them agree again."""
    assert (ROOT / "docs" / "fields.md").read_text(encoding="utf-8") == markdown()


def test_yaml_reads_back_as_the_same_definitions():
    documents = list(YAML(typ="safe", pure=True).load_all(as_yaml(*crds(legacy=True))))

    assert documents == crds(legacy=True)


def test_every_field_carries_its_manual():
    undocumented = [
        f"{kind.resource.kind}.{entry.path}" for kind in KINDS for entry in entries(kind) if not entry.doc.strip()
    ]

    assert undocumented == []


def test_every_list_text_and_map_is_bounded():
    """CEL's cost limits count what might come, not what does."""
    unbounded = [
        path
        for path, node in all_nodes()
        if (node.get("type") == "array" and "maxItems" not in node)
        or ("additionalProperties" in node and "maxProperties" not in node)
        or (node.get("type") == "string" and not {"maxLength", "enum", "format"} & node.keys())
        or (node.get("x-kubernetes-int-or-string") and "maxLength" not in node)
    ]

    assert unbounded == []


def test_every_list_says_how_appliers_share_it():
    for path, node in all_nodes():
        if node.get("type") == "array":
            kind = node["x-kubernetes-list-type"]
            assert kind in {"atomic", "set", "map"}, path
            assert (kind == "map") == ("x-kubernetes-list-map-keys" in node), path
            for key in node.get("x-kubernetes-list-map-keys", ()):
                assert key in node["items"]["required"], path


def test_a_default_inside_an_object_applies_also_when_the_object_is_absent():
    """Unless absence itself means something, as it does for what only narrows or overrides."""
    meaningful = {
        "GPUNodeClass.spec.tailscaleConfig",
        "GPUNodeClass.spec.talosConfig",
        "GPUNodeClass.spec.networking",
        "GPURequest.spec.nodeClassRef",
    }
    for kind in KINDS:
        schema = crd(kind)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
        for name, inner in schema["properties"].items():
            holds_defaults = any("default" in node for node in inner.get("properties", {}).values())
            where = f"{kind.resource.kind}.spec.{name}"
            if holds_defaults and where not in meaningful and name not in schema["required"]:
                assert inner.get("default") == {}, where


def test_status_has_no_defaults_and_requires_nothing_of_its_own():
    """What is not there was not seen."""
    for path, node in all_nodes():
        if ".status" in path:
            assert "default" not in node, path


def test_messages_of_rules_say_what_would_be_right():
    for path, node in all_nodes():
        for rule in node.get("x-kubernetes-validations", ()):
            assert len(rule["message"]) > 15, path
            assert not rule["message"].endswith("."), path  # the API server puts a comma or a bracket behind it


@pytest.mark.parametrize("kind", OUR_KINDS, ids=file_name)
def test_our_kinds_can_be_asked_for_together_and_by_short_names(kind):
    names = crd(kind)["spec"]["names"]

    assert names["categories"] == ["tgp"]
    assert names["shortNames"]


def test_the_legacy_kind_is_optional_and_has_no_short_names():
    """Two kinds with one short name: kubectl would take either."""
    assert "shortNames" not in crd(LEGACY)["spec"]["names"]
    assert len(crds(legacy=True)) == len(crds()) + 1


def test_only_old_cel_functions_are_used():
    """New CRDs on Kubernetes 1.28 may use what 1.27 knew: no quantities, no IP addresses, no formats, no optionals."""
    for path, node in all_nodes():
        for rule in node.get("x-kubernetes-validations", ()):
            for newer in ("quantity(", "isQuantity(", "ip(", "cidr(", "format.", "optional.", "isCIDR(", "sets."):
                assert newer not in rule["rule"], path
            assert "messageExpression" not in rule, path


def test_every_field_of_a_request_is_fixed_or_meant_to_change():
    changeable = {"maxLifetime", "ttl", "idleTimeout", "labels"}
    fields = crd(REQUEST)["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]

    assert set(fields) - set(IMMUTABLE) == changeable


def test_the_reference_tells_each_shared_field_once():
    rows = [line for line in markdown().splitlines() if line.startswith("| `")]
    secrets = [row for row in rows if row.startswith("| `spec.providers[].credentialsRef.name`")]

    assert len(secrets) == 1
    assert not [row for row in rows if row.startswith("| `spec.tailscaleConfig.oauthCredentialsSecretRef.name`")]
    assert len({row.split("|")[1] for row in rows if "conditions[].reason" in row}) == 1
    assert any("Its fields are those of `spec.providers[].credentialsRef`" in row for row in rows)


def test_columns_show_what_matters_first_and_age_among_them():
    for kind in KINDS:
        columns = crd(kind)["spec"]["versions"][0]["additionalPrinterColumns"]
        narrow = [column["name"] for column in columns if not column.get("priority")]
        assert narrow[-1] == "Age"
        assert 5 <= len(narrow) <= 8


def test_kinds_that_changed_have_a_number_of_their_own():
    """Else a cluster could not tell older ones from newer ones, and would go back to them."""
    assert digest() == DIGEST, f"raise NUMBER in src/tgp/api/crds.py, {NUMBER} now, and note DIGEST = {digest()!r}"
