"""The questions of `tgp init`: only what is missing, and every secret is tried before it is stored.

Without a terminal each missing secret is one line of standard input: API key, OAuth client id, OAuth client secret.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from tgp.api.common import DEFAULT_KEYS, KEY_IS_A_FILE, canonical_provider
from tgp.core.classes.manifest_validation import problems_of
from tgp.core.joining.mesh.detection import mesh_of_config
from tgp.core.joining.mesh.endpoint_reach import out_of_reach
from tgp.core.joining.talos.join_source import Taken, take
from tgp.core.joining.talos.join_values import NotJoinable
from tgp.core.model.gpus import family_members
from tgp.core.model.money import cents, dollars
from tgp.core.model.offer import BootMode
from tgp.core.model.prices import NotAPrice, hourly_microusd
from tgp.core.model.provider_facts import CloudFacts
from tgp.core.model.secret import Secret
from tgp.interfaces.cli import confirm
from tgp.interfaces.cli.check_view import why_not
from tgp.interfaces.cli.class_file import read_text
from tgp.interfaces.cli.interrupt import answer
from tgp.interfaces.cli.output import waiting
from tgp.services.market_answers import KeyVerdict, OfferItem
from tgp.services.preflight_answers import ClusterFinding
from tgp.services.setup_plan import (
    HEADSCALE,
    HEADSCALE_KEY,
    OAUTH_KEYS,
    TAILSCALE,
    ClusterSurvey,
    SetupAnswers,
    TriedProvider,
    class_manifest,
)

if TYPE_CHECKING:
    from tgp.interfaces.cli.context import CliServices, SetupActions

USUAL_CEILING = "2.00"  # dollars per hour
TRIES = 3  # of a key that is refused, of an endpoint out of reach
TALOS_FILES = ("worker.yaml", "secrets.yaml")  # as talosctl gen config and talosctl gen secrets name them
OAUTH_PAGE = "https://login.tailscale.com/admin/settings/oauth"
READ_CONFIG = (
    "talosctl get machineconfig v1alpha1 --nodes NODE --output=jsonpath='{.spec}' > worker.yaml && "
    "tgp init --talos worker.yaml"
)


@dataclass(frozen=True, slots=True)
class SetupOptions:
    """The flags; empty: not given."""

    provider: str = ""
    gpu: str = ""
    mesh: str = ""
    login_server: str = ""
    talos: str = ""
    endpoint: str = ""
    cluster_name: str = ""
    force: bool = False
    max_hourly_cost: str = ""
    pool_namespace: str = ""


@dataclass(slots=True)
class SetupForm:
    services: "CliServices"
    setup: "SetupActions"
    survey: ClusterSurvey
    options: SetupOptions
    gaps: list[ClusterFinding] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def _asking(self) -> bool:
        """Nothing is asked for a cluster in which nothing can be created."""
        return confirm.interactive() and not self.survey.blocking

    async def fill(self) -> SetupAnswers:
        """What is complete only if there are no gaps, in the cluster or here."""
        mesh, server = self._which_mesh()
        home = pool_namespace(self.setup, self.options)
        answers = SetupAnswers(mesh=mesh, login_server=server, pool_namespace=home)
        if not self.survey.classes:
            answers = await self._class(answers)
        if not self.survey.join_there:
            answers = replace(answers, join=self._join())
        if not self.gaps and answers.provider:
            self.gaps += [
                ClusterFinding("class", False, f"{problem.path}: {problem.detail}")
                for problem in problems_of(class_manifest(answers))
            ]
        return answers

    # -- the class ---------------------------------------------------------------------------------------------------

    async def _class(self, answers: SetupAnswers) -> SetupAnswers:
        provider = self._provider()
        keys: dict[str, Secret] = {}
        if provider:
            ceiling = self._ceiling()
            answers = replace(answers, provider=provider, max_hourly_cost=cents(ceiling))
            tried = await self._key(provider, keys)
            if tried is not None:
                answers = replace(answers, gpu=self._gpu(tried, ceiling))
        if answers.mesh in {TAILSCALE, HEADSCALE}:
            if answers.mesh == TAILSCALE:
                self._oauth(keys)
            else:
                self._headscale(keys, answers.login_server)
            if provider and not self.gaps and not self.survey.blocking:
                await self._mesh(answers, keys)
        return replace(answers, keys=keys)

    def _ceiling(self) -> int:
        """In micro-dollars per hour."""
        said = self.options.max_hourly_cost or self._ask(
            "Most dollars per hour for all rented machines together", USUAL_CEILING
        )
        try:
            return hourly_microusd(said.removeprefix("$"))
        except NotAPrice as error:
            raise click.UsageError(f"--max-hourly-cost: {error}; write dollars, such as {USUAL_CEILING}.") from error

    def _provider(self) -> str:
        """Empty: there is a gap."""
        if self.options.provider:
            name = canonical_provider(self.options.provider)
            if name not in DEFAULT_KEYS:
                raise click.UsageError(f"--provider {name}: known are {', '.join(DEFAULT_KEYS)}.")
            return name
        held = [name for name, key in DEFAULT_KEYS.items() if self._held(key) or name in self._terminal_keys()]
        joining = self._joining()
        if found := next((name for name in joining if name in held), None):
            return found
        if self.survey.blocking:
            return ""
        if not self._asking:
            self._gap(
                "API key",
                f"no provider is chosen: {', '.join(joining)} have machines that can join a Talos cluster",
                f"tgp init --provider {joining[0]} < FILE-WITH-THE-KEY",
            )
            return ""
        for name in joining:
            click.echo(f"  {name:<12}{_how(self.services.facts(name))}", err=True)
        return canonical_provider(self._ask("Provider", joining[0]))

    def _joining(self) -> list[str]:
        """The providers whose machines can become nodes; those that boot Talos images first."""
        found = [name for name in DEFAULT_KEYS if _joins(self.services.facts(name))]
        return sorted(found, key=lambda name: BootMode.NATIVE not in self.services.facts(name).boot)

    async def _key(self, provider: str, keys: dict[str, Secret]) -> TriedProvider | None:
        """None: there is a gap."""
        if provider not in DEFAULT_KEYS or not _joins(self.services.facts(provider)):
            words = f"{provider} has no machines that can join a Talos cluster"
            self._gap("provider", words, f"tgp init --provider {self._joining()[0]}")
            return None
        facts, name = self.services.facts(provider), DEFAULT_KEYS[provider]
        known = self._held(name) or self._terminal_keys().get(provider)
        title, why = f"{facts.title} key", ""
        for _ in range(TRIES):
            key = known or self._secret(f"API key of {facts.title}", title, self._how_to(provider, facts))
            if key is None:
                return None
            with waiting(f"trying the key of {facts.title} …"):
                tried = await self.setup.try_provider(provider, key)
            if tried.row.works:
                if not self._held(name):
                    keys[name] = key
                return tried
            why = why_not(tried.row)
            if known or not self._asking or tried.row.key is not KeyVerdict.REFUSED:
                break
            click.echo(f"{facts.title}: {why}", err=True)
        self._gap(title, why, f"tgp check -o wide --provider {provider}")
        return None

    def _how_to(self, provider: str, facts: CloudFacts) -> str:
        if provider in KEY_IS_A_FILE:
            return f"export {facts.key_file_variable}=FILE && tgp init --provider {provider}"
        return f"tgp init --provider {provider} < FILE-WITH-THE-KEY"

    def _gpu(self, tried: TriedProvider, ceiling: int) -> str:
        """A model that is on sale there and that Talos can boot; the cheapest, unless one is named."""
        wanted = family_members(self.options.gpu) if self.options.gpu else ()
        fitting = [offer for offer in tried.offers if not self.options.gpu or offer.gpu in wanted]
        title = tried.row.title
        if not fitting:
            what = f"{self.options.gpu} that Talos can boot" if self.options.gpu else "machine that Talos can boot"
            self._gap("GPU", f"{title} sells no {what} now", "tgp offers --join talos")
            return ""
        best = min(fitting, key=lambda offer: (offer.hourly_microusd, offer.gpu))
        if best.hourly_microusd > ceiling:
            price = dollars(best.hourly_microusd)
            words = f"the cheapest machine is {best.gpu} at {price} per hour, above {dollars(ceiling)}"
            more = cents(best.hourly_microusd, up=True)
            self._gap("GPU", words, f"tgp init --provider {tried.row.provider} --max-hourly-cost {more}")
            return ""
        if self.options.gpu:
            return self.options.gpu
        cheapest: dict[str, OfferItem] = {}
        for offer in sorted(fitting, key=lambda each: each.hourly_microusd):
            if offer.hourly_microusd <= ceiling:
                cheapest.setdefault(offer.gpu, offer)
        prices = ", ".join(f"{gpu} {dollars(offer.hourly_microusd)}" for gpu, offer in list(cheapest.items())[:5])
        self.notes.append(f"GPU models at {title} within the limit, dollars per hour: {prices}")
        return best.gpu

    # -- the mesh ----------------------------------------------------------------------------------------------------

    def _which_mesh(self) -> tuple[str, str]:
        """As the flags say, else as the worker's config or the cluster shows; and the server of Headscale."""
        file = self.options.talos or next((name for name in TALOS_FILES if Path(name).is_file()), "")
        shown = (mesh_of_config(read_text(file)) if file else None) or self.survey.mesh
        server = self.options.login_server or (shown.login_server if shown is not None else "")
        if self.options.mesh or self.options.login_server:
            return self.options.mesh or HEADSCALE, server
        if shown is None:
            return TAILSCALE, ""
        self.notes.append(f"Mesh {shown.backend}: {shown.why}. Another one: --mesh.")
        return shown.backend.value, server

    def _headscale(self, keys: dict[str, Secret], server: str) -> None:
        if not server:
            command = "tgp init --mesh headscale --login-server https://HEADSCALE"
            self._gap("Headscale", "the address of the Headscale server is not known", command)
        elif not self._held(HEADSCALE_KEY):
            why = "no API key: create one with headscale apikeys create"
            command = f"tgp init --login-server {server} < FILE-WITH-THE-KEYS"
            value = self._secret(f"API key of Headscale at {server}", "Headscale", command, why=why)
            keys |= {HEADSCALE_KEY: value} if value is not None else {}

    def _oauth(self, keys: dict[str, Secret]) -> None:
        for name, hidden in zip(OAUTH_KEYS, (False, True), strict=True):
            if self._held(name):
                continue
            label = name.replace("client-", "client ")
            value = self._secret(
                f"Tailscale OAuth {label} ({OAUTH_PAGE})",
                "Tailscale",
                "tgp init --mesh kubespan",
                why=f"no OAuth {label}: create a client at {OAUTH_PAGE} with the scopes auth_keys and devices:core",
                hidden=hidden,
            )
            if value is None:
                return
            keys[name] = value

    async def _mesh(self, answers: SetupAnswers, keys: Mapping[str, Secret]) -> None:
        names = (*OAUTH_KEYS, HEADSCALE_KEY)
        secrets = {name: keys.get(name) or self._held(name) or Secret("") for name in names}
        with waiting("trying the tailnet's credentials …"):
            problems = await self.setup.try_mesh(answers, secrets)
        for problem in problems:
            self._gap(answers.mesh.capitalize(), problem, "tgp mesh policy --help")

    # -- the join Secret ---------------------------------------------------------------------------------------------

    def _join(self) -> Mapping[str, str] | None:
        """None: there is a gap."""
        file = self.options.talos or next((name for name in TALOS_FILES if Path(name).is_file()), "")
        if not file and self._asking:
            file = self._ask("File with a Talos worker config, or with talosctl gen secrets", "")
        if not file:
            self._gap("Talos config", "no worker config, which says how machines join this cluster", READ_CONFIG)
            return None
        endpoint = self.options.endpoint
        try:
            taken = take(read_text(file), endpoint=endpoint, cluster_name=self.options.cluster_name)
        except NotJoinable as error:
            self._gap("Talos config", f"{file}: {'; '.join(error.problems)}", READ_CONFIG)
            return None
        why = "" if self.options.force else _unreachable(taken)
        asked = TRIES if self._asking and not endpoint else 0
        while why and asked:
            asked -= 1
            click.echo(f"Endpoint {why}.", err=True)
            endpoint = self._ask("The API server's address in the mesh (https://…:6443)", "")
            if not endpoint:
                break
            try:
                taken = take(read_text(file), endpoint=endpoint, cluster_name=self.options.cluster_name)
                why = _unreachable(taken)
            except NotJoinable as error:
                why = f"{endpoint}: {'; '.join(error.problems)}"
        if why:
            self._gap("endpoint", why, f"tgp init --talos {file} --endpoint https://ADDRESS-IN-THE-MESH:6443")
            return None
        self.notes.append(f"The join Secret is made from {file}: {taken.source}, without any CA key.")
        return taken.data

    # ----

    def _held(self, key: str) -> Secret | None:
        """A key of the operator's Secret."""
        value = self.survey.secret.values.get(key) if self.survey.secret is not None else None
        return Secret(value) if value else None

    def _terminal_keys(self) -> Mapping[str, Secret]:
        return self.setup.terminal_keys()

    def _secret(
        self, question: str, title: str, command: str, *, why: str = "no key was given", hidden: bool = True
    ) -> Secret | None:
        """None: there is a gap."""
        if self.survey.blocking:
            return None
        if self._asking:
            value = answer(f"{question}:", hidden=hidden)
        else:
            value = sys.stdin.readline().strip()
        if value:
            return Secret(value)
        self._gap(title, why, command)
        return None

    def _ask(self, question: str, usual: str) -> str:
        if not self._asking:
            return usual
        return answer(f"{question}{f' [{usual}]' if usual else ''}:") or usual

    def _gap(self, title: str, words: str, command: str) -> None:
        self.gaps.append(ClusterFinding(title, False, words, command))


def pool_namespace(setup: "SetupActions", options: SetupOptions) -> str:
    return options.pool_namespace or setup.home or "default"


def _unreachable(taken: Taken) -> str:
    """Empty: rented machines may reach it."""
    endpoint = taken.data["endpoint"]
    why = out_of_reach(endpoint)
    return f"{endpoint}: {why}, which a rented machine cannot reach" if why else ""


def _joins(facts: CloudFacts) -> bool:
    return any(mode in {BootMode.NATIVE, BootMode.TAKEOVER} for mode in facts.boot)


def _how(facts: CloudFacts) -> str:
    way = "boots Talos images" if BootMode.NATIVE in facts.boot else "Talos is written over its Linux, not yet proven"
    return f"{facts.title}: {way}"
