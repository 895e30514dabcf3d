"""What is true of a GPUNodeClass: are its references there, does it contradict itself, could it buy?"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
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
        "CanBuy",
        "CredentialsValid",
        "OffersFresh",
        "SpotInert",
        "TemplateConverted",
        "TemplateUnchecked",
        "DeprecatedFields",
        "LimitReached",
        "AccountChanged",
        "BootProven",
        "ImagePreparing",
        "SweepHalted",
        "OrphanStays",
    }
)
SHOWN_GAPS = 6  # in one condition
SHOWN_PROBLEMS = 3  # a condition is read on a screen; the rest is counted


@dataclass(frozen=True, slots=True)
class Gap:
    """One thing that keeps a class from buying: the reason of a condition, in words, and the command that closes it."""

    reason: str
    message: str
    command: str = ""  # empty: the message says what to do

    def __str__(self) -> str:
        return f"{self.message}. Try: {self.command}" if self.command else self.message


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
    missing = _missing(wanted, sight)
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


def not_ready(gaps: Sequence[Gap]) -> Verdict:
    """All of them at once, under the reason of the first."""
    if len(gaps) == 1:
        return Verdict("Ready", False, gaps[0].reason, str(gaps[0]))
    listed_ = "; ".join(f"({number}) {gap}" for number, gap in enumerate(gaps[:SHOWN_GAPS], 1))
    rest = f"; and {len(gaps) - SHOWN_GAPS} more: tgp check lists all" if gaps[SHOWN_GAPS:] else ""
    return Verdict("Ready", False, gaps[0].reason, f"{len(gaps)} things are missing: {listed_}{rest}")


def gaps_of(sight: ClassSight) -> tuple[Gap, ...]:
    """Everything about the class itself that keeps it from buying, in the order in which to close it."""
    wanted = wanted_by(sight.node_class, backend_of(sight.node_class, sight.default_backend))
    return tuple(_gaps(sight, wanted, _missing(wanted, sight)))


def missing_keys(sight: ClassSight) -> tuple[Gap, ...]:
    """API keys that are missing, one gap for each Secret; a class buys where it has one."""
    wanted = wanted_by(sight.node_class, backend_of(sight.node_class, sight.default_backend))
    keys = [want for want in _missing(wanted, sight) if want.provider]
    return tuple(_supplies("CredentialsMissing", keys, sight))


def _missing(wanted: Iterable[Wanted], sight: ClassSight) -> tuple[Wanted, ...]:
    return tuple(want for want in wanted if not want.found_in(sight.secrets))


def _gaps(sight: ClassSight, wanted: tuple[Wanted, ...], missing: tuple[Wanted, ...]) -> Iterator[Gap]:
    node_class = sight.node_class
    for want in wanted:
        if want.namespace not in ("", sight.namespace):
            yield Gap(
                "ForeignNamespace",
                f"{want.path}.namespace is {want.namespace}, but Secrets are only read from {sight.namespace}: "
                "remove the field, or move the Secret",
            )
    problems = class_problems(node_class)
    if sight.time_zones:
        problems += unknown_time_zones(node_class, sight.time_zones)
    if problems:
        yield Gap("InvalidSpec", listed(problems))
    if not backend_of(node_class, sight.default_backend):
        yield Gap(
            "NoNetworking",
            "spec.networking.backend is not set, nothing is configured and the operator names no default: "
            "choose tailscale, headscale, wireguard, kubespan or none",
        )
    enabled = [provider.name for provider in node_class.spec.providers if provider.enabled]
    buyers = [name for name in enabled if canonical_provider(name) in PROVIDERS]
    if enabled and not buyers:  # the schema knows them: it is newer than we are
        yield Gap("UnknownProvider", f"this version knows nothing of {', '.join(enabled)}: update the operator")
    without_key = {want.provider for want in missing if want.provider}
    if buyers and all(name in without_key for name in buyers):
        yield from _supplies("CredentialsMissing", [want for want in missing if want.provider], sight)
    yield from _supplies("SecretMissing", [want for want in missing if not want.provider], sight)


def _ready(sight: ClassSight, wanted: tuple[Wanted, ...], missing: tuple[Wanted, ...]) -> Verdict:
    node_class = sight.node_class
    if gaps := tuple(_gaps(sight, wanted, missing)):
        return not_ready(gaps)
    if node_class.spec.suspend:
        return Verdict("Ready", True, "Suspended", "spec.suspend is set: nothing is bought; giving back goes on")
    without_key = {want.provider for want in missing if want.provider}
    enabled = (each.name for each in node_class.spec.providers if each.enabled)
    able = ", ".join(name for name in enabled if canonical_provider(name) in PROVIDERS and name not in without_key)
    return Verdict("Ready", True, "Valid", f"everything it refers to is there; providers: {able}")


def _credentials(wanted: tuple[Wanted, ...], missing: tuple[Wanted, ...], sight: ClassSight) -> Verdict:
    keys = tuple(want for want in wanted if want.provider)
    if lacking := tuple(want for want in missing if want.provider):
        told = "; ".join(map(str, _supplies("CredentialsMissing", lacking, sight)))
        return Verdict("CredentialsValid", False, "CredentialsMissing", told)
    if not keys:
        return Verdict("CredentialsValid", True, "NoneNeeded", "none of its providers needs a key")
    found = ", ".join(want.provider for want in keys)
    return Verdict("CredentialsValid", None, "NotTried", f"a key is there for {found}; no provider was asked yet")


def _supplies(reason: str, missing: Iterable[Wanted], sight: ClassSight) -> Iterator[Gap]:
    """Secret by Secret: which keys are missing, which fields ask for them, and the command that supplies them."""
    by_secret: dict[tuple[str, bool], dict[str, Wanted]] = {}
    for want in missing:
        from_file = canonical_provider(want.provider) in KEY_IS_A_FILE
        by_secret.setdefault((want.secret, from_file), {}).setdefault(want.key, want)
    for (secret, from_file), wants in by_secret.items():
        paths = ", ".join(dict.fromkeys(want.path for want in wants.values()))
        if secret in sight.forbidden:
            yield Gap(
                reason,
                f"{paths}: the operator may not read Secret {secret} in namespace {sight.namespace}: "
                "let its Role get that Secret",
            )
            continue
        there, keys = secret in sight.secrets, ", ".join(wants)
        lacks = f"Secret {secret} has no key {keys}" if there else f"there is no Secret {secret}"
        command = how_to_supply(sight.namespace, secret, *wants, there=there, from_file=from_file)
        yield Gap(reason, f"{paths}: {lacks} in namespace {sight.namespace}", command)


def listed(problems: list[Problem]) -> str:
    """The first few, and how many more."""
    shown = "; ".join(str(problem) for problem in problems[:SHOWN_PROBLEMS])
    rest = len(problems) - SHOWN_PROBLEMS
    return shown + (f"; and {rest} more" if rest > 0 else "")
