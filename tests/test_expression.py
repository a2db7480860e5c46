"""Arithmetic of headers: what it computes, and what it refuses."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_webgpu.kernels.expression import ExpressionError, parse

NAMES = {"rows": 130, "cols": 7, "WG": 64, "eps": 0.5}


@pytest.mark.parametrize(("text", "value"), [
    ("rows", 130), ("ceil_div(rows, WG)", 3), ("rows // WG * 2 + 1", 5), ("-rows % 64", 62), ("min(rows, cols, 3)", 3),
    ("max(1, rows - 200)", 1), ("(rows + 2) * -1", -132), ("0x10 + 1_000", 1016), ("2 - 3 - 4", -5), ("7 // 2 // 2", 1),
    ("fold2d(rows * cols)", 910),
])  # fmt: skip
def test_value(text: str, value: int) -> None:
    assert parse(text).evaluate(NAMES) == value


@pytest.mark.parametrize(("text", "holds"), [
    ("cols % 4 == 0", False), ("rows % 2 == 0 and cols >= 7", True), ("1 < cols < 7", False),
    ("not (rows == cols)", True),
    ("rows < 5 or cols != 3", True),
])  # fmt: skip
def test_condition(text: str, holds: bool) -> None:
    expression = parse(text)
    assert expression.is_condition
    assert expression.holds(NAMES) is holds


def test_names_and_kinds() -> None:
    assert parse("ceil_div(rows, WG) + 1").names == {"rows", "WG"}
    assert parse("fold2d(rows)").folds
    assert not parse("min(rows, 2)").folds
    assert parse("3 * 4").is_constant
    assert parse("1e-5").value({}) == 1e-5
    assert parse("rows").text == "rows"


ARITHMETIC = st.recursive(
    st.integers(0, 99).map(str),
    lambda part: st.tuples(part, st.sampled_from(["+", "-", "*", "//", "%"]), part).map(lambda t: f"({' '.join(t)})"),
    max_leaves=12,
)


@given(ARITHMETIC)
def test_arithmetic_is_integers_as_python_has_them(text: str) -> None:
    try:
        expected = eval(text)  # the oracle: the text holds digits and operators only
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="division by zero"):
            parse(text).evaluate({})
    else:
        assert parse(text).evaluate({}) == expected


@pytest.mark.parametrize("text", [
    "__import__('os').system('true')", "rows.real", "[rows][0]", "lambda: 1", "rows if cols else 1", "rows ** 2", "",
    "rows rows", "ceil_div(rows)", "fold2d(rows) + 1", "sum(rows)", "'rows'", "rows;", "min()",
])  # fmt: skip
def test_no_arithmetic(text: str) -> None:
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert "ceil_div" in caught.value.remedy or "arithmetic" in caught.value.remedy


def test_import_is_just_an_unknown_function() -> None:
    with pytest.raises(ExpressionError, match="calls __import__"):
        parse("__import__(rows)")


def test_long_text_is_refused() -> None:
    parse("1" + "+1" * 99)
    with pytest.raises(ExpressionError, match="an expression of 201 characters: at most 200"):
        parse("1" + "+1" * 100)


def test_unknown_name_lists_the_dims() -> None:
    with pytest.raises(ExpressionError) as caught:
        parse("row * 2").evaluate({"rows": 1, "cols": 2})
    assert caught.value.message == '"row" in "row * 2" is no dim, integer scalar or override'
    assert caught.value.remedy == 'did you mean "rows"? the names here are: cols, rows'


def test_fraction_where_a_whole_number_is_needed() -> None:
    with pytest.raises(ExpressionError, match=r"0\.5, not a whole number"):
        parse("eps").evaluate(NAMES)
    with pytest.raises(ExpressionError, match="division by zero"):
        parse("rows // (cols - 7)").evaluate(NAMES)
