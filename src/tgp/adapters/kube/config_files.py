"""Finds and reads the configuration: a named file, KUBECONFIG, inside a pod, or the home directory, in that order."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from tgp.adapters.kube.config import (
    ClusterEntry,
    ClusterTarget,
    Kubeconfig,
    KubeconfigUser,
    Material,
    choose,
    merge,
    parse,
)
from tgp.adapters.kube.config_field import ClusterNotConfigured, ConfigInvalid

MAX_FILE_BYTES = 8 << 20  # a kubeconfig with hundreds of clusters is below one megabyte
ACCOUNT = "/var/run/secrets/kubernetes.io/serviceaccount"

ReadFile = Callable[[str], bytes]


def read_file(path: str) -> bytes:
    """The whole of a small file. Raises OSError."""
    with Path(path).open("rb") as file:
        content = file.read(MAX_FILE_BYTES + 1)
    if len(content) > MAX_FILE_BYTES:
        raise OSError(0, "the file is too large")
    return content


def find_target(
    explicit: str = "",
    context: str = "",
    environment: Mapping[str, str] | None = None,
    read: ReadFile = read_file,
) -> ClusterTarget:
    """The cluster to talk to. Raises ConfigInvalid, which lists the searched places."""
    env = os.environ if environment is None else environment
    if explicit:
        return choose(_load(explicit, read), context)
    if listed := env.get("KUBECONFIG", ""):
        return choose(_load_list(listed, read), context)
    if not context and (inside := in_cluster(env, read)) is not None:
        return inside
    home = str(Path(env.get("HOME", "~")) / ".kube" / "config")
    try:
        content = read(home)
    except FileNotFoundError:
        raise ClusterNotConfigured(
            f"no cluster is configured: no kubeconfig was named, KUBECONFIG is not set, this is not a pod, and {home} "
            "does not exist"
        ) from None
    except OSError as error:
        raise ConfigInvalid(f"{home}: {error.strerror}") from None
    return choose(parse(content, home), context)


def in_cluster(env: Mapping[str, str], read: ReadFile = read_file) -> ClusterTarget | None:
    """The API server as a pod finds it; None: not in a pod, or without a ServiceAccount token."""
    host, port = env.get("KUBERNETES_SERVICE_HOST", ""), env.get("KUBERNETES_SERVICE_PORT", "")
    if not host or not port:
        return None
    try:
        read(f"{ACCOUNT}/token")
        namespace = read(f"{ACCOUNT}/namespace").decode().strip()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError):
        raise ConfigInvalid(f"{ACCOUNT}: the ServiceAccount's files cannot be read") from None
    shown = f"[{host}]" if ":" in host else host
    authority = Material(f"{ACCOUNT}/ca.crt", path=f"{ACCOUNT}/ca.crt")
    return ClusterTarget(
        ClusterEntry("KUBERNETES_SERVICE_HOST", f"https://{shown}:{port}", authority=authority),
        KubeconfigUser(ACCOUNT, token_file=f"{ACCOUNT}/token"),
        namespace or "default",
        "",
    )


def _load(path: str, read: ReadFile) -> Kubeconfig:
    absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - Path.absolute keeps "..", resolve follows links
    try:
        return parse(read(absolute), absolute)
    except OSError as error:
        raise ConfigInvalid(f"{absolute}: {error.strerror or 'cannot be read'}") from None


def _load_list(listed: str, read: ReadFile) -> Kubeconfig:
    """KUBECONFIG's files; a missing one is skipped, as kubectl does, unless all are missing."""
    found: list[Kubeconfig] = []
    for path in dict.fromkeys(part for part in listed.split(os.pathsep) if part):
        absolute = os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111 - as above
        try:
            found.append(parse(read(absolute), absolute))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise ConfigInvalid(f"{absolute}: {error.strerror or 'cannot be read'}") from None
    if not found:
        raise ConfigInvalid(f"KUBECONFIG names no file that exists: {listed}")
    return merge(found)
