"""Which requests buy, or would buy again, once nothing holds them back; and which of them come back if deleted.

Pools are not among them: nothing writes requests for them yet.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tgp.api.request import GPURequest
from tgp.core.model.attempts import attempts_of, copied, open_attempt
from tgp.core.model.survey import Survey
from tgp.core.model.typed import Typed
from tgp.core.rules.costs import class_of
from tgp.core.rules.holdings import ENDED, lives, waits

# Labels and annotations by which tools mark what they apply again and again: (key, the tool's name).
KEEPERS = (
    ("argocd.argoproj.io/tracking-id", "Argo CD"),
    ("argocd.argoproj.io/instance", "Argo CD"),
    ("kustomize.toolkit.fluxcd.io/name", "Flux"),
    ("helm.toolkit.fluxcd.io/name", "Flux"),
    ("configsync.gke.io/declared-version", "Config Sync"),
    ("objectset.rio.cattle.io/id", "Fleet"),
    ("meta.helm.sh/release-name", "Helm"),
)

BRAKES = frozenset({"Held", "Suspended"})
# Reasons to wait that no release takes away, and that do not pass by themselves.
ANOTHER_MATTER = frozenset(
    {
        "InvalidSpec",
        "NodeClassNotFound",
        "SeveralDefaultClasses",
        "NodeClassUnreadable",
        "NamespaceNotAllowed",
        "NotInClass",
        "SpotNotAllowed",
    }
)


@dataclass(frozen=True, slots=True)
class Buyer:
    about: str  # request/team/train
    why: str
    at_once: bool  # as soon as it may, rather than when something happens
    keeper: str = ""  # the tool that writes it again when it is deleted; empty: none is known
    node_class: str = ""  # empty: the default one


def buyers(survey: Survey) -> tuple[Buyer, ...]:
    """Whatever would buy if nothing held it back: those that would do so at once come first."""
    return tuple(sorted(_requests(survey), key=lambda buyer: (not buyer.at_once, buyer.about)))


def written_again(survey: Survey) -> tuple[Buyer, ...]:
    """Whatever buys although every request is deleted: tools that keep a cluster as it was write new ones."""
    kept = [
        Buyer(f"request/{record.key}", f"is kept there by {keeper}", at_once=True, keeper=keeper)
        for record in survey.requests
        if lives(record) and (keeper := keeper_of(record.labels, record.annotations))
    ]
    return tuple(sorted(kept, key=lambda buyer: buyer.about))


def unsuspended(survey: Survey, found: tuple[Buyer, ...], but: str = "") -> tuple[Buyer, ...]:
    """Those whose class does not stop them; `but` counts as released."""
    stopped = {
        record.key.name
        for record in survey.classes
        if record.object is not None and record.object.spec.suspend and record.key.name != but
    }
    return tuple(buyer for buyer in found if buyer.node_class not in stopped)


def keeper_of(labels: Mapping[str, str], annotations: Mapping[str, str]) -> str:
    return next((tool for key, tool in KEEPERS if key in labels or key in annotations), "")


def _requests(survey: Survey) -> Iterator[Buyer]:
    for record in survey.requests:
        if record.object is None:
            continue
        why = _why(record)
        if why:
            yield Buyer(
                f"request/{record.key}",
                why,
                waits(record) and _reason(record) not in ANOTHER_MATTER,
                keeper_of(record.labels, record.annotations),
                class_of(record),
            )


def _why(record: Typed[GPURequest]) -> str:
    assert record.object is not None, "only what can be read is judged"
    if waits(record):
        reason = _reason(record)
        return "waits for a machine" + (f" ({reason})" if reason not in {"", *BRAKES} else "")
    if record.deleting or copied(record) or record.object.status.phase in ENDED:
        return ""
    onward = record.object.spec.restart_policy == "OnLoss" and open_attempt(attempts_of(record)) is not None
    return "rents another when its machine is lost (restartPolicy OnLoss)" if onward else ""


def _reason(record: Typed[GPURequest]) -> str:
    """Why it waits; empty: nobody has said so yet."""
    assert record.object is not None, "only what can be read is judged"
    told = record.object.status.conditions
    return next((each.reason for each in told if each.type == "Launched" and each.status != "True"), "")
