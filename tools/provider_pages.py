"""What a user asks first about a provider, for its page of the site: can it boot Talos, which key, which settings.

Made from the adapter's facts, the fields of a class and the date of the adapter's price table.
"""

import tomllib
from collections.abc import Iterator

from tgp.adapters.clouds.registry import facts_of
from tgp.api.kinds import KINDS
from tgp.api.nodeclass import REQUIRED_SETTINGS, SETTING_OF
from tgp.core.model.class_secrets import OPERATOR_SECRET
from tgp.core.model.offer import BootMode
from tgp.core.model.provider_facts import CloudFacts
from tools.reference import entries
from tools.steps import ROOT

ADAPTERS = ROOT / "src" / "tgp" / "adapters" / "clouds"
VERDICTS = {
    BootMode.NATIVE: "**Boots Talos.** The provider starts a Talos image, and the machine config is its user data.",
    BootMode.TAKEOVER: (
        "**Not proven.** A machine boots the vendor's Linux, which Talos then overwrites ([Takeover](../takeover.md)). "
        "No successful case is known yet; `bootPolicy: Native` in a class leaves such machines out."
    ),
    BootMode.CONTAINER: (
        "**Cannot run Talos.** The provider starts containers. Its offers are listed and priced, and never bought."
    ),
    BootMode.POWER: (
        "**Yours already.** The machines are nodes of the cluster; they are switched on and off "
        "([Machines you own](../webhook.md))."
    ),
}
EXAMPLES = {"sshKeyName": "my-key", "image": "talos-v1-11"}  # of settings that a class needs


def with_head(text: str, provider: str) -> str:
    """The adapter's own page with the answers in front of it."""
    title, _, rest = text.partition("\n")
    return "\n".join((title, "", *_head(facts_of(provider)), "", "## The facts behind it", rest))


def _head(facts: CloudFacts) -> Iterator[str]:
    yield from (VERDICTS[mode] for mode in facts.boot)
    yield ""
    yield "No paid account was tried yet." if facts.key_variable else "It needs no account."
    yield ""
    yield "| | |"
    yield "|---|---|"
    yield from (f"| {name} | {words} |" for name, words in _rows(facts))
    yield ""
    if facts.boot not in ((BootMode.CONTAINER,), (BootMode.POWER,)):
        yield "A class that rents here:"
        yield ""
        yield f"```yaml\n{manifest(facts)}```"


def _rows(facts: CloudFacts) -> Iterator[tuple[str, str]]:
    yield "name in a class", f"`{facts.provider}`"
    if facts.key_variable:
        others = "".join(f", also `{name}`" for name in facts.other_key_variables)
        yield "API key", f"`{facts.key_variable}` in Secret `{OPERATOR_SECRET}`; in a terminal the variable{others}"
        yield "without a key", "prices can be read" if facts.public_offers else "nothing can be read"
    yield "prices", _prices(facts)
    yield "spot machines", "yes" if facts.sells_spot else "no"
    if facts.longest_run is not None:
        yield "ends a machine by itself", f"yes, after at most {facts.longest_run.days} days, also without the operator"
    else:
        yield "ends a machine by itself", "no: without an operator a machine runs and costs until you terminate it"
    needed = _needed(facts.provider)
    for name, words in _settings(facts.provider):
        yield f"`settings.{name}`", f"**Needed**: {words}" if name in needed else words
    for note in facts.notes:
        yield "not confirmed", note


def _prices(facts: CloudFacts) -> str:
    table = ADAPTERS / facts.provider / "prices.toml"
    if table.is_file():
        read = tomllib.loads(table.read_text(encoding="utf-8"))
        return f"from a table of {read.get('priced_on') or read['dated']}: its API returns none"
    return "what you write in the class" if facts.boot == (BootMode.POWER,) else "from its API"


def _needed(provider: str) -> list[str]:
    return [name for name in EXAMPLES if provider in SETTING_OF[name] and provider in REQUIRED_SETTINGS]


def _settings(provider: str) -> Iterator[tuple[str, str]]:
    kind = next(kind for kind in KINDS if kind.resource.kind == "GPUNodeClass")
    docs = {entry.path.rpartition(".")[2]: entry.doc for entry in entries(kind) if ".settings." in entry.path}
    for name, owners in SETTING_OF.items():
        if provider in owners:
            yield name, docs[name].partition(": ")[2].replace("|", "\\|")


def manifest(facts: CloudFacts) -> str:
    """A class that is accepted as it is, with what this provider needs."""
    lines = ["apiVersion: tgp.io/v1", "kind: GPUNodeClass", "metadata:", "  name: gpus", "spec:", "  providers:"]
    lines.append(f"    - name: {facts.provider}")
    if needed := _needed(facts.provider):
        lines.append("      settings:")
        lines += [f"        {name}: {EXAMPLES[name]}" for name in needed]
    lines += ["  tailscaleConfig:", '    tags: ["tag:tgp-gpu"]']
    lines += ["  limits:", "    maxNodes: 1", '    maxHourlyCost: "2.00"']
    return "\n".join(lines) + "\n"
