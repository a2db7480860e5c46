"""Every bad header or declaration is named with its file, line and remedy."""

from pathlib import Path

import pytest

from pytest_webgpu.collect import has_header
from pytest_webgpu.kernels.source import KernelError, parse_source, read_source
from pytest_webgpu.preprocess import preprocessed

HEAD = '//! op = "rms_norm"\n//! workgroups = ["rows"]\n'
MAIN = "@compute @workgroup_size(64) fn main() {}\n"
X = "@group(0) @binding(0) var<storage> x: array<f32>;\n"


def problem(text: str) -> KernelError:
    with pytest.raises(KernelError) as caught:
        parse_source(text, "k.wgsl")
    return caught.value


@pytest.mark.parametrize(("text", "line", "message", "remedy"), [
    (MAIN, 1, "no header", '//! op = "..."'),
    ('//! op = "a"\n' + MAIN, 1, "does not say how many workgroups", "add workgroups"),
    (HEAD + "//! requires = " + "[" * 2000 + "]" * 2000 + "\n" + MAIN, 3, "recursion", "lists of strings"),
    (HEAD + "//! [tune]\n//! WG = " + "1" * 5000 + "\n" + MAIN, 4, "integer string", "short numbers"),
    ('//! op = "a"\n//! pass = 5\n' + MAIN, 2, '"pass" is 5', "[[pass]]"),
    (HEAD + "//! gaurded = true\n" + MAIN, 3, '"gaurded" is no key', 'did you mean "guarded"?'),
    ("\n//! op = 'a'\n//! workgroups = [\n" + MAIN, 3, "the header is no TOML", "KEY = VALUE"),
    ('//! op = "a"\n//! workgroups = rows\n' + MAIN, 2, "the header is no TOML", "strings in quotes"),
    (MAIN + HEAD, 2, "a header that is not first", "above the code"),
    ('//! op = "a"\n//! workgroups = ["__import__(rows)"]\n' + MAIN, 2, "calls __import__", "ceil_div"),
    ('//! op = "a"\n//! workgroups = ["' + "1+" * 100 + '1"]\n' + MAIN, 2, "201 characters", "at most 200"),
    ('//! op = "a"\n//! workgroups = ["1","1","1","1"]\n' + MAIN, 2, "4 expressions", "up to three"),
    (HEAD + '//! requires = ["rows"]\n' + MAIN, 3, "is no condition", "cols % 4 == 0"),
    (HEAD + "//! guarded = 1\n" + MAIN, 3, '"guarded" is 1', "guarded = true"),
    (HEAD + '//! [storage]\n//! x = "f8"\n' + MAIN, 4, "'f8'", "one of: f16x2, i8x4, q4_32"),
    (HEAD + "//! [tune]\n//! WG = [64]\n" + MAIN, 4, '[tune] names "WG"', "here: none"),
    (HEAD + "//! [tune]\n//! WG = [64]\n//! [software]\n//! WG = 8\n" + MAIN, 6, "[tune] does not list", "WG = [64]"),
    (HEAD + '//! [types]\n//! elem = ["f32"]\n' + MAIN, 4, "no such alias", "here: none"),
    (HEAD + '//! entry = "mian"\n' + MAIN, 3, 'no entry point "mian"', 'did you mean "main"? entry points here: main'),
    (HEAD + MAIN + MAIN.replace("main", "other"), 1, "2 entry points: main, other", 'entry = "main"'),
    (HEAD + "fn main() {}", 1, "no entry point", "@compute @workgroup_size(64)"),
    (HEAD + "@compute fn main() {}", 3, "`main` has no @workgroup_size", "add"),
    (HEAD + X + X.replace("x:", "y:") + MAIN, 4, "`y` and `x` (line 3) are both at @group(0) @binding(0)", "its own"),
    (HEAD + "@group(0) @binding(0) var t: texture_2d<f32>;\n" + MAIN, 3, "`t` is a texture_2d<f32>", "buffers"),
    (HEAD + "@group(0) @binding(0) var s: sampler;\n" + MAIN, 3, "textures and samplers", "storage and uniform"),
    (HEAD + "@binding(0) var<storage> x: array<f32>;\n" + MAIN, 3, "`x` has no @group", "needs both"),
    (HEAD + "var<storage x: f32;\n" + MAIN, 3, "not expected in this declaration", "this is not WGSL: var<storage x"),
    (HEAD + "@compute @workgroup_size(1) fn main() { if (true) {", 3, "not closed", "this is not WGSL"),
    (HEAD + "const a = 1\n" + MAIN, 4, "not expected", "@compute"),
    (HEAD + "const a = $;\n" + MAIN, 3, "'$' is no WGSL", "const a = $;"),
    (HEAD + "#define WG 64\n" + MAIN, 3, "`#` is not expected", "--webgpu-preprocess"),
    (HEAD + MAIN + "/* /* */", 4, "has no end", "this is not WGSL"),
    (HEAD + "struct S { a: S }\n" + MAIN, 3, "struct S holds itself", "its own type"),
    (HEAD + "@id() override A = 1;\n" + MAIN, 3, "@id of `A` is no constant", "@id(0)"),
    (HEAD + "@id(wg) override A = 1;\n" + MAIN, 3, "@id of `A` is no constant", "@id(0)"),
    (HEAD + "@id(1 / 0) override A = 1;\n" + MAIN, 3, "@id of `A` is no constant", "@id(0)"),
    (HEAD + "struct S { @size(9**9) a: u32 }\n" + MAIN, 3, "@size of `a` is no constant", "@size(0)"),
    (HEAD + "struct S { @size(1e400) a: u32 }\n" + MAIN, 3, "@size of `a` is no constant", "@size(0)"),
    (HEAD + "struct S { a: " + "array<" * 2000 + "u32" + ", 2>" * 2000 + " }\n" + MAIN, 1, "too deep", "fewer"),
    (HEAD + "const a = " + "- " * 3000 + "1;\n" + MAIN, 1, "too deep", "fewer"),
])  # fmt: skip
def test_named_with_line_and_remedy(text: str, line: int, message: str, remedy: str) -> None:
    error = problem(text)
    assert (error.path, error.line) == ("k.wgsl", line)
    assert message in error.message
    assert remedy in error.remedy


@pytest.mark.parametrize("length", ["1 << 9999999999", "9" * 5000, "min(1)", "~1.5", "1e300 * 1e300"])
def test_a_constant_without_value_is_left_to_the_compiler(length: str) -> None:
    assert parse_source(HEAD + f"const N = {length}; struct S {{ a: array<f32, N> }}\n" + MAIN).entries


def test_a_byte_order_mark(tmp_path: Path) -> None:
    (tmp_path / "k.wgsl").write_text(HEAD + MAIN, encoding="utf-8-sig")
    assert has_header(tmp_path / "k.wgsl")
    assert read_source(tmp_path / "k.wgsl").text == HEAD + MAIN


def test_a_side_file_that_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "k.wgsl").write_text(MAIN)
    (tmp_path / "k.toml").write_bytes(b'op = "\xff"')
    with pytest.raises(KernelError, match=r"k\.toml:1: cannot be read: .*\n  name a TOML file in UTF-8"):
        read_source(tmp_path / "k.wgsl")


def test_a_preprocessor_that_prints_no_text(tmp_path: Path) -> None:
    with pytest.raises(KernelError, match=r"k\.wgsl:1: --webgpu-preprocess printed what is not UTF-8.*\n  .*printf"):
        preprocessed(tmp_path / "k.wgsl", "printf '\\377'", tmp_path / "kept")


def test_prints_as_path_line_message_and_remedy() -> None:
    error = problem(HEAD + "//! opp = 1\n" + MAIN)
    assert str(error).splitlines()[0] == 'k.wgsl:3: "opp" is no key of a header'
    assert str(error).splitlines()[1].startswith('  did you mean "op"? keys: op, workgroups')


def test_one_place_twice_is_right_for_two_entry_points() -> None:
    kernel = parse_source(
        '//! op = "a"\n//! entry = "one"\n//! workgroups = ["1"]\n' + X + X.replace("x:", "y:")
        + "@compute @workgroup_size(1) fn one() { let a = x[0]; }\n"
        + "@compute @workgroup_size(1) fn two() { let a = y[0]; }\n"
    )  # fmt: skip
    assert [b.name for b in kernel.bound("one")] == ["x"]
