"""An account as one string for a status: a version, a checksum, and compressed columns. Lossless."""

import zlib
from base64 import b64decode, b64encode

import msgspec

from tgp.api.budget import ACCOUNT_MAX
from tgp.api.pattern import matches
from tgp.core.budgets.account import BUCKETS, HOUR, HOURS_KEPT, PEAKED, REST, SERIES, BudgetAccount, OpenPod
from tgp.core.budgets.period import read_period
from tgp.core.budgets.spans import STATUS_DELAY, UID_BYTES
from tgp.core.model.arrays import Ints, np

VERSION = "1"
_NONE = -1
_UNIT = 8  # bytes
SPARE = 95  # percent of what should fit is tried: pods differ in how they compress
MOST_UNPACKED = 8 * 2**20  # bytes: of all that fits into the field, and of far less that was made to be large
MOST_PODS = ACCOUNT_MAX // UID_BYTES  # hashes do not compress
WIDEST = 86_400  # seconds of a bucket: more than the longest window has
AHEAD = 3600  # seconds: an account of a later moment than this was not written by a clock that was right
MOST = 2**62  # of a series in all buckets: sums must fit in 64 bits


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


def unpack(text: str, now: int | None = None) -> BudgetAccount:
    """Raises NewerAccount or NotAnAccount. `now`: an account that lies ahead of it is none; None: it may."""
    version, _, encoded = text.partition(".")
    if version != VERSION:
        newer = matches(version, r"^[0-9]{1,9}$") and int(version) > int(VERSION)
        raise NewerAccount(version) if newer else NotAnAccount(version[:8])
    try:
        body = b64decode(encoded, validate=True)
        document = _decompressed(body[4:])
        if zlib.crc32(document) != int.from_bytes(body[:4], "big"):
            raise NotAnAccount("the checksum differs")
        account = _account(_DECODER.decode(document), now)
    except (ValueError, zlib.error, msgspec.DecodeError, IndexError, ArithmeticError, OSError, MemoryError) as error:
        raise NotAnAccount(str(error)) from error
    if wrong := _wrong(account):
        raise NotAnAccount(wrong)
    return account


def _decompressed(body: bytes) -> bytes:
    inflate = zlib.decompressobj()
    document = inflate.decompress(body, MOST_UNPACKED)
    if not inflate.eof:
        raise NotAnAccount("it is cut off, or unpacks to more than any account")
    return document


def _wrong(account: BudgetAccount) -> str:
    """What no account of ours has, and would count wrong or never; empty: nothing."""
    tables = account.sums, account.peaks, account.hourly
    starts = [pod.start for pod in account.open.values() if pod.start is not None]
    checks = (
        (account.newest == account.at // account.width, "its buckets are of another time"),
        (account.newest_hour == account.at // HOUR, "its hours are of another time"),
        (all(int(table.min()) >= 0 for table in tables), "a sum is negative"),
        (all(float(table.sum(axis=1, dtype=float).max()) < MOST for table in tables), "a sum is too large"),
        (all(pod.milli >= 0 and pod.before >= 0 for pod in account.open.values()), "a pod uses less than nothing"),
        (max(starts, default=0) <= account.at, "a pod starts later"),
        (max(account.ended.values(), default=0) <= account.at + STATUS_DELAY, "a pod ended later"),
        (0 <= account.reset_at <= account.at, "its reset is later"),
    )
    return next((what for right, what in checks if not right), "")


def _account(packed: _Packed, now: int | None) -> BudgetAccount:
    many = len(packed.uids) // UID_BYTES
    if many + len(packed.ended) > MOST_PODS:
        raise NotAnAccount("it has more pods than any account")
    if not 0 < packed.width <= WIDEST:
        raise NotAnAccount("its buckets have no length")
    if packed.at < 0 or (now is not None and packed.at > now + AHEAD):
        raise NotAnAccount("it is of another time")
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
