"""What is true of a GPUNodeClass: are its references there, does it contradict itself, could it buy?"""

from collections.abc import Mapping
from dataclasses import dataclass

from tgp.api.common import PROVIDERS, canonical_provider
from tgp.api.nodeclass import GPUNodeClass
from tgp.api.problem import Problem
from tgp.core.model.conditions import Verdict
from tgp.core.rules.beyond_crd import class_problems, deprecated_in, unknown_time_zones
from tgp.core.rules.secrets import KEY_IS_A_FILE, Wanted, how_to_supply, tailscale_configs, wanted_by

OWNED = frozenset(
    {
        "Ready",
        "CredentialsValid",
        "OffersFresh",
        "SpotInert",
        "TemplateConverted",
        "DeprecatedFields",
        "LimitReached",
        "AccountChanged",
        "BootProven",
        "SweepHalted",
        "OrphanStays",
    }
)
SHOWN_PROBLEMS = 3  # a condition is read on a screen; the rest is counted


@dataclass(frozen=True, slots=True)
class ClassSight:
    """All that a verdict on a class may look at."""

    node_class: GPUNodeClass
    secrets: Mapping[str, frozenset[str]]  # the operator's namespace: Secret → its keys; those that are there
    namespace: str  # the operator's own
    default_backend: str  # empty: the operator names none
    time_zones: frozenset[str]  # the IANA names this system has; empty: it cannot tell
    forbidden: frozenset[str] = frozenset()  # Secrets that the operator's role does not let it read


def judge_class(sight: ClassSight) -> tuple[Verdict, ...]:
    node_class = sight.node_class
    wanted = wanted_by(node_class, backend_of(node_class, sight.default_backend))
    missing = tuple(want for want in wanted if not want.found_in(sight.secrets))
    verdicts = [_ready(sight, wanted, missing), _credentials(wanted, missing, sight)]
    if deprecated := deprecated_in(node_class):
        verdicts.append(Verdict("DeprecatedFields", True, "DeprecatedFields", "; ".join(deprecated)))
    return tuple(verdicts)


def could_ask(sight: ClassSight) -> bool:
    """Are the keys of all its providers there, so that what the providers say is the whole truth?"""
    wanted = wanted_by(sight.node_class, backend_of(sight.node_class, sight.default_backend))
    return all(want.found_in(sight.secrets) for want in wanted if want.provider)


def backend_of(node_class: GPUNodeClass, default: str) -> str:
    """The mesh of a class: chosen, else the one that is configured, else the operator's; empty: nobody says."""
    spec = node_class.spec
    if spec.networking is not None and spec.networking.backend:
        return spec.networking.backend
    configs = tailscale_configs(node_class)
    if configs:
        return "headscale" if any(config.login_server for config in configs) else "tailscale"
    talos = (spec.talos_config, *(provider.talos_config for provider in spec.providers))
    if any(config is not None and config.wire_guard_config is not None for config in talos):
        return "wireguard"
    return default


def _ready(sight: ClassSight, wanted: tuple[Wanted, ...], missing: tuple[Wanted, ...]) -> Verdict:
    node_class = sight.node_class
    if foreign := [want for want in wanted if want.namespace not in ("", sight.namespace)]:
        first = foreign[0]
        return _not_ready(
            "ForeignNamespace",
            f"{first.path}.namespace is {first.namespace}, but Secrets are only read from {sight.namespace}: "
            "remove the field, or move the Secret",
        )
    problems = class_problems(node_class)
    if sight.time_zones:
        problems += unknown_time_zones(node_class, sight.time_zones)
    if problems:
        return _not_ready("InvalidSpec", listed(problems))
    if not backend_of(node_class, sight.default_backend):
        return _not_ready(
            "NoNetworking",
            "spec.networking.backend is not set, nothing is configured and the operator names no default: "
            "choose tailscale, headscale, wireguard, kubespan or none",
        )
    enabled = [provider.name for provider in node_class.spec.providers if provider.enabled]
    buyers = [name for name in enabled if canonical_provider(name) in PROVIDERS]
    if enabled and not buyers:  # the schema knows them: it is newer than we are
        return _not_ready("UnknownProvider", f"this version knows nothing of {', '.join(enabled)}: update the operator")
    without_key = {want.provider for want in missing if want.provider}
    if all(name in without_key for name in buyers):
        return _not_ready("CredentialsMissing", "no enabled provider has its API key: see condition CredentialsValid")
    if joining := tuple(want for want in missing if not want.provider):
        return _not_ready("SecretMissing", _how_to_supply(joining, sight))
    if node_class.spec.suspend:
        return Verdict("Ready", True, "Suspended", "spec.suspend is set: nothing is bought; giving back goes on")
    able = ", ".join(name for name in buyers if name not in without_key)
    return Verdict("Ready", True, "Valid", f"everything it refers to is there; providers: {able}")


def _credentials(wanted: tuple[Wanted, ...], missing: tuple[Wanted, ...], sight: ClassSight) -> Verdict:
    keys = tuple(want for want in wanted if want.provider)
    if lacking := tuple(want for want in missing if want.provider):
        return Verdict("CredentialsValid", False, "CredentialsMissing", _how_to_supply(lacking, sight))
    if not keys:
        return Verdict("CredentialsValid", True, "NoneNeeded", "none of its providers needs a key")
    found = ", ".join(want.provider for want in keys)
    return Verdict("CredentialsValid", None, "NotTried", f"a key is there for {found}; no provider was asked yet")


def _how_to_supply(missing: tuple[Wanted, ...], sight: ClassSight) -> str:
    """What is missing, which field asks for it, and the command that supplies it."""
    first = missing[0]
    if first.secret in sight.forbidden:
        return (
            f"{first.path}: the operator may not read Secret {first.secret} in namespace {sight.namespace}: "
            "let its Role get that Secret"
        )
    if first.secret in sight.secrets:
        lacks = f"Secret {first.secret} has no key {first.key}"
    else:
        lacks = f"there is no Secret {first.secret}"
    there, from_file = first.secret in sight.secrets, canonical_provider(first.provider) in KEY_IS_A_FILE
    command = how_to_supply(sight.namespace, first.secret, first.key, there=there, from_file=from_file)
    others = ", ".join(f"{want.secret}/{want.key}" for want in missing[1:4])
    also = f"; missing too: {others}{' and more' if missing[4:] else ''}" if others else ""
    return f"{first.path}: {lacks} in namespace {sight.namespace}. Try: {command}{also}"


def listed(problems: list[Problem]) -> str:
    """The first few, and how many more."""
    shown = "; ".join(str(problem) for problem in problems[:SHOWN_PROBLEMS])
    rest = len(problems) - SHOWN_PROBLEMS
    return shown + (f"; and {rest} more" if rest > 0 else "")


def _not_ready(reason: str, message: str) -> Verdict:
    return Verdict("Ready", False, reason, message)
