"""Our table of keys against what each release really reads."""

from tgp.core.rules.talos.key_table import UNSEEN_KINDS
from tgp.core.rules.talos.keys import Form, Shape, control_plane_kinds, first_minor, kinds, parsed
from tools.judge.keytable import known, table

ALL_KINDS = sorted({kind for minor in range(10, 15) for kind in (*kinds(minor), *control_plane_kinds(minor))})


def plain(shape: Shape):
    """As the judge tells it."""
    if shape.form is Form.SECTION:
        return {key: plain(inner) for key, inner in shape.keys.items()}
    if shape.of is not None:
        return [shape.form.value, plain(shape.of)]
    return shape.form.value


def test_our_table_holds_exactly_the_keys_that_this_release_reads(judge):
    told = known([judge], ALL_KINDS)[judge.minor]
    ours = kinds(judge.minor)
    unseen = set(parsed(UNSEEN_KINDS, judge.minor))

    assert set(told) - control_plane_kinds(judge.minor) == set(ours) - unseen
    for kind in set(ours) - unseen:
        assert plain(ours[kind]) == told[kind], kind


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
    """Whoever adds a release starts from that."""
    told = known([judge], ALL_KINDS)

    again = parsed("\n".join(table(told)), judge.minor)
    assert {kind: plain(shape) for kind, shape in again.items()} == told[judge.minor]
