"""Proof of who we are: kept fresh, shown again when refused, and never printed."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.contracts.kube_client.scripted import ScriptedHttp, in_virtual_time
from tgp.adapters.kube.config import ClusterEntry, KubeconfigUser, Material, Plugin
from tgp.adapters.kube.credentials import FILES_READ_EVERY, PLUGIN_REST, Configured, FromPlugin, NoCredentials
from tgp.adapters.kube.credentials_http import AuthenticatedHttp
from tgp.ports.exec import Ended
from tgp.ports.http import Call, NeverLeft, Reply
from tgp.sim.clock import WorldClock
from tgp.sim.exec import ScriptedExec

V1 = "client.authentication.k8s.io/v1"
PLUGIN = Plugin("f: users[0].user.exec", V1, "login", ("--now",), (("REGION", "x"),), "install it from here")
CLUSTER = ClusterEntry("f: clusters[0].cluster", "https://kube", exec_config={"audience": "a"})
GET = Call("GET", "/api")


def the_clock() -> WorldClock:
    return WorldClock(asyncio.get_running_loop())


class Files:
    def __init__(self, **contents: bytes) -> None:
        self.contents: dict[str, bytes] = dict(contents)
        self.reads = 0

    async def read(self, path: str) -> bytes:
        await asyncio.sleep(0)
        self.reads += 1
        if path not in self.contents:
            raise FileNotFoundError(2, "No such file or directory")
        return self.contents[path]


class Login:
    """A credential plugin: hands out token-1, token-2, …"""

    def __init__(self, lives: timedelta | None = None, takes: float = 0.5) -> None:
        self.runs = 0
        self.env: Mapping[str, str] = {}
        self.ending: Ended | None = None
        self.status: dict[str, Any] = {}
        self._lives = lives
        self._takes = takes

    async def __call__(self, argv: tuple[str, ...], env: Mapping[str, str]) -> Ended:
        assert argv == ("login", "--now")
        self.runs += 1
        self.env = env
        await asyncio.sleep(self._takes)
        if self.ending is not None:
            return self.ending
        status: dict[str, Any] = {"token": f"token-{self.runs}", **self.status}
        if self._lives is not None:
            status["expirationTimestamp"] = (the_clock().now() + self._lives).strftime("%Y-%m-%dT%H:%M:%SZ")
        return Ended(0, msgspec.json.encode({"apiVersion": V1, "kind": "ExecCredential", "status": status}), b"")


def from_plugin(login: Login, plugin: Plugin = PLUGIN) -> FromPlugin:
    return FromPlugin(plugin, CLUSTER, the_clock(), ScriptedExec({"login": login}), authority=b"PEM")


async def shown(source: Configured | FromPlugin) -> str:
    return (await source.current()).authorization


class Guard:
    """An API server that accepts only the current token."""

    def __init__(self, accepts: str) -> None:
        self.accepts = accepts
        self.shown: list[str] = []

    def __call__(self, call: Call) -> Reply:
        self.shown.append(call.header("Authorization"))
        return Reply(200 if call.header("Authorization") == f"Bearer {self.accepts}" else 401)


def guarded(source: Configured | FromPlugin, guard: Guard) -> AuthenticatedHttp:
    return AuthenticatedHttp(source, lambda _certificate, _key: ScriptedHttp(guard))


def test_a_token_file_is_read_again_within_a_minute():
    async def deed() -> None:
        files = Files(token=b" one\n")
        source = Configured(KubeconfigUser("u", token_file="token"), the_clock(), files.read)
        assert await shown(source) == "Bearer one"
        files.contents["token"] = b"two"
        await asyncio.sleep(FILES_READ_EVERY - 1)
        assert await shown(source) == "Bearer one"
        await asyncio.sleep(1)
        assert await shown(source) == "Bearer two"
        assert files.reads == 2

    assert FILES_READ_EVERY <= 60
    in_virtual_time(deed())


def test_a_refused_token_is_read_again_at_once():
    async def deed() -> None:
        files, guard = Files(token=b"old"), Guard("old")
        http = guarded(Configured(KubeconfigUser("u", token_file="token"), the_clock(), files.read), guard)
        assert (await http.send(GET)).status == 200
        files.contents["token"], guard.accepts = b"new", "new"
        assert (await http.send(GET)).status == 200
        assert guard.shown == ["Bearer old", "Bearer old", "Bearer new"]

    in_virtual_time(deed())


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
def test_the_same_proof_is_not_shown_twice(method: str):
    async def deed() -> None:
        guard = Guard("another")
        http = guarded(Configured(KubeconfigUser("u", token="mine"), the_clock(), Files().read), guard)
        assert (await http.send(Call(method, "/"))).status == 401
        assert guard.shown == ["Bearer mine"]

    in_virtual_time(deed())


def test_newer_proof_is_shown_once_and_not_for_ever():
    async def deed() -> None:
        login, guard = Login(), Guard("none of these")
        http = guarded(from_plugin(login), guard)
        await asyncio.sleep(PLUGIN_REST + 1)
        assert (await http.send(GET)).status == 401
        await asyncio.sleep(PLUGIN_REST + 1)
        assert (await http.send(GET)).status == 401
        assert guard.shown == ["Bearer token-1", "Bearer token-1", "Bearer token-2"]

    in_virtual_time(deed())


def test_a_stream_is_opened_again_with_newer_proof():
    async def deed() -> None:
        files, guard = Files(token=b"old"), Guard("old")
        http = guarded(Configured(KubeconfigUser("u", token_file="token"), the_clock(), files.read), guard)
        for accepted in ("old", "new"):
            guard.accepts, files.contents["token"] = accepted, accepted.encode()
            async with http.stream(GET, idle=timedelta(seconds=1)) as stream:
                assert stream.status == 200

    in_virtual_time(deed())


def test_a_day_of_rotated_tokens_costs_one_refusal_each():
    """Rotated every ten minutes without warning: every call succeeds, after one more try at most."""

    async def deed() -> None:
        files, guard = Files(token=b"token-0"), Guard("token-0")
        http = guarded(Configured(KubeconfigUser("u", token_file="token"), the_clock(), files.read), guard)
        for turn in range(144):
            guard.accepts = f"token-{turn}"
            files.contents["token"] = guard.accepts.encode()
            for _ in range(10):
                assert (await http.send(GET)).status == 200
                await asyncio.sleep(60)

    in_virtual_time(deed())


def test_a_file_that_vanishes_keeps_its_last_content():
    """A secret volume is swapped by renaming: for a moment there may be nothing."""

    async def deed() -> None:
        files = Files(token=b"one")
        source = Configured(KubeconfigUser("u", token_file="token"), the_clock(), files.read)
        await shown(source)
        for trouble in (None, b"", b"two\nlines"):
            if trouble is None:
                del files.contents["token"]
            else:
                files.contents["token"] = trouble
            await asyncio.sleep(FILES_READ_EVERY + 1)
            assert await shown(source) == "Bearer one"

    in_virtual_time(deed())


@pytest.mark.parametrize("content", [None, b"", b"  \n", b"two words", b"\xff\xfe", b"a\x00b"])
def test_without_a_token_nothing_is_sent(content: bytes | None):
    async def deed() -> None:
        files = Files() if content is None else Files(token=content)
        guard = Guard("x")
        http = guarded(
            Configured(KubeconfigUser("f: users[0].user", token_file="token"), the_clock(), files.read), guard
        )
        with pytest.raises(NeverLeft, match="token"):
            await http.send(GET)
        assert guard.shown == []

    in_virtual_time(deed())


def test_a_password_is_basic_and_no_user_is_anonymous():
    async def deed() -> None:
        basic = Configured(KubeconfigUser("u", username="ann", password="pässword"), the_clock(), Files().read)
        assert await shown(basic) == "Basic YW5uOnDDpHNzd29yZA=="
        assert await shown(Configured(KubeconfigUser("u"), the_clock(), Files().read)) == ""

    in_virtual_time(deed())


def test_a_new_certificate_gets_new_connections_and_old_ones_are_closed():
    async def deed() -> None:
        files, made = Files(crt=b"c0", key=b"k0"), []

        def connect(certificate: bytes, key: bytes) -> ScriptedHttp:
            made.append((certificate, key, ScriptedHttp(Reply(200))))
            return made[-1][2]

        user = KubeconfigUser("u", certificate=Material("c", path="crt"), key=Material("k", path="key"))
        http = AuthenticatedHttp(Configured(user, the_clock(), files.read), connect)
        for turn in range(4):
            files.contents["crt"] = f"c{turn}".encode()
            await asyncio.sleep(FILES_READ_EVERY + 1)
            for _ in range(2):
                await http.send(GET)
        assert [(certificate, key) for certificate, key, _ in made] == [
            (b"c0", b"k0"), (b"c1", b"k0"), (b"c2", b"k0"), (b"c3", b"k0"),
        ]  # fmt: skip
        assert [way.closed for *_, way in made] == [True, True, False, False]
        await http.close()
        assert all(way.closed for *_, way in made)

    in_virtual_time(deed())


def test_impersonation_goes_with_every_call():
    async def deed() -> None:
        inner = ScriptedHttp(Reply(200))
        source = Configured(KubeconfigUser("u", token="t"), the_clock(), Files().read)
        http = AuthenticatedHttp(source, lambda *_: inner, (("Impersonate-User", "ann"),))
        await http.send(GET)
        assert inner.calls[0].header("Impersonate-User") == "ann"
        assert inner.calls[0].header("Authorization") == "Bearer t"

    in_virtual_time(deed())


def test_a_plugin_is_asked_once_for_many_callers():
    async def deed() -> None:
        login = Login(takes=5)
        source = from_plugin(login)
        assert set(await asyncio.gather(*(shown(source) for _ in range(50)))) == {"Bearer token-1"}
        assert login.runs == 1

    in_virtual_time(deed())


def test_a_plugin_slower_than_a_caller_is_still_waited_for_by_the_next():
    async def deed() -> None:
        login, guard = Login(takes=40), Guard("token-1")
        http = guarded(from_plugin(login), guard)
        with pytest.raises(NeverLeft, match="in time"):
            await http.send(GET)  # 30 s
        assert (await http.send(GET)).status == 200
        assert login.runs == 1

    in_virtual_time(deed())


def test_a_plugin_is_asked_again_before_its_credential_expires():
    async def deed() -> None:
        login = Login(lives=timedelta(minutes=15))
        source = from_plugin(login)
        assert await shown(source) == "Bearer token-1"
        await asyncio.sleep(13 * 60)
        assert await shown(source) == "Bearer token-1"
        await asyncio.sleep(70)
        assert await shown(source) == "Bearer token-2", "a minute ahead"

    in_virtual_time(deed())


def test_a_short_life_is_not_spent_on_asking():
    async def deed() -> None:
        login = Login(lives=timedelta(seconds=20))
        source = from_plugin(login)
        await shown(source)
        await asyncio.sleep(15)
        assert await shown(source) == "Bearer token-1"

    in_virtual_time(deed())


def test_a_credential_without_an_end_is_kept_until_it_is_refused():
    async def deed() -> None:
        login, guard = Login(), Guard("token-1")
        http = guarded(from_plugin(login), guard)
        for _ in range(3):
            await asyncio.sleep(86_400)
            assert (await http.send(GET)).status == 200
        guard.accepts = "token-2"
        assert (await http.send(GET)).status == 200
        assert login.runs == 2

    in_virtual_time(deed())


def test_a_plugin_is_told_about_the_cluster_when_it_asks():
    async def deed() -> None:
        login = Login()
        await shown(from_plugin(login))
        assert msgspec.json.decode(login.env["KUBERNETES_EXEC_INFO"]) == {
            "apiVersion": V1,
            "kind": "ExecCredential",
            "spec": {"interactive": False},
        }
        assert login.env["REGION"] == "x"
        asking = Plugin("w", V1, "login", ("--now",), wants_cluster=True)
        await shown(from_plugin(login, asking))
        assert msgspec.json.decode(login.env["KUBERNETES_EXEC_INFO"])["spec"]["cluster"] == {
            "server": "https://kube",
            "certificate-authority-data": "UEVN",
            "config": {"audience": "a"},
        }

    in_virtual_time(deed())


def test_a_plugin_may_give_a_certificate():
    async def deed() -> None:
        login = Login()
        login.status = {"clientCertificateData": "CERT", "clientKeyData": "KEY"}
        found = await from_plugin(login).current()
        assert (found.certificate, found.key) == (b"CERT", b"KEY")

    in_virtual_time(deed())


def answered(status: Any, **changes: Any) -> Ended:
    answer = {"apiVersion": V1, "kind": "ExecCredential", "status": status, **changes}
    return Ended(0, msgspec.json.encode(answer), b"")


@pytest.mark.parametrize(
    ("ending", "why"),
    [
        (Ended(1, b"", b"Token expired. Run: login --again"), "code 1: Token expired. Run: login --again"),
        (Ended(1, b"", b""), "exited with code 1"),
        (Ended(0, b"hello", b""), "JSON"),
        (Ended(0, b"[]", b""), "something other than"),
        (answered({"token": "x"}, apiVersion="client.authentication.k8s.io/v1beta1"), "another apiVersion"),
        (answered(None), "no status"),
        (answered({}), "neither"),
        (answered({"token": 5}), "status.token must be a string"),
        (answered({"token": "two\nlines"}), "not a token"),
        (answered({"clientCertificateData": "c"}), "is missing"),
        (answered({"token": "x", "expirationTimestamp": "soon"}), "expirationTimestamp is not a time"),
        (answered({"token": "x", "expirationTimestamp": "2026-01-01T00:00:00"}), "no time zone"),
    ],
)
def test_a_plugin_that_fails_says_why_and_how_to_get_it(ending: Ended, why: str):
    async def deed() -> None:
        login = Login()
        login.ending = ending
        with pytest.raises(NoCredentials) as caught:
            await from_plugin(login).current()
        assert str(caught.value).startswith("f: users[0].user.exec: login")
        assert why in str(caught.value)
        assert "(install it from here)" in str(caught.value)

    in_virtual_time(deed())


def test_a_plugin_that_is_not_installed_says_how_to_get_it():
    async def deed() -> None:
        source = FromPlugin(PLUGIN, CLUSTER, the_clock(), ScriptedExec())
        with pytest.raises(NoCredentials, match=r"login is not installed \(install it from here\)"):
            await source.current()

    in_virtual_time(deed())


def test_a_plugin_that_fails_is_given_a_rest():
    async def deed() -> None:
        login = Login(takes=0)
        login.ending = Ended(1, b"", b"no")
        source = from_plugin(login)
        for _ in range(20):
            with pytest.raises(NoCredentials):
                await source.current()
            await asyncio.sleep(1)
        assert login.runs == 2

    in_virtual_time(deed())


def test_what_a_plugin_complains_about_is_shown_without_keys():
    async def deed() -> None:
        login = Login()
        login.ending = Ended(1, b"", b"bad token eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.e30.abcdefgh for user ann")
        with pytest.raises(NoCredentials) as caught:
            await from_plugin(login).current()
        assert "bad token *** for user ann" in str(caught.value)

    in_virtual_time(deed())


def test_no_repr_shows_a_secret():
    async def deed() -> None:
        source = Configured(KubeconfigUser("u", token="s3cr3t"), the_clock(), Files().read)
        assert "s3cr3t" not in repr(await source.current())

    in_virtual_time(deed())
