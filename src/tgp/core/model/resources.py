"""Resources as integers: what a pod requests, what a node has allocatable."""

from collections.abc import Callable, Iterable, Mapping

import msgspec

from tgp.api.quantity import Written, milli, whole

CPU = "cpu"
MEMORY = "memory"


class Resources(msgspec.Struct, frozen=True, gc=False):
    """So much of each resource. Absent and zero are the same; `others` is sorted by name."""

    cpu_milli: int = 0
    memory_bytes: int = 0
    others: tuple[tuple[str, int], ...] = ()  # GPUs, ephemeral-storage, pods …: whole units

    def of(self, resource: str) -> int:
        """So much of one resource: CPU in milli, everything else in its own unit."""
        if resource == CPU:
            return self.cpu_milli
        if resource == MEMORY:
            return self.memory_bytes
        return next((amount for name, amount in self.others if name == resource), 0)

    def milli(self, resource: str) -> int:
        """Thousandths of one resource, whichever it is: a budget may count GPUs or CPU alike."""
        return self.cpu_milli if resource == CPU else 1000 * self.of(resource)

    def items(self) -> Iterable[tuple[str, int]]:
        """Every resource with its amount, each once, in a fixed order."""
        return ((CPU, self.cpu_milli), (MEMORY, self.memory_bytes), *self.others)

    def __add__(self, more: "Resources") -> "Resources":
        return _merged(self, more, lambda a, b: a + b)

    def at_least(self, floor: "Resources") -> "Resources":
        """The larger of both, resource by resource."""
        return _merged(self, floor, max)

    def fits_in(self, room: "Resources") -> bool:
        """What is not requested always fits, even where more is in use than there is."""
        return all(not amount or amount <= room.of(name) for name, amount in self.items())


NOTHING = Resources()


def amount_text(resource: str, amount: float) -> str:
    """For a sentence: 4 CPU, 15.6 GiB memory, 2 nvidia.com/gpu."""
    if resource == CPU:
        return f"{decimal(amount / 1000)} CPU"
    if resource == MEMORY:
        return f"{decimal(amount / (1 << 30), 1)} GiB memory"
    return f"{decimal(amount)} {resource}"


def decimal(number: float, digits: int = 3) -> str:
    """1048576, 15.6: without an exponent, and without zeros at its end."""
    return f"{number:.{digits}f}".rstrip("0").rstrip(".")


def read_resources(written: Mapping[str, Written]) -> Resources:
    """From a `requests`, `capacity` or `allocatable` map; NotAQuantity if a value is none."""
    others = sorted((name, whole(value)) for name, value in written.items() if name not in (CPU, MEMORY))
    return Resources(milli(written.get(CPU, 0)), whole(written.get(MEMORY, 0)), tuple(others))


def _merged(left: Resources, right: Resources, how: Callable[[int, int], int]) -> Resources:
    names = sorted(dict.fromkeys([name for name, _ in left.others] + [name for name, _ in right.others]))
    return Resources(
        how(left.cpu_milli, right.cpu_milli),
        how(left.memory_bytes, right.memory_bytes),
        tuple((name, how(left.of(name), right.of(name))) for name in names),
    )
