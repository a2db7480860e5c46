"""What is wrong with the options themselves: said at the start, as a usage error, before anything has run."""

from __future__ import annotations

import shlex

import pytest

from pytest_webgpu import options
from pytest_webgpu.options import Settings, whole


def check(settings: Settings) -> None:
    """Raises pytest.UsageError, whose message names the option and says what to write.

    What a value needs is imported only where the option is given.
    """
    if settings["bench"] and not settings["dims"]:
        raise pytest.UsageError("--webgpu-bench needs dims to time at, such as --webgpu-dims=rows=1,cols=896")
    if settings.source("dims") == "option" and not settings["bench"]:
        raise pytest.UsageError("--webgpu-dims says where to time, which needs --webgpu-bench")
    for dims in settings["dims"]:
        parse_dims(dims)
    options.header(settings)
    options.processes(settings)
    if settings["most-mutants"] is not None:
        whole(settings["most-mutants"], "--webgpu-most-mutants", 1)
    if settings["preprocess"] is not None:
        command(settings["preprocess"])
    if settings["report"]:
        from pytest_webgpu.report import files

        files.check(settings["report"])
    limits(settings)
    _check_features(settings)
    _check_replay(settings)
    if settings["reference"] == "cuda":
        _check_cuda()


def parse_dims(text: str) -> dict[str, int]:
    """ "rows=1,cols=896". Raises pytest.UsageError."""
    dims: dict[str, int] = {}
    for word in text.split(","):
        name, _, value = (part.strip() for part in word.partition("="))
        if not (name and value):
            raise pytest.UsageError(f"--webgpu-dims={text}: {word!r} is not NAME=INTEGER")
        if name in dims:
            raise pytest.UsageError(f"--webgpu-dims={text}: {name} is given twice; give the option again for others")
        dims[name] = whole(value, f"--webgpu-dims={text}: {name}", 1)
    return dims


def command(text: str) -> list[str]:
    """The words of `--webgpu-preprocess`. Raises pytest.UsageError where it is no command."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise pytest.UsageError(f"--webgpu-preprocess={text}: {error}; close it, as in cpp -P '{{file}}'") from None
    if not words:
        raise pytest.UsageError("--webgpu-preprocess names no command; write it as in cpp -P {file}")
    return words


def limits(settings: Settings) -> dict[str, int] | str | None:
    """What `--webgpu-limits` asks of a device: None (WebGPU's defaults), "max", or numbers by WebGPU's names."""
    from pytest_webgpu.gpu.job import LimitError
    from pytest_webgpu.gpu.limits import limit_name

    asked = settings["limits"]
    if not asked:
        return None
    if ("max", "") in asked:
        if len(asked) > 1:
            raise pytest.UsageError("--webgpu-limits: max is all that the adapter has; give it alone")
        return "max"
    found = {}
    for name, value in asked:
        try:
            found[limit_name(name)] = whole(value, f"--webgpu-limits={name}={value}", 0)
        except LimitError as error:
            raise pytest.UsageError(f"--webgpu-limits={name}={value}: {error.message}") from None
    return found


def _check_features(settings: Settings) -> None:
    from pytest_webgpu.gpu.limits import unknown_feature

    for name in settings["without"]:
        if told := unknown_feature(name):
            raise pytest.UsageError(f"--webgpu-without={name}: {told}")


def _check_replay(settings: Settings) -> None:
    text = settings["replay"]
    if text is not None:
        from pytest_webgpu.conformance.inputs import Case

        try:
            Case.from_json(text)
        except ValueError as error:
            raise pytest.UsageError(f"--webgpu-replay={text}: {error}") from None


def _check_cuda() -> None:
    import torch

    if not torch.cuda.is_available():
        raise pytest.UsageError(
            "--webgpu-reference=cuda: this torch sees no CUDA device; leave it out, or install torch for CUDA"
        )
