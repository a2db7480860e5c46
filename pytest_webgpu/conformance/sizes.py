"""Dims and whole scalars for cases: a table of valid ones for each op and kernel, smallest first.

Made ahead, so that Hypothesis draws an index and never filters.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_webgpu.kernels.errors import KernelError
from pytest_webgpu.kernels.expression import MAX_WORKGROUPS, Expression, parse
from pytest_webgpu.ops.contract import Contract, ContractError
from pytest_webgpu.ops.launch import Launch, Unfit, launch

if TYPE_CHECKING:
    from pytest_webgpu.kernels.kernel import KernelSource

Names = dict[str, int]
SMALL = (1, 2, 3, 4, 5, 7, 8)
MIDDLE = (13, 16, 31, 32, 33, 61, 64, 96, 127, 128, 129, 251, 255, 256, 257)
LARGE = (509, 512, 768, 896, 1021, 1024, 1028, 1029, 1030, 2048)
LONG = 2057  # indices beyond what f16 holds; of an `override` only where no workgroup memory may be sized by it
FOR_EACH, IN_TURN = (1, 3, LONG), (5, 13, 61, 127, 257, 896, 1029, 4099, 4864, 1536, 8960)
"""Sizes of the fixed cases: every dim has the first and those beside the workgroup's, one dim each of the others."""
ALL_AT_ONCE = (1, 3, 68)
"""Of every dim in one fixed case each: odd counts of elements, a tile of 64 and part of another in all directions."""
SEVERAL = 13  # more than a workgroup makes of any dim in gemv kernels (8), and not a multiple of that
PAST = 601  # of a cache: more than two workgroups take at a time, and a part
BEYOND_F16 = 80_000  # so many ones are beyond f16's largest number, 65,504, by more than their sum may be off
REACH = 32  # how far from a telling size one is looked for that the kernel's conditions allow
SCALARS = (0, 1, 2, 3, 5, 17, 64, 127)
BUDGET = 1 << 17
"""Most elements (multiply-adds, for a product) of a drawn case; a fixed one may have 16 times as many."""
DRAWN = 96
COMPILED = (64, 5, 128, 12, 96, 8, 256, 896, 2, 1, 0)
"""What a dim or scalar that is an `override` is chosen from: each value is a pipeline, so it has the first few."""
FEW = 3
BEYOND = (MAX_WORKGROUPS + 300, 300)
"""So many more than fit a dimension of workgroups that a kernel that shifts by another width misses some."""


SLOWEST = 4e-6
"""Seconds of an invocation that meets eight barriers on the slowest software adapter (SwiftShader), beside work."""
HEAVY, HEAVIEST = 1 << 20, 1 << 24
"""Invocations: a software adapter (some 0.2 microseconds each on two cores) is given no case of more than HEAVY, or
HEAVIEST for one that folds its workgroups into a second dimension."""


@dataclass(frozen=True)
class Table:
    """Dims and int scalars by name: the fixed ones, and those to draw from, smallest first.

    `long`: rows so long that a sum of ones is beyond what f16 holds, where the kernel takes such.
    `folded`: of a kernel that says fold2d, the least that does not fit one dimension, and tunables that make it cheap.
    `past`: scalars that dims hold down are as large as they may be: a cache that is full of what was before. `far`:
    the same of a size beyond what an index in f16 holds.
    `joint`: long rows and several of them, and of all else: whatever a tunable says, each lane has something to do.
    """

    fixed: tuple[Names, ...]
    drawn: tuple[Names, ...]
    long: Names | None
    folded: tuple[Names, dict[str, int]] | None
    joint: Names | None
    past: Names | None
    far: Names | None


_tables: dict[tuple[Contract, str, str, str, bool], Table] = {}


def table(contract: Contract, kernel: KernelSource, software: bool = False) -> Table:
    """ContractError where no sizes meet all conditions."""
    requires = " and ".join(e.text for e in kernel.header.requires)
    key = (contract, kernel.sha, kernel.name, requires, software)
    if key not in _tables:
        source = _Sizes(contract, kernel, software)
        fixed = [n for n in _distinct(source.fixed()) if source.fits(n)]
        drawn = [n for n in _distinct(source.drawn(DRAWN)) if source.fits(n)]
        if not fixed and not drawn:
            raise ContractError(
                f"{contract.name}, {kernel.name}: no sizes meet {' and '.join(source.texts) or 'its conditions'}; "
                "where that is possible, list sizes: @op(draw={DIM: [..]})"
            )
        by_cost = sorted(drawn or fixed, key=source.cost)
        singles = source.long(), source.folded(), source.joint(), source.full(PAST), source.full(LONG)
        _tables[key] = Table(tuple(fixed), tuple(by_cost), *singles)
    return _tables[key]


def invocations(made: Launch) -> int:
    """How many invocations a launch has, over all its passes."""
    size = made.kernel.workgroup_size
    return sum(math.prod(p.workgroups) * math.prod(size(p.entry, made.overrides)) for p in made.passes)


def along(contract: Contract) -> str:
    """The dim along the rows of the first argument that has any: what reductions and products go along."""
    axes = (a.dims[-1] for a in contract.args if a.dims)
    return next((n for axis in axes for n in sorted(parse(axis).names)), contract.dims[0])


def _distinct(cases: Iterator[Names]) -> list[Names]:
    seen: dict[tuple[int, ...], Names] = {}
    for names in cases:
        seen.setdefault(tuple(names.values()), names)
    return list(seen.values())


class _Sizes:
    def __init__(self, contract: Contract, kernel: KernelSource, software: bool) -> None:
        self.contract, self.kernel, self.software = contract, kernel, software
        self.scalars = [s.name for s in contract.scalars if s.kind == "int"]
        self.names = [*contract.dims, *self.scalars]
        known = set(self.names)
        required = [e for e in kernel.header.requires if e.names <= known]
        self.conditions: list[Expression] = [*contract.conditions, *required]
        self.texts = [c.text for c in self.conditions]
        needs = [(c, c.names) for c in self.conditions]
        self.by_name = {n: [(c, names) for c, names in needs if n in names] for n in self.names}
        # Scalars that conditions only hold down from above: where 0 fails, all else does.
        self.bounding = {n for n in self.scalars if all("<" in c.text for c, _ in self.by_name[n])}
        overrides = {o.name for o in kernel.overrides}
        set_by = {n for exprs in kernel.header.set.values() for e in exprs for n in e.names}
        self.compiled = (overrides | set_by) & known
        self.folds = any(e.folds for p in kernel.passes for e in p.workgroups)
        self.group = self._workgroup()
        self.marks = sorted({self.group - 1, self.group, self.group + 1, 2 * self.group + 1} - {0})
        self.constants = sorted({c for text in self.texts for c in _numbers(text) if 1 < c <= 8192})
        self.random = random.Random(0)
        self.choices: dict[str, tuple[int, ...]] = {}

    def _workgroup(self) -> int:
        overrides = {name: float(values[0]) for name, values in self.kernel.header.tune.items()}
        try:
            return math.prod(self.kernel.workgroup_size(self.kernel.passes[0].entry, overrides))
        except (ValueError, KeyError):
            return 64

    def launched(self, names: Names, tune: Mapping[str, int] | None = None) -> Launch:
        numbers = {s.name: s.default or 0 for s in self.contract.scalars}
        dims = {d: names[d] for d in self.contract.dims}
        return launch(self.contract, self.kernel, dims, {**numbers, **names}, tune)

    def fits(self, names: Names) -> bool:
        """Whether the kernel's own `requires` hold, those that name overrides as well, and it is not too much."""
        try:
            return not self.software or invocations(self.launched(names)) <= HEAVY
        except Unfit:
            return False
        except KernelError:
            return True  # a finding, which the case reports

    def long(self) -> Names | None:
        dim = along(self.contract)
        size = None if dim in self.compiled else self._near(dim, BEYOND_F16)
        names = None if size is None else self._kept(dim, size)
        light = names is not None and self.cost(names) <= 2 * BUDGET and self.fits(names)
        return names if light else None

    def joint(self) -> Names | None:
        dim = along(self.contract)
        size = self._near(dim, LONG)
        if size is None:
            return None
        names = self.complete(dict.fromkeys(self.contract.dims, SEVERAL) | {dim: size}, 16 * BUDGET, keep=dim)
        return names if names is not None and self.fits(names) else None

    def full(self, size: int) -> Names | None:
        for name in sorted(self.bounding):
            for dim in sorted({n for _, needs in self.by_name[name] for n in needs} & set(self.contract.dims)):
                names = self._kept(dim, size)
                largest = 0 if names is None else self._largest(name, names, size)
                if names is not None and largest > max(SCALARS):
                    return full if self.fits(full := {**names, name: largest}) else None
        return None

    def _largest(self, name: str, names: Names, most: int) -> int:
        """The largest value up to `most` that the conditions allow."""
        return next((v for v in range(most, -1, -1) if self._allowed(name, {**names, name: v})), 0)

    def folded(self) -> tuple[Names, dict[str, int]] | None:
        tune = {name: min(values) for name, values in self.kernel.header.tune.items()}
        types = self.kernel.header.types
        first = all(type == types[name][0] for name, type in self.kernel.variant if name in types)
        if not self.folds or (self.software and not first):  # the variants of a file share their arithmetic of indices
            return None
        for dim in self.contract.dims:
            if dim in self.compiled:
                continue
            names, low = self._kept(dim, MAX_WORKGROUPS), MAX_WORKGROUPS
            while names is not None and self.cost(names) <= 1 << 24 and self._allowed(dim, names):
                try:
                    if any(p.workgroups[1] > 1 for p in self.launched(names, tune).passes):
                        least = self._least(names, dim, low, tune)
                        heavy = invocations(self.launched(least, tune))
                        return (least, tune) if heavy <= HEAVIEST or not self.software else None
                except (Unfit, KernelError):
                    break
                names, low = {**names, dim: 2 * names[dim]}, names[dim]
        return None

    def _least(self, names: Names, dim: str, low: int, tune: Mapping[str, int]) -> Names:
        """A little over the least size above `low` at which a second dimension of workgroups is needed."""
        high = names[dim]
        while high - low > 1:
            middle = (low + high) // 2
            folds = any(p.workgroups[1] > 1 for p in self.launched({**names, dim: middle}, tune).passes)
            low, high = (low, middle) if folds else (middle, high)
        for more in BEYOND:
            beyond = {**names, dim: high + more}
            if self._allowed(dim, beyond) and all(p.workgroups[1] <= 2 for p in self.launched(beyond, tune).passes):
                return beyond
        return {**names, dim: high}

    def cost(self, names: Mapping[str, int]) -> int:
        return math.prod(max(1, names[d]) for d in self.contract.dims)

    def drawn(self, count: int) -> Iterator[Names]:
        """Random sizes, half of them of a few elements."""
        pools = (SMALL, (*SMALL, *MIDDLE, *self.marks), (*MIDDLE, *self.marks), (*LARGE, *self.marks))
        found = 0
        for attempt in range(count * 12):
            wanted = {n: self.random.choice(pools[self.random.choice((0, 1, 1, 2, 3))]) for n in self.contract.dims}
            case = self.complete(wanted, BUDGET, tries=4)
            if case is not None:
                yield case
                found += 1
            if found == count or (attempt == 80 and found == 0):
                return

    def fixed(self) -> Iterator[Names]:
        """One dim of a telling size, the others small."""
        dims = self.contract.dims
        pairs = [(d, size) for size in (*FOR_EACH, self.group - 1, self.group + 1) for d in dims]
        pairs += [(dims[-1 - i % len(dims)], size) for i, size in enumerate((self.group, 2 * self.group + 1, *IN_TURN))]
        if not self.folds:
            pairs.append((dims[0], MAX_WORKGROUPS + 2))
        for dim, wanted in pairs:
            size = self._near(dim, wanted)
            if size is not None:
                case = self._kept(dim, size)
                if case is not None:
                    yield case
        for size in ALL_AT_ONCE:
            together = self.complete(dict.fromkeys(dims, size), 16 * BUDGET)
            if together is not None:
                yield together

    def _near(self, dim: str, size: int) -> int | None:
        """The least size from `size` on that the conditions on the dim alone allow; one of an override's choices."""
        if dim in self.compiled:
            return size if size in self._choices(dim) else None
        return next((s for s in range(max(1, size), size + REACH) if self._allowed(dim, {dim: s})), None)

    def _kept(self, dim: str, size: int) -> Names | None:
        return self.complete({n: 2 for n in self.contract.dims} | {dim: size}, 16 * BUDGET, keep=dim)

    def complete(self, wanted: Names, budget: int, keep: str | None = None, tries: int = 6) -> Names | None:
        """Sizes that meet every condition, as near to `wanted` as a few tries get; `keep` is kept exactly."""
        if keep is not None and not self._allowed(keep, {keep: wanted[keep]}):
            return None
        for _ in range(tries):
            names: Names = {} if keep is None else {keep: wanted[keep]}
            order = [n for n in self.names if n != keep]
            self.random.shuffle(order)
            order.sort(key=self.scalars.__contains__)
            for name in order:
                room = budget // max(1, math.prod(max(1, v) for n, v in names.items() if n not in self.scalars))
                value = self._choose(name, names, wanted, room)
                if value is None:
                    break
                names[name] = value
            else:
                return {n: names[n] for n in self.names}
        return None

    def _choose(self, name: str, names: Names, wanted: Mapping[str, int], room: int) -> int | None:
        """The value wanted, or another at random, that no condition forbids."""
        choices = self._choices(name)
        start = self.random.randrange(len(choices))
        first = wanted.get(name)
        near = () if first is None else (first, first + 1)  # where it must be even, an odd one's neighbour
        asked = [v for v in near if name not in self.compiled or v in choices]
        for value in (*asked, *choices[start:], *choices[:start]):
            if (value <= room or name in self.scalars) and self._allowed(name, {**names, name: value}):
                return value
        return None

    def _choices(self, name: str) -> tuple[int, ...]:
        if name not in self.choices:
            self.choices[name] = self._chosen_from(name)
        return self.choices[name]

    def _chosen_from(self, name: str) -> tuple[int, ...]:
        drawn = self.contract.draw.get(name)
        if isinstance(drawn, (list, tuple)):
            return tuple(int(v) for v in drawn)
        telling = [m * c for c in self.constants for m in (1, 2, 3, 5)]
        if name in self.compiled:
            known = COMPILED if self.kernel.workgroup else (*COMPILED[:2], LONG, *COMPILED[2:])
            alone = [c for c, needs in self.by_name[name] if needs == {name}]
            return tuple(v for v in (*known, *telling) if all(c.holds({name: v}) for c in alone))[:FEW] or (1,)
        pool = (*SMALL, *SMALL, *MIDDLE, *self.marks, *telling, *LARGE, 2 * LONG)
        return SCALARS if name in self.scalars else tuple(self.random.sample(pool, len(pool)))

    def _allowed(self, name: str, names: Mapping[str, int]) -> bool:
        """Whether conditions on `name` hold, those that can be told; scalars still to come are taken as 0."""
        for condition, needs in self.by_name.get(name, ()):
            unknown = needs - names.keys()
            if not unknown:
                if not condition.holds(names):
                    return False
            elif unknown <= self.bounding and not condition.holds({**names, **dict.fromkeys(unknown, 0)}):
                return False
        return True


def _numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"(?<![\w.])\d+(?![\w.])", text)]
