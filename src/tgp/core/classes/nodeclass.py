"""What a GPUNodeClass refers to: what is missing or contradicts itself, and how to fix it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from tgp.api.common import KEY_IS_A_FILE, PROVIDERS, canonical_provider
from tgp.api.field_error import FieldError
from tgp.api.nodeclass import GPUNodeClass
from tgp.core.classes.semantic_validation import (
    class_problems,
    deprecated_in,
    unknown_time_zones,
)
from tgp.core.joining.mesh.selection import backend_of
from tgp.core.model.class_secrets import WantedKey, how_to_supply, wanted_by
from tgp.core.model.conditions import ConditionUpdate
from tgp.core.model.labels import LabelRequirement, selector

SHOWN_GAPS = 6  # in one condition
ALLOWED_REQUIRED = "tgp.io/require-allowed-namespaces"  # on the operator's Namespace; absent: it does not
SHOWN_PROBLEMS = 3  # a condition is read on a screen; the rest is counted


class Gap(msgspec.Struct, frozen=True):
    """One thing that keeps a class from buying: a condition's reason and message, and the command that fixes it."""

    reason: str
    message: str
    command: str = ""  # empty: the message says what to do

    def __str__(self) -> str:
        return f"{self.message}. Try: {self.command}" if self.command else f"{self.message}."


class ClassPreflight(msgspec.Struct, frozen=True):
    """Could machines of the class boot and join? Found out before money is spent."""

    gaps: tuple[Gap, ...] = ()  # why not; empty: nothing was found
    converted: ConditionUpdate | None = None  # how an old template was converted; None: no conversion
    unchecked: ConditionUpdate | None = None  # what only Talos can check, on a machine; None: all was checked


class ClassReferences(msgspec.Struct, frozen=True):
    """A class, and what exists of the things that it refers to."""

    node_class: GPUNodeClass
    secrets: Mapping[str, frozenset[str]]  # the operator's namespace: Secret → its keys; those that are there
    namespace: str  # the operator's own
    default_backend: str  # empty: the operator has none
    time_zones: frozenset[str]  # the IANA names this system has; empty: they are unknown
    forbidden: frozenset[str] = frozenset()  # Secrets that the operator's role does not let it read


def deprecated_fields(node_class: GPUNodeClass) -> ConditionUpdate | None:
    deprecated = deprecated_in(node_class)
    return ConditionUpdate("DeprecatedFields", True, "DeprecatedFields", "; ".join(deprecated)) if deprecated else None


def keys_exist(references: ClassReferences) -> bool:
    """Do the API keys of all its providers exist, so that the providers' answers are complete?"""
    return all(want.found_in(references.secrets) for want in _wanted(references) if want.provider)


def not_ready(gaps: Sequence[Gap]) -> ConditionUpdate:
    """All gaps in one condition, under the reason of the first."""
    if len(gaps) == 1:
        return ConditionUpdate("Ready", False, gaps[0].reason, str(gaps[0]))
    listed_ = " ".join(f"({number}) {gap}" for number, gap in enumerate(gaps[:SHOWN_GAPS], 1))
    rest = f" tgp check lists {len(gaps) - SHOWN_GAPS} more." if gaps[SHOWN_GAPS:] else ""
    return ConditionUpdate("Ready", False, gaps[0].reason, f"{len(gaps)} problems: {listed_}{rest}")


def gaps_of(references: ClassReferences) -> tuple[Gap, ...]:
    """Everything about the class itself that keeps it from buying, in the order in which to fix it."""
    return tuple(_gaps(references))


def missing_keys(references: ClassReferences) -> tuple[Gap, ...]:
    """API keys that are missing, one gap for each Secret; a class buys where it has one."""
    keys = [want for want in _missing(_wanted(references), references) if want.provider]
    return tuple(_supplies("CredentialsMissing", keys, references))


def valid_message(references: ClassReferences) -> str:
    """Of a class without gaps: where it can buy."""
    without_key = {want.provider for want in _missing(_wanted(references), references) if want.provider}
    enabled = (each.name for each in references.node_class.spec.providers if each.enabled)
    able = ", ".join(name for name in enabled if canonical_provider(name) in PROVIDERS and name not in without_key)
    return f"All references of the class exist; providers: {able}."


def credentials_found(references: ClassReferences) -> ConditionUpdate:
    """CredentialsValid of keys that no provider has checked yet."""
    wanted = _wanted(references)
    if missing := [want for want in _missing(wanted, references) if want.provider]:
        message = " ".join(map(str, _supplies("CredentialsMissing", missing, references)))
        return ConditionUpdate("CredentialsValid", False, "CredentialsMissing", message)
    found = ", ".join(want.provider for want in wanted if want.provider)
    if not found:
        return ConditionUpdate("CredentialsValid", True, "NoneNeeded", "No provider of the class needs an API key.")
    return ConditionUpdate(
        "CredentialsValid", None, "NotTried", f"API key found for {found}; not checked with the provider yet."
    )


def _wanted(references: ClassReferences) -> tuple[WantedKey, ...]:
    return wanted_by(references.node_class, backend_of(references.node_class, references.default_backend))


def _missing(wanted: Iterable[WantedKey], references: ClassReferences) -> tuple[WantedKey, ...]:
    return tuple(want for want in wanted if not want.found_in(references.secrets))


def _gaps(references: ClassReferences) -> Iterator[Gap]:
    node_class, wanted = references.node_class, _wanted(references)
    missing = _missing(wanted, references)
    for want in wanted:
        if want.namespace not in ("", references.namespace):
            yield Gap(
                "ForeignNamespace",
                f"{want.path}.namespace is {want.namespace}, but Secrets are only read from {references.namespace}: "
                "remove the field, or move the Secret",
            )
    problems = class_problems(node_class)
    if references.time_zones:
        problems += unknown_time_zones(node_class, references.time_zones)
    if problems:
        yield Gap("InvalidSpec", listed(problems))
    if not backend_of(node_class, references.default_backend):
        yield Gap(
            "NoNetworking",
            "spec.networking.backend is not set, no mesh is configured and the operator has no default: "
            "choose tailscale, headscale, wireguard, kubespan or none",
        )
    enabled = [provider.name for provider in node_class.spec.providers if provider.enabled]
    buyers = [name for name in enabled if canonical_provider(name) in PROVIDERS]
    if enabled and not buyers:  # the schema knows them: it is newer than we are
        yield Gap("UnknownProvider", f"this version does not support {', '.join(enabled)}: upgrade the operator")
    without_key = {want.provider for want in missing if want.provider}
    if buyers and all(name in without_key for name in buyers):
        yield from _supplies("CredentialsMissing", [want for want in missing if want.provider], references)
    yield from _supplies("SecretMissing", [want for want in missing if not want.provider], references)


def _supplies(reason: str, missing: Iterable[WantedKey], references: ClassReferences) -> Iterator[Gap]:
    """Secret by Secret: which keys are missing, which fields refer to them, and the command that adds them."""
    by_secret: dict[tuple[str, bool], dict[str, WantedKey]] = {}
    for want in missing:
        from_file = canonical_provider(want.provider) in KEY_IS_A_FILE
        by_secret.setdefault((want.secret, from_file), {}).setdefault(want.key, want)
    for (secret, from_file), wants in by_secret.items():
        paths = ", ".join(dict.fromkeys(want.path for want in wants.values()))
        if secret in references.forbidden:
            yield Gap(
                reason,
                f"{paths}: the operator may not read Secret {secret} in namespace {references.namespace}: "
                "add get on that Secret to the operator's Role",
            )
            continue
        there, keys = secret in references.secrets, ", ".join(wants)
        gap = f"Secret {secret} has no key {keys}" if there else f"Secret {secret} does not exist"
        command = how_to_supply(references.namespace, secret, *wants, there=there, from_file=from_file)
        yield Gap(reason, f"{paths}: {gap} in namespace {references.namespace}", command)


def listed(problems: list[FieldError]) -> str:
    """The first few, and how many more."""
    shown = "; ".join(str(problem) for problem in problems[:SHOWN_PROBLEMS])
    rest = len(problems) - SHOWN_PROBLEMS
    return shown + (f"; and {rest} more" if rest > 0 else "")


def allowed_namespaces_required(annotations: Mapping[str, str]) -> bool:
    """Whether the operator runs with requireAllowedNamespaces, as its Namespace says."""
    return annotations.get(ALLOWED_REQUIRED) == "true"


def namespace_allowed(node_class: GPUNodeClass, labels: Mapping[str, str], *, required: bool) -> bool:
    """Does the class serve a namespace with these labels?

    `required`: a class without allowedNamespaces serves no namespace.
    """
    allowed = node_class.spec.allowed_namespaces
    if allowed is None:
        return not required
    expressions = (LabelRequirement(row.key, row.operator, row.values) for row in allowed.match_expressions)
    return selector(allowed.match_labels, expressions).selects(labels)
