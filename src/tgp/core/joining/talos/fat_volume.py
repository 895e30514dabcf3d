"""A small FAT filesystem with a few files in its root, as bytes: the volume that Talos (platform nocloud) reads.

Made here and not on the machine, whose Linux may have no mkfs. Only the beginning is written: the space behind
the last file is unused and may contain old data of the disk.

The form is FAT12 with long file names, as Microsoft's specification of 2000 has it.
"""

import struct
from collections.abc import Mapping
from hashlib import sha256

LABEL = "cidata"
SECTOR = 512
SECTORS = 8192  # 4 MiB, and a number that fits 16 bits
CLUSTER_SECTORS = 4
CLUSTER = SECTOR * CLUSTER_SECTORS
FAT_SECTORS = 7
FATS = 2
ROOT_ENTRIES = 64
ENTRY = 32
ROOT_SECTORS = ROOT_ENTRIES * ENTRY // SECTOR
FIRST_DATA_SECTOR = 1 + FATS * FAT_SECTORS + ROOT_SECTORS
CLUSTERS = (SECTORS - FIRST_DATA_SECTOR) // CLUSTER_SECTORS
MOST_BYTES = CLUSTERS * CLUSTER // 2  # of all files together; far more than any provider accepts
FIXED_DISK = 0xF8
END_OF_CHAIN = 0xFFF
VOLUME_LABEL, ARCHIVE, LONG_NAME = 0x08, 0x20, 0x0F
LAST_LONG_ENTRY = 0x40
NAME_PIECE = 13  # UTF-16 units of a long name in one entry
A_DATE = 1 << 5 | 1  # the first of January 1980: so that equal files make equal volumes

assert (CLUSTERS + 2) * 3 <= FAT_SECTORS * SECTOR * 2, "every cluster has its place in the table"
assert CLUSTERS < 4085, "more clusters would be read as FAT16"


class TooMuch(ValueError):
    """The files do not fit into the volume."""


def volume(files: Mapping[str, str]) -> bytes:
    """The beginning of a filesystem labelled `cidata` that holds these texts; the rest of its 4 MiB is empty."""
    contents = {name: text.encode() for name, text in files.items()}
    if sum(map(len, contents.values())) > MOST_BYTES:
        raise TooMuch(f"the files have more than {MOST_BYTES} bytes together")
    table = [FIXED_DISK | 0xF00, END_OF_CHAIN]
    root = [_entry(LABEL.ljust(11).encode(), VOLUME_LABEL)]
    data = b""
    for number, (name, content) in enumerate(contents.items(), start=1):
        first = len(table) if content else 0
        clusters = -(-len(content) // CLUSTER)
        table += [*range(first + 1, first + clusters), END_OF_CHAIN] if clusters else []
        data += content.ljust(clusters * CLUSTER, b"\0")
        short = f"FILE{number}".ljust(11).encode()
        root += [*_long_name(name, short), _entry(short, ARCHIVE, first, len(content))]
    assert len(root) <= ROOT_ENTRIES, "a handful of files"
    fat = _packed(table).ljust(FAT_SECTORS * SECTOR, b"\0")
    serial = int.from_bytes(sha256(data).digest()[:4], "big")
    return _boot_sector(serial) + fat * FATS + b"".join(root).ljust(ROOT_SECTORS * SECTOR, b"\0") + data


def _boot_sector(serial: int) -> bytes:
    fields = struct.pack(
        "<3s8sHBHBHHBHHHIIBBBI11s8s",
        b"\xeb\x3c\x90",
        b"tgp".ljust(8),
        SECTOR,
        CLUSTER_SECTORS,
        1,  # the sectors before the first table: this one
        FATS,
        ROOT_ENTRIES,
        SECTORS,
        FIXED_DISK,
        FAT_SECTORS,
        63,  # sectors a track, and below 255 heads: unused
        255,
        0,
        0,
        0x80,
        0,
        0x29,  # the next three are there
        serial,
        LABEL.ljust(11).encode(),
        b"FAT12   ",
    )
    return fields.ljust(SECTOR - 2, b"\0") + b"\x55\xaa"


def _entry(short: bytes, attributes: int, first_cluster: int = 0, size: int = 0) -> bytes:
    return struct.pack("<11sB10xHHHI", short, attributes, 0, A_DATE, first_cluster, size)


def _long_name(name: str, short: bytes) -> list[bytes]:
    """The long-name entries before a file's own entry, the last piece first."""
    assert name.isascii(), "names of files are ours"
    units = name.encode("utf-16-le")
    pieces = [units[at : at + NAME_PIECE * 2] for at in range(0, len(units), NAME_PIECE * 2)]
    entries = []
    for number, piece in enumerate(pieces, start=1):
        full = (piece + b"\0\0").ljust(NAME_PIECE * 2, b"\xff")[: NAME_PIECE * 2]
        order = number | (LAST_LONG_ENTRY if number == len(pieces) else 0)
        entries.append(
            struct.pack("<B10sBBB12sH4s", order, full[:10], LONG_NAME, 0, _checksum(short), full[10:22], 0, full[22:])
        )
    return entries[::-1]


def _checksum(short: bytes) -> int:
    total = 0
    for byte in short:
        total = ((total >> 1) + ((total & 1) << 7) + byte) & 0xFF
    return total


def _packed(table: list[int]) -> bytes:
    """Twelve bits each, two in three bytes."""
    even = table if len(table) % 2 == 0 else [*table, 0]
    return b"".join((low | high << 12).to_bytes(3, "little") for low, high in zip(even[::2], even[1::2], strict=True))
