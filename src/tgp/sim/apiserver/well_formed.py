"""A quick yes to "does this value fit its schema": every field declared, every value of its type.

Nearly every object a server reads is well formed, and it asks at every write. So the answer is worked out with as few
steps as it takes; after a no, the caller walks the schema again to report what is wrong.
"""

from typing import Any

from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.patch.typed import child_schema, item_schema

PRESERVE = "x-kubernetes-preserve-unknown-fields"
PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
}
OF_MAPPINGS = frozenset({"", "object"})
OF_LISTS = frozenset({"", "array"})
EXACT_TYPES: dict[str, type] = {"string": str, "integer": int, "number": float, "boolean": bool}


def is_closed(schema: Json) -> bool:
    """Does it refuse fields that it does not name?"""
    return bool(schema.get("properties")) and not schema.get(PRESERVE) and not schema.get("additionalProperties")


def wanted_type(schema: Json) -> str:
    """The one type its values have; empty: several, or not declared."""
    wanted = schema.get("type", "")
    return wanted if wanted in PYTHON_TYPES and not schema.get("oneOf") else ""


def is_of_type(wanted: str, value: Any) -> bool:
    if isinstance(value, bool):
        return wanted == "boolean"
    if wanted == "integer" and isinstance(value, float):
        return value.is_integer()
    return isinstance(value, PYTHON_TYPES[wanted])


class SchemaShape:
    """One schema, ready to be asked. Its parts are made when the first value has them: schemas may be cyclic."""

    __slots__ = ("_closed", "_declared", "_free", "_items", "_items_known", "_parts", "_schema", "_wanted", "exactly")

    def __init__(self, schema: Json) -> None:
        self._schema = schema
        self._wanted = wanted_type(schema)
        self.exactly = EXACT_TYPES.get(self._wanted)
        """Values of this very type fit; of any other it takes a closer look."""
        self._closed = is_closed(schema)
        self._declared: Json = schema.get("properties") or {}
        self._free = not self._declared and not isinstance(schema.get("additionalProperties"), dict)
        self._parts: dict[str, SchemaShape] = {}  # declared fields met so far
        self._items: SchemaShape | None = None
        self._items_known = False

    def fits(self, value: Any) -> bool:
        if isinstance(value, dict):
            return self._wanted in OF_MAPPINGS and (self._free or self._fits_fields(value))
        if isinstance(value, list):
            return self._wanted in OF_LISTS and self._fits_items(value)
        return value is None or not self._wanted or is_of_type(self._wanted, value)

    def _fits_fields(self, value: Json) -> bool:
        known = self._parts.get
        for key, part in value.items():
            shape = known(key)
            if shape is None:
                if self._closed and key not in self._declared:
                    return False
                shape = self._part(key)
            if type(part) is not shape.exactly and not shape.fits(part):
                return False
        return True

    def _part(self, key: str) -> "SchemaShape":
        schema = child_schema(self._schema, key)
        shape = ANYTHING if schema is None else shape_of(schema)
        if key in self._declared:  # a free-form key is user data: caching those would have no bound
            self._parts[key] = shape
        return shape

    def _fits_items(self, value: list[Any]) -> bool:
        if not self._items_known:
            schema = item_schema(self._schema)
            self._items = shape_of(schema) if schema else None
            self._items_known = True
        items = self._items
        return items is None or all(item is not None and items.fits(item) for item in value)


ANYTHING = SchemaShape({})
_SHAPES: dict[int, SchemaShape] = {}  # by the schema's id; a shape holds its schema, so an id is never used twice


def shape_of(schema: Json) -> SchemaShape:
    """Only for schemas of built-in kinds, which are shared and live as long as the program."""
    found = _SHAPES.get(id(schema))
    if found is None:
        found = _SHAPES[id(schema)] = SchemaShape(schema)
    return found
