"""The same kernels on several implementations, side by side."""

from types import SimpleNamespace

from pytest_webgpu.report import implementations, terminal
from pytest_webgpu.report.results import Results
from pytest_webgpu.report.tables import all_tables


def results(*found):
    made = Results()
    made.add(SimpleNamespace(nodeid="x", outcome="passed", when="call", longrepr=None), found)
    return made


def checked(kernel, implementation, headroom=0.25, refused=None, passed=True, backend="vulkan"):
    data = {"op": kernel, "kernel": kernel, "cases": 9, "headroom": headroom, "passed": passed, "refused": refused,
            "notes": [], "wrong": not passed and refused is None}
    return {"kind": "conformance", "data": data | {"implementation": implementation, "backend": backend}}


def lacking(kernel, implementation):
    data = {"op": kernel, "kernel": kernel, "features": ["shader-f16"]}
    return {"kind": "lacking", "data": data | {"implementation": implementation, "backend": "vulkan"}}


SEVERAL = results(
    checked("add", "wgpu-native"), checked("add", "chrome", None), checked("mul", "wgpu-native"),
    checked("mul", "chrome", None, "line 3: no matching overload", passed=False),
    checked("sum", "wgpu-native", 3.0, passed=False), lacking("sum", "chrome"),
)  # fmt: skip


def test_the_table_has_a_column_an_implementation():
    table = implementations.differences(SEVERAL)
    assert table.columns == ("kernel", "wgpu-native", "chrome")
    assert table.rows == [("add", "0.25", "exact"), ("mul", "0.25", "REFUSED"), ("sum", "WRONG", "no shader-f16")]
    assert table.title in [t.title for t in all_tables(SEVERAL)]


def test_the_summary_says_where_kernels_differ_and_what_the_compiler_said():
    assert implementations.summary(SEVERAL) == [
        "kernels by implementation:",
        "  wgpu-native: 2 of 3 right",
        "  chrome: 1 of 2 right, 1 need a feature that it lacks",
        "  mul: right on wgpu-native, refused on chrome\n    chrome: line 3: no matching overload",
    ]
    assert "kernels by implementation:" in terminal.summary(SEVERAL, 80)


def test_backends_of_one_implementation_are_told_apart_and_one_place_is_no_comparison():
    two = results(checked("add", "dawn"), checked("add", "dawn", backend="gl"))
    assert implementations.differences(two).columns == ("kernel", "dawn, vulkan", "dawn, gl")
    assert "no kernel is right on one and wrong" in implementations.summary(two)[-1]
    assert implementations.summary(results(checked("add", "dawn"))) == []
    assert not implementations.differences(results(checked("add", "dawn"))).rows
