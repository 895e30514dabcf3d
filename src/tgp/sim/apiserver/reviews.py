"""Reviews: questions about a user's identity and rights. Nothing is stored."""

from datetime import timedelta

from tgp.sim.apiserver.authentication import Authentication
from tgp.sim.apiserver.core import Core, Write, time_text
from tgp.sim.apiserver.field_manager import own_after_update
from tgp.sim.apiserver.identity import MASTERS, ApiUser
from tgp.sim.apiserver.json_value import Json, copied, mapping_at
from tgp.sim.apiserver.problems import invalid_value
from tgp.sim.apiserver.rbac import AccessAttempt, authorize, grants
from tgp.sim.apiserver.registry import Served
from tgp.sim.apiserver.status_errors import bad_request, invalid
from tgp.sim.apiserver.verbs.read import get

MIN_TOKEN_SECONDS = 600
MAX_TOKEN_SECONDS = 1 << 32
DEFAULT_TOKEN_SECONDS = 3600
DEFAULT_AUDIENCE = "https://kubernetes.default.svc"  # the issuer, as --api-audiences defaults to


def review(write: Write, authentication: Authentication, sent: Json) -> Json:
    """The review with its status filled in."""
    core, served, user = write.core, write.served, write.ask.user
    spec = mapping_at(sent, "spec")
    answer = _owned(write, sent)
    match served.kind:
        case "TokenReview":
            answer["status"] = _token_status(authentication, spec)
        case "SelfSubjectReview":
            answer["status"] = {"userInfo": user_info(user)}
        case "SelfSubjectAccessReview":
            answer["status"] = _access_status(core, user, spec)
        case "SelfSubjectRulesReview":
            answer["status"] = _rules_status(core, user, str(spec.get("namespace", "")))
        case _:
            answer["status"] = _subject_status(core, served, write.namespace, spec)
    return answer


def _owned(write: Write, sent: Json) -> Json:
    """The question as it came, with who asked it."""
    kept = {key: value for key, value in sent.items() if key in {"metadata", "spec"}}
    question: Json = copied({"kind": write.served.kind, "apiVersion": write.served.api_version, **kept})
    question.setdefault("metadata", {})
    if write.served.kind == "SelfSubjectReview":
        question["metadata"]["creationTimestamp"] = write.core.now_text()
    else:
        own_after_update(write, {}, question)
    return question


def user_info(user: ApiUser) -> Json:
    info: Json = {"username": user.name}
    if user.uid:
        info["uid"] = user.uid
    if user.groups:
        info["groups"] = list(user.groups)
    if user.extra:
        info["extra"] = {key: list(values) for key, values in user.extra.items()}
    return info


def _token_status(authentication: Authentication, spec: Json) -> Json:
    token = spec.get("token")
    if not isinstance(token, str) or not token:
        raise bad_request("token is required for TokenReview in authentication")
    user = authentication.user_of(token)
    if user is None:
        return {"user": {}, "error": "[invalid bearer token, token lookup failed]"}
    issued = authentication.tokens.get(token)
    asked = tuple(spec.get("audiences") or (DEFAULT_AUDIENCE,))
    known = (issued.audiences if issued else ()) or (DEFAULT_AUDIENCE,)
    shared = [audience for audience in asked if audience in known]
    if not shared:
        return {"user": {}, "error": "[invalid bearer token, token audiences do not match]"}
    return {"authenticated": True, "user": user_info(user), "audiences": shared}


def _subject_status(core: Core, served: Served, namespace: str, spec: Json) -> Json:
    resource = spec.get("resourceAttributes")
    if (
        served.kind == "LocalSubjectAccessReview"
        and mapping_at(spec, "resourceAttributes").get("namespace") != namespace
    ):
        why = invalid_value(
            "spec.resourceAttributes.namespace",
            mapping_at(resource or {}).get("namespace", ""),
            "must match metadata.namespace",
        )
        raise invalid(served.group, "", "", [why])
    if not spec.get("user") and not spec.get("groups"):
        why = invalid_value("spec.user", "", "at least one of user or group must be specified")
        raise invalid(served.group, "", "", [why])
    user = ApiUser(str(spec.get("user", "")), tuple(spec.get("groups") or ()), str(spec.get("uid", "")))
    return _access_status(core, user, spec)


def _access_status(core: Core, user: ApiUser, spec: Json) -> Json:
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if bool(resource) == bool(path):
        text = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        why = invalid_value("spec.resourceAttributes", None, text)
        raise invalid("authorization.k8s.io", "", "", [why])
    if path:
        attempt = AccessAttempt(str(path.get("verb", "")), path=str(path.get("path", "")))
    else:
        asked = mapping_at(spec, "resourceAttributes")
        attempt = AccessAttempt(
            str(asked.get("verb", "")),
            str(asked.get("group", "")),
            str(asked.get("resource", "")),
            str(asked.get("subresource", "")),
            str(asked.get("name", "")),
            str(asked.get("namespace", "")),
        )
    verdict = authorize(core, user, attempt)
    status: Json = {"allowed": verdict.allowed}
    if verdict.reason:
        status["reason"] = verdict.reason
    return status


def _rules_status(core: Core, user: ApiUser, namespace: str) -> Json:
    if not namespace:
        raise bad_request("no namespace on request")
    rules = [rule for grant in grants(core, user, namespace) for rule in grant.rules]
    if MASTERS in user.groups:
        rules.append({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]})
        rules.append({"verbs": ["*"], "nonResourceURLs": ["*"]})
    return {
        "resourceRules": [rule for rule in rules if not rule.get("nonResourceURLs")],
        "nonResourceRules": [rule for rule in rules if rule.get("nonResourceURLs")],
        "incomplete": False,
    }


def request_token(write: Write, authentication: Authentication, sent: Json) -> Json:
    """serviceaccounts/token: a token with an end."""
    core, namespace, name = write.core, write.namespace, write.name
    account = get(core, write.served, namespace, name)
    spec = mapping_at(sent, "spec")
    seconds = spec.get("expirationSeconds", DEFAULT_TOKEN_SECONDS)
    if seconds < MIN_TOKEN_SECONDS:
        why = "may not specify a duration less than 10 minutes"
        raise invalid(
            "authentication.k8s.io", "TokenRequest", "", [invalid_value("spec.expirationSeconds", seconds, why)]
        )
    seconds = min(seconds, MAX_TOKEN_SECONDS)
    audiences = tuple(spec.get("audiences") or (DEFAULT_AUDIENCE,))
    token, expires = authentication.issue(account.obj, timedelta(seconds=seconds), audiences)
    answer = _owned(write.as_kind("authentication.k8s.io", "v1", "TokenRequest"), {"spec": {**spec}})
    answer["metadata"] |= {
        "name": name,
        "namespace": namespace,
        "uid": account.obj["metadata"]["uid"],
        "creationTimestamp": core.now_text(),
    }
    bound = spec.get("boundObjectRef")
    answer["spec"] = {"audiences": list(audiences), "expirationSeconds": seconds, "boundObjectRef": bound}
    answer["status"] = {"token": token, "expirationTimestamp": time_text(expires)}
    return answer
