"""A Headscale on one computer: its own relay, its own files, an API key for its user.

It speaks TLS, and on the usual port. A client that was cut off lately takes port 443 whatever the server's URL says, so
without it a machine that restarts would be kept out for the wrong reason.
"""

import json
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from http.client import HTTPResponse
from pathlib import Path

from tools.controlplane.certificates import Authority
from tools.lan.host import Host, wait_for

PORT = 443
RELAY_PORT = 3478
START_BOUND_S = 30.0
ANSWER_BOUND_S = 10.0


class HeadscaleServer:
    """Listening, and with the API key of an administrator."""

    def __init__(self, host: Host, program: Path, tags: tuple[str, ...] = ("tag:gpu",), policy: str = "") -> None:
        """`policy` empty: all devices may reach each other."""
        self.host = host
        self._tags = tags
        self.url = f"https://{host.address}"
        authority = Authority()
        self.authority = host.folder / "authority.pem"  # whom clients have to trust
        self.authority.write_bytes(authority.pair.certificate)
        self._serving = host.folder / "serving.pem", host.folder / "serving.key"
        pair = authority.serving(host.address)
        for path, content in zip(self._serving, (pair.certificate, pair.key), strict=True):
            path.write_bytes(content)
        self._config = host.folder / "headscale.yaml"
        self._policy = host.folder / "policy.json"
        owners = {tag: ["tgp@"] for tag in tags}
        everything = {"action": "accept", "src": ["*"], "dst": ["*:*"]}
        self._policy.write_text(policy or json.dumps({"tagOwners": owners, "acls": [everything]}))
        self._config.write_text(json.dumps(self._settings()))  # JSON is YAML
        self._program = host.start("headscale", [str(program), "serve", "--config", str(self._config)])
        wait_for(self._is_up, START_BOUND_S, lambda: f"Headscale did not answer. {self._program.tail()}")
        asked = (str(program), "apikeys", "create", "--config", str(self._config), "--output", "json")
        self.api_key: str = json.loads(host.run(*asked))

    def a_key(self, *tags: str) -> str:
        """One that lets one machine in, minted without any client of ours."""
        given = list(tags or self._tags)
        body = {"reusable": False, "ephemeral": True, "aclTags": given, "expiration": "2100-01-01T00:00:00Z"}
        asked = urllib.request.Request(  # noqa: S310 - our own address
            f"{self.url}/api/v1/preauthkey",
            json.dumps(body).encode(),
            {"Authorization": f"Bearer {self.api_key}", "Content-Type": "application/json"},
        )
        with self._opened(asked, ANSWER_BOUND_S) as reply:
            key: str = json.load(reply)["preAuthKey"]["key"]
        return key

    def trusting(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=str(self.authority))

    @contextmanager
    def _opened(self, asked: urllib.request.Request | str, bound_s: float) -> Iterator[HTTPResponse]:
        with (
            self.host.inside(),
            urllib.request.urlopen(asked, timeout=bound_s, context=self.trusting()) as reply,  # noqa: S310 - our own
        ):
            yield reply

    def _is_up(self) -> bool:
        self._program.must_live()
        try:
            with self._opened(f"{self.url}/health", 1.0) as reply:
                return reply.status == HTTPStatus.OK
        except (urllib.error.URLError, OSError):
            return False

    def _settings(self) -> dict[str, object]:
        own = self.host.folder
        return {
            "server_url": self.url,
            "listen_addr": f"0.0.0.0:{PORT}",
            "tls_cert_path": str(self._serving[0]),
            "tls_key_path": str(self._serving[1]),
            "metrics_listen_addr": "127.0.0.1:9090",
            "grpc_listen_addr": "127.0.0.1:50443",
            "unix_socket": "/run/headscale.sock",
            "unix_socket_permission": "0770",
            "noise": {"private_key_path": str(own / "noise.key")},
            "prefixes": {"v4": "100.64.0.0/10", "v6": "fd7a:115c:a1e0::/48", "allocation": "sequential"},
            "database": {"type": "sqlite", "sqlite": {"path": str(own / "headscale.sqlite")}},
            "dns": {"magic_dns": False, "override_local_dns": False, "base_domain": "lan.example"},
            "policy": {"mode": "file", "path": str(self._policy)},
            "disable_check_updates": True,
            "logtail": {"enabled": False},
            "derp": {
                "urls": [],
                "paths": [],
                "auto_update_enabled": False,
                "server": {
                    "enabled": True,
                    "region_id": 999,
                    "region_code": "lan",
                    "region_name": "lan",
                    "stun_listen_addr": f"0.0.0.0:{RELAY_PORT}",
                    "private_key_path": str(own / "relay.key"),
                    "automatically_add_embedded_derp_region": True,
                    "ipv4": self.host.address,
                },
            },
        }
