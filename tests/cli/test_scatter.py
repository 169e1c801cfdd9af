"""A plot in letters has its marks where they belong."""

from holdfast.cli.scatter import HEIGHT, WIDTH, Mark, scatter


def test_marks_stand_where_their_figures_are() -> None:
    marks = [Mark(1, 1, "a"), Mark(10, 3, "b"), Mark(100, 10, "c"), Mark(100, 10, "d")]
    lines = scatter(marks, "{:g}".format, "{:g} %".format)
    assert len(lines) == HEIGHT + 2
    assert lines[0] == "10 % |" + " " * (WIDTH - 1) + "d", "the last of two in one place"
    assert lines[HEIGHT - 1] == " 1 % |a"
    middle = next(line for line in lines if "b" in line)
    assert middle.index("b") - len("10 % |") in {WIDTH // 2, WIDTH // 2 - 1}
    assert lines[-1].split() == ["1", "100"]


def test_a_single_mark_is_a_plot_too() -> None:
    assert sum(line.count("x") for line in scatter([Mark(5, 5, "x")], str, str)) == 1
