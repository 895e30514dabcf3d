"""A template's variables: a closed list, and values that stay values."""

import pytest
from hypothesis import given, settings

from tests.core.talos.a_plan import early_template
from tests.core.talos.hostile import CANONICAL, enormous, hostile_values
from tgp.core.joining.talos.stream import read_stream, write_stream
from tgp.core.joining.talos.template import foreign_actions, read_template, shape
from tgp.core.joining.talos.variables import LISTS, VARIABLES, fill, used
from tgp.core.model.machine_config import TemplateRefused

INERT = {name: ("inert",) if name in LISTS else "inert" for name in CANONICAL}

# Every place a variable can stand in.
EVERYWHERE = """\
plain: {{.NodeName}}
spaced: {{ .NodeName }}
inside: https://{{.NodeName}}:6443/{{.NodePool}}
double: "{{.NodeName}} \\t{{.NodePool}}"
single: 'it''s {{.NodeName}}'
literal: |
  first {{.NodeName}}
  {{.ClusterSecret}}
folded: >-
  a {{.NodeName}}
  b
flow: [{{.NodeName}}, "{{.NodePool}}", {a: {{.NodeIndex}}}]
list:
  - {{.NodeName}}
  - {{.PodSubnets}}
  - last
whole: {{.PodSubnets}}
joined: --routes={{.PodSubnets}}
anchored: &here {{.MachineToken}}
again: *here
twice: {{.NodeName}}{{.NodeName}}
commented: x # {{.NodeName}}
alias: {{.Hostname}} {{.AuthKey}}
multiline: {{.NodeName}}
  goes on {{.NodePool}}
"""


def filled(template, values):
    return [fill(document.data, values) for document in read_template(template)]


def test_each_place_gets_its_value():
    values = {name: f"<{name}>" for name in CANONICAL} | {"PodSubnets": ("10.0.0.0/8", "fd00::/8"), "NodeIndex": "7"}
    (data,) = filled(EVERYWHERE, values)

    assert data == {
        "plain": "<NodeName>",
        "spaced": "<NodeName>",
        "inside": "https://<NodeName>:6443/<NodePool>",
        "double": "<NodeName> \t<NodePool>",
        "single": "it's <NodeName>",
        "literal": "first <NodeName>\n<ClusterSecret>\n",
        "folded": "a <NodeName> b",
        "flow": ["<NodeName>", "<NodePool>", {"a": "7"}],
        "list": ["<NodeName>", "10.0.0.0/8", "fd00::/8", "last"],
        "whole": ["10.0.0.0/8", "fd00::/8"],
        "joined": "--routes=10.0.0.0/8,fd00::/8",
        "anchored": "<MachineToken>",
        "again": "<MachineToken>",
        "twice": "<NodeName><NodeName>",
        "commented": "x",
        "alias": "<NodeName> <TailscaleAuthKey>",
        "multiline": "<NodeName> goes on <NodePool>",
    }


@settings(deadline=None, max_examples=100)
@given(hostile_values())
def test_a_value_never_changes_the_structure(values):
    """Whatever it holds, it is one string, or part of one, also after it was written and read."""
    parts = [document.data for document in read_template(EVERYWHERE)]
    data = [fill(part, values) for part in parts]
    inert = {name: tuple("i" for _ in value) if name in LISTS else "i" for name, value in values.items()}

    assert shape(data) == shape([fill(part, inert) for part in parts])
    again = [document.data for document in read_stream(write_stream(data))]
    assert again == data
    assert again[0]["plain"] == values["NodeName"]
    assert again[0]["inside"] == f"https://{values['NodeName']}:6443/{values['NodePool']}"


def test_a_mebibyte_of_value_is_still_a_value():
    for text in enormous():
        (data,) = filled("a: {{.NodeName}}\nb: [x{{.NodeName}}y]\n", INERT | {"NodeName": text})
        assert data == {"a": text, "b": [f"x{text}y"]}


def test_a_value_that_names_a_variable_is_not_replaced_again():
    (data,) = filled(
        "a: {{.NodeName}} {{.NodePool}}", INERT | {"NodeName": "{{.NodePool}}", "NodePool": "{{.NodeName}}"}
    )

    assert data == {"a": "{{.NodePool}} {{.NodeName}}"}


def test_an_early_template_has_all_its_variables_found():
    (document,) = read_template(early_template())

    assert sorted({name for name, _ in used(document.data)}) == [
        "ClusterCA",
        "ClusterID",
        "ClusterName",
        "ClusterSecret",
        "ControlPlaneEndpoint",
        "MachineToken",
        "NodeName",
        "NodePool",
        "TailscaleAuthKey",
    ]


@pytest.mark.parametrize("name", VARIABLES)
def test_every_variable_of_the_list_is_known(name):
    assert foreign_actions(f"{{{{.{name}}}}} {{{{\t.{name} }}}}") == ()


@pytest.mark.parametrize(
    ("template", "line", "says"),
    [
        ("a: 1\nb: {{.NodeNam}}\n", 2, "did you mean {{.NodeName}}?"),
        ("a: {{.nodename}}", 1, "did you mean {{.NodeName}}?"),
        ("a: {{NodeName}}", 1, "did you mean {{.NodeName}}?"),
        ("a: {{.Zzz}}", 1, "{{.Zzz}} is not a template variable"),
        ("a: {{if .NodeName}}x{{end}}", 1, "no conditions or functions"),
        ("a: {{range .PodSubnets}}", 1, "no conditions or functions"),
        ("a: {{.NodeName | quote}}", 1, "no conditions or functions"),
        ("a: {{- .NodeName -}}", 1, "no conditions or functions"),
        ("a: {{/* comment */}}", 1, "no conditions or functions"),
        ("a: {{$x := 1}}", 1, "no conditions or functions"),
        ("a: {{\n  .NodeName}}", 1, "never closed"),
        ("{{if .NodeName}}\na: 1\n{{end}}\n", 1, "no conditions or functions"),
        ("# {{if}}\na: [1\n", 3, "not valid YAML"),
        ("a: {{}}", 1, "is not a template variable"),
        ("a: 1\nb: '{{.NodeName}'", 2, "never closed"),
        ("{{.NodeName}}: 1", 1, "cannot be a key"),
        ("a:\n  b:\n    tgp.io/{{.NodePool}}: x", 3, "cannot be a key"),
        ("a: [1\n", 2, "not valid YAML"),
        ("a: {{.NodeName}}\na: 2", 2, "duplicate"),
    ],
)
def test_what_no_template_may_hold_is_told_with_its_line(template, line, says):
    with pytest.raises(TemplateRefused) as caught:
        read_template(template)

    (finding, *_) = caught.value.findings
    assert says in finding.message
    assert finding.line == line


def test_each_foreign_action_is_told_once():
    assert [action.line for action in foreign_actions("a: {{.A}}\nb: {{.A}}\nc: {{.B}}")] == [1, 3]


@pytest.mark.parametrize(
    "template",
    [
        "# {{ is how variables begin\na: {{.NodeName}}\n",
        "a: {{.NodeName}} # {{if}} this were Helm\n",
        "# {{- range }}\n\t# {{ end }}\na: {{.NodeName}}\n",
    ],
)
def test_what_stands_in_comments_is_not_read(template):
    assert [document.data for document in read_template(template)] == [{"a": "{{.NodeName}}"}]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("""a: '{{"{{"}}.Name}}'""", "{{.Name}}"),
        ("""a: "{{ "{{" }} x }}\"""", "{{ x }}"),
        ("""a: '{{"{{"}}.NodeName}} {{.NodeName}}'""", "{{.NodeName}} inert"),
        ("""a: |\n  {{"{{"}}{{"{{"}}""", "{{{{"),
    ],
)
def test_two_braces_can_be_written(written, meant):
    """For what a node is to read as a template of its own."""
    (data,) = filled(written, INERT)

    assert data == {"a": meant}


def test_two_braces_may_stand_in_a_key():
    (data,) = filled("""a: {'{{"{{"}}b}}': c}""", INERT)

    assert data == {"a": {"{{b}}": "c"}}


def test_a_template_that_quotes_our_inert_words_cannot_forge_one():
    """The word that stands for variables is chosen so that the template does not hold it."""
    from tgp.core.joining.talos.template import _unheard_word

    template = "a: {{.NodeName}}"
    word = _unheard_word(template)
    (data,) = filled(f"{template}\nb: {word}NodePoolz", INERT)

    assert data == {"a": "inert", "b": f"{word}NodePoolz"}
