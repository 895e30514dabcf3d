"""An account as one string for a status: a version, a checksum, and compressed columns. Lossless."""

import zlib
from base64 import b64decode, b64encode

import msgspec

from tgp.api.budget import ACCOUNT_MAX
from tgp.api.pattern import matches
from tgp.core.budgets.account import BUCKETS, HOURS_KEPT, PEAKED, REST, SERIES, BudgetAccount, OpenPod
from tgp.core.budgets.period import read_period
from tgp.core.budgets.spans import UID_BYTES
from tgp.core.model.arrays import Ints, np

VERSION = "1"
_NONE = -1
_UNIT = 8  # bytes
SPARE = 95  # percent of what should fit is tried: pods differ in how they compress


class NotAnAccount(ValueError):
    """The text is damaged, or no account at all."""


class NewerAccount(ValueError):
    """A newer version of the operator wrote it: it must be left alone."""


class _Packed(msgspec.Struct, array_like=True):
    at: int
    version: int
    width: int
    newest: int
    newest_hour: int
    sums: tuple[bytes, ...]
    peaks: tuple[bytes, ...]
    hourly: tuple[bytes, ...]
    uids: bytes
    open: tuple[bytes, ...]  # starts, amounts, prices, until when they are sure
    ended: dict[bytes, int]
    period: str = ""
    reset_at: int = 0
    cut: tuple[bytes, ...] = ()  # of the open ones: first starts, what was used before; empty: none was cut


def packed_to_fit(account: BudgetAccount) -> tuple[str, int]:
    """An account that is never too long for its field, and how many open pods are charged as one for that.

    Those that ended just now are left out before the last open pods are: the version of the list tells of them, too.
    """
    text, kept, copy = pack(account), len(account.open), account
    while len(text) > ACCOUNT_MAX and kept > 0:
        kept = min(kept - 1, kept * SPARE * ACCOUNT_MAX // (100 * len(text)))
        copy = account.with_rest(kept)
        if len(copy.ended) > kept:
            copy.ended = {}
        text = pack(copy)
    return text, len(account.open) - len(copy.open) + (REST in copy.open)


def pack(account: BudgetAccount) -> str:
    pods = list(account.open.values())
    columns = (
        [_NONE if pod.start is None else pod.start for pod in pods],
        [pod.milli for pod in pods],
        [_NONE if pod.rate is None else pod.rate for pod in pods],
        [_NONE if pod.sure_until is None else pod.sure_until for pod in pods],
    )
    packed = _Packed(
        account.at,
        account.version,
        account.width,
        account.newest,
        account.newest_hour,
        tuple(_column(row) for row in account.sums),
        tuple(_column(row) for row in account.peaks),
        tuple(_column(row) for row in account.hourly),
        b"".join(account.open),
        tuple(_column(np.array(column, np.int64)) for column in columns),
        account.ended,
        "" if account.period is None else str(account.period),
        account.reset_at,
        _cuts(pods) if any(pod.first is not None for pod in pods) else (),
    )
    document = msgspec.msgpack.encode(packed)
    body = zlib.crc32(document).to_bytes(4, "big") + zlib.compress(document, 6)
    return f"{VERSION}.{b64encode(body).decode()}"


def unpack(text: str) -> BudgetAccount:
    """Raises NewerAccount or NotAnAccount."""
    version, _, encoded = text.partition(".")
    if version != VERSION:
        newer = matches(version, r"^[0-9]{1,9}$") and int(version) > int(VERSION)
        raise NewerAccount(version) if newer else NotAnAccount(version[:8])
    try:
        body = b64decode(encoded, validate=True)
        document = zlib.decompress(body[4:])
        if zlib.crc32(document) != int.from_bytes(body[:4], "big"):
            raise NotAnAccount("the checksum differs")
        packed = _DECODER.decode(document)
        return _account(packed)
    except (ValueError, zlib.error, msgspec.DecodeError, IndexError) as error:
        raise NotAnAccount(str(error)) from error


def _account(packed: _Packed) -> BudgetAccount:
    account = BudgetAccount(
        packed.width,
        packed.at,
        packed.version,
        _rows(packed.sums, SERIES, BUCKETS + 1),
        _rows(packed.peaks, len(PEAKED), BUCKETS + 1),
        _rows(packed.hourly, SERIES, HOURS_KEPT + 1),
        ended=packed.ended,
        newest=packed.newest,
        newest_hour=packed.newest_hour,
        period=read_period(packed.period),
        reset_at=packed.reset_at,
    )
    many = len(packed.uids) // UID_BYTES
    starts, millis, rates, sure = (_values(column, many).tolist() for column in packed.open)
    firsts, befores = (_values(column, many).tolist() for column in packed.cut or (b"", b""))
    for number in range(many):
        uid = packed.uids[number * UID_BYTES : (number + 1) * UID_BYTES]
        account.open[uid] = OpenPod(
            _given(starts[number]),
            millis[number],
            _given(rates[number]),
            _given(sure[number]),
            firsts[number] or None,
            befores[number],
        )
    return account


def _cuts(pods: list[OpenPod]) -> tuple[bytes, ...]:
    columns = [pod.first or 0 for pod in pods], [pod.before for pod in pods]
    return tuple(_column(np.array(column, np.int64)) for column in columns)


def _given(value: int) -> int | None:
    return None if value == _NONE else value


def _column(values: Ints) -> bytes:
    """In the largest unit that all of them share, by differences, byte by byte of equal weight.

    Pods ask for whole GPUs and neighbours are alike: most bytes are zero, and compress away.
    """
    if not values.any():
        return b""
    unit = int(np.gcd.reduce(values))
    steps = np.diff(values // unit, prepend=0)
    signless = ((steps << 1) ^ (steps >> 63)).astype("<u8")
    return unit.to_bytes(_UNIT, "little") + signless.view(np.uint8).reshape(-1, 8).T.tobytes()


def _values(column: bytes, many: int) -> Ints:
    if not column:
        return np.zeros(many, np.int64)
    unit = int.from_bytes(column[:_UNIT], "little")
    signless = np.frombuffer(column, np.uint8, offset=_UNIT).reshape(8, many).T.copy().view("<u8").ravel()
    steps = (signless >> np.uint64(1)).astype(np.int64) ^ -(signless & np.uint64(1)).astype(np.int64)
    return unit * np.cumsum(steps)


def _rows(columns: tuple[bytes, ...], rows: int, many: int) -> Ints:
    if len(columns) != rows:
        raise NotAnAccount("a series is missing")
    return np.array([_values(column, many) for column in columns], np.int64)


_DECODER: msgspec.msgpack.Decoder[_Packed] = msgspec.msgpack.Decoder(_Packed)
