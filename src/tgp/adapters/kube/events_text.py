"""What an Event may contain: every reader of the namespace can read it."""

import re

MAX_MESSAGE_BYTES = 1_024  # the bound of events.k8s.io; longer ones only fill etcd

# A last check: nothing secret should come this far. Each pattern matches secrets and none of our texts.
SECRETS = (
    re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)", re.DOTALL),
    re.compile(r"\b(?:Bearer|Basic)\s+[A-Za-z0-9+/_.=~-]{8,}", re.IGNORECASE),
    re.compile(r"\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?"),  # a JSON web token
    re.compile(r"\b(?:tskey|sk|rpa|hskey)[-_][A-Za-z0-9_-]{12,}"),  # Tailscale, generic, RunPod, headscale
    re.compile(r"(?<=://)[^/\s:@]+:[^/\s@]+(?=@)"),  # user and password in a URL
    re.compile(r"\b[a-z0-9]{6}\.[a-z0-9]{16}\b"),  # a Kubernetes bootstrap token
)
NAMED_SECRET = re.compile(r"(?i)\b((?:api[_-]?key|key|token|password|secret)=)[^&\s]+")  # in a query


def scrubbed(text: str) -> str:
    for secret in SECRETS:
        text = secret.sub("***", text)
    return NAMED_SECRET.sub(r"\1***", text)


def bounded(text: str, limit: int = MAX_MESSAGE_BYTES) -> str:
    """At most `limit` bytes of UTF-8, cut between characters, with a mark that it was cut."""
    content = text.encode("utf-8", "replace")
    if len(content) <= limit:
        return content.decode()
    return content[: limit - len("…".encode())].decode("utf-8", "ignore") + "…"
