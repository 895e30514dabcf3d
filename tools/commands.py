"""Every command of `tgp` as a page of the site: usage, meaning, options. Made from the commands themselves."""

from collections.abc import Iterator
from html import escape

import click

from tgp.app.main import tgp

HEAD = """# Commands

Every command works as `tgp NAME` and as `kubectl tgp NAME`. `tgp NAME --help` says the same in a terminal.
"""


def markdown() -> str:
    return "\n".join([HEAD, *_chapters(tgp, "tgp")])


def _chapters(group: click.Group, called: str) -> Iterator[str]:
    context = click.Context(group, info_name=called)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is None or command.hidden:
            continue
        yield _chapter(command, f"{called} {name}")
        if isinstance(command, click.Group):
            yield from _chapters(command, f"{called} {name}")


def _chapter(command: click.Command, called: str) -> str:
    context = click.Context(command, info_name=called)
    text = (command.help or command.short_help or "").replace("\b", "").replace("\f", "\n").strip()
    lines = [f"## {called}\n", f"```\n{command.get_usage(context)}\n```\n"]
    lines += ["\n".join(line.strip() for line in text.splitlines()) + "\n"] if text else []
    rows = [record for each in command.get_params(context) if (record := each.get_help_record(context)) is not None]
    if rows:
        lines += [
            "| option | |",
            "|---|---|",
            *(f"| <code>{_cell(flag)}</code> | {_cell(words)} |" for flag, words in rows),
            "",
        ]
    return "\n".join(lines)


def _cell(text: str) -> str:
    return escape(" ".join(text.split()), quote=False).replace("|", "&#124;")
