"""Verdicts on any schema, in the words of the API server. That ours agree with the real one is shown in contracts."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.contracts.kinds.samples import SAMPLES
from tgp.api.crds import crds
from tgp.api.field_error import Reason
from tgp.api.kinds import KINDS
from tgp.api.schema import rules_of
from tgp.api.validation import default, own_python_checks, prune, rules_in, unknown_rules, validate


def verdict(schema, value, old=None, python_checks=None):
    whole = {"type": "object", "properties": {"spec": schema}}
    return [
        str(problem)
        for problem in validate(whole, {"spec": value}, {"spec": old} if old is not None else None, python_checks)
    ]


@pytest.mark.parametrize(
    ("schema", "value", "told"),
    [
        ({"type": "string"}, 1, 'spec: Invalid value: "integer": spec in body must be of type string: "integer"'),
        ({"type": "integer"}, True, 'spec: Invalid value: "boolean": spec in body must be of type integer: "boolean"'),
        (
            {"type": "integer", "minimum": 1},
            0,
            "spec: Invalid value: 0: spec in body should be greater than or equal to 1",
        ),
        (
            {"type": "integer", "maximum": 9},
            10,
            "spec: Invalid value: 10: spec in body should be less than or equal to 9",
        ),
        (
            {"type": "number", "minimum": 0, "exclusiveMinimum": True},
            0,
            "spec: Invalid value: 0: spec in body should be greater than 0",
        ),
        ({"type": "integer", "multipleOf": 5}, 7, "spec: Invalid value: 7: spec in body should be a multiple of 5"),
        ({"type": "string", "maxLength": 2}, "abc", "spec: Too long: may not be more than 2 bytes"),
        (
            {"type": "string", "minLength": 2},
            "a",
            'spec: Invalid value: "a": spec in body should be at least 2 chars long',
        ),
        ({"type": "string", "pattern": "^a$"}, "a\n", "spec: Invalid value: \"a\\n\": spec in body should match '^a$'"),
        ({"type": "string", "enum": ["a", "b"]}, "c", 'spec: Unsupported value: "c": supported values: "a", "b"'),
        (
            {"type": "string", "format": "date-time"},
            "now",
            'spec: Invalid value: "now": spec in body must be of type date-time: "now"',
        ),
        (
            {"type": "array", "maxItems": 1, "items": {"type": "integer"}},
            [1, 2],
            "spec: Too many: 2: must have at most 1 item",
        ),
        (
            {"type": "array", "minItems": 1, "items": {"type": "integer"}},
            [],
            "spec: Invalid value: 0: spec in body should have at least 1 items",
        ),
        ({"type": "object", "required": ["x"], "properties": {"x": {"type": "string"}}}, {}, "spec.x: Required value"),
        (
            {"type": "object", "maxProperties": 0, "additionalProperties": {"type": "string"}},
            {"a": "b"},
            "spec: Too many: 1: must have at most 0 items",
        ),
        (
            {"type": "object", "minProperties": 1},
            {},
            "spec: Invalid value: 0: spec in body should have at least 1 properties",
        ),
        (
            {"x-kubernetes-int-or-string": True},
            0.5,
            'spec: Invalid value: "number": spec in body must be of type integer,string: "number"',
        ),
        (
            {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            ["a", "b", "a", "a"],
            'spec[2]: Duplicate value: "a"',
        ),
        (
            {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object"},
            },
            [{"k": 1}, {"k": 2}, {"k": 1}],
            'spec[2]: Duplicate value: {"k":1}',
        ),
        (
            {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
            {},
            '<nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)',
        ),
        (
            {"oneOf": [{"required": ["a"]}, {"required": ["b"]}], "type": "object"},
            {"a": 1, "b": 1},
            '<nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf)',
        ),
        (
            {"not": {"required": ["a"]}, "type": "object"},
            {"a": 1},
            '<nil>: Invalid value: "": "spec" must not validate the schema (not)',
        ),
        ({"allOf": [{"required": ["a"]}], "type": "object"}, {}, "spec.a: Required value"),
    ],
)
def test_a_broken_constraint_is_told_with_its_field(schema, value, told):
    assert verdict(schema, value) == [told]


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        ({"type": "integer"}, 1.0),  # an integer to the API server
        ({"type": "number"}, 1),
        ({"type": "string", "nullable": True}, None),
        ({"x-kubernetes-int-or-string": True}, "10%"),
        ({"x-kubernetes-int-or-string": True, "minimum": 1, "pattern": "^x$"}, 1),  # each bound for its own type
        ({"x-kubernetes-int-or-string": True, "minimum": 1, "pattern": "^x$"}, "x"),
        ({"type": "string", "pattern": r"\p{Greek}"}, "x"),  # what Python cannot judge is not refused
        ({"type": "string", "maxLength": 2}, "ää"),  # characters, not bytes
    ],
)
def test_what_the_api_server_takes_is_taken(schema, value):
    assert verdict(schema, value) == []


RULED = {
    "type": "object",
    "x-kubernetes-validations": [
        {"rule": "self.a", "message": "a must be", "fieldPath": ".a", "reason": "FieldValueForbidden"},
        {"rule": "self.n == oldSelf.n", "message": "n stays"},
        {"rule": "unheard of"},
    ],
    "properties": {"a": {"type": "boolean"}, "n": {"type": "integer"}},
}
PYTHON_CHECKS = {
    "self.a": lambda self, _: self.get("a", False),
    "self.n == oldSelf.n": lambda self, old: self["n"] == old["n"],
}


def test_a_rule_is_judged_by_its_python_check_and_blames_the_field_it_names():
    assert verdict(RULED, {"a": False, "n": 1}, python_checks=PYTHON_CHECKS) == ["spec.a: Forbidden: a must be"]


def test_a_rule_about_changes_is_asked_on_updates_only():
    assert verdict(RULED, {"a": True, "n": 1}, python_checks=PYTHON_CHECKS) == []
    assert verdict(RULED, {"a": True, "n": 1}, old={"a": True, "n": 2}, python_checks=PYTHON_CHECKS) == [
        "spec: Invalid value: n stays"
    ]


def test_rules_are_not_asked_about_what_is_not_even_well_formed():
    """They may rely on what the schema promises; the API server says that it left them out."""
    told = verdict(RULED, {"a": "no", "n": 1}, python_checks=PYTHON_CHECKS)

    assert told[0].startswith("spec.a: Invalid value")
    assert "some validation rules were not checked" in told[1]


def test_items_of_a_map_like_list_meet_their_old_selves():
    schema = {
        "type": "array",
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": ["k"],
        "items": {
            "type": "object",
            "x-kubernetes-validations": [{"rule": "self.n == oldSelf.n", "message": "n stays"}],
        },
    }
    old = [{"k": "a", "n": 1}, {"k": "b", "n": 2}]

    assert verdict(schema, [{"k": "b", "n": 2}, {"k": "c", "n": 9}, {"k": "a", "n": 5}], old, PYTHON_CHECKS) == [
        "spec[2]: Invalid value: n stays"
    ]


def test_what_was_wrong_before_and_has_not_changed_is_let_be():
    """A stricter CRD must not lock objects written before it: only what is touched is judged again."""
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 2}, "n": {"type": "integer"}},
        "x-kubernetes-validations": [{"rule": "self.a", "message": "a must be"}],
    }

    assert verdict(schema, {"name": "abc", "n": 1}, old={"name": "abc", "n": 1}, python_checks=PYTHON_CHECKS) == []
    assert verdict(schema, {"name": "abc", "n": 2}, old={"name": "abc", "n": 1}, python_checks={}) == []
    assert verdict(schema, {"name": "abcd", "n": 1}, old={"name": "abc", "n": 1}, python_checks={})[0].startswith(
        "spec.name: Too long"
    )
    assert verdict(schema, {"name": "abc", "n": 2}, old={"name": "abc", "n": 1}, python_checks=PYTHON_CHECKS) == [
        "spec: Invalid value: a must be"
    ]


def test_a_rule_without_a_python_check_is_named():
    assert unknown_rules({"properties": {"spec": RULED}}, PYTHON_CHECKS) == ["unheard of"]


def test_every_rule_of_our_crds_has_a_python_check():
    for definition in crds(legacy=True):
        schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
        assert unknown_rules(schema) == []
        assert list(rules_in(schema))


def test_one_cel_text_has_one_meaning():
    """Twins are found by text: two rules with the same text must give the same verdicts on all samples."""
    for kind in KINDS:
        for rule in rules_of(kind.type):
            for value in (*SAMPLES[rule.cel].good, *SAMPLES[rule.cel].bad) if rule.cel in SAMPLES else ():
                asked = value if "self.all(k" not in rule.cel else [value]
                assert rule.holds(asked, None) == own_python_checks()[rule.cel](asked, None)


@pytest.mark.parametrize("cel", SAMPLES)
def test_samples_are_what_they_claim_to_be(cel):
    python_check, keys = own_python_checks()[cel], "self.all(k" in cel
    for value in SAMPLES[cel].good:
        assert python_check([value] if keys else value, None), value
    for value in SAMPLES[cel].bad:
        assert not python_check([value] if keys else value, None), value


def test_every_rule_on_a_text_or_on_keys_has_samples():
    def walk(schema):
        if schema.get("type") in {"string", None}:
            yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
        if "additionalProperties" in schema:
            yield from (rule["rule"] for rule in schema.get("x-kubernetes-validations", ()))
            yield from walk(schema["additionalProperties"])
        for inner in schema.get("properties", {}).values():
            yield from walk(inner)
        if "items" in schema:
            yield from walk(schema["items"])

    asked = {cel for definition in crds(legacy=True) for cel in walk(_schema(definition))}
    assert asked - SAMPLES.keys() == set()


SCHEMAS = [definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] for definition in crds(legacy=True)]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@settings(deadline=None)  # the machine may be busy with other things
@given(st.sampled_from(range(len(KINDS))), st.data())
def test_no_input_makes_a_rule_stumble(number, data):
    """Whatever stands in a known field: a verdict, never a traceback."""
    schema = SCHEMAS[number]
    spec_schema = schema["properties"]["spec"]
    names = data.draw(st.lists(st.sampled_from(sorted(spec_schema["properties"])), unique=True, max_size=4))
    spec = {name: data.draw(JSON) for name in names}
    for name in ("providers", "talosConfig", "template", "selector", "quota"):
        if name in spec_schema["properties"] and data.draw(st.booleans()):
            inner = spec_schema["properties"][name]
            inner = inner.get("items", inner)
            filled = {
                key: data.draw(JSON)
                for key in data.draw(st.lists(st.sampled_from(sorted(inner["properties"])), max_size=3))
            }
            spec[name] = [filled] if name == "providers" else filled
    made = {"metadata": {"name": "x"}, "spec": spec}

    for problem in validate(schema, default(schema, prune(schema, made)), made):
        assert problem.reason in Reason


def _schema(definition):
    return definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
