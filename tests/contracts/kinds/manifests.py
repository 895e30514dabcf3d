"""Manifests made from a kind's schema, whole or broken on purpose. Equal seeds give equal manifests.

A manifest starts from a random filling of the schema, is mended until our own rules find nothing wrong with it, and is
then broken in one or two places, or left whole. Some are aimed: filled again and again until one particular rule does
not hold, so that no rule is left to luck.
"""

import copy
import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from tests.contracts.kinds.samples import Samples, for_rule
from tgp.api.field import Rule
from tgp.api.field_error import FieldError
from tgp.api.kinds import Kind
from tgp.api.nodeclass import SETTING_OF
from tgp.api.schema import object_schema, rules_of
from tgp.api.talos import WIREGUARD_KEY
from tgp.api.validation import default, own_python_checks, prune, validate

AIMED_TRIES = 3000
MENDING_TURNS = 60
LETTERS = "abcxyz019-._ /:äß\n"


@dataclass(frozen=True)
class Manifest:
    kind: Kind
    object: dict[str, Any]
    how: str  # what was done to it, for the reader of a failure


class Maker:
    """Makes manifests of one kind."""

    def __init__(self, kind: Kind, seed: int | str) -> None:
        self.kind = kind
        self.schema = object_schema(kind.type)
        self.rules = {rule.cel: rule for rule in rules_of(kind.type)}
        self.random = random.Random(f"{kind.resource.api_version}/{kind.resource.kind}/{seed}")

    def whole(self, density: float | None = None) -> dict[str, Any]:
        """A manifest that our rules find nothing wrong with."""
        for _ in range(AIMED_TRIES):
            filled = self._filled(self.random.choice((0.05, 0.2, 0.5)) if density is None else density)
            mended = self._mended(filled, spare=None)
            if mended is not None:
                return mended
        raise AssertionError(f"no whole {self.kind.resource.kind} in {AIMED_TRIES} tries")

    def aimed_at(self, rule: Rule) -> dict[str, Any]:
        """A manifest in which this rule does not hold and, as far as can be had, everything else does."""
        for turn in range(AIMED_TRIES):
            filled = self._filled(_denser(turn), aim=rule)
            found = self.problems(filled)
            if not any(problem.rule == rule.cel or problem.blocks_rules for problem in found):
                continue
            mended = self._mended(filled, spare=rule)
            if mended is not None:
                return mended
        raise AssertionError(f"{AIMED_TRIES} fillings of {self.kind.resource.kind} and none breaks: {rule.cel}")

    def keeping(self, rule: Rule) -> dict[str, Any]:
        """A whole manifest in which this rule is asked, and holds."""
        for turn in range(AIMED_TRIES):
            filled = self._mended(self._filled(_denser(turn)), spare=None)
            if filled is not None and rule.cel in asked_of(self.schema, filled):
                return filled
        raise AssertionError(f"{AIMED_TRIES} fillings of {self.kind.resource.kind} and none asks: {rule.cel}")

    def broken(self) -> Manifest:
        """A whole one, broken in one or two places without looking at what that does."""
        made = self.whole()
        hows = [self._break(made) for _ in range(self.random.choice((1, 1, 1, 2)))]
        if self.random.random() < 0.03:
            made["metadata"]["nonsense"] = 1
            hows.append("metadata has an unknown field")
        return Manifest(self.kind, made, ", ".join(hows))

    def changed(self, stored: dict[str, Any]) -> Manifest:
        """A stored object with some of its spec filled in again: most rules about updates have something to say."""
        made = copy.deepcopy(stored)
        fresh = self.whole(density=0.6)
        names = sorted({*made["spec"], *fresh["spec"]})
        chosen = self.random.sample(names, k=self.random.choice((0, 1, 1, 1, 2)))
        for name in chosen:
            if name in fresh["spec"] and self.random.random() < 0.8:
                made["spec"][name] = fresh["spec"][name]
            else:
                made["spec"].pop(name, None)
        if self.random.random() < 0.2:
            _shuffle_sets(self.schema, made, self.random)
        return Manifest(self.kind, made, f"changed {', '.join(chosen) or 'nothing'}")

    def breaking(self, rule: Rule, stored: dict[str, Any]) -> Manifest:
        """A change that this rule about changes forbids."""
        name = rule.field.removeprefix(".")
        for _ in range(AIMED_TRIES):
            made = copy.deepcopy(stored)
            fresh = self.whole(density=0.6)["spec"]
            if name in fresh:
                made["spec"][name] = fresh[name]
            else:
                made["spec"].pop(name, None)
            if any(problem.rule == rule.cel for problem in self.problems(made, stored)):
                return Manifest(self.kind, made, f"aimed at {rule.cel}")
        raise AssertionError(f"no change breaks {rule.cel}")

    def problems(self, made: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        return validate(self.schema, default(self.schema, prune(self.schema, made)), old)

    # ---- filling

    def _filled(self, density: float, aim: Rule | None = None) -> dict[str, Any]:
        where = self.kind.resource
        spec = self._value(self.schema["properties"]["spec"], density, aim)
        name = f"m-{self.random.randrange(10**9)}"
        if aim is not None and "metadata.name" in aim.cel:
            name = name.ljust(64, "x")
        metadata = {"name": name}
        if where.namespaced:
            metadata["namespace"] = "default"
        return {"apiVersion": where.api_version, "kind": where.kind, "metadata": metadata, "spec": spec}

    def _value(self, schema: dict[str, Any], density: float, aim: Rule | None) -> Any:
        rules = [self.rules[entry["rule"]] for entry in schema.get("x-kubernetes-validations", ())]
        sampled = self._sampled(schema, rules, aim)
        if sampled is not None:
            return sampled[0]
        match schema.get("type"):
            case "object" if "additionalProperties" in schema:
                return self._map(schema, rules, density, aim)
            case "object":
                return self._object(schema, density, aim)
            case "array":
                return self._array(schema, density, aim)
            case "boolean":
                return self.random.random() < 0.5
            case "integer":
                return self._number(schema, whole=True)
            case "number":
                return self._number(schema, whole=False)
            case "string":
                return self._text(schema)
        return self.random.choice([1, 7, "3", "10%"]) if "pattern" in schema else 1

    def _sampled(self, schema: dict[str, Any], rules: list[Rule], aim: Rule | None) -> tuple[Any] | None:
        if "enum" in schema:
            return (self.random.choice(schema["enum"]),)
        samples = [found for rule in rules if (found := for_rule(rule)) is not None]
        if not samples or schema.get("type") == "object":
            return None
        if aim is not None and aim in rules and self.random.random() < 0.5:
            return (self.random.choice(_of(aim).bad),)
        fitting = [value for each in samples for value in each.good if all(rule.holds(value, None) for rule in rules)]
        fitting = [value for value in fitting if len(str(value)) <= schema.get("maxLength", 1000)]
        fitting = [value for value in fitting if len(str(value)) >= schema.get("minLength", 0)]
        assert fitting, f"no sample keeps all of {[rule.cel for rule in rules]}"
        return (self.random.choice(fitting),)

    def _object(self, schema: dict[str, Any], density: float, aim: Rule | None) -> dict[str, Any]:
        made = {}
        for name, inner in schema["properties"].items():
            if name in schema.get("required", ()) or self.random.random() < density:
                made[name] = self._value(inner, density * 0.9, aim)
        if "privateKey" in made and self.random.random() < 0.7:
            made["privateKey"] = for_rule(WIREGUARD_KEY).good[0]  # its rule stands on the object, not on the text
        if "settings" in made and self.random.random() < 0.8:
            self._of_one_provider(made)
        if "operator" in made and self.random.random() < 0.7:
            self._fit_values(made)
        return made

    def _fit_values(self, requirement: dict[str, Any]) -> None:
        """As many values as the operator takes: seldom met by chance."""
        match requirement["operator"]:
            case "In" | "NotIn":
                requirement["values"] = ["a", "RTX4090"]
            case "Gt" | "Lt":
                requirement["values"] = [str(self.random.randrange(100))]
            case _:
                requirement.pop("values", None)

    def _of_one_provider(self, provider: dict[str, Any]) -> None:
        """Keep the settings of one provider and name it: a closed set is seldom met by chance."""
        owners = sorted({owner for name in provider["settings"] for owner in SETTING_OF.get(name, ())})
        if owners:
            provider["name"] = self.random.choice(owners)
            kept = {
                name: value
                for name, value in provider["settings"].items()
                if provider["name"] in SETTING_OF.get(name, (provider["name"],))
            }
            provider["settings"] = kept

    def _map(self, schema: dict[str, Any], rules: list[Rule], density: float, aim: Rule | None) -> dict[str, Any]:
        keyed = [found for rule in rules if (found := for_rule(rule)) is not None]
        good = [key for each in keyed for key in each.good if all(rule.holds([key], None) for rule in rules)]
        keys = self.random.sample(good or ["a", "b", "A100"], k=self.random.randint(0, 3) if good or density else 1)
        if aim is not None and aim in rules and self.random.random() < 0.5:
            keys.append(self.random.choice(_of(aim).bad))
        return {key: self._value(schema["additionalProperties"], density, aim) for key in keys}

    def _array(self, schema: dict[str, Any], density: float, aim: Rule | None) -> list[Any]:
        count = max(schema.get("minItems", 0), self.random.choice((0, 1, 1, 2, 3)))
        items = [self._value(schema["items"], density * 0.9, aim) for _ in range(count)]
        if schema.get("x-kubernetes-list-type") == "set":
            return list(dict.fromkeys(items))
        keys = schema.get("x-kubernetes-list-map-keys")
        return list({item[keys[0]]: item for item in items}.values()) if keys else items

    def _number(self, schema: dict[str, Any], *, whole: bool) -> float:
        low, high = schema.get("minimum", -5), schema.get("maximum", 10**6)
        edge = self.random.choice((low, high, low + 1, min(high, low + 7)))
        return edge if whole else self.random.choice((edge, low, (low + high) / 2))

    def _text(self, schema: dict[str, Any]) -> str:
        low, high = schema.get("minLength", 0), min(schema.get("maxLength", 20), 20)
        return "".join(self.random.choice(LETTERS) for _ in range(self.random.randint(max(low, 1), high)))

    # ---- mending

    def _mended(self, made: dict[str, Any], spare: Rule | None) -> dict[str, Any] | None:
        """Take away what is wrong, but for what `spare` finds; None: it could not be had."""
        for _ in range(MENDING_TURNS):
            problems = self.problems(made)
            rest = [problem for problem in problems if spare is None or problem.rule != spare.cel]
            if not rest:
                return made if spare is None or problems else None
            taken = [self._take_away(made, problem) for problem in rest if problem.path]
            if not any(taken):
                return None
        return None

    def _take_away(self, made: dict[str, Any], problem: FieldError) -> bool:
        """Remove the field, or a random one below it; what is required goes together with its parent."""
        steps = list(_steps(problem.path))
        while len(steps) > 1:
            parent = _at(made, steps[:-1])
            last = steps[-1]
            if isinstance(parent, dict) and last in parent and not self._is_required(steps):
                inner = parent[last]
                if isinstance(inner, dict) and inner and self.random.random() < 0.7:
                    inner.pop(self.random.choice(sorted(inner)))
                elif isinstance(inner, list) and len(inner) > 1 and self.random.random() < 0.7:
                    inner.pop(self.random.randrange(len(inner)))
                else:
                    parent.pop(last)
                return True
            if isinstance(parent, list) and isinstance(last, int) and last < len(parent) and len(parent) > 1:
                parent.pop(last)
                return True
            if isinstance(parent, dict) and isinstance(parent.get(last), dict | list) and parent[last]:
                _drop_one(parent[last], self.random)
                return True
            steps.pop()
        return False

    def _is_required(self, steps: list[str | int]) -> bool:
        schema = self.schema
        for step in steps[:-1]:
            schema = schema.get("items", {}) if isinstance(step, int) else schema.get("properties", {}).get(step, {})
        return steps[-1] in schema.get("required", ())

    # ---- breaking

    def _break(self, made: dict[str, Any]) -> str:
        places = list(_below(self.schema, made, ""))
        places = [place for place in places if place.path.startswith("spec")]
        breaker: Callable[..., str] = self.random.choice(_BREAKERS)
        for _ in range(20):
            place = self.random.choice(places)
            done = breaker(self, place)
            if done:
                return done
        return "nothing"


@dataclass(frozen=True)
class Place:
    """One value in a manifest, and where it hangs."""

    schema: dict[str, Any]
    holder: Any
    step: Any
    path: str

    @property
    def value(self) -> Any:
        return self.holder[self.step]

    def put(self, value: Any, how: str) -> str:
        self.holder[self.step] = value
        return f"{self.path} {how}"


def _below(schema: dict[str, Any], value: Any, path: str) -> Iterator[Place]:
    if isinstance(value, dict):
        for key in value:
            inner = schema.get("properties", {}).get(key) or schema.get("additionalProperties")
            if inner:
                yield Place(inner, value, key, f"{path}.{key}".lstrip("."))
                yield from _below(inner, value[key], f"{path}.{key}".lstrip("."))
    elif isinstance(value, list) and "items" in schema:
        for index, item in enumerate(value):
            yield Place(schema["items"], value, index, f"{path}[{index}]")
            yield from _below(schema["items"], item, f"{path}[{index}]")


def _wrong_type(maker: Maker, place: Place) -> str:
    other = maker.random.choice(
        [1, 1.0, 1.0000000000000002, 1e2, 0.5, True, "text", "", None, [], {}, [1], {"a": 1}, 2**70, -(2**63)]
    )
    return place.put(other, f"becomes {other!r}")


def _bad_sample(maker: Maker, place: Place) -> str:
    entries = place.schema.get("x-kubernetes-validations", ())
    samples = [found for entry in entries if (found := for_rule(maker.rules[entry["rule"]])) is not None]
    if not samples:
        return ""
    value = maker.random.choice(maker.random.choice(samples).bad)
    if place.schema.get("type") == "object":
        place.value[value] = maker._value(place.schema["additionalProperties"], 0.2, None)
        return f"{place.path} gets the key {value!r}"
    return place.put(value, f"becomes {value!r}")


def _beyond_bounds(maker: Maker, place: Place) -> str:
    schema = place.schema
    tries: list[Any] = []
    if "minimum" in schema:
        tries += [schema["minimum"] - 1, schema["minimum"]]
    if "maximum" in schema:
        tries += [schema["maximum"] + 1, schema["maximum"]]
    if schema.get("maxLength", 10**9) <= 1024:
        tries += ["a" * (schema["maxLength"] + 1), "1" * schema["maxLength"], "ä" * (schema["maxLength"] + 1)]
    if "minLength" in schema:
        tries += [""]
    if "enum" in schema:
        tries += ["nonsense", "", schema["enum"][0].swapcase()]
    if "pattern" in schema:
        tries += ["abc", "0", "101%", "-1", "0.0", "1Gi", "5%", "00", 0, -1]
    return place.put(maker.random.choice(tries), "at its bounds") if tries else ""


def _too_many(maker: Maker, place: Place) -> str:
    schema, value = place.schema, place.value
    if isinstance(value, list) and value and "maxItems" in schema and schema["maxItems"] <= 64:
        return place.put([copy.deepcopy(value[0]) for _ in range(schema["maxItems"] + 1)], "has too many items")
    if isinstance(value, dict) and "maxProperties" in schema:
        inner = maker._value(schema["additionalProperties"], 0.1, None)
        return place.put({f"k{n}": inner for n in range(schema["maxProperties"] + 1)}, "has too many keys")
    return ""


def _twice(_maker: Maker, place: Place) -> str:
    value = place.value
    if isinstance(value, list) and value:
        value.append(copy.deepcopy(value[0]))
        return f"{place.path} has its first item twice"
    return ""


def _unknown(maker: Maker, place: Place) -> str:
    value = place.value
    if isinstance(value, dict) and "properties" in place.schema:
        value[maker.random.choice(("nonsense", "Name", "provider_s"))] = maker.random.choice((1, None, {"a": 1}))
        return f"{place.path} has an unknown field"
    return ""


def _required_gone(maker: Maker, place: Place) -> str:
    value = place.value
    required = [name for name in place.schema.get("required", ()) if isinstance(value, dict) and name in value]
    if not required:
        return ""
    gone = maker.random.choice(required)
    value.pop(gone)
    return f"{place.path}.{gone} is gone"


def _emptied(maker: Maker, place: Place) -> str:
    value = place.value
    if isinstance(value, dict | list) and value:
        return place.put(type(value)(), "is empty")
    return ""


def _dropped(maker: Maker, place: Place) -> str:
    if isinstance(place.holder, dict) and place.step != "spec":
        place.holder.pop(place.step)
        return f"{place.path} is gone"
    return ""


_BREAKERS = (
    _wrong_type,
    _bad_sample,
    _bad_sample,
    _beyond_bounds,
    _beyond_bounds,
    _too_many,
    _twice,
    _unknown,
    _required_gone,
    _emptied,
    _dropped,
)


def _denser(turn: int) -> float:
    """Small manifests first: they are quick to judge and good to read; deep fields need fuller ones."""
    return min(0.15 + 0.02 * (turn % 40), 0.8)


def _of(rule: Rule) -> Samples:
    found = for_rule(rule)
    return found if found is not None else Samples((), ("",))


def _steps(path: str) -> Iterator[str | int]:
    """Of a[0].b[c.d/e]: a, 0, b and c.d/e, which is a map's key."""
    for inside, name in re.findall(r"\[([^\]]*)\]|([^.\[]+)", path):
        yield int(inside) if inside.isdigit() else inside or name


def _at(value: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step)  # type: ignore[call-overload]
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return None
    return value


def _drop_one(value: Any, dice: random.Random) -> None:
    if isinstance(value, dict):
        value.pop(dice.choice(sorted(value)))
    else:
        value.pop(dice.randrange(len(value)))


def _shuffle_sets(schema: dict[str, Any], value: Any, dice: random.Random) -> None:
    """Reorder lists of type set: an update that changes nothing."""
    if isinstance(value, dict):
        for key, member in value.items():
            inner = schema.get("properties", {}).get(key)
            if inner:
                _shuffle_sets(inner, member, dice)
    elif isinstance(value, list) and schema.get("x-kubernetes-list-type") == "set":
        dice.shuffle(value)


def asked_of(schema: dict[str, Any], made: dict[str, Any], old: dict[str, Any] | None = None) -> set[str]:
    """Which rules were asked about this object."""
    asked: set[str] = set()

    def noting(cel: str, python_check: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
        def judge(value: Any, before: Any) -> bool:
            asked.add(cel)
            return python_check(value, before)

        return judge

    python_checks = {cel: noting(cel, python_check) for cel, python_check in own_python_checks().items()}
    validate(schema, default(schema, prune(schema, made)), old, python_checks)
    return asked
