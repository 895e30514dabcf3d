"""What programs read: formats, names, CSV, exit codes; and the page that lists them."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import click

from tgp.app.main import COMMANDS, tgp
from tgp.interfaces.cli.output import TABLES, UNBOUNDED, print_rows, write_rows

PAGE = (Path(__file__).parents[2] / "docs" / "output.md").read_text(encoding="utf-8")
ROWS = [
    {"name": "a", "on": True, "price": 1.5, "request": {"namespace": "ml", "name": "train"}, "tags": ["x"]},
    {"name": 'b, "c"', "on": False, "price": None, "request": None},
]


def commands(group: click.Group, called: str) -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group, info_name=called)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield f"{called} {name}", command
        if isinstance(command, click.Group):
            yield from commands(command, f"{called} {name}")


def written(how: str, capsys) -> str:
    write_rows({"rows": ROWS}, ROWS, [row["name"] for row in ROWS], how)
    return capsys.readouterr().out


def test_the_page_lists_the_formats_of_every_command():
    listed: dict[str, list[str]] = {}
    for names, formats in re.findall(r"^\| (`tgp [^|]*`) \| ([a-z, ]+) \|$", PAGE, re.MULTILINE):
        first, *others = re.findall(r"`([^`]+)`", names)
        group = first.rpartition(" ")[0]
        for name in (first, *(f"{group} {other}" for other in others)):
            listed[name] = formats.split(", ")
    there = {
        name: list(option.type.choices)
        for name, command in commands(tgp, "tgp")
        for option in command.params
        if "-o" in option.opts
    }

    assert listed == there


def test_every_command_that_prints_for_people_takes_table_and_text():
    """One word for one thing: whatever prints takes -o table, and -o text is the same."""
    for name, command in commands(tgp, "tgp"):
        option = next((each for each in command.params if "-o" in each.opts), None)
        if option is None or option.type.choices[0] in ("yaml", "json"):  # objects for kubectl, schemas
            continue
        assert option.type.choices[0] == option.default == "table", name
        assert [option.type.convert(word, option, None) for word in ("table", "text")] == ["table", "table"], name


def test_the_page_lists_the_exit_codes_of_every_command():
    table = PAGE.partition("## Exit codes")[2]

    assert re.findall(r"^\| `tgp ([a-z]+)` \|", table, re.MULTILINE) == sorted(COMMANDS)


def test_rows_as_csv_have_a_column_for_each_field(capsys):
    assert written("csv", capsys).splitlines() == [
        "name,on,price,request.namespace,request.name,tags",
        'a,true,1.5,ml,train,"[""x""]"',
        '"b, ""c""",false,,,,',
    ]


def test_rows_as_names_are_one_to_a_line_and_a_document_is_itself(capsys):
    assert written("name", capsys) == 'a\nb, "c"\n'
    assert json.loads(written("json", capsys)) == {"rows": ROWS}


def test_no_row_is_no_line(capsys):
    write_rows({"rows": []}, [], [], "csv")

    assert capsys.readouterr().out == ""


def test_rows_are_a_table_for_people_as_wide_as_asked_for(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    for how in TABLES:
        print_rows(lambda width: f"{width} columns", {"rows": ROWS}, "rows", ["a"], how)

    assert {f"{UNBOUNDED} columns", "60 columns"} == set(capsys.readouterr().out.splitlines())
