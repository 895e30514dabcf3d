"""Our table of keys against what each release really reads."""

from tgp.core.joining.talos.checks_loader import YOUNG_KEYS
from tgp.core.joining.talos.key_table import UNSEEN_KINDS
from tgp.core.joining.talos.keys import KeyForm, KeyShape, control_plane_kinds, first_minor, kinds, parsed
from tools.judge.keytable import known, table
from tools.toolbox.pins import OTHER_TALOS

ALL_KINDS = sorted({kind for minor in range(10, 15) for kind in (*kinds(minor), *control_plane_kinds(minor))})


def plain(shape: KeyShape):
    """As the judge tells it."""
    if shape.form is KeyForm.SECTION:
        return {key: plain(inner) for key, inner in shape.keys.items()}
    if shape.of is not None:
        return [shape.form.value, plain(shape.of)]
    return shape.form.value


def keys_of(shape):
    """Without their forms."""
    if isinstance(shape, dict):
        return {key: keys_of(inner) for key, inner in shape.items()}
    return keys_of(shape[1]) if isinstance(shape, list) else None


def without_young(kind, shape, version):
    """As the releases of this minor began."""
    for (of, path), (minor, patch) in YOUNG_KEYS.items():
        if of == kind and version.minor == minor and version.patch < patch:
            *around, last = path
            at = shape
            for step in around:
                at = at[step]
            del at[last]
    return shape


def test_our_table_holds_exactly_the_keys_that_this_release_reads(judge, version):
    """The newest of a minor with their forms, of which older ones had some others."""
    told = known([judge], ALL_KINDS)[judge.minor]
    ours = kinds(judge.minor)
    unseen = set(parsed(UNSEEN_KINDS, judge.minor))

    assert set(told) - control_plane_kinds(judge.minor) == set(ours) - unseen
    for kind in set(ours) - unseen:
        mine = without_young(kind, plain(ours[kind]), version)
        assert keys_of(mine) == keys_of(told[kind]), kind
        assert mine == told[kind] or judge.version in OTHER_TALOS, kind


def test_kinds_of_control_planes_are_kinds(judge):
    told = known([judge], ALL_KINDS)[judge.minor]

    assert control_plane_kinds(judge.minor) - {"KubeTalosAPIAccessConfig"} <= set(told)


def test_each_kind_has_the_release_it_came_with():
    assert [first_minor(kind) for kind in ("VolumeConfig", "ZswapConfig", "HostnameConfig", "KubeSpanConfig")] == [
        0,
        11,
        12,
        13,
    ]
    assert first_minor("EtcFileConfig") == 14
    assert first_minor("TailscaleConfig") is None


def test_the_judges_keys_can_be_written_in_our_notation(judge):
    """A new release starts from that."""
    told = known([judge], ALL_KINDS)

    again = parsed("\n".join(table(told)), judge.minor)
    assert {kind: plain(shape) for kind, shape in again.items()} == told[judge.minor]
