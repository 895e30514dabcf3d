"""Offers as arrays, one index for each: so that a query over 50,000 of them takes a millisecond.

Repeated strings are codes here, and `words` maps them back. Keys are kept as checksums: a lookup compares the few
offers that share one.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, TypeAlias, TypeVar
from zlib import crc32

from tgp.core.model.arrays import Bools, Index, Ints, Small, Sums, np
from tgp.core.model.offer import BootMode, Offer

FOREVER = (1 << 62) - 1  # seconds: of an offer without an end
BOOT_MODES = tuple(BootMode)

Where: TypeAlias = tuple[str, str, str]  # region, place, country
_Word = TypeVar("_Word", str, Where)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What the numbers in the coded columns mean."""

    providers: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    archs: tuple[str, ...] = ()
    wheres: tuple[Where, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Columns:
    """Every array is as long as there are offers, in their order, and cannot be written to."""

    words: Vocabulary
    provider: Small
    gpu: Small
    arch: Small
    where: Small
    price: Ints  # micro-dollars an hour, of the whole machine
    until: Ints  # seconds since 1970, or FOREVER
    gpu_count: Small
    gpu_memory: Small
    vcpus: Small  # available: AS_MANY_AS_ASKED for offers that an order sizes
    memory: Small
    stock: Small
    trust: Small
    boot: Small  # place in BOOT_MODES
    driven: Bools  # can the driver of a Talos node drive its GPUs?
    spot: Bools
    key_sum: Sums
    host_sum: Sums  # of provider and host; 0 where there is no host
    type_sum: Sums  # of the instance type

    def __len__(self) -> int:
        return len(self.price)


AS_MANY_AS_ASKED = (1 << 31) - 1  # the largest of a `Small`
CODED = {"provider": "providers", "gpu": "gpus", "arch": "archs", "where": "wheres"}  # column → its strings


def checksum(text: str) -> int:
    return crc32(text.encode())


def host_key(provider: str, host: str) -> str:
    """Names a host among all hosts."""
    return f"{provider}/{host}"


def seconds(moment: datetime | None) -> int:
    return FOREVER if moment is None else int(moment.timestamp())


def columns_of(offers: Sequence[Offer]) -> Columns:
    """The arrays of these offers, in this order."""
    count = len(offers)
    boots = {mode: number for number, mode in enumerate(BOOT_MODES)}

    def ints(read: Callable[[Offer], int], kind: type[Any]) -> Any:
        return _sealed(np.fromiter(map(read, offers), kind, count))

    providers, provider = _coded([offer.provider for offer in offers])
    gpus, gpu = _coded([offer.gpu for offer in offers])
    archs, arch = _coded([offer.arch for offer in offers])
    wheres, where = _coded([(offer.region, offer.place, offer.country) for offer in offers])
    return Columns(
        Vocabulary(providers, gpus, archs, wheres),
        provider,
        gpu,
        arch,
        where,
        ints(lambda offer: offer.hourly_microusd, np.int64),
        ints(lambda offer: seconds(offer.until), np.int64),
        ints(lambda offer: offer.gpu_count, np.int32),
        ints(lambda offer: offer.gpu_memory_gib, np.int32),
        ints(lambda offer: AS_MANY_AS_ASKED if offer.sized_by_order else offer.vcpus, np.int32),
        ints(lambda offer: AS_MANY_AS_ASKED if offer.sized_by_order else offer.memory_gib, np.int32),
        ints(lambda offer: offer.stock, np.int32),
        ints(lambda offer: offer.trust, np.int32),
        ints(lambda offer: boots[offer.boot], np.int32),
        ints(lambda offer: not offer.no_driver, np.bool_),
        ints(lambda offer: offer.spot, np.bool_),
        ints(lambda offer: checksum(offer.key), np.uint32),
        ints(lambda offer: checksum(host_key(offer.provider, offer.host)) if offer.host else 0, np.uint32),
        ints(lambda offer: checksum(offer.instance_type), np.uint32),
    )


def joined(parts: Sequence[Columns]) -> Columns:
    """One after another, with common codes."""
    values: dict[str, Any] = {}
    words: dict[str, Any] = {}
    for column in fields(Columns):
        if column.name in CODED:
            book = CODED[column.name]
            words[book], values[column.name] = _recoded(parts, column.name, book)
        elif column.name != "words":
            values[column.name] = _chain([getattr(part, column.name) for part in parts])
    return Columns(words=Vocabulary(**words), **values)


def ordered(columns: Columns, order: Index) -> Columns:
    """The same offers in another order."""
    names = [column.name for column in fields(Columns) if column.name != "words"]
    return Columns(words=columns.words, **{name: _sealed(getattr(columns, name)[order]) for name in names})


def _coded(words: Sequence[_Word]) -> tuple[tuple[_Word, ...], Small]:
    numbers: dict[_Word, int] = {}
    codes = np.fromiter((numbers.setdefault(word, len(numbers)) for word in words), np.int32, len(words))
    return tuple(numbers), _sealed(codes)


def _recoded(parts: Iterable[Columns], name: str, book: str) -> tuple[tuple[Any, ...], Small]:
    numbers: dict[Any, int] = {}
    chunks = []
    for part in parts:
        own = getattr(part.words, book)
        translate = np.array([numbers.setdefault(word, len(numbers)) for word in own], np.int32)
        chunks.append(translate[getattr(part, name)])
    return tuple(numbers), _chain(chunks)


def _chain(chunks: Sequence[Any]) -> Any:
    return _sealed(np.concatenate(chunks))


def _sealed(array: Any) -> Any:
    array.setflags(write=False)
    return array
