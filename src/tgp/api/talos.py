"""How a rented machine becomes a node: Talos, and the mesh it joins by."""

from typing import Annotated, TypeAlias

from tgp.api import cel, values
from tgp.api.common import OAuthSecretRef, SecretKeyRef
from tgp.api.field import ApiStruct, Field, Rule
from tgp.api.pattern import matches

EARLY_DROPPED = "v2"  # the release that no longer reads wireGuardConfig and the other early spellings
TEMPLATE_MAX = 131_072  # characters; Talos refuses user data far smaller than this on most platforms

KEY_PATTERN = r"^[A-Za-z0-9+/]{43}=$"
_KEY_MESSAGE = "must be a WireGuard key: 32 bytes in base64, 44 characters"
WIREGUARD_KEY = cel.reads(KEY_PATTERN, _KEY_MESSAGE)
# On the object, not on the key: a refusal shows the value its rule stands on, and this value is secret.
PRIVATE_KEY = Rule(
    f"!has(self.privateKey) || self.privateKey.matches({cel.quoted(KEY_PATTERN)})",
    _KEY_MESSAGE,
    lambda self, _: "privateKey" not in self or matches(self["privateKey"], KEY_PATTERN),
    field=".privateKey",
)
HOST_PORT = cel.reads(r"^[A-Za-z0-9.:\[\]_-]+:[0-9]{1,5}$", "must be host:port, such as 203.0.113.7:51820")
_TAG = cel.reads(r"^tag:[a-zA-Z][a-zA-Z0-9-]*$", "must begin with tag:, such as tag:gpu")
HOSTNAME = cel.reads(
    r"^[a-zA-Z0-9]([a-zA-Z0-9-]*[a-zA-Z0-9])?$", "must be a host name: letters, digits and '-', no dots"
)
_IMAGE = cel.reads(values.TALOS_IMAGE, values.MESSAGE_TALOS)
_KUBELET = cel.reads(values.TALOS_IMAGE, "must end in a full version: v1.33.1, or ghcr.io/siderolabs/kubelet:v1.33.1")
_SCHEMATIC = cel.reads(r"^[0-9a-f]{64}$", "must be an Image Factory schematic id: 64 hexadecimal digits")
_EXTENSION = cel.reads(
    r"^[a-z0-9][a-z0-9.-]*/[a-z0-9][a-z0-9._-]*$", "must be an extension's name, such as siderolabs/gvisor"
)


TailscaleTags: TypeAlias = Annotated[
    tuple[Annotated[str, Field(max_length=64, rules=(_TAG,))], ...],
    Field(
        doc=(
            "Tailscale tags of the device, each with `tag:` in front, such as tag:gpu. Tailnet ACLs name them. "
            "The OAuth client must own them."
        ),
        max_items=16,
        list_type="set",
    ),
]
Networks: TypeAlias = tuple[Annotated[str, Field(max_length=49, rules=(cel.CIDR,))], ...]
ROUTES = Field(
    doc="Networks the node offers to the mesh, in CIDR form. A tailnet admin must approve them.",
    max_items=32,
    list_type="set",
)


class TailscaleConfig(ApiStruct, frozen=True, kw_only=True):
    """How a machine joins a tailnet, Tailscale's own or a Headscale server's."""

    hostname: Annotated[
        str | None,
        Field(
            doc="The beginning of each device's name; the node's own name follows. Default: the node's name alone.",
            min_length=1,
            max_length=40,
            rules=(HOSTNAME,),
        ),
    ] = None
    tags: TailscaleTags = ()
    ephemeral: Annotated[
        bool | None,
        Field(
            doc="Default true: the tailnet drops a device that is offline; the operator also removes it with its node."
        ),
    ] = None
    accept_routes: Annotated[
        bool | None,
        Field(doc="Default false. True: the node uses the subnet routes that other tailnet devices advertise."),
    ] = None
    advertise_routes: Annotated[Networks, ROUTES] = ()
    login_server: Annotated[
        str | None,
        Field(
            doc="The URL of a Headscale server. Given, the backend is headscale and apiKeySecretRef is needed as well.",
            min_length=1,
            max_length=512,
            rules=(cel.URL,),
        ),
    ] = None
    api_key_secret_ref: Annotated[
        SecretKeyRef | None, Field(doc="The API key of the Headscale server named in loginServer.")
    ] = None
    oauth_credentials_secret_ref: Annotated[
        OAuthSecretRef | None,
        Field(
            doc=(
                "The OAuth client that mints one single-use key per node. "
                "Default: the keys client-id and client-secret of the Secret tgp-operator-secret."
            )
        ),
    ] = None
    auth_key_secret_ref: Annotated[
        SecretKeyRef | None,
        Field(
            doc=(
                "A fixed auth key instead of one per node. Works, with a warning: every machine that ever "
                "held the key can join with it again."
            )
        ),
    ] = None


class WireGuardConfig(ApiStruct, frozen=True, kw_only=True):
    """Deprecated: the plain WireGuard tunnel of early manifests. Each value may stand here or in a Secret."""

    object_rules = (
        PRIVATE_KEY,
        *(
            cel.not_both(name, f"{name}SecretRef", f"set {name} or {name}SecretRef, not both")
            for name in ("privateKey", "publicKey", "serverEndpoint", "allowedIPs", "address")
        ),
    )
    secret_members = ("private_key",)
    private_key: Annotated[
        str | None,
        Field(
            doc="The node's private key. Every user who may read this object can read it: prefer privateKeySecretRef.",
            max_length=44,
        ),
    ] = None
    private_key_secret_ref: Annotated[SecretKeyRef | None, Field(doc="The node's private key, from a Secret.")] = None
    public_key: Annotated[str | None, Field(doc="The server's public key.", max_length=44, rules=(WIREGUARD_KEY,))] = (
        None
    )
    public_key_secret_ref: Annotated[SecretKeyRef | None, Field(doc="The server's public key, from a Secret.")] = None
    server_endpoint: Annotated[
        str | None,
        Field(doc="Where the server listens: host:port.", max_length=261, rules=(HOST_PORT,)),
    ] = None
    server_endpoint_secret_ref: Annotated[
        SecretKeyRef | None, Field(doc="Where the server listens, from a Secret.")
    ] = None
    allowed_ips: Annotated[
        Networks,
        Field(doc="Networks reached through the tunnel, in CIDR form.", max_items=32, list_type="set"),
    ] = ()
    allowed_ips_secret_ref: Annotated[
        SecretKeyRef | None, Field(doc="Networks reached through the tunnel, from a Secret, separated by commas.")
    ] = None
    address: Annotated[
        str | None,
        Field(
            doc="The node's own address in the tunnel, in CIDR form. Serves one node; see addressPool for more.",
            max_length=49,
            rules=(cel.CIDR,),
        ),
    ] = None
    address_secret_ref: Annotated[SecretKeyRef | None, Field(doc="The node's own address, from a Secret.")] = None
    address_pool: Annotated[
        str | None,
        Field(
            doc="A network in CIDR form from which each node gets an address of its own.",
            max_length=49,
            rules=(cel.CIDR,),
        ),
    ] = None


class TalosConfig(ApiStruct, frozen=True, kw_only=True):
    """The operating system of the machines and how they become members of the cluster."""

    object_rules = (
        cel.not_both(
            "extensions", "schematic", "set extensions or schematic, not both: a schematic already names its extensions"
        ),
        cel.not_both(
            "machineConfigTemplate",
            "machineConfigSecretRef",
            "set machineConfigTemplate or machineConfigSecretRef, not both",
        ),
    )
    secret_members = ("machine_config_template",)  # users write tokens into templates
    image: Annotated[
        str | None,
        Field(
            doc=(
                "The Talos version, bare (v1.10.5) or as an image (ghcr.io/siderolabs/talos:v1.10.5); v1.10 to v1.14 "
                "are "
                "supported. Default: the version the cluster's own nodes report, else the operator's talosVersion. "
                "Refused: anything that does not end in a full version."
            ),
            min_length=1,
            max_length=320,
            rules=(_IMAGE,),
        ),
    ] = None
    extensions: Annotated[
        tuple[Annotated[str, Field(max_length=128, rules=(_EXTENSION,))], ...],
        Field(
            doc=(
                "Talos system extensions, such as siderolabs/gvisor. The NVIDIA and Tailscale ones are added "
                "automatically "
                "where the class needs them. Refused together with schematic."
            ),
            max_items=32,
            list_type="set",
        ),
    ] = ()
    schematic: Annotated[
        str | None,
        Field(
            doc="A ready Image Factory schematic id. Refused together with extensions.",
            max_length=64,
            rules=(_SCHEMATIC,),
        ),
    ] = None
    machine_config_template: Annotated[
        str | None,
        Field(
            doc=(
                "A Talos worker machine config. {{.Name}} is replaced by its value for MachineToken, MachineCA, "
                "ClusterCA, "
                "ClusterID, ClusterSecret, ClusterToken, ControlPlaneEndpoint, ClusterName, TailscaleAuthKey (or "
                "AuthKey), "
                "NodeName (or Hostname), NodePool, NodeIndex, PodSubnets, ServiceSubnets and DNSDomain; an unknown "
                "name keeps "
                "the class from becoming Ready. Default: a config generated from the Secret tgp-join. "
                "Refused together with machineConfigSecretRef."
            ),
            min_length=1,
            max_length=TEMPLATE_MAX,
        ),
    ] = None
    machine_config_secret_ref: Annotated[
        SecretKeyRef | None,
        Field(doc="The same template from a Secret. Refused together with machineConfigTemplate."),
    ] = None
    kubelet_image: Annotated[
        str | None,
        Field(
            doc=(
                "The kubelet's image, or its version alone. Default: the API server's own version. "
                "A kubelet newer than the API server keeps the class from becoming Ready."
            ),
            min_length=1,
            max_length=320,
            rules=(_KUBELET,),
        ),
    ] = None
    wire_guard_config: Annotated[
        WireGuardConfig | None,
        Field(doc="Deprecated: a plain WireGuard tunnel. Move to tailscaleConfig.", deprecated=EARLY_DROPPED),
    ] = None
    tailscale_config: Annotated[
        TailscaleConfig | None,
        Field(
            doc=(
                "Accepted here because early manifests have it here; its place is spec.tailscaleConfig. "
                "Refused where the two contradict each other."
            ),
            deprecated=EARLY_DROPPED,
        ),
    ] = None
