"""The paths that are no resource: health, version, and where discovery and OpenAPI begin."""

from tgp.ports.http import Call, Reply

HEALTH = ("/healthz", "/livez", "/readyz")
TEXT = (("Content-Type", "text/plain; charset=utf-8"),)
NOT_FOUND_PAGE = Reply(404, b"404 page not found\n", TEXT)


def health(call: Call) -> Reply | None:
    """None: not a health path."""
    if not any(call.path == path or call.path.startswith(f"{path}/") for path in HEALTH):
        return None
    if any(name == "verbose" for name, _ in call.query):
        name = call.path.strip("/").partition("/")[0]
        return Reply(200, f"[+]ping ok\n[+]log ok\n[+]etcd ok\n{name} check passed\n".encode(), TEXT)
    return Reply(200, b"ok", TEXT)
