"""The pages of `/api/v1` that show what commands show: one table, and one class that answers by it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from tgp.core.access.kept_answers import KeptAnswers
from tgp.core.access.rights import ListRight, PageRight
from tgp.core.model.object_key import ObjectKey
from tgp.core.reports.cost_report import BY
from tgp.interfaces.web.pages import (
    JSON_TYPE,
    NAMESPACE_PARAMETER,
    OBJECT_NAME,
    ObjectMissing,
    PageDescription,
    Parameters,
    WebPage,
)
from tgp.interfaces.web.questions import BadQuestion, names_in, namespace_of, number, object_name, only_known, word
from tgp.interfaces.web.shared_answers import SharedAnswers
from tgp.ports.cluster import NotFound
from tgp.ports.http import Call, Pairs, Reply

if TYPE_CHECKING:  # loads the planner: not before a page is asked for
    from tgp.services.operator_view import OperatorView

PREFIX = "/api/v1"
MOST_ROWS, USUAL_ROWS = 1000, 500
SHARED_FOR = 2.0  # seconds: what is asked for many times at once is computed once
MOST_SHARED = 16

LIMIT: Parameters = {
    "limit": ({"type": "integer", "minimum": 1, "maximum": MOST_ROWS}, f"Number of rows. Default: {USUAL_ROWS}"),
    "after": (
        {"type": "string", "minLength": 1, "maxLength": 507},
        "Only rows after this one: the last row's NAMESPACE/NAME, or NAME where it has no namespace",
    ),
}
NAMESPACE: Parameters = {"namespace": NAMESPACE_PARAMETER}
WHY_KINDS = ("request", "pod", "pool", "budget")


@dataclass(frozen=True, slots=True)
class Question:
    """What was asked for, checked."""

    namespace: str  # empty: all of them
    call: Call
    names: Mapping[str, str]  # in the path

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(self.names.get("namespace", ""), self.names["name"])


@dataclass(frozen=True, slots=True)
class PageEntry:
    about: PageDescription
    resource: str  # of tgp.io, which the user must be allowed to list; of some no objects exist
    ask: Callable[["OperatorView", Question], Awaitable[Mapping[str, Any]]]
    rows: str = ""  # the field of the document that is shown in parts


class ApiPage:
    def __init__(self, entry: PageEntry, view: Callable[[], "OperatorView"]) -> None:
        self.about = entry.about
        self._entry = entry
        self._view = view
        self._shared: SharedAnswers[Pairs, bytes] = SharedAnswers(KeptAnswers(SHARED_FOR, MOST_SHARED))

    def right(self, call: Call) -> PageRight:
        return ListRight(self._entry.resource, self._question(call).namespace)

    def _question(self, call: Call) -> Question:
        names = names_in(self.about.path, call.path.rstrip("/")) or {}
        for what, value in names.items():
            if what == "kind" and value not in WHY_KINDS:
                raise BadQuestion(f"kind: {value[:64]!r} is not one of {', '.join(WHY_KINDS)}, or node/NAME")
            object_name(value, what)
        only_known(call, self.about.parameters)
        asked = namespace_of(call) if self.about.namespaced else names.get("namespace", "")
        return Question(asked, call, names)

    async def answer(self, call: Call) -> Reply:
        question = self._question(call)
        key = (("path", call.path), *sorted(call.query))

        async def ask() -> bytes:
            try:
                document = await self._entry.ask(self._view(), question)
            except NotFound as error:
                raise ObjectMissing(str(error)) from error
            return msgspec.json.encode(_part(document, self._entry.rows, call))

        return Reply(200, await self._shared.answer(key, ask), JSON_TYPE)


def _part(document: Mapping[str, Any], rows: str, call: Call) -> Mapping[str, Any]:
    """By name, those after one, and no more than wanted."""
    if not rows:
        return document
    limit, after = number(call, "limit", 1, MOST_ROWS) or USUAL_ROWS, word(call, "after")
    found = sorted(document[rows], key=_row_key)
    left = [row for row in found if _row_key(row) > _key_of(after)] if after else found
    return {**document, rows: left[:limit], "more": len(left) > limit}


def _row_key(row: Mapping[str, Any]) -> tuple[str, str]:
    return row.get("namespace", ""), row["name"]


def _key_of(text: str) -> tuple[str, str]:
    namespace, _, name = text.rpartition("/")
    return namespace, name


# -- what each answers -------------------------------------------------------------------------------------------------


async def _requests(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    return await view.requests(question.namespace)


async def _pools(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    return view.pools(question.namespace)


async def _classes(view: "OperatorView", question: Question) -> Mapping[str, Any]:  # noqa: ARG001 - they have no namespace
    return view.classes()


async def _budgets(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    return await view.budgets(question.namespace)


async def _nodes(view: "OperatorView", question: Question) -> Mapping[str, Any]:  # noqa: ARG001 - they have no namespace
    return await view.nodes()


async def _cost(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    by = word(question.call, "by") or "provider"
    if by not in BY:
        raise BadQuestion(f"by: {by[:64]!r} is not one of {', '.join(BY)}")
    try:
        return await view.cost(question.namespace, word(question.call, "month"), by)
    except ValueError as error:
        raise BadQuestion(f"month: write 2026-11; {str(error)[:200]}") from error


async def _plan(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    return await view.plan(question.namespace)


async def _why(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    match question.names["kind"]:
        case "request":
            return await view.why_request(question.key)
        case "pod":
            return await view.why_pod(question.key)
        case "pool":
            return await view.why_pool(question.key)
        case _:
            return await view.why_budget(question.key)


async def _why_node(view: "OperatorView", question: Question) -> Mapping[str, Any]:
    return await view.why_node(question.names["name"])


def _listed(name: str, summary: str, kind: str, *, namespaced: bool = True) -> PageDescription:
    parameters = {**(NAMESPACE if namespaced else {}), **LIMIT}
    return PageDescription(
        f"{PREFIX}/{name}", name, summary, kinds=(kind,), parameters=parameters, namespaced=namespaced
    )


MONTH = ({"type": "string", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$"}, "2026-11, in UTC. Default: this month")
ENTRIES: tuple[PageEntry, ...] = (
    PageEntry(
        _listed("requests", "Every request with its machine: as `tgp status -o json`", "StatusReport"),
        "gpurequests",
        _requests,
        "requests",
    ),
    PageEntry(_listed("pools", "Every GPUNodePool", "PoolList"), "gpunodepools", _pools, "items"),
    PageEntry(
        _listed("classes", "Every GPUNodeClass", "ClassList", namespaced=False), "gpunodeclasses", _classes, "items"
    ),
    PageEntry(
        _listed("budgets", "Every GPU-hour budget: as `tgp budgets -o json`", "BudgetList"),
        "gpuworkloadbudgets",
        _budgets,
        "items",
    ),
    PageEntry(
        _listed("nodes", "Every Node with GPUs: as `tgp nodes -o json`", "NodesReport", namespaced=False),
        "machines",
        _nodes,
        "nodes",
    ),
    PageEntry(
        PageDescription(
            f"{PREFIX}/cost",
            "cost",
            "What was spent in a month: as `tgp cost --month … -o json`",
            kinds=("CostReport",),
            parameters={**NAMESPACE, "month": MONTH, "by": ({"enum": list(BY)}, "Default: provider")},
            namespaced=True,
        ),
        "costs",
        _cost,
    ),
    PageEntry(
        PageDescription(
            f"{PREFIX}/plan",
            "plan",
            "What would be bought now for pods that wait: as `tgp plan -o json`",
            kinds=("PodPlan",),
            parameters=NAMESPACE,
            namespaced=True,
            of_leader=True,
        ),
        "plans",
        _plan,
    ),
    PageEntry(
        PageDescription(
            f"{PREFIX}/why/{{kind}}/{{namespace}}/{{name}}",
            "why",
            "Why an object is as it is: as `tgp why KIND/NAME -o json`",
            kinds=("RequestReason", "PodReason", "PoolReason", "BudgetEnquiry"),
            names={"kind": {"enum": list(WHY_KINDS)}, "namespace": OBJECT_NAME, "name": OBJECT_NAME},
            of_leader=True,
        ),
        "explanations",
        _why,
    ),
    PageEntry(
        PageDescription(
            f"{PREFIX}/why/node/{{name}}",
            "whyNode",
            "Why a Node is kept: as `tgp why node/NAME -o json`",
            kinds=("NodeReason",),
            names={"name": OBJECT_NAME},
        ),
        "machines",
        _why_node,
    ),
)


def api_pages(view: Callable[[], "OperatorView"]) -> Sequence[WebPage]:
    return [ApiPage(entry, view) for entry in ENTRIES]
