"""What differs between the servers that speak Tailscale's API, and the advice that goes with each."""

from dataclasses import dataclass

from tgp.core.model.mesh import MeshSettings

TAILSCALE_API = "https://api.tailscale.com"
AUTH_KEYS, DEVICES = "auth_keys", "devices:core"  # the two scopes that are needed


@dataclass(frozen=True, slots=True)
class ServerFlavour:
    title: str
    credentials: str  # display text: what they are and in which Secret
    renew_advice: str  # what to do when they are refused
    tag_advice: str  # what to do when they do not own a tag
    ids_are_its_own: bool  # device ids are globally unique


def tailscale(settings: MeshSettings) -> ServerFlavour:
    return ServerFlavour(
        title="Tailscale",
        credentials=f"the OAuth client of {where_of(settings)}",
        renew_advice=(
            f"create an OAuth client with the scopes {AUTH_KEYS} and {DEVICES}, both with write access, and put its id "
            "and secret into that Secret"
        ),
        tag_advice=(
            "give the OAuth client exactly these tags, or let one of its tags own each of them in tagOwners of the "
            'tailnet policy file ("tag:tgp-gpu": ["tag:tgp-operator"])'
        ),
        ids_are_its_own=True,
    )


def headscale(settings: MeshSettings) -> ServerFlavour:
    kind = "the API key" if settings.api_key is not None else "the OAuth client"
    return ServerFlavour(
        title="Headscale",
        credentials=f"{kind} of {where_of(settings)}",
        renew_advice=(
            "create one (`headscale apikeys create`; by default it expires after 90 days) and put it into that Secret"
            if settings.api_key is not None
            else f"create an OAuth client with the scopes {AUTH_KEYS} and {DEVICES} (Headscale 0.30 or later)"
        ),
        tag_advice="let one of the client's tags own each of them in tagOwners of Headscale's policy",
        ids_are_its_own=False,  # 1, 2, 3 at every Headscale
    )


def where_of(settings: MeshSettings) -> str:
    """The Secrets that hold the credentials, by name and key."""
    refs = (settings.api_key,) if settings.api_key is not None else (settings.client_id, settings.client_secret)
    named = [ref for ref in refs if ref is not None]
    secrets = dict.fromkeys(ref.secret for ref in named)
    return " and ".join(
        f"Secret {secret} ({', '.join(ref.key for ref in named if ref.secret == secret)})" for secret in secrets
    )
