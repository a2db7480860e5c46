"""What an op computes, said once: a typed torch function, and what can be read from its annotations.

    @op
    def rms_norm(x: Float[Tensor, "rows cols"], weight: Float[Tensor, "cols"], eps: float = 1e-6,
                 ) -> Float[Tensor, "rows cols"]: ...

Tensors with named dims become bindings, `int` and `float` arguments scalars. An `int` argument that bears the name
of a dim is that dim (`k` of top_k). An output that bears the name of an argument is written in place.
"""

from __future__ import annotations

import importlib
import inspect
import sys
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from pytest_webgpu.kernels.errors import nearest
from pytest_webgpu.kernels.expression import Expression, parse
from pytest_webgpu.ops.annotations import Below, ContractError, ScalarArg, TensorArg, below, read, where

__all__ = [
    "Below", "Contract", "ContractError", "ScalarArg", "TensorArg", "all_ops", "below", "get", "load", "op",
]  # fmt: skip

Names: TypeAlias = Mapping[str, int | float]
SHIPPED = (
    "elementwise", "norm", "linear", "attention", "cache", "sampling", "reduce", "quantised", "fused", "primitive",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Contract:
    """An op: its arguments, outputs and ranges, and the torch function that computes it. Callable like that one.

    `where`: conditions on dims and scalars that every case meets. `draw`: values of scalars and dims (a list to choose
    from) and of integer tensors (`below`, or a list), and names of the patterns that a float tensor may have.
    `ties`: "first" when equal maxima go to the lowest index. `forms`: other functions of the same arguments that are
    as right. `accumulate`: the precision in which sums may be formed.
    """

    name: str
    fn: Callable[..., Any]
    args: tuple[TensorArg, ...]
    scalars: tuple[ScalarArg, ...]
    sizes: tuple[str, ...]  # int arguments that are dims
    outputs: tuple[TensorArg, ...]
    where: tuple[str, ...] = ()
    draw: Mapping[str, Any] = field(default_factory=dict)
    ties: str | None = None
    deterministic: bool = True
    forms: tuple[Callable[..., Any], ...] = ()
    accumulate: Literal["f32", "f16"] = "f32"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.fn(*args, **kwargs)

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.fn) or ""

    @cached_property
    def dims(self) -> tuple[str, ...]:
        """Names of all dims, in order of appearance."""
        names: dict[str, None] = {}
        for tensor in (*self.args, *self.outputs):
            for dim in tensor.dims:
                names.update(dict.fromkeys(sorted(parse(dim).names, key=dim.index)))
        return tuple(names)

    @cached_property
    def conditions(self) -> tuple[Expression, ...]:
        return tuple(parse(text) for text in self.where)

    def tensor(self, name: str) -> TensorArg:
        """The argument or output `name` (an argument that is written in place, as the output that it is)."""
        for tensor in (*self.outputs, *self.args):
            if tensor.name == name:
                return tensor
        raise ContractError(f"{self.name} has no tensor {name!r}; it has {self.tensor_names}")

    def argument(self, name: str) -> TensorArg:
        """The argument `name`."""
        for arg in self.args:
            if arg.name == name:
                return arg
        raise ContractError(f"{self.name} has no argument {name!r}; it has {self.tensor_names}")

    @property
    def tensor_names(self) -> str:
        return ", ".join(dict.fromkeys(t.name for t in (*self.args, *self.outputs)))

    def known(self, dims: Names) -> None:
        """Raises ContractError for a name that is no dim and no scalar of this op."""
        names = (*self.dims, *(s.name for s in self.scalars))
        for name in dims:
            if name not in names:
                raise ContractError(f"{self.name} has no dim {name!r}: {nearest(name, names)}"
                                    f"its dims and scalars are {', '.join(names)}")  # fmt: skip

    def shapes(self, dims: Names, scalars: Names | None = None) -> dict[str, tuple[int, ...]]:
        """The shape of every tensor, given all dims."""
        names = {**(scalars or {}), **dims}
        missing = [d for d in self.dims if d not in names]
        if missing:
            raise ContractError(f"{self.name}: no value for {', '.join(missing)}; its dims are {', '.join(self.dims)}")
        return {t.name: tuple(int(parse(d).evaluate(names)) for d in t.dims) for t in (*self.args, *self.outputs)}

    def infer(self, shapes: Mapping[str, Sequence[int]], scalars: Names | None = None) -> dict[str, int]:
        """All dims, from the shapes of arguments (and of outputs, or int arguments, where only these tell)."""
        dims = {name: int(value) for name, value in (scalars or {}).items() if name in self.dims}
        open_: list[tuple[str, str, int]] = []
        for name, shape in shapes.items():
            tensor = self.tensor(name)
            if len(shape) != len(tensor.dims):
                raise ContractError(f"{self.name}: {tensor} was given the shape {tuple(shape)}")
            open_ += [(name, dim, int(size)) for dim, size in zip(tensor.dims, shape, strict=True)]
        progress = True
        while progress:
            progress = False
            for _, dim, size in open_:
                unknown = [n for n in parse(dim).names if n not in dims]
                if len(unknown) == 1 and (value := _solve(parse(dim), dims, unknown[0], size)) is not None:
                    dims[unknown[0]], progress = value, True
        missing = [d for d in self.dims if d not in dims]
        if missing:
            raise ContractError(f"{self.name}: the given shapes {dict(shapes)} do not tell {', '.join(missing)}")
        for name, dim, size in open_:
            if (wanted := parse(dim).evaluate(dims)) != size:
                raise ContractError(f"{self.name}: {self.tensor(name)} has {size} where {dim} is {wanted} ({dims})")
        return dims

    def allows(self, names: Names) -> bool:
        """Whether dims and scalars meet every condition of `where`."""
        return all(c.holds(names) for c in self.conditions)

    def arguments(self, inputs: Mapping[str, Tensor], scalars: Names) -> dict[str, Any]:
        """Keyword arguments for the function. `scalars` may hold dims as well; absent ones take their defaults."""
        arguments: dict[str, Any] = {}
        for arg in self.args:
            if arg.name in inputs:
                arguments[arg.name] = inputs[arg.name]
            elif not arg.optional:
                raise ContractError(f"{self.name}: argument {arg} is missing")
        for scalar in self.scalars:
            if scalar.name in scalars:
                arguments[scalar.name] = (int if scalar.kind == "int" else float)(scalars[scalar.name])
            elif scalar.default is None:
                raise ContractError(f"{self.name}: scalar {scalar.name} is missing")
        if self.sizes:
            dims = self.infer({n: t.shape for n, t in inputs.items()}, scalars)
            arguments.update({n: dims[n] for n in self.sizes})
        return arguments

    def reference(
        self, inputs: Mapping[str, Tensor], scalars: Names | None = None, dtype: torch.dtype = torch.float64
    ) -> dict[str, Tensor]:
        """The outputs by name, computed in `dtype` (integers in int64) where the inputs lie. Inputs stay unchanged."""
        written = {o.name for o in self.outputs if o.inplace}
        wanted = {"float": dtype, "int": torch.int64, "bool": torch.bool}
        given = {n: t.to(wanted[self.argument(n).kind], copy=n in written) for n, t in inputs.items()}
        return self.named(self.fn(**self.arguments(given, scalars or {})))

    def named(self, result: Any) -> dict[str, Any]:
        """What the function returned, by output name."""
        values = tuple(result) if isinstance(result, tuple) else (result,)
        if len(values) != len(self.outputs):
            raise ContractError(f"{self.name} returned {len(values)} values, its annotation says {len(self.outputs)}")
        return {o.name: v for o, v in zip(self.outputs, values, strict=True)}


def _solve(expression: Expression, dims: Mapping[str, int], name: str, size: int) -> int | None:
    """The value of `name` at which an expression that is linear in it equals `size`."""
    at = [expression.evaluate({**dims, name: v}) for v in (1, 2)]
    slope = at[1] - at[0]
    if slope <= 0:
        return None
    value = round(1 + (size - at[0]) / slope)
    return value if value >= 0 and expression.evaluate({**dims, name: value}) == size else None


_registry: dict[str, Contract] = {}


@typing.overload
def op(fn: Callable[..., Any], /) -> Contract: ...
@typing.overload
def op(*, name: str | None = ..., **options: Any) -> Callable[[Callable[..., Any]], Contract]: ...
def op(fn: Callable[..., Any] | None = None, /, *, name: str | None = None, **options: Any) -> Any:
    """Makes a contract of a typed torch function and registers it under `name` (the function's own by default).

    Raises ContractError when an annotation cannot be read or another function has registered the name.
    """

    def make(f: Callable[..., Any]) -> Contract:
        return _register(_read(f, name or f.__name__, options))

    return make if fn is None else make(fn)


def _register(contract: Contract) -> Contract:
    known = _registry.get(contract.name)
    if known is not None and (known.fn.__module__, known.fn.__qualname__) != (
        contract.fn.__module__, contract.fn.__qualname__,
    ):  # fmt: skip
        raise ContractError(
            f"two functions register the op {contract.name!r}: {where(known.fn)} and {where(contract.fn)}; "
            "give one of them another name, @op(name=...)"
        )
    _registry[contract.name] = contract
    return contract


def get(name: str) -> Contract:
    """The contract of that name. ContractError lists what there is."""
    _load()
    if name not in _registry:
        near = nearest(name, _registry)
        raise ContractError(f"no op is named {name!r}; {near}there are {', '.join(sorted(_registry))}")
    return _registry[name]


def all_ops() -> tuple[Contract, ...]:
    """Every registered contract, sorted by name."""
    _load()
    return tuple(_registry[n] for n in sorted(_registry))


def _load() -> None:
    for module in SHIPPED:
        importlib.import_module(f"pytest_webgpu.ops.{module}")


def load(spec: str) -> Contract:
    """The contract that `module:function` names (`--webgpu-op`), or the registered op of that name."""
    if ":" not in spec:
        return get(spec)
    module, _, attribute = spec.partition(":")
    if str(Path.cwd()) not in sys.path:  # as `python -m pytest` has it
        sys.path.insert(0, str(Path.cwd()))
    try:
        value = getattr(importlib.import_module(module), attribute)
    except Exception as error:  # whatever a module does when it is imported
        raise ContractError(f"{spec!r} names no op: {type(error).__name__}: {error}") from error
    if isinstance(value, Contract):
        return value
    if not inspect.isfunction(value):
        raise ContractError(f"{spec!r} names no op: it is a {type(value).__name__}, and an op is a Python function "
                            "with annotations")  # fmt: skip
    return op(value)


def _read(fn: Callable[..., Any], name: str, options: Mapping[str, Any]) -> Contract:
    """The contract that the annotations say."""
    said = read(fn, name)
    names = {n for t in (*said.args, *said.outputs) for d in t.dims for n in parse(d).names}
    scalars = tuple(s for s in said.scalars if s.name not in names)
    sizes = tuple(s.name for s in said.scalars if s.name in names)
    listed = {k: tuple(options[k]) for k in ("where", "forms") if k in options}
    return Contract(name, fn, said.args, scalars, sizes, said.outputs, **{**options, **listed})
