"""Cases: which sizes, which data. Hypothesis draws (sizes, pattern, seed), never lists of floats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from pytest_webgpu.conformance.packing import round_to
from pytest_webgpu.conformance.patterns import BESIDE, INDEPENDENT, PATTERNS, WILD
from pytest_webgpu.conformance.sizes import LONG, along, table
from pytest_webgpu.kernels.errors import KernelError, listing, nearest
from pytest_webgpu.kernels.expression import parse
from pytest_webgpu.ops.contract import Below, Contract, TensorArg
from pytest_webgpu.ops.launch import MAX_BINDING, Unfit, launch

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

    from pytest_webgpu.kernels.kernel import KernelSource

Array = NDArray[Any]
WIDE = 1024  # elements of a row that show every pattern, sums that overflow f16 among them


@dataclass(frozen=True)
class Case:
    """One set of inputs, all of which follows from these few values."""

    dims: Mapping[str, int]
    scalars: Mapping[str, float] = field(default_factory=dict)
    pattern: str = "normal"
    seed: int = 0
    tune: Mapping[str, int] = field(default_factory=dict)

    @property
    def independent(self) -> bool:
        return self.pattern in INDEPENDENT

    def to_json(self) -> str:
        """What `--webgpu-replay` takes."""
        return json.dumps({k: v for k, v in asdict(self).items() if v != {}})

    @classmethod
    def from_json(cls, text: str) -> Case:
        """The case that `to_json` wrote. ValueError says what is wrong with the text."""
        try:
            case = cls(**json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            raise ValueError(f"a case is JSON like {cls({'rows': 2}).to_json()}: {error}") from None
        if not isinstance(case.pattern, str) or case.pattern not in PATTERNS:
            raise ValueError(f"no pattern {case.pattern!r}; there are {', '.join(PATTERNS)}")
        _check_numbers("dims", case.dims, int, 0)
        _check_numbers("tune", case.tune, int)
        _check_numbers("scalars", case.scalars, (int, float))
        _check_numbers("case", {"seed": case.seed}, int, 0)
        return case


def _check_numbers(what: str, given: Any, kind: Any, least: float = -math.inf) -> None:
    if not isinstance(given, dict):
        raise ValueError(f'{what} is {given!r}; write names and numbers: {{"rows": 2}}')
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, kind) or not value >= least:
            wanted = ("an integer" if kind is int else "a number") + (" from 0" if least == 0 else "")
            raise ValueError(f"{name} of the {what} is {value!r}; it is {wanted}")


def misfit(case: Case, contract: Contract, kernel: KernelSource) -> str | None:
    """Why a case that somebody wrote is none of this op and kernel; None where it is one."""
    numbers, tune = {s.name: s.default for s in contract.scalars}, kernel.header.tune
    known = (("dim", case.dims, contract.dims), ("scalar", case.scalars, numbers), ("[tune]", case.tune, tune))
    for what, given, names in known:
        for name in given:
            if name not in names:
                return f"{contract.name} has no {what} {name!r}: {nearest(name, names)}it has {listing(names)}"
    missing = [n for n in contract.dims if n not in case.dims]
    missing += [n for n, default in numbers.items() if default is None and n not in case.scalars]
    if missing:
        return f"no value for {', '.join(missing)}, which {contract.name} needs"
    for name, value in case.tune.items():
        if value not in tune[name]:
            return f"[tune] lists no {name} = {value}: it has {listing(map(str, tune[name]))}"
    defaults = {n: default for n, default in numbers.items() if default is not None}
    if not contract.allows({**defaults, **case.scalars, **case.dims}):
        return f"{contract.name} is for {' and '.join(contract.where)} only"
    try:
        made = launch(contract, kernel, case.dims, case.scalars, case.tune)
    except Unfit as error:
        return str(error)
    except KernelError:  # the kernel's own fault: its check says so
        return None
    large = [a for a in made.arguments if a.size > MAX_BINDING]
    return f"{large[0].name} would be {large[0].size} bytes, and WebGPU binds {MAX_BINDING}" if large else None


def cases(contract: Contract, kernel: KernelSource, software: bool = False) -> SearchStrategy[Case]:
    """Valid cases, simplest first: Hypothesis shrinks to few elements, to normal data and to seed 0."""
    from hypothesis import strategies as st

    drawn = table(contract, kernel, software).drawn
    floats = {s.name: st.sampled_from(_choices(contract, s.name, s.default)) for s in contract.scalars
              if s.kind == "float"}  # fmt: skip

    def build(names: Mapping[str, int], pattern: str, seed: int, drawn_floats: Any, tune: Any) -> Case:
        return _case(contract, names, pattern, seed, drawn_floats, tune)

    return st.builds(
        build, st.sampled_from(drawn), st.sampled_from(list(PATTERNS)), st.integers(0, 2**16 - 1),
        st.fixed_dictionaries(floats), st.sampled_from(_tunes(kernel)),
    )  # fmt: skip


def fixed_cases(contract: Contract, kernel: KernelSource, software: bool = False, quick: bool = False) -> list[Case]:
    """The cases that stand in front of the drawn ones: telling sizes, each pattern in turn, every tunable.

    `quick` leaves out the one that needs millions of elements.
    """
    sizes = table(contract, kernel, software)
    fixed, drawn = sizes.fixed, sizes.drawn
    floats = {s.name: _choices(contract, s.name, s.default) for s in contract.scalars if s.kind == "float"}
    tunes = _tunes(kernel)
    patterns = list(PATTERNS)
    chosen = [(names, patterns[i % len(patterns)]) for i, names in enumerate(fixed or drawn[:1])]
    axis = along(contract)
    wide = max(fixed or drawn, key=lambda names: min(names[axis], WIDE))
    chosen += [(wide, p) for p in patterns if (wide, p) not in chosen]
    far = [n for n in fixed if max(n[d] for d in contract.dims) >= LONG and n is not wide]
    chosen += [(n, "normal") for n in far if (n, "normal") not in chosen]  # beside wild data a small term is lost
    if sizes.past is not None:
        chosen += [(sizes.past, p) for p in patterns]
    if sizes.far is not None:
        chosen.append((sizes.far, "normal"))
    if sizes.long is not None:
        chosen += [(sizes.long, "equal"), (sizes.long, "maximum-last")]
    while len(chosen) < len(tunes):
        chosen += chosen
    made = [
        _case(
            contract, names, pattern, i, {n: values[i % len(values)] for n, values in floats.items()},
            tunes[i % len(tunes)],
        )
        for i, (names, pattern) in enumerate(chosen)
    ]  # fmt: skip
    if sizes.joint is not None and len(tunes) > 1:
        first = {n: values[0] for n, values in floats.items()}
        made += [_case(contract, sizes.joint, "normal", i, first, tune) for i, tune in enumerate(tunes)]
    if sizes.folded is not None and not quick:
        names, tune = sizes.folded
        made.append(_case(contract, names, "normal", 1, {n: values[0] for n, values in floats.items()}, tune))
    return made


def smaller_cases(contract: Contract, kernel: KernelSource, software: bool, case: Case) -> list[Case]:
    """Cases like this one but of fewer elements (the product of dims), the smallest first."""
    floats = {n: v for n, v in case.scalars.items() if isinstance(v, float)}
    made = [_case(contract, names, case.pattern, case.seed, floats, case.tune)
            for names in table(contract, kernel, software).drawn]  # fmt: skip
    size = math.prod(case.dims.values())
    return [c for c in made if math.prod(c.dims.values()) < size]


def _case(
    contract: Contract, names: Mapping[str, int], pattern: str, seed: int, floats: Mapping[str, float], tune: Any
) -> Case:
    dims = {n: v for n, v in names.items() if n in contract.dims}
    return Case(dims, {**{n: v for n, v in names.items() if n not in dims}, **floats}, pattern, seed, tune)


def _tunes(kernel: KernelSource) -> list[dict[str, int]]:
    """The default, then each other value of each tunable: every one is a pipeline, so not all combinations."""
    return [{}, *({name: v} for name, values in kernel.header.tune.items() for v in values[1:])]


def _choices(contract: Contract, name: str, default: float | None) -> list[float]:
    """Values of a float scalar, as f32 holds them."""
    drawn = contract.draw.get(name) or ([0.5, 1.0, 2.0] if default is None else [default, default * 2, default / 3])
    return [float(np.float32(v)) for v in drawn]


def materialise(case: Case, contract: Contract, stored: Mapping[str, tuple[str, str]]) -> dict[str, Array]:
    """The arguments of the case by name, as they are stored: `stored` gives (dtype, storage) of each that is bound.

    One float tensor has the case's pattern (which one, the seed says), in one case of three all of them; the others
    are normal, or as BESIDE says.
    """
    rng = np.random.default_rng(case.seed)
    names = {**case.dims, **case.scalars}
    shapes = contract.shapes(case.dims, case.scalars)
    takers = [a.name for a in contract.args if a.name in stored and a.kind == "float"
              and case.pattern in contract.draw.get(a.name, PATTERNS)]  # fmt: skip
    everywhere, made = case.seed % 3 == 2 and case.pattern not in WILD, {}
    chosen = 0 if case.pattern in BESIDE else case.seed % max(1, len(takers))
    patterned = set(takers if everywhere else takers[chosen : chosen + 1])
    beside = BESIDE.get(case.pattern, PATTERNS["normal"])
    for arg in contract.args:
        if arg.name not in stored:
            continue
        dtype, storage = stored[arg.name]
        shape = shapes[arg.name]
        if arg.kind == "float":
            make = PATTERNS[case.pattern] if arg.name in patterned else beside
            values = make(shape, rng) if min(shape) else np.zeros(shape)
        else:
            values = _whole(arg, shape, contract.draw.get(arg.name), names, rng)
        made[arg.name] = round_to(values, dtype, storage)
    return made


def _whole(arg: TensorArg, shape: tuple[int, ...], draw: Any, names: Mapping[str, float], rng: Any) -> Array:
    """Integers: as `draw` says, the last one allowed always among those of `below`."""
    if arg.kind == "bool":
        return np.asarray(rng.integers(0, 2, shape))
    if isinstance(draw, Below):
        limit = max(1, parse(draw.limit).evaluate(names))
        values: Array = np.asarray(rng.integers(0, limit, shape))
        if values.size > 1:
            values.flat[rng.integers(values.size)] = limit - 1
        return values
    if draw is not None:
        return np.asarray(rng.choice(np.asarray(draw), shape))
    return np.asarray(rng.integers(-1000, 1000, shape))
