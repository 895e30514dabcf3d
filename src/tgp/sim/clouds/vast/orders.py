"""`PUT /api/v0/asks/{id}/`: what an order may say, read as the documentation describes it."""

from dataclasses import dataclass
from typing import Any

from tgp.sim.clouds.stock import Product
from tgp.sim.clouds.vast.answers import VastError

TEXTS = ("image", "template_hash_id", "label", "onstart", "args_str", "jupyter_dir", "user", "image_login", "extra")
SWITCHES = ("cancel_unavail", "vm", "use_jupyter_lab", "python_utf8", "lang_utf8", "force")
OTHERS = ("client_id", "disk", "runtype", "target_state", "price", "env", "args", "volume_info", "template_id")
FIELDS = frozenset((*TEXTS, *SWITCHES, *OTHERS))
RUN_TYPES = frozenset(
    [
        "ssh",
        "jupyter",
        "args",
        "ssh_proxy",
        "ssh_direct",
        "ssh_direc",
        "jupyter_proxy",
        "jupyter_direct",
        "jupyter_direc",
    ]
)
LABEL_MAX = 256
START_MAX = 4096  # onstart and args together
ENV_MAX, ENV_ENTRY_MAX = 32_768, 256
DISK_LEAST, DISK_DEFAULT = 8.0, 10.0
PRICE_LEAST, PRICE_MOST = 0.001, 128.0
VM_IMAGES = "docker.io/vastai/kvm"


@dataclass(frozen=True, slots=True)
class VastOrder:
    image: str
    label: str
    disk: float
    price_microusd: int | None  # None: on demand
    cancel_unavail: bool
    target_state: str
    runtype: str
    env: tuple[tuple[str, str], ...]
    onstart: str
    args: tuple[str, ...]
    vm: bool


def read(body: dict[str, Any], product: Product, *, ssh_keys: bool) -> VastOrder:
    _known_fields(body)
    order = VastOrder(
        image=_text(body, "image"),
        label=_text(body, "label"),
        disk=_disk(body, product),
        price_microusd=_price(body),
        cancel_unavail=_cancel_unavail(body),
        target_state=_one_of(body, "target_state", ("running", "stopped"), "running"),
        runtype=_runtype(body),
        env=_env(body.get("env")),
        onstart=_text(body, "onstart"),
        args=_args(body.get("args")),
        vm=body.get("vm") is True,
    )
    if not order.image and not _text(body, "template_hash_id"):
        raise _invalid("image is required")
    if len(order.label) > LABEL_MAX:
        raise _invalid(f"label is longer than {LABEL_MAX}")
    if len(order.onstart) + sum(map(len, order.args)) > START_MAX:
        raise _invalid(f"onstart and args together are longer than {START_MAX}")
    _check_vm(order, product, ssh_keys=ssh_keys)
    return order


def _known_fields(body: dict[str, Any]) -> None:
    if unknown := sorted(name for name in set(body) - FIELDS if body[name] is not None):
        raise _invalid(f"unknown field {unknown[0]}")
    if body.get("client_id", "me") != "me":
        raise _invalid("client_id is me")
    for name in SWITCHES:
        if not isinstance(body.get(name), bool | None):
            raise _invalid(f"{name} is true or false")


def _check_vm(order: VastOrder, product: Product, *, ssh_keys: bool) -> None:
    if not order.vm and not order.image.startswith(VM_IMAGES):
        return
    if not product.detail["vms_enabled"]:
        raise _invalid("this machine runs no virtual machines")
    if not order.image.startswith(VM_IMAGES) or "ssh" not in order.runtype:
        raise _invalid(f"virtual machines boot images of {VM_IMAGES}, with ssh")
    if not ssh_keys:
        raise VastError(400, "no_ssh_key_for_vm", "error 400: add an SSH key to the account before renting a VM")


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str | None):
        raise _invalid(f"{name} is a text")
    return value or ""


def _disk(body: dict[str, Any], product: Product) -> float:
    disk = body.get("disk", DISK_DEFAULT)
    if isinstance(disk, bool) or not isinstance(disk, int | float) or not DISK_LEAST <= disk <= product.disk_gib:
        raise _invalid(f"disk is a number of GB from {DISK_LEAST:g} to {product.disk_gib}")
    return float(disk)


def _price(body: dict[str, Any]) -> int | None:
    price = body.get("price")
    if price is None:
        return None
    if isinstance(price, bool) or not isinstance(price, int | float) or not PRICE_LEAST <= price <= PRICE_MOST:
        raise VastError(400, "invalid_price", f"price is a number from {PRICE_LEAST} to {PRICE_MOST:g}")
    return round(price * 1_000_000)


def _cancel_unavail(body: dict[str, Any]) -> bool:
    """False for bids unless asked for: a bid that cannot start then waits, stopped, and its disk costs."""
    raw = body.get("cancel_unavail")
    if raw is not None:
        return bool(raw)
    return body.get("price") is None and body.get("target_state", "running") == "running"


def _one_of(body: dict[str, Any], name: str, allowed: tuple[str, ...], default: str) -> str:
    value = body.get(name)
    if value is None:
        return default
    if value not in allowed:
        raise _invalid(f"{name} is one of {', '.join(allowed)}")
    return str(value)


def _runtype(body: dict[str, Any]) -> str:
    value = body.get("runtype")
    if value is None:
        return "args" if body.get("args") or body.get("args_str") else "ssh"
    if not isinstance(value, str) or not value.split() or not set(value.split()) <= RUN_TYPES:
        raise _invalid(f"runtype is one of {', '.join(sorted(RUN_TYPES))}")
    return value


def _env(value: Any) -> tuple[tuple[str, str], ...]:
    if value is None:
        return ()
    if not isinstance(value, dict) or not all(isinstance(each, str) for each in value.values()):
        raise _invalid("env is an object of texts")
    lengths = [len(name) + len(text) for name, text in value.items()]
    if sum(lengths) > ENV_MAX:
        raise _invalid("invalid env arguments, total length > 32KB")
    if any(length > ENV_ENTRY_MAX for length in lengths):
        raise _invalid(f"an env entry is longer than {ENV_ENTRY_MAX}")
    return tuple(value.items())


def _args(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise _invalid("args is a list of texts")
    return tuple(value)


def _invalid(why: str) -> VastError:
    return VastError(400, "invalid_args", f"error 400: Invalid args: {why}")
