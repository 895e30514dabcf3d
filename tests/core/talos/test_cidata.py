"""The filesystem that holds a machine config, read back by a small reader; takeovers have other programs read it."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgp.core.joining.talos import fat_volume


def read_back(image: bytes) -> tuple[str, dict[str, bytes]]:
    """Label and files, by following the structures as they are specified."""
    size, per_cluster, reserved, fats, entries = struct.unpack_from("<HBHBH", image, 11)
    (per_fat,) = struct.unpack_from("<H", image, 22)
    table = image[reserved * size : (reserved + per_fat) * size]
    assert table == image[(reserved + per_fat) * size : (reserved + 2 * per_fat) * size], "both tables are the same"
    root_at = (reserved + fats * per_fat) * size
    data_at = root_at + entries * 32
    label, long_name, files = "", "", {}
    for at in range(root_at, data_at, 32):
        entry = image[at : at + 32]
        if entry[0] == 0:
            break
        if entry[11] == 0x0F:
            units = entry[1:11] + entry[14:26] + entry[28:32]
            long_name = units.decode("utf-16-le").split("\0")[0].rstrip("\uffff") + long_name
            continue
        if entry[11] == 0x08:
            label = entry[:11].decode().rstrip()
            continue
        first, length = struct.unpack_from("<HI", entry, 26)
        content, cluster = b"", first
        while cluster and cluster < 0xFF8:
            where = data_at + (cluster - 2) * per_cluster * size
            content += image[where : where + per_cluster * size]
            pair = int.from_bytes(table[cluster // 2 * 3 : cluster // 2 * 3 + 3], "little")
            cluster = pair >> 12 if cluster % 2 else pair & 0xFFF
        files[long_name] = content[:length]
        long_name = ""
    return label, files


@given(st.dictionaries(st.sampled_from(("user-data", "meta-data", "network-config")), st.text(max_size=9000)))
def test_whatever_goes_in_comes_out(files: dict[str, str]):
    label, found = read_back(fat_volume.volume(files))

    assert label == "cidata"
    assert found == {name: text.encode() for name, text in files.items()}


@pytest.mark.parametrize(
    "length", [0, 1, fat_volume.CLUSTER - 1, fat_volume.CLUSTER, fat_volume.CLUSTER + 1, 1_000_000]
)
def test_files_of_every_length_fit(length: int):
    _, found = read_back(fat_volume.volume({"user-data": "x" * length, "meta-data": "y"}))

    assert found == {"user-data": b"x" * length, "meta-data": b"y"}


def test_equal_files_make_equal_volumes():
    assert fat_volume.volume({"a": "1"}) == fat_volume.volume({"a": "1"}) != fat_volume.volume({"a": "2"})


def test_more_than_the_volume_holds_is_refused():
    with pytest.raises(fat_volume.TooMuch):
        fat_volume.volume({"user-data": "x" * (fat_volume.MOST_BYTES + 1)})
