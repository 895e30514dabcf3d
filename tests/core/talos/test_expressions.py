"""CEL expressions in machine configs: taken, refused with the reason, or told to be passed through."""

import pytest

from tgp.core.joining.talos import expressions
from tgp.core.joining.talos.expressions import Wrong, examine

DISK, VOLUME, LINK = expressions.disk(13), expressions.volume(13), expressions.link(13)
TRIGGER, RANKING = expressions.oom_trigger(13), expressions.oom_ranking(13)

TAKEN = [
    (DISK, "true"),
    (DISK, "!system_disk"),
    (DISK, 'disk.transport == "nvme" && !system_disk'),
    (DISK, "disk.size > 100u * GiB // large ones"),
    (DISK, "'/dev/disk/by-id/a' in disk.symlinks"),
    (DISK, "disk.symlinks.exists(s, s.startsWith('/dev/disk/by-id/'))"),
    (DISK, "glob('Samsung*', disk.model) || disk.serial in ['a', 'b']"),
    (DISK, "disk.rotational ? disk.size > 1u * TB : true"),
    (DISK, "(disk.size / 2u) % 3u == 0u"),
    (DISK, r"""disk.model == r'a\b' || disk.model == "\u00e9" """),
    (VOLUME, "volume.partition_label == 'MY' && volume.partition_index == 1u"),
    (LINK, "mac(link.permanent_addr) == '00:1a:2b:3c:4d:5e'"),
    (LINK, "link.alt_names.all(n, n.size() > 3) && link.speed_megabits >= 10000"),
    (TRIGGER, "memory_full_avg10 > 12.0 && time_since_trigger > duration('500ms')"),
    (TRIGGER, "multiply_qos_vectors(d_qos_memory_full_total, {System: 8.0, Podruntime: 4.0}) > 3000.0"),
    (TRIGGER, "qos_memory_current[Besteffort] - 1.0 < 5e9"),
    (RANKING, "memory_max.hasValue() ? 0.0 : {Besteffort: 1.0, Burstable: 0.5}[class] * 2.0"),
    (RANKING, "double(memory_current.orValue(0u))"),
]
REFUSED = [
    (DISK, "disk.size > 10", "a uint and a int on the two sides of >: write an unsigned integer as 10u"),
    (DISK, "disk.sise > 10u", "uses disk.sise, which does not exist"),
    (DISK, "disk.size", "must result in a bool, not in a uint"),
    (DISK, "size > 10u", None),
    (DISK, "(disk.rotational", "a ) is missing"),
    (DISK, "disk.rotational)", "extra text after its end"),
    (DISK, "disk.transport = 'nvme'", "unexpected character or quote"),
    (DISK, "disk.model == 'a", "unexpected character or quote"),
    (DISK, r"disk.model == 'a\q'", "unknown escape"),
    (DISK, "system_disk and true", "extra text after its end"),
    (DISK, "disk.size && true", "has a uint before &&"),
    (DISK, "!disk.model", "has a string after !"),
    (DISK, "-disk.size > 1u", "has a - before a uint"),
    (DISK, "globb('a', disk.model)", "calls globb(), which does not exist"),
    (DISK, "glob('a')", "calls glob(string), which takes (string, string)"),
    (DISK, "has(disk)", "not a field"),
    (DISK, "volume.name == 'a'", "uses volume, which does not exist"),
    (DISK, "if", "a reserved word"),
    (DISK, "disk.size == 99999999999999999999u", "too large"),
    (DISK, "disk.model.x == 'a'", "uses .x of a string"),
    (DISK, "disk.size in [1, 2]", "a uint and a int"),
    (DISK, "disk.model.lower() == 'a'", "calls .lower(), which does not exist"),
    (VOLUME, "system_disk", "uses system_disk, which does not exist"),
    (VOLUME, "glob('a', volume.name)", "calls glob()"),
    (LINK, "mac(link.driver) == 'a'", "calls mac(string), which takes (bytes)"),
    (TRIGGER, "memory_full_avg10 > 12", "a double and a int"),
    (TRIGGER, "qos_memory_current['System'] > 1.0", "between [ and ]"),
    (RANKING, "class == Burstable", "must result in a double, not in a bool"),
    (RANKING, "memory_max > 5u", "a optional uint and a uint"),
]
PASSED_THROUGH = [
    (DISK, "dyn(disk.size) > 1"),
    (DISK, "disk.?model.orValue('a') == 'a'"),
    (DISK, "type(disk.size) == uint"),
    (LINK, "link.vlan.vid == 5u"),
    (DISK, "(" * 80 + "true" + ")" * 80),
    (DISK, "true || " * 1000 + "true"),
]


@pytest.mark.parametrize(("environment", "text"), TAKEN, ids=[text for _, text in TAKEN])
def test_what_talos_takes_is_taken(environment, text):
    assert examine(text, environment) is True


@pytest.mark.parametrize(("environment", "text", "why"), REFUSED, ids=[text for _, text, _ in REFUSED])
def test_what_talos_refuses_is_refused_with_the_reason(environment, text, why):
    with pytest.raises(Wrong) as caught:
        examine(text, environment)

    assert (why or "") in str(caught.value)


@pytest.mark.parametrize(("environment", "text"), PASSED_THROUGH, ids=[text[:30] for _, text in PASSED_THROUGH])
def test_what_goes_further_is_told_to_be_unchecked(environment, text):
    assert examine(text, environment) is False


def test_fields_belong_to_the_release_that_brought_them():
    assert examine("disk.firmware_version == 'a'", expressions.disk(14))
    with pytest.raises(Wrong):
        examine("disk.firmware_version == 'a'", expressions.disk(13))
