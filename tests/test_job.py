"""The job protocol crosses a pipe unchanged, and sources come to each compiler as it wants them."""

import pickle

import pytest

from pytest_webgpu.gpu import job as j
from pytest_webgpu.gpu import wire
from pytest_webgpu.gpu.shader import compile_error, prepare, translate

COMMANDS = (
    j.MakeBuffer("a", 16, "uniform"),
    j.WriteBuffer("a", b"\0\1\2\3" * 4),
    j.FillBuffer("a", 7, 4, 8),
    j.CopyBuffer("a", "b", 8, 4, 0),
    j.ReadBuffer("a", 0, 4),
    j.MakePipeline("p", "code", "main", (j.Slot(0, 1, "storage"),), {"N": 4.0}, ("shader-f16",), 64),
    j.MakeProgram("g", (j.Dispatch("p", (j.Bound(0, 1, "a", 256, 4),), (1, 2, 3), "label"),)),
    j.RunProgram("g", 3, "pass-each", True, j.Collect("a", 8, 4)),
    j.Measure((j.Variant("v", "g", "wait-each", (1, 2)),), seed=3),
    j.MeasureWaits(3),
    j.MeasurePhases("g"),
    j.MeasureCreation("g"),
    j.MeasureTransfers((4, 8)),
    j.MeasureDeviceTime("g"),
    j.MeasureMemory(),
    j.Trace("g"),
    j.Drop(("a*",)),
)


def test_every_command_crosses_unchanged():
    assert {type(c) for c in COMMANDS} == {*j.COMMANDS.values()}
    sent = b"".join(bytes(piece) for piece in wire.pack(*wire.encode(COMMANDS)))
    assert wire.decode(*wire.unpack(sent)) == j.Job(COMMANDS)


def test_errors_cross_processes_of_pytest():
    error = pickle.loads(pickle.dumps(j.LimitError("too much", 3, limit="max-buffer-size", asked=2, allowed=1)))
    assert type(error) is j.LimitError
    assert (error.message, error.command, error.details["allowed"]) == ("too much", 3, 1)


F16 = "// a kernel\nenable f16, subgroups;\nenable\n  f16 ;\nvar<private> x: f16;"


@pytest.mark.parametrize(
    ("implementation", "line"), [("wgpu-native", "enable f16; "), ("dawn", "enable f16; enable subgroups; ")]
)
def test_enable_lines_are_the_compiler_s_own_and_no_line_moves(implementation, line):
    source = prepare(F16, (), implementation, ("shader-f16", "subgroups"))
    assert source.text == f"{line}// a kernel\n{' ' * 22}\n{' ' * 6}\n{' ' * 7}\nvar<private> x: f16;"
    assert prepare("x", ("subgroups",), "dawn", ("subgroups",)).text == "enable subgroups; x"


def test_a_feature_that_the_source_enables_must_be_there():
    with pytest.raises(j.MissingFeature, match="no feature 'shader-f16'") as caught:
        prepare(F16, (), "dawn", ("subgroups",))
    assert caught.value.details == {"feature": "shader-f16"}


@pytest.mark.parametrize(
    ("message", "line", "column"),
    [
        ("Validation Error\n\nCaused by:\n  In x\n\nShader '' parsing error: oh\n  ┌─ wgsl:4:12\n  │\n", 4, 12),
        ("Shader validation error: oh\n  ┌─ :4:12\n", 4, 12),
        ("Error while parsing WGSL: :4:12 error: oh\n", 4, 12),
        ("Error while parsing WGSL: :1:22 error: oh\n", 1, 10),
        ("Shader validation error: Entry point main at Compute is invalid", None, None),
    ],
)
def test_places_in_messages_are_places_in_the_given_source(message, line, column):
    source = prepare("fn main() {", ("shader-f16",), "wgpu-native", ("shader-f16",))
    error = compile_error(message, source)
    assert (error.details["line"], error.details["column"]) == (line, column)
    assert error.details["code"] == "fn main() {"
    assert not error.message.startswith("Validation Error")


def test_messages_of_the_libraries_become_errors_of_the_protocol():
    class GPUValidationError(Exception):
        pass

    class GPUOutOfMemoryError(Exception):
        pass

    assert type(translate(GPUValidationError("oh"))) is j.ValidationError
    assert type(translate(GPUOutOfMemoryError("oh"))) is j.OutOfMemory
    assert type(translate(GPUValidationError("In x\n  Not enough memory left"))) is j.OutOfMemory
    assert type(translate(GPUValidationError("In x\n  Parent device is lost"))) is j.DeviceLost
    assert type(translate(KeyError("oh"))) is j.GpuError
