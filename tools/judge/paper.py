"""Configs to be judged, made from a good one by small changes: `put("machine.type", "init")`."""

import base64
import copy
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from itertools import pairwise
from typing import Any, TypeAlias

from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from tgp.core.joining.talos.document_view import NodeExpectations
from tgp.core.joining.talos.placeholder_values import placeholder_join, placeholder_plan
from tgp.core.joining.talos.render import compose
from tgp.core.joining.talos.stream import read_stream, write_stream
from tgp.core.model.mesh import Backend
from tgp.core.model.talos import TalosVersion

Paper: TypeAlias = list[Any]  # the documents of one config
Change: TypeAlias = Callable[[Paper], Paper | str]  # text, where no documents could say it

_STEP = re.compile(r"([^.\[\]]+)|\[(\d+)\]")
_ED25519 = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))


def good(version: TalosVersion, backend: Backend = Backend.TAILSCALE) -> Paper:
    """What we would hand a machine; a copy of its own for each who asks."""
    return copy.deepcopy(_good(version, backend))


@cache
def _good(version: TalosVersion, backend: Backend) -> Paper:
    text = compose(placeholder_plan(version, backend), placeholder_join(), None).text
    return [document.data for document in read_stream(text)]


def expected(version: TalosVersion, backend: Backend = Backend.TAILSCALE) -> NodeExpectations:
    return NodeExpectations.of(placeholder_plan(version, backend))


def written(paper: Paper | str) -> str:
    return paper if isinstance(paper, str) else write_stream(paper)


def put(path: str, value: Any) -> Change:
    """`kind:path` for a document of its own, `path` alone for the classic one; what is missing on the way is made."""

    def change(paper: Paper) -> Paper:
        document, *steps = _found(paper, path)
        at = document
        for step, following in pairwise(steps):
            if isinstance(at, dict) and not isinstance(at.get(step), dict | list):
                at[step] = [] if isinstance(following, int) else {}
            if isinstance(at, list) and len(at) <= step:
                at.append({})
            at = at[step]
        if isinstance(at, list) and len(at) <= steps[-1]:
            at.append(copy.deepcopy(value))
        else:
            at[steps[-1]] = copy.deepcopy(value)
        return paper

    return change


def drop(path: str) -> Change:
    def change(paper: Paper) -> Paper:
        at, *steps = _found(paper, path)
        for step in steps[:-1]:
            at = at[step]
        del at[steps[-1]]
        return paper

    return change


def add(*documents: Any) -> Change:
    return lambda paper: [*paper, *copy.deepcopy(documents)]


def only(document: dict[str, Any]) -> Change:
    """In place of whatever there is of its kind."""
    return lambda paper: [*(each for each in paper if each.get("kind") != document["kind"]), copy.deepcopy(document)]


def document(kind: str, **said: Any) -> dict[str, Any]:
    return {"apiVersion": "v1alpha1", "kind": kind, **said}


def text(change: Callable[[str], str]) -> Change:
    """For what is no longer YAML, or no longer one meaning."""
    return lambda paper: change(written(paper))


def several(*changes: Change) -> Change:
    def change(paper: Paper) -> Paper | str:
        result: Paper | str = paper
        for one in changes:
            assert not isinstance(result, str)
            result = one(result)
        return result

    return change


def pem(*, authority: bool = True, name: str = "other") -> str:
    """A certificate, as configs hold it. Always the same one."""
    subject = x509.Name([x509.NameAttribute(x509.NameOID.ORGANIZATION_NAME, name)])
    made = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(_ED25519.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2026, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2099, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        .sign(_ED25519, None)
    )
    return base64.b64encode(made.public_bytes(serialization.Encoding.PEM)).decode()


def private_key() -> str:
    """One that signs nothing."""
    plain = serialization.NoEncryption()
    made = _ED25519.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    return base64.b64encode(made).decode()


def _found(paper: Paper, path: str) -> list[Any]:
    kind, colon, within = path.rpartition(":") if path.partition(":")[0].endswith("Config") else ("", "", path)
    steps = [int(index) if index else word for word, index in _STEP.findall(within)]
    if not colon:
        return [paper[0], *steps]
    return [next(each for each in paper if each.get("kind") == kind), *steps]
