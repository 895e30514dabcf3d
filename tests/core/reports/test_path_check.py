"""What an answer on the way to a kubelet means."""

import pytest

from tgp.core.reports.path_check import read_probe

MAY_NOT = 'nodes "a" is forbidden: User "ada" cannot get resource "nodes/proxy" in API group ""'


@pytest.mark.parametrize(
    ("status", "said", "ok", "words"),
    [
        (200, "ok", True, "the API server reaches 100.64.0.7:10250"),
        (403, MAY_NOT, None, "you may not"),
        (
            403,
            "Forbidden (user=kube-apiserver, verb=get)",
            False,
            "refuses the API server (403): a kubelet of another cluster",
        ),
        (401, "Unauthorized", False, "refuses the API server (401)"),
        (404, "the server could not find the requested resource", None, "does not proxy to kubelets"),
        (502, "", False, "cannot reach 100.64.0.7:10250: HTTP 502"),
        (503, "dial tcp 100.64.0.7:10250: connect: connection refused", False, "connection refused"),
        (504, "no answer within 15 s", False, "no answer within 15 s"),
        (418, "", None, "answers 418"),
    ],
)
def test_an_answer_is_evidence_only_of_what_it_shows(status, said, ok, words):
    probe = read_probe(status, said, "100.64.0.7")

    assert probe.ok is ok
    assert words in probe.words


def test_a_long_excuse_is_cut_in_front_where_nothing_is_learned():
    words = read_probe(503, "x" * 500 + " i/o timeout", "100.64.0.7").words

    assert words.endswith("i/o timeout")
    assert len(words) < 260
