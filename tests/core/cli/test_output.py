"""Tables and paragraphs that keep to the terminal, and numbers that can be read."""

import io

from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, Group

from tgp.interfaces.cli.output import TableColumn, cut, dollar_cells, table, wrapped

WORDS = st.text(max_size=40)


def test_the_points_of_prices_stand_below_each_other():
    assert [words for words, _ in dollar_cells([75_000, 690_000, 25_440_000])] == ["0.075", "0.690", "25.440"]


@given(
    cells=st.lists(st.tuples(WORDS, WORDS, WORDS), max_size=8),
    width=st.integers(10, 120),
    longest=st.integers(0, 20),
)
def test_a_table_keeps_to_its_width_on_one_line_a_row(cells, width, longest):
    """Whatever providers call their places: no line too many or too long, nothing that moves a cursor."""
    first, second, third = ([(row[number], "bold") for row in cells] for number in range(3))
    columns = [
        TableColumn("A", tuple(first), longest=longest),
        TableColumn("BB", tuple(second), right=True),
        TableColumn("C", tuple(third)),
    ]

    lines = [line.plain for line in table(columns, width)]

    assert len(lines) == len(cells) + 1
    assert all(cell_len(line) <= width for line in lines)
    assert all(line == line.rstrip() for line in lines)
    assert all(character.isprintable() for line in lines for character in line)


@given(st.text(alphabet=st.characters(), max_size=300), st.integers(40, 120))
def test_a_paragraph_loses_no_word_and_keeps_to_the_width_where_words_allow(words, width):
    lines = [line.plain for line in wrapped(words, width, first="! ", rest="  ")]
    said = " ".join(line[2:] for line in lines).split()
    plain_words = "".join(c if c.isprintable() else " " for c in " ".join(words.split())).split()

    assert said == plain_words
    if all(cell_len(word) <= width - 2 for word in plain_words):
        assert all(cell_len(line) <= width for line in lines)


def test_markup_in_foreign_words_is_shown_and_not_obeyed():
    out = io.StringIO()
    lines = table([TableColumn("PLACE", (("[bold red]x[/]", ""),))], 40)
    Console(file=out, width=40, color_system=None).print(Group(*lines, *wrapped("[link=http://x]here[/link]", 60)))

    assert "[bold red]x[/]" in out.getvalue()
    assert "[link=http://x]here[/link]" in out.getvalue()


def test_cut_words_say_that_they_were_cut():
    assert cut("East Coast (NY2)", 8) == "East Co…"
    assert cut("short", 8) == "short"
