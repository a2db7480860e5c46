"""What the annotations of a typed torch function say: its tensors with their dims, its scalars, its outputs."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from torch import Tensor

Kind = Literal["float", "int", "bool"]


class ContractError(Exception):
    """A contract that says something impossible, or is used with shapes or arguments that it does not allow."""


@dataclass(frozen=True)
class Below:
    """Integers drawn from 0 up to, and without, the value of `limit` (an expression in dims)."""

    limit: str


def below(limit: str) -> Below:
    """For `draw=`: `{"ids": below("vocab")}`."""
    return Below(limit)


@dataclass(frozen=True)
class TensorArg:
    """A tensor of a contract: `dims` are expressions in dims ("rows", "2*cols", "1")."""

    name: str
    kind: Kind
    dims: tuple[str, ...]
    optional: bool = False
    inplace: bool = False

    def __str__(self) -> str:
        return f"{self.name}: {self.kind.capitalize()}[{' '.join(self.dims)}]" + (" | None" if self.optional else "")


@dataclass(frozen=True)
class ScalarArg:
    name: str
    kind: Literal["int", "float"]
    default: int | float | None = None


def where(fn: Callable[..., Any]) -> str:
    code = inspect.unwrap(fn).__code__
    return f"{code.co_filename}:{code.co_firstlineno}"


@dataclass(frozen=True)
class Signature:
    """A function's arguments and outputs, in order."""

    args: tuple[TensorArg, ...]
    scalars: tuple[ScalarArg, ...]
    outputs: tuple[TensorArg, ...]


def read(fn: Callable[..., Any], name: str) -> Signature:
    """What the annotations say; ContractError, with file and line, where they cannot be read."""
    try:
        hints = typing.get_type_hints(fn, include_extras=True)
    except NameError as error:
        raise ContractError(f"{where(fn)}: {name}: an annotation cannot be read: {error}") from error
    if "return" not in hints:
        raise ContractError(f"{where(fn)}: {name} says nothing of what it returns; annotate it, -> Float[Tensor, ...]")
    args: list[TensorArg] = []
    scalars: list[ScalarArg] = []
    for parameter in inspect.signature(fn).parameters.values():
        hint, default = hints.get(parameter.name), parameter.default
        if hint in (int, float):
            kind: Literal["int", "float"] = "int" if hint is int else "float"
            scalars.append(ScalarArg(parameter.name, kind, None if default is parameter.empty else default))
        else:
            args.append(_tensor(fn, parameter.name, hint))
    given = {a.name for a in args}
    result = hints["return"]
    if isinstance(result, type) and issubclass(result, tuple):
        fields = typing.get_type_hints(result, include_extras=True)
        outputs = [_tensor(fn, n, h, inplace=n in given) for n, h in fields.items()]
    else:
        outputs = [_tensor(fn, "out", result)]
    return Signature(tuple(args), tuple(scalars), tuple(outputs))


def _tensor(fn: Callable[..., Any], name: str, hint: Any, inplace: bool = False) -> TensorArg:
    optional = isinstance(hint, types.UnionType) or typing.get_origin(hint) is typing.Union
    if optional:
        hint = next((h for h in typing.get_args(hint) if h is not type(None)), None)
    dims, dtypes = getattr(hint, "dim_str", None), getattr(hint, "dtypes", ())
    if dims is None or getattr(hint, "array_type", None) is not Tensor:
        raise ContractError(
            f'{where(fn)}: {name!r} is annotated {hint!r}; a tensor is Float[Tensor, "rows cols"] (jaxtyping), '
            "a scalar int or float"
        )
    kind: Kind = "float" if any("float" in d for d in dtypes) else "bool" if "bool" in dtypes else "int"
    return TensorArg(name, kind, tuple(dims.split()), optional, inplace)
