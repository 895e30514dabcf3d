"""`tgp schema`: the JSON Schema of each document that `-o json` prints and the HTTP API answers."""

from difflib import get_close_matches

import click

from tgp.interfaces.cli.next_step import as_called
from tgp.interfaces.cli.output import write
from tgp.services.documents.schemas import DOCUMENTS, schema_of


def _kinds(_ctx: click.Context, _param: click.Parameter, incomplete: str) -> list[str]:
    return [kind for kind in DOCUMENTS if kind.lower().startswith(incomplete.lower())]


@click.command()
@click.argument("kind", required=False, shell_complete=_kinds)
@click.option("-o", "--output", "how", type=click.Choice(["json", "yaml", "name"]), help="Default: name; json of KIND.")
def schema(kind: str | None, how: str | None) -> None:
    """Print the JSON Schema of a document by its kind; without KIND list the kinds.

    Fields are added by later versions, never renamed or removed: a schema allows fields that it does not know.
    """
    if kind is not None and kind not in DOCUMENTS:
        near = get_close_matches(kind, DOCUMENTS, n=3)
        hint = f"Did you mean {', '.join(near)}? " if near else ""
        raise click.UsageError(f"No document is of kind {kind!r}. {hint}All kinds: {as_called('tgp schema')}")
    chosen = [kind] if kind is not None else list(DOCUMENTS)
    how = how or ("json" if kind is not None else "name")
    if how == "name":
        click.echo("\n".join(chosen))
    else:
        write(schema_of(chosen[0]) if kind is not None else {each: schema_of(each) for each in chosen}, how)
