"""Every condition, reason and Event as a page of the site, read from the code that gives them.

Reasons stand in calls of few names (`CARRIERS`), and in functions that pass on what they are given. The message beside
a reason is shown with … for what is filled in. A reason that is computed otherwise has to stand in `PASSED_ON`, so that
none is overlooked.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tgp.core.model.presence import AccountProblem
from tgp.core.requests.steps import TerminationReason
from tools.steps import ROOT

SOURCE = ROOT / "src" / "tgp"
DOCS = ROOT / "docs"
LOOKED_AT = ("core", "controllers", "adapters/telemetry")
GAP = "…"  # what is filled in
DEPTH = 4  # variables within variables
REQUEST, CLASS, POOL, BUDGET = "GPURequest", "GPUNodeClass", "GPUNodePool", "GPUWorkloadBudget"
LEGACY = "Budgets of gpu-k8s-operator"
EVENTS, PODS = "Events", "Pods that no pool serves"
NOT_REASONS = ("Phases", "Attempts")  # sections of docs/requests.md whose tables explain other words
HEAD = f"""# Conditions, reasons and Events

Made from the code by `make docs`. Alerts and scripts may match a reason; the message beside it is for people, and {GAP}
stands for what is filled in. A condition that an object does not have does not hold. A condition that changes is also
an Event with the same reason, and counts in `tgp_condition_changes_total` ([Metrics](metrics.md)).
"""
EVENTS_HEAD = f"""
## {EVENTS}

Besides those of changed conditions. `kubectl events --for gpurequest/NAME` shows the ones of a request.
"""
PODS_HEAD = f"""
## {PODS}

In Events of the pod (`NotTriggerScaleUp`), in `tgp why pod/NAME`, and in the metric `tgp_unserved_pods`.
"""


@dataclass(frozen=True, slots=True)
class Carrier:
    """A call that gives a reason: what about, and the places of its arguments."""

    chapter: str
    topic: str = ""  # the condition, or whose Event it is; empty: the call itself names the condition
    reason: int = 0
    message: int | None = 1  # None: it adds a message of its own
    words: str = GAP  # that message
    status: str = ""  # of the condition; empty: the call says it, or it varies


CARRIERS: Mapping[str, Carrier] = {
    "ConditionUpdate": Carrier("", "", 2, 3),
    "Gap": Carrier(CLASS, "Ready", status="False"),
    "BootRefused": Carrier(CLASS, "Ready", status="False"),
    "Trouble": Carrier(BUDGET, "Degraded", status="True"),
    "Why": Carrier(REQUEST, "Launched", status="False"),
    "NoPurchase": Carrier(REQUEST, "Launched", status="False"),
    "Wait": Carrier(REQUEST, "Launched", status="False"),
    "Complete": Carrier(REQUEST, "Ended", 1, 2, status="True"),
    "MeshStatus": Carrier(REQUEST, "Connected", 1, 2),
    "Silence": Carrier(REQUEST, "Connected", status="False"),
    "Drain": Carrier(REQUEST, "Drained", 1, 2),
    "DisruptionCause": Carrier(REQUEST, "Disrupted", status="True"),
    "_Block": Carrier(REQUEST, "Disrupted", status="False"),
    "EventMessage": Carrier(EVENTS, REQUEST),
    "BudgetNoted": Carrier(EVENTS, BUDGET, 1, 2),
    "PodEnforced": Carrier(EVENTS, "Pods and Jobs of a budget", 3, 4),
    "DisruptionNoted": Carrier(EVENTS, f"{REQUEST} and Node", 1, 2),
    "PoolReason": Carrier(PODS, PODS, 1, 2),
    "PoolStop": Carrier(POOL, "Limited", status="True"),
}
RETURNED: Mapping[str, Carrier] = {  # functions that return a reason and a message
    "spec_problem": Carrier(BUDGET, "Ready", status="False"),
    "_why_waiting": Carrier(REQUEST, "Launched", status="False"),
}
PREFIXED: Mapping[str, Carrier] = {  # files with texts of the form `Reason: message`
    "core/requests/purchase.py": Carrier(REQUEST, "Launched", status="False"),
    "core/pools/runaway.py": Carrier(PODS, PODS),
}
_PREFIX = re.compile(r"([A-Z][a-z]+[A-Z]\w+): (.*)")
EMITTED = "emit"  # a reason and a message by their names
KINDS = {  # whose conditions the files of a folder write
    "core/classes": CLASS,
    "controllers/joining": CLASS,
    "core/requests": REQUEST,
    "core/disruption": REQUEST,
    "core/pools": POOL,
    "controllers/disruption": POOL,
    "core/budgets": BUDGET,
    "controllers/budgets": BUDGET,
}
TOLD_BY = {"journal.py": "Nodes, pods and pools"}  # of `emit`
PASSED_ON = frozenset(  # reasons that were given elsewhere: the expression that passes them on
    {
        "trouble.reason",
        "gaps[0].reason",
        "gap.reason",
        "error.reason",
        "cause.reason",
        "block.reason",
        "kept.reason",
        "choice.reason",
        "stop.reason",
        "now.trouble.reason",  # of a budget: see its assessment
        "degraded[0].reason",
        "ended.reason",
        "ending.reason",
        "finish.reason",
        "mesh.reason",
        "observation.mesh.reason",
        "step.reason",
        "before.reason",
        "seen.silent.reason",
        "observation.chosen.reason",
        "observation.presence.trouble.value",  # AccountProblem: see ENUMERATED
        "presence.trouble.value",
        "*choice.split(': ', 1)",  # `Reason: message` of one offer
        "refused.partition(': ')",
        "world.refused[uid].partition(': ')",  # of runaway.py: see PREFIXED
        "pool.stopped.partition(': ')",  # of the pool's condition Ready
        "_why_waiting(step)",
        "*problem",  # of spec_problem
        "str(condition.get('reason', ''))",  # read back from a status
        "step.outcome",  # of an attempt
        "fact.reason",
        "fact.outcome",
        "fact.step",
        "said.reason",
    }
)
ENUMERATED: tuple[tuple[str, str, str, frozenset[str]], ...] = (
    (REQUEST, "Terminating", "True", frozenset(reason.value for reason in TerminationReason)),
    (REQUEST, "ProviderReachable", "False", frozenset(each.value for each in AccountProblem) - {"NotAskedYet"}),
)
INTERNAL = {"Gone", "Undecided"}  # never written
PAGES = {REQUEST: ("requests.md",), CLASS: ("market.md", "requests.md"), POOL: ("pools.md",), BUDGET: ("budgets.md",)}
MEANINGS = {  # of conditions that no page has a table for
    CLASS: {
        "AccountChanged": "The API key belongs to another account than the one that machines were bought with.",
        "BootProven": "Machines of these providers have joined this cluster.",
        "CanBuy": "Some offer of its providers could serve it.",
        "CredentialsValid": "The providers accept its API keys.",
        "DeprecatedFields": "It uses fields of early manifests, which go on working.",
        "ImagePreparing": "A Talos image is built or imported; machines are ordered afterwards.",
        "LimitReached": "A limit of the class keeps requests from buying.",
        "MachinesCoolingDown": "Machines you own did not wake, and are tried again later.",
        "MachinesRefused": "Machines you own that are never switched for this class.",
        "OffersFresh": "The offers of its providers are up to date.",
        "OrphanTerminationFailing": "A machine that no request owns is still billed after its termination.",
        "Ready": "Requests of this class may buy.",
        "SpotUnavailable": "It allows spot machines, and none of its providers sells them.",
        "SweepHalted": "More machines without a request than expected: none of them is terminated.",
        "TemplateConverted": "A machine config template of an early version is converted.",
        "TemplateUnchecked": "Parts of a template are passed on to Talos without a check.",
    },
    POOL: {
        "Limited": "A limit of the pool keeps it from buying.",
        "Observing": "It plans and reports, and launches nothing.",
        "Ready": "Machines may be bought for its pods.",
        "RepairHalted": "So many of its nodes are unhealthy that none is replaced for that.",
        "Unsatisfiable": "No machine can match what the pool and its class ask for together.",
    },
    BUDGET: {
        "Degraded": "Something keeps the budget from doing all that it is asked for.",
        "QuotaExceeded": "Its quota is used up.",
        "Ready": "Its use is counted.",
    },
    REQUEST: {
        "Disrupted": "Its pool moves its pods to other machines, or would if nothing kept it from that.",
        "ProviderReachable": "False: the provider cannot be asked, and the state of the machine is unknown.",
        "Ready": "Its Node runs pods.",
        "Terminating": "Its machine is being terminated. It is billed until the provider lists it no more.",
    },
    LEGACY: {
        "Degraded": "Something keeps the budget from being enforced.",
        "Ready": "A GPUWorkloadBudget of tgp counts and enforces it.",
    },
}
REMARKS = {  # what a reason means whose message is computed, in every chapter that has it
    "AccountFull": "More pods are open than the account has room for: the smallest of them are charged as one.",
    "AdmissionUnavailable": "A policy that the budget's `admission` needs is missing, or Kubernetes is too old for it.",
    "AnnotationIgnored": "An annotation cannot be read, and counts as absent. The message names it.",
    "AnotherMesh": "The message names the settings and the mesh by which the machine joins.",
    "BudgetAlert": "A budget's use has reached one of its alerts, or the forecast has.",
    "CannotBoot": "No machine of this provider can boot Talos by the class's `bootPolicy`.",
    "CannotBuy": "No offer can ever serve the class: see the condition `CanBuy`.",
    "ClaimsNotCounted": "Pods get GPUs by resource claims, whose hours are not counted.",
    "Connected": "The machine is in the mesh, and its Node uses the mesh's address.",
    "ConfigTooLarge": "The machine config is larger than the provider's user data may be.",
    "DeprecatedFields": "The message names the fields, and what to write instead.",
    "DisruptionTerminating": "The pods can go elsewhere, and the machine is terminated.",
    "Draining": "Pods are being evicted. The message names those that are waited for.",
    "EvictedPodsRun": "Pods that were evicted still run, and count. The message names them.",
    "EvictionBlocked": "A pod of the budget cannot be evicted now. The message says why, and it is tried again.",
    "GangNotServed": "The gang that it was bought for was given up.",
    "Ill": "Something is wrong with the Node: its GPUs are gone, or a condition of `settings.repair` holds.",
    "ImagePreparing": "The message says which image, and what is waited for.",
    "Inherited": "A budget of this name was deleted, and what it had used counts on.",
    "InvalidSpec": "The message names the field and what is wrong with it.",
    "Joining": "The machine runs, and its Node has not joined yet. The message has the deadline.",
    "KeyMissing": "The Secret has no API key for the provider that keeps the image.",
    "KubeletUnsupported": "The Talos version has a kubelet that the API server does not support.",
    "Leaving": "The provider ends the machine. The message has the time.",
    "LimitReached": "The message has the limit, and what is in use.",
    "MachinesCoolingDown": "The machines you own that fit did not wake, and are tried again later.",
    "MeshRefused": "The mesh refuses the credentials, tags or settings of the class. The message says which.",
    "MeshUnreachable": "The mesh does not answer. A machine that was connected stays Ready.",
    "NetworkingChanged": "The message names both meshes.",
    "NoLongerFits": "The replacement, with room elsewhere, no longer has a place for every pod. The message names one.",
    "NoOfferFits": "No offer fits the pod. The message counts the reasons.",
    "NoSuchMachine": "The message names the requirements that exclude each other.",
    "NodeGone": "The Node is missing. The machine is replaced or terminated if it stays so.",
    "NodeNotReady": "The kubelet reports a problem, or does not report.",
    "NotInitialized": "The Node joined, and its GPUs are not allocatable yet.",
    "NotJoined": "The message has the deadline, after which the next offer is tried.",
    "NotTriggerScaleUp": "No machine is bought for the pod. The message says why, pool by pool.",
    "NotUsable": "The message names each machine and what is wrong with it.",
    "OwnPrice": "The pod pays at most a price of its own, and no machine is that cheap now.",
    "OwnerRecreates": "Pods that were evicted are created again by their owners. The message names these.",
    "PauseBlocked": "Pods or Jobs of the budget cannot be paused now. Their Events say why, and it is tried again.",
    "PauseUnavailable": "Pods that should be paused cannot be. The message says why.",
    "PodDisruptionBudget": "A pod of the machine cannot be evicted now: its budget allows none, or it has several.",
    "PowerFailed": "The message names each machine, and when it is tried again.",
    "Protected": "A pod of the machine is protected from disruption. The message names it.",
    "ProviderUnavailable": "The offers that fit are at providers that cannot be asked, or have no key.",
    "QuotaExhausted": "The provider's quota of searches is used up; the last offers are still used.",
    "RepairHalted": "Too many nodes of the pool are unhealthy at once to replace any of them.",
    "SavingUnproven": "A cheaper machine was found, and the saving has not lasted long enough yet.",
    "Stale": "The offers of a provider could not be read for a while. The message says which and why.",
    "TaintNotTolerated": "Machines exist, and the pod does not tolerate a taint of the pool.",
    "TooManyUnhealthyNodes": "The message counts them. Look for a common cause.",
    "TooSmall": "No machine that fits otherwise is large enough for the pod.",
    "Topology": "Its affinity or spread constraints allow no machine that can be bought.",
    "TriggeredScaleUp": "A machine is ordered for the pod. The message names it, its price and its pool.",
    "Unconsolidatable": "A cheaper machine exists, and the saving is too small for a restart.",
    "Underutilized": "Its pods fit on cheaper machines. The message has the saving.",
    "Unreadable": "This version cannot read the object: it was written by a newer one, or is broken.",
    "Valid": "The message says what was checked.",
    "VolumeNotReady": "A volume of the pod does not exist, or allows no node that could be bought.",
}


@dataclass(frozen=True, order=True, slots=True)
class Given:
    """A reason as one place in the code gives it."""

    chapter: str
    topic: str
    reason: str
    status: str  # of a condition; empty: an Event, or it varies
    message: str
    place: str


class NotUnderstood(Exception):
    """The text names places whose reasons were not found: they belong into CARRIERS or PASSED_ON."""


def given() -> list[Given]:
    files = [_File(path) for root in LOOKED_AT for path in sorted((SOURCE / root).rglob("*.py"))]
    every = {name: value for each in files for name, value in each.values.items()}
    modules = {each.module: each.values for each in files}
    values = {each.place: {**every, **each.imported(modules), **each.values} for each in files}
    shared = {
        name: passed
        for each in files
        for name, passed in each.passing(CARRIERS, values[each.place]).items()
        if name[0] != "_"
    }
    found: set[Given] = set()
    missed: list[str] = []
    for each in files:
        carriers, known = {**CARRIERS, **shared}, values[each.place]
        carriers |= each.passing(carriers, known)
        each.read(carriers, known, found, missed)
        found |= set(each.prefixed(known))
    if missed:
        raise NotUnderstood("\n".join(missed))
    for chapter, topic, status, reasons in ENUMERATED:
        found |= {Given(chapter, topic, reason, status, GAP, "") for reason in reasons}
    return sorted(each for each in found if each.reason not in INTERNAL)


class _File:
    def __init__(self, path: Path) -> None:
        self.place = path.relative_to(SOURCE).as_posix()
        self.tree = ast.parse(path.read_text(encoding="utf-8"))
        self.values = dict(_constants(self.tree))
        self._around: dict[ast.AST, ast.FunctionDef | ast.AsyncFunctionDef] = {}
        for function in ast.walk(self.tree):  # outer ones first, so that the innermost stays
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                self._around |= dict.fromkeys(ast.walk(function), function)

    @property
    def module(self) -> str:
        return "tgp." + self.place.removesuffix(".py").replace("/", ".")

    def imported(self, modules: Mapping[str, Mapping[str, str]]) -> dict[str, str]:
        """Two modules may have a constant of the same name: the one that is imported counts."""
        return {
            each.asname or each.name: values[each.name]
            for node in self.tree.body
            if isinstance(node, ast.ImportFrom) and (values := modules.get(node.module or "")) is not None
            for each in node.names
            if each.name in values
        }

    def passing(self, carriers: Mapping[str, Carrier], values: Mapping[str, str]) -> dict[str, Carrier]:
        """Functions of this file that give the reason which they are given."""
        found: dict[str, Carrier] = {}
        for call, carrier in self._calls(carriers):
            function, reason = self._around.get(call), _argument(call, carrier.reason, "reason")
            names = [each.arg for each in function.args.args if each.arg != "self"] if function is not None else []
            named = [each.id for each in _choices(reason) if isinstance(each, ast.Name) and each.id in names]
            if function is None or not named:
                continue
            message = _argument(call, carrier.message, "message")
            passed = isinstance(message, ast.Name) and message.id in names
            found.setdefault(
                function.name,
                replace(
                    carrier,
                    chapter=carrier.chapter or self._kind(),
                    topic=carrier.topic or self._condition(call, values),
                    reason=names.index(named[0]),
                    message=names.index(message.id) if passed and isinstance(message, ast.Name) else None,
                    words=self._shown(message, call, values) if message is not None else GAP,
                    status=_status(call, carrier),
                ),
            )
        return found

    def read(
        self, carriers: Mapping[str, Carrier], values: Mapping[str, str], found: set[Given], missed: list[str]
    ) -> None:
        for call, carrier in self._calls(carriers):
            reason = _argument(call, carrier.reason, "reason")
            if reason is None:
                continue
            message = _argument(call, carrier.message, "message")
            words = carrier.words if message is None else self._shown(message, call, values)
            texts = self._texts(reason, call, values)
            if texts is None:
                missed.append(f"{self.place}:{call.lineno}: {ast.unparse(reason)}")
                continue
            topic = carrier.topic or self._condition(call, values)
            chapter = carrier.chapter or self._kind()
            for text in texts:
                if text:
                    found.add(Given(chapter, topic, text, _status(call, carrier), words, self.place))

    def prefixed(self, values: Mapping[str, str]) -> Iterator[Given]:
        carrier = PREFIXED.get(self.place)
        if carrier is None:
            return
        for node in ast.walk(self.tree):
            if not isinstance(node, ast.JoinedStr | ast.Constant):
                continue
            text = self._shown(node, node, values)
            first = node.values[0] if isinstance(node, ast.JoinedStr) else None
            reasons: list[str] = []
            if found := _PREFIX.fullmatch(text):
                reasons, text = [found[1]], found[2]
            elif isinstance(first, ast.FormattedValue) and text.startswith(f"{GAP}: "):
                reasons, text = self._texts(first.value, node, values) or [], text.removeprefix(f"{GAP}: ")
            yield from (
                Given(carrier.chapter, carrier.topic, each, carrier.status, text, self.place) for each in reasons
            )

    def _calls(self, carriers: Mapping[str, Carrier]) -> Iterator[tuple[ast.Call, Carrier]]:
        for node in ast.walk(self.tree):
            function = self._around.get(node)
            if isinstance(node, ast.Return) and function is not None and function.name in RETURNED:
                if isinstance(node.value, ast.Tuple):
                    call = ast.copy_location(ast.Call(ast.Name(function.name), node.value.elts, []), node)
                    self._around[call] = function
                    yield call, RETURNED[function.name]
                continue
            if not isinstance(node, ast.Call):
                continue
            name: str = getattr(node.func, "id", "") or getattr(node.func, "attr", "")
            if name == EMITTED:
                yield node, Carrier(EVENTS, TOLD_BY.get(Path(self.place).name, ""), 99, 99)
            elif name in carriers:
                yield node, carriers[name]

    def _kind(self) -> str:
        if "legacy" in self.place:
            return LEGACY
        return next((kind for folder, kind in KINDS.items() if self.place.startswith(folder)), "")

    def _condition(self, call: ast.Call, values: Mapping[str, str]) -> str:
        texts = self._texts(call.args[0], call, values) if call.args else None
        return texts[0] if texts else ""

    def _texts(self, node: ast.AST, call: ast.AST, values: Mapping[str, str], depth: int = DEPTH) -> list[str] | None:
        """The texts that an expression may be; None: not known. Those that are only passed on are left out."""
        if ast.unparse(node) in PASSED_ON or not depth:
            return []
        match node:
            case ast.Constant(value=str(text)):
                return [text]
            case ast.IfExp(body=one, orelse=other):
                parts = [self._texts(each, call, values, depth) for each in (one, other)]
            case ast.BoolOp(values=several):
                parts = [self._texts(each, call, values, depth) for each in several]
            case ast.Attribute() as named:
                member = ast.unparse(named).removesuffix(".value")
                return [values[member]] if member in values else None
            case ast.Name(id=name):
                assigned = self._assigned(name, call)
                if not assigned:
                    if self._is_parameter(name, call):
                        return []  # `passing` has its function
                    known = {**values, **self.values}
                    return [known[name]] if name in known else None
                parts = [self._texts(each, call, values, depth - 1) for each in assigned]
            case _:
                return None
        return None if None in parts else [text for part in parts for text in part or ()]

    def _assigned(self, name: str, call: ast.AST) -> list[ast.expr]:
        """What the function around gives to a variable, in the order of its lines."""
        function = self._around.get(call)
        found: list[ast.expr] = []
        for node in ast.walk(function) if function is not None else ():
            if not isinstance(node, ast.Assign):
                continue
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    found.append(node.value)
                elif isinstance(target, ast.Tuple):
                    names = [getattr(each, "id", "") for each in target.elts]
                    if name in names:
                        together = isinstance(node.value, ast.Tuple)
                        found.append(node.value.elts[names.index(name)] if together else node.value)  # type: ignore[attr-defined]
        return sorted(found, key=_line)

    def _is_parameter(self, name: str, call: ast.AST) -> bool:
        function = self._around.get(call)
        return function is not None and name in {each.arg for each in function.args.args}

    def _shown(self, node: ast.AST, call: ast.AST, values: Mapping[str, str], depth: int = DEPTH) -> str:
        return re.sub(rf"(?:{GAP}[\s,;.]*)*{GAP}", GAP, " ".join(self._raw(node, call, values, depth).split()))

    def _raw(self, node: ast.AST, call: ast.AST, values: Mapping[str, str], depth: int) -> str:
        match node:
            case ast.Constant(value=str(text)):
                return text
            case ast.JoinedStr(values=parts):
                return "".join(self._raw(part, call, values, depth) for part in parts)
            case ast.FormattedValue(value=inner):
                return self._raw(inner, call, values, depth)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._raw(left, call, values, depth) + self._raw(right, call, values, depth)
            case ast.Name(id=name) if depth:
                assigned = [each for each in self._assigned(name, call) if each.lineno <= _line(call)]
                if assigned and isinstance(assigned[-1], ast.JoinedStr | ast.Constant | ast.BinOp):
                    return self._raw(assigned[-1], assigned[-1], values, depth - 1)
                return values.get(name, GAP) if not assigned and not self._is_parameter(name, call) else GAP
        return GAP


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _constants(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Texts by the names of the module, and members of its enumerations."""
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            yield from ((f"{node.name}.{name}", text) for name, text in _assignments(node.body))
    yield from _assignments(tree.body)


def _assignments(body: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    for node in body:
        if not isinstance(node, ast.Assign):
            continue
        for target in node.targets:
            pairs = [(target, node.value)]
            if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
                pairs = list(zip(target.elts, node.value.elts, strict=True))
            for name, value in pairs:
                if isinstance(name, ast.Name) and isinstance(value, ast.Constant) and isinstance(value.value, str):
                    yield name.id, value.value


def _choices(node: ast.expr | None) -> list[ast.expr]:
    """`reason or "Waiting"` is one of two."""
    return node.values if isinstance(node, ast.BoolOp) else [node] if node is not None else []


def _argument(call: ast.Call, place: int | None, name: str) -> ast.expr | None:
    if place is None:
        return None
    named = next((each.value for each in call.keywords if each.arg == name), None)
    if named is not None:
        return named
    starred = next((each for each in call.args if isinstance(each, ast.Starred)), None)
    if starred is not None:
        return starred
    return call.args[place] if place < len(call.args) else None


def _status(call: ast.Call, carrier: Carrier) -> str:
    if carrier.status or carrier is not CARRIERS["ConditionUpdate"]:
        return carrier.status
    match call.args[1]:
        case ast.Constant(value=True):
            return "True"
        case ast.Constant(value=False):
            return "False"
        case ast.Constant(value=None):
            return "Unknown"
    return ""


# -- the page


def markdown() -> str:
    return page_of(given())


def page_of(everything: Sequence[Given]) -> str:
    parts = [HEAD]
    for kind in (REQUEST, CLASS, POOL, BUDGET, LEGACY):
        parts.append(f"\n## {kind}\n")
        topics = sorted({each.topic for each in everything if each.chapter == kind}, key=_first_ready)
        for topic in topics:
            rows = [each for each in everything if (each.chapter, each.topic) == (kind, topic)]
            parts += [f"### {kind}: {topic}\n", meaning(kind, topic) + "\n", *_table(rows, kind, with_status=True), ""]
    for chapter, head in ((EVENTS, EVENTS_HEAD), (PODS, PODS_HEAD)):
        parts.append(head)
        for topic in sorted({each.topic for each in everything if each.chapter == chapter}):
            rows = [each for each in everything if (each.chapter, each.topic) == (chapter, topic)]
            parts += [f"### {topic}\n"] if topic != chapter else []
            parts += [*_table(rows, chapter, with_status=False), ""]
    return "\n".join(parts)


def meaning(kind: str, condition: str) -> str:
    """One sentence; empty: it has none, and needs one in MEANINGS."""
    return MEANINGS.get(kind, {}).get(condition) or _sentence(
        _explained(PAGES.get(kind, ())).get(condition, ("", ""))[1]
    )


def _first_ready(topic: str) -> tuple[bool, str]:
    return topic != "Ready", topic


def _table(rows: Iterable[Given], chapter: str, *, with_status: bool) -> Iterator[str]:
    by_reason: dict[str, list[Given]] = {}
    for row in rows:
        by_reason.setdefault(row.reason, []).append(row)
    explained = _explained(PAGES.get(chapter, ()))
    yield "| reason | status | message |" if with_status else "| reason | message |"
    yield "|---|---|---|" if with_status else "|---|---|"
    for reason, places in by_reason.items():
        texts = dict.fromkeys(place.message for place in places if place.message.strip(f"{GAP}:. "))
        cell = "<br>".join(_cell(text) for text in texts)
        if not cell and reason in explained:
            page, words = explained[reason]
            cell = f"{_sentence(words)} ([more]({page}))"
        cell = cell or REMARKS.get(reason, "")
        status = ", ".join(dict.fromkeys(place.status for place in places if place.status))
        middle = f" {status} |" if with_status else ""
        yield f"| `{reason}` |{middle} {cell or GAP} |"


def _explained(pages: Iterable[str]) -> dict[str, tuple[str, str]]:
    """Word → (page with anchor, what the table says): the first column of tables in docs/."""
    found: dict[str, tuple[str, str]] = {}
    for page in pages:
        for section in re.split(r"^##+ ", (DOCS / page).read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title = section.splitlines()[0]
            if title in NOT_REASONS:
                continue
            anchor = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
            for cells, words in re.findall(r"^\| (`\w+`(?:, `\w+`)*) \| (.*?) \|", section, re.MULTILINE):
                for word in re.findall(r"`(\w+)`", cells):
                    found.setdefault(word, (f"{page}#{anchor}", words.replace("](#", f"]({page}#")))
    return found


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:].rstrip(".") + "." if text else ""


def _cell(text: str) -> str:
    plain = text.replace("&", "&amp;").replace("<", "&lt;").replace("|", "&#124;")
    return re.sub(r"([*_`\[\]{}])", r"\\\1", plain)
