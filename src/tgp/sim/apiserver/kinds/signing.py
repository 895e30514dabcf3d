"""CertificateSigningRequests: the server writes the requester; approval and signing are subresources."""

import base64
import binascii

from tgp.sim.apiserver.core import Write
from tgp.sim.apiserver.json_value import Json, copied, list_at, mapping_at, same
from tgp.sim.apiserver.kinds.strategy import Strategy
from tgp.sim.apiserver.problems import forbidden_field, invalid_value, not_supported, required
from tgp.sim.apiserver.status_errors import Cause

VERDICTS = ("Approved", "Denied")
FOR_GOOD = (*VERDICTS, "Failed")
PEM_HEAD = b"-----BEGIN CERTIFICATE REQUEST-----"
CERTIFICATE_HEAD = b"-----BEGIN CERTIFICATE-----"
USAGES = (
    "any",
    "cert sign",
    "client auth",
    "code signing",
    "content commitment",
    "crl sign",
    "data encipherment",
    "decipher only",
    "digital signature",
    "email protection",
    "encipher only",
    "ipsec end system",
    "ipsec tunnel",
    "ipsec user",
    "key agreement",
    "key encipherment",
    "microsoft sgc",
    "netscape sgc",
    "ocsp signing",
    "s/mime",
    "server auth",
    "signing",
    "timestamping",
)


class SigningStrategy(Strategy):
    def prepare_create(self, write: Write, obj: Json) -> None:
        spec = obj.setdefault("spec", {})
        for name in ("username", "uid", "groups", "extra"):
            spec.pop(name, None)
        user = write.ask.user
        spec["username"] = user.name
        if user.uid:
            spec["uid"] = user.uid
        if user.groups:
            spec["groups"] = list(user.groups)
        if user.extra:
            spec["extra"] = {key: list(values) for key, values in user.extra.items()}
        obj["status"] = {}
        obj["metadata"].pop("managedFields", None)  # the real storage keeps no claims on requests

    def prepare_update(self, write: Write, obj: Json, old: Json) -> None:
        obj["spec"] = old["spec"]
        obj["metadata"].pop("managedFields", None)
        status: Json = copied(mapping_at(obj, "status"))
        before = mapping_at(old, "status")
        if write.subresource == "approval":
            if "certificate" in before:
                status["certificate"] = before["certificate"]
            else:
                status.pop("certificate", None)
        _stamp(write.core.now_text(), before, status)
        if not status.get("conditions"):
            status.pop("conditions", None)
        obj["status"] = status

    def problems(self, write: Write, obj: Json) -> list[Cause]:
        spec = mapping_at(obj, "spec")
        found: list[Cause] = []
        if not spec.get("usages"):
            found.append(required("spec.usages"))
        for index, usage in enumerate(spec.get("usages") or ()):
            if usage not in USAGES:
                found.append(not_supported(f"spec.usages[{index}]", usage, USAGES))
        if not spec.get("signerName"):
            found.append(required("spec.signerName"))
        elif "/" not in spec["signerName"]:
            why = "must be a fully qualified domain and path of the form 'example.com/signer-name'"
            found.append(invalid_value("spec.signerName", spec["signerName"], why))
        if not _is_pem(spec.get("request", ""), PEM_HEAD):
            why = "PEM block type must be CERTIFICATE REQUEST"
            found.append(invalid_value("spec.request", spec.get("request", ""), why))
        seconds = spec.get("expirationSeconds")
        if isinstance(seconds, int) and seconds < 600:
            found.append(
                invalid_value(
                    "spec.expirationSeconds", seconds, "may not specify a duration less than 600 seconds (10 minutes)"
                )
            )
        return found

    def update_problems(self, write: Write, obj: Json, old: Json) -> list[Cause]:
        had = _verdicts(old)
        has = _verdicts(obj)
        found: list[Cause] = []
        remaining = _kinds(obj)
        for name in _kinds(old):
            if name in FOR_GOOD and name not in remaining:
                why = "updates may not remove a condition of type " + f'"{name}"'
                found.append(forbidden_field("status.conditions", why))
        if write.subresource != "approval":
            for name in has:
                if name not in had:
                    why = "updates may not add a condition of type " + f'"{name}"'
                    found.append(forbidden_field("status.conditions", why))
        if len(has) > 1:
            why = "Approved and Denied conditions are mutually exclusive"
            found.append(invalid_value("status.conditions", has[-1], why))
        before, after = mapping_at(old, "status").get("certificate"), mapping_at(obj, "status").get("certificate")
        if after and not before and not _is_pem(after, CERTIFICATE_HEAD):
            why = "must contain at least one CERTIFICATE PEM block"
            found.append(invalid_value("status.certificate", "<certificate data>", why))
        if before and not same(before, after):
            found.append(forbidden_field("status.certificate", "updates may not modify existing certificate content"))
        return found


def _is_pem(text: object, head: bytes) -> bool:
    try:
        return head in base64.b64decode(str(text), validate=True)
    except (binascii.Error, ValueError):
        return False


def _kinds(obj: Json) -> list[str]:
    return [row.get("type", "") for row in list_at(obj, "status", "conditions")]


def _verdicts(obj: Json) -> list[str]:
    return [kind for kind in _kinds(obj) if kind in VERDICTS]


def _stamp(now: str, before: Json, status: Json) -> None:
    """New conditions get their times from the server."""
    known = {row.get("type"): row for row in list_at(before, "conditions")}
    for row in list_at(status, "conditions"):
        row.setdefault("status", "True")
        row["lastUpdateTime"] = row.get("lastUpdateTime") or now
        earlier = known.get(row.get("type"), {})
        unmoved = earlier.get("status") == row.get("status")
        row["lastTransitionTime"] = (
            earlier.get("lastTransitionTime") if unmoved else row.get("lastTransitionTime")
        ) or now
