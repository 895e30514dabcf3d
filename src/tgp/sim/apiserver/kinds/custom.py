"""Custom resources: pruned, defaulted and judged by the schema of their definition."""

from dataclasses import replace

from tgp.api import validation
from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import Cause

NOWHERE = "<nil>"  # how the real server writes the path of the whole object


class CustomStrategy(Strategy):
    def default(self, served: Served, obj: Json) -> None:
        if served.schema is None:
            return
        filled = dict(validation.default(served.schema, obj))
        obj.clear()
        obj.update(filled)

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        return judged(write, obj, None)

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        return judged(write, obj, old)


def judged(write: Write, obj: Json, old: Json | None) -> list[Cause]:
    schema = write.served.schema
    if schema is None:
        return []
    problems = validation.validate(schema, obj, old, write.core.python_checks)
    found = [Cause(problem.reason.value, problem.body, problem.path or NOWHERE) for problem in problems]
    if not obj["metadata"].get("name") and any(True for _ in validation.rules_in(schema)):
        found = [cause for cause, problem in zip(found, problems, strict=True) if not problem.rule]
        if not any(cause.field == NOWHERE for cause in found):
            found.append(Cause("FieldValueInvalid", f"Invalid value: null: {validation.UNCHECKED}", NOWHERE))
    return [_seen_from_status(cause) for cause in found] if write.subresource == "status" else found


def _seen_from_status(cause: Cause) -> Cause:
    """Through the status subresource the schema's messages name fields relative to it."""
    inner = cause.field.removeprefix("status.")
    return replace(cause, message=cause.message.replace(f"{cause.field} in body", f"{inner} in body"))
