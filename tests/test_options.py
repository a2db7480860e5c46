"""Every setting: option over environment over ini, and the header says which."""

from __future__ import annotations

import pytest

from pytest_webgpu import options


def resolved(pytester: pytest.Pytester, *args: str, **environment: str) -> options.Settings:
    return options.resolve(pytester.parseconfig(*args), environment)


def test_every_row_is_an_option_and_an_ini_key(pytester: pytest.Pytester) -> None:
    values = {"flag": "true", "pairs": "a=1"}
    rows = [s for s in options.TABLE if s.name != "limits"]
    lines = [f"{s.key} = {s.choices[-1] if s.choices else values.get(s.kind, 'x')}" for s in rows]
    pytester.makeini("[pytest]\n" + "\n".join(lines))
    settings = resolved(pytester)
    assert {settings.source(s.name) for s in rows} == {"ini"}
    args = [s.option if s.kind == "flag" else f"{s.option}={s.choices[-1] if s.choices else 'a=1'}" for s in rows]
    settings = resolved(pytester, *args)
    assert {settings.source(s.name) for s in rows} == {"option"}


def test_nothing_given_is_the_default(pytester: pytest.Pytester) -> None:
    settings = resolved(pytester)
    assert settings["backend"] == ("auto",)
    assert settings.source("backend") == "default"
    assert settings.describe() == []


def test_option_wins_then_environment_then_ini(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nwebgpu_backend = metal\n")
    environment = {"PYTEST_WEBGPU_BACKEND": "gl"}
    assert resolved(pytester)["backend"] == ("metal",)
    assert resolved(pytester, **environment)["backend"] == ("gl",)
    both = resolved(pytester, "--webgpu-backend=vulkan", **environment)
    assert both["backend"] == ("vulkan",)
    assert both.describe() == ["backend=vulkan (option)"]


def test_the_environment_names_just_the_five_that_a_machine_sets() -> None:
    named = {s.name for s in options.TABLE if s.variable}
    assert named == {"backend", "implementation", "adapter", "gate", "baselines-dir"}


@pytest.mark.parametrize("args", [("--webgpu-backend=vulkan,gl",), ("--webgpu-backend=vulkan", "--webgpu-backend=gl")])
def test_words_repeat_or_are_separated_by_commas(pytester: pytest.Pytester, args: tuple[str, ...]) -> None:
    assert resolved(pytester, *args)["backend"] == ("vulkan", "gl")


def test_a_comma_in_an_expression_ends_nothing(pytester: pytest.Pytester) -> None:
    settings = resolved(pytester, "--webgpu-set=N=min(rows, cols),M=2", "--webgpu-workgroups=ceil_div(n, 64)")
    assert settings["set"] == (("N", "min(rows, cols)"), ("M", "2"))
    assert settings["workgroups"] == ("ceil_div(n, 64)",)


def test_limits_take_max(pytester: pytest.Pytester) -> None:
    assert resolved(pytester, "--webgpu-limits=max")["limits"] == (("max", ""),)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--webgpu-backend=directx"], "'directx' is none of auto, vulkan"),
        (["--webgpu-backend="], "--webgpu-backend: '' is none of auto, vulkan"),
        (["--webgpu-implementation=,"], "--webgpu-implementation: '' is none of wgpu-native, dawn"),
        (["--webgpu-bind=x"], "'x' is not NAME=VALUE"),
        (["--webgpu-gate=maybe"], "'maybe' is none of off, warn, fail, strict"),
        (["-o", "webgpu_dtype=f64"], "webgpu_dtype in -o: 'f64' is none of f32, f16"),
        (["--webgpu-report=out.pdf"], "the suffix must be one of .json, .md, .html"),
    ],
)
def test_a_bad_value_is_a_usage_error(pytester: pytest.Pytester, args: list[str], words: str) -> None:
    result = pytester.runpytest_inprocess(*args)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    assert words in result.stderr.str()


def test_what_shows_a_failure_again_on_the_same_device(pytester: pytest.Pytester) -> None:
    settings = resolved(pytester, "--webgpu-without=subgroups,shader-f16", PYTEST_WEBGPU_BACKEND="gl")
    told = settings.given("implementation", "backend", "without")
    assert told == ["--webgpu-backend=gl", "--webgpu-without=subgroups,shader-f16"]


def test_header_keys_from_options(pytester: pytest.Pytester) -> None:
    settings = resolved(
        pytester, "--webgpu-op=softmax", "--webgpu-workgroups=rows", "--webgpu-bind=a=x,b=out",
        "--webgpu-storage=w=f16x2", "--webgpu-tune=WG=64", "--webgpu-requires=cols % 4 == 0",
        "--webgpu-entry=main", "--webgpu-header=guarded = true",
    )  # fmt: skip
    assert options.header(settings) == {
        "op": "softmax", "workgroups": ["rows"], "bind": {"a": "x", "b": "out"}, "storage": {"w": "f16x2"},
        "tune": {"WG": [64]}, "requires": ["cols % 4 == 0"], "entry": "main", "guarded": True,
    }  # fmt: skip


def test_a_header_line_that_is_no_toml(pytester: pytest.Pytester) -> None:
    with pytest.raises(pytest.UsageError, match=r"--webgpu-header: .*'guarded = true'"):
        options.header(resolved(pytester, "--webgpu-header=guarded"))


def test_the_header_says_what_was_given_and_from_where(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTEST_WEBGPU_GATE", "off")
    pytester.makeini("[pytest]\nwebgpu_dtype = f16\n")
    result = pytester.runpytest_inprocess("--webgpu-reference=cpu")
    result.stdout.fnmatch_lines(
        ["webgpu: reference=cpu (option), dtype=f16 (ini), gate=off (environment PYTEST_WEBGPU_GATE)"]
    )


def test_options_that_nothing_asks_for_are_idle(pytester: pytest.Pytester) -> None:
    settings = resolved(pytester, "--webgpu-trace=token.json", "--webgpu-model=none", PYTEST_WEBGPU_BACKEND="gl")
    assert settings.describe()
    assert settings.given("trace")
    assert sorted(settings.idle()) == ["--webgpu-model", "--webgpu-trace"], "what was told of them is no use of them"
    assert settings["trace"]
    assert settings.idle() == ["--webgpu-model"]
