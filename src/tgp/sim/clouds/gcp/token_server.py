"""Where the simulated Google Cloud hands out access tokens, for statements that an account signed."""

from datetime import datetime, timedelta
from random import Random
from urllib.parse import parse_qs

from tgp.ports.http import Call, Reply
from tgp.sim.clouds.gcp.answers import answer
from tgp.sim.clouds.gcp.keys import GOOGLES_TOKEN_URI, SKEW_S, BadStatement, KeyFile, claims_of, key_id_of

TOKEN_PATH = "/token"  # noqa: S105 - an address
LASTS_S = 3600
GRANT = "urn:ietf:params:oauth:grant-type:jwt-bearer"
FIELDS_MOST = 16


class TokenServer:
    """Knows the keys of every account, and which tokens were given for them."""

    def __init__(self, luck: Random) -> None:
        self.skew_s: float = SKEW_S
        self._luck = luck
        self._keys: dict[str, KeyFile] = {}  # by key id
        self._addresses = [GOOGLES_TOKEN_URI]  # that a statement may be made out to
        self._tokens: dict[str, tuple[KeyFile, datetime]] = {}  # those that have not ended, and when they do

    def know(self, key: KeyFile) -> None:
        self._keys[key.key_id] = key

    def open_at(self, uri: str) -> str:
        if uri not in self._addresses:
            self._addresses.append(uri)
        return uri

    def signer_of(self, call: Call) -> KeyFile | None:
        """Whose key a statement names. Nothing of it is believed yet."""
        return self._keys.get(key_id_of(_form(call).get("assertion", "")))

    def holder_of(self, bearer: str, now: datetime) -> KeyFile | None:
        """Of a token that has not ended; Google takes a statement signed by the account itself for one, too."""
        held, ends = self._tokens.get(bearer, (None, now))
        if ends > now:
            return held
        signer = self._keys.get(key_id_of(bearer))
        try:
            return signer if signer is not None and claims_of(bearer, signer, now.timestamp(), self.skew_s) else None
        except BadStatement:
            return None

    def answer(self, call: Call, now: datetime, *, known: bool) -> Reply:
        """`known`: the account is there, and its key was not deleted."""
        form = _form(call)
        if call.method != "POST" or form.get("grant_type") != GRANT or "assertion" not in form:
            return _refused("unsupported_grant_type", "Invalid grant_type")
        signer = self.signer_of(call)
        if not known or signer is None:
            return _refused("invalid_grant", "Invalid grant: account not found")
        try:
            claims = claims_of(form["assertion"], signer, now.timestamp(), self.skew_s)
        except BadStatement as problem:
            return _refused("invalid_grant", str(problem))
        if claims.get("aud") not in self._addresses:
            return _refused("invalid_grant", "Invalid JWT: Failed audience check.")
        if not claims.get("scope"):
            return _refused("invalid_scope", "Empty or missing scope not allowed.")
        return answer({"access_token": self._new(signer, now), "expires_in": LASTS_S - 1, "token_type": "Bearer"})

    def _new(self, holder: KeyFile, now: datetime) -> str:
        self._tokens = {old: held for old, held in self._tokens.items() if held[1] > now}
        token = f"ya29.c.{self._luck.getrandbits(512):0128x}"
        self._tokens[token] = holder, now + timedelta(seconds=LASTS_S)
        return token


def _refused(code: str, why: str) -> Reply:
    return answer({"error": code, "error_description": why}, 400)


def _form(call: Call) -> dict[str, str]:
    try:
        fields = parse_qs(call.body.decode("ascii"), max_num_fields=FIELDS_MOST)
    except ValueError:
        return {}
    return {key: values[0] for key, values in fields.items()}
