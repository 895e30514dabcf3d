"""What can be learned of credentials without changing anything. Pure."""

from tgp.adapters.mesh.control_server import Findings
from tgp.adapters.mesh.tailscale.server_flavour import AUTH_KEYS, DEVICES, ServerFlavour
from tgp.adapters.mesh.tailscale.tokens import TokenScopes

ALL = "all"
ENOUGH = {  # any of these; `devices` is the older, broader scope that clients may still have
    AUTH_KEYS: frozenset({AUTH_KEYS, "devices", ALL}),
    DEVICES: frozenset({DEVICES, "devices", ALL}),
}
USES = {AUTH_KEYS: "make and revoke auth keys", DEVICES: "see and remove devices"}


def judged(grant: TokenScopes, tags: tuple[str, ...], dialect: ServerFlavour) -> Findings:
    """A token comes with its scopes and the client's tags; which tags those own is unknown."""
    if grant.scopes is None:
        note = f"{dialect.title} does not show the scopes of {dialect.credentials}: only read access was tested"
        return Findings(notes=(note, *_about_tags(grant, tags, dialect)))
    problems = tuple(
        f"{dialect.credentials} cannot {use}: it needs the scope {scope}, with write, and has "
        f"{', '.join(sorted(grant.scopes))}"
        for scope, use in USES.items()
        if not grant.scopes & ENOUGH[scope]
    )
    return Findings(problems, _about_tags(grant, tags, dialect))


def _about_tags(grant: TokenScopes, tags: tuple[str, ...], dialect: ServerFlavour) -> tuple[str, ...]:
    if grant.tags is None or grant.tags == set(tags) or not tags or ALL in (grant.scopes or ()):
        return ()
    theirs, ours = ", ".join(sorted(grant.tags)), ", ".join(tags)
    doubt = f"unless its tags own these, {dialect.title} makes no key ({dialect.tag_advice})"
    return (f"{dialect.credentials} has {theirs}, and machines get {ours}: {doubt}",)
