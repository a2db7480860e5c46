"""Named fusions. Composites are matched among ATen operations (composites.py), the others here, among contracts.

A fusion is applied where its pattern fits and a kernel implements the result at its dims; elsewhere things stay as
they are, and a note says why. They are tried in the order of FUSIONS.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from torch import fx

from pytest_webgpu.compiler.capture import Captured
from pytest_webgpu.compiler.composites import find
from pytest_webgpu.compiler.errors import UnknownFusion
from pytest_webgpu.compiler.graph import is_op, reshape, shape_of, source
from pytest_webgpu.compiler.heads import join_qkv, qkv_epilogue
from pytest_webgpu.compiler.lower import Lowered, Lowering
from pytest_webgpu.compiler.matcher import Call, X, match
from pytest_webgpu.compiler.rewrite import Refusal, Rewrite, anything, sole_user, splits_freely
from pytest_webgpu.compiler.rules import RULES


@dataclass(frozen=True)
class Fusion:
    """`apply` is None where the fusion is made elsewhere: in the lowering, or within another fusion."""

    doc: str
    apply: Callable[[Rewrite], None] | None = None


def join_gate_up(work: Rewrite) -> None:
    """Two products of the same x as one; silu_mul of the two becomes swiglu of it."""
    gate, up = Call("linear", bind="gate"), Call("linear", bind="up")
    for node in work.nodes("silu_mul", "mul"):
        m = match(node, Call("silu_mul", gate=gate, up=up)) or match(node, Call("mul", a=Call("silu", x=gate), b=up))
        if m is None:
            continue
        pair = (m["gate"], m["up"])
        joined = work.join(pair)
        if joined is None:
            continue
        merged = work.make(node, "swiglu", {"x": joined}, of=[node]) if is_op(node, "silu_mul") else None
        if merged is not None:
            work.replace(node, merged)
        elif splits_freely(pair):
            work.split(joined, pair)
        else:
            work.note("the joined product would have to be copied apart")
            work.drop(joined)


def residual(work: Rewrite) -> None:
    """The sum of a product and something else as linear+add."""
    for node in work.nodes("add"):
        for product, other in (("b", "a"), ("a", "b")):
            linear, rest = source(node.kwargs[product]), node.kwargs[other]
            if not is_op(linear, "linear") or sole_user(linear) is not node or source(rest) is linear:
                continue
            with work.graph.inserting_before(node):
                held = reshape(work.graph, rest, shape_of(linear))
            made = work.make(node, "linear+add", {**linear.kwargs, "residual": held}, of=(linear, node))
            if made is not None:
                work.replace(node, made)
                break


def swiglu_epilogue(work: Rewrite) -> None:
    """swiglu of a product without bias as linear+swiglu."""
    product = Call("linear", x=X("x"), weight=X("weight"), bias=None, bind="product")
    for node in work.nodes("swiglu"):
        if (m := match(node, Call("swiglu", x=product))) is not None:
            arguments = {"x": m["x"], "weight": m["weight"]}
            if (made := work.make(node, "linear+swiglu", arguments, of=(m["product"], node))) is not None:
                work.replace(node, made)


def norm_prologue(work: Rewrite) -> None:
    """A product (with its epilogue) of a norm that nothing else reads as rms_norm+linear..."""
    norm = Call("rms_norm", x=X("x"), weight=X("norm_weight"), eps=X("eps"), bind="norm")
    for node in work.nodes("linear", "linear+swiglu"):
        name = node.target.name
        if (m := match(node, Call(name, x=norm))) is None:
            continue
        with work.graph.inserting_before(node):
            x = reshape(work.graph, m["x"], shape_of(node.kwargs["x"]))
        arguments = {**node.kwargs, "x": x, "norm_weight": m["norm_weight"], "eps": m["eps"]}
        if (made := work.make(node, f"rms_norm+{name}", arguments, of=(m["norm"], node))) is not None:
            work.replace(node, made)


def gather_first(work: Rewrite) -> None:
    """A norm of all rows of which one is used becomes the norm of that row. Always applied: nothing is fused."""
    norm = Call("rms_norm", x=X("x"), weight=X("weight"), eps=X("eps"))
    for node in work.nodes("embedding"):
        if (m := match(node, Call("embedding", ids=X("ids"), weight=norm))) is not None:
            row = work.make(node, "embedding", {"ids": m["ids"], "weight": m["x"]}, of=[node])
            arguments = {"x": row, "weight": m["weight"], "eps": m["eps"]}
            moved = work.make(node, "rms_norm", arguments, of=[node]) if row is not None else None
            if moved is not None:
                work.replace(node, moved)


FUSIONS = {
    "rms_norm": Fusion("square, mean, sum, reciprocal root and two products as rms_norm"),
    "rope": Fusion("two products, the turned halves and a sum as rope"),
    "swiglu": Fusion("silu and a product as silu_mul"),
    "gqa": Fusion("attention reads the cache's heads where they lie, not repeated"),
    "join_qkv": Fusion("the products of Q, K and V as one", join_qkv),
    "rope_cache": Fusion("rope of q and k and both cache writes as one, on the joined product"),
    "join_gate_up": Fusion("the products of gate and up as one", join_gate_up),
    "residual": Fusion("the sum with the residual in the product's epilogue", residual),
    "swiglu_epilogue": Fusion("SwiGLU in the epilogue of gate and up", swiglu_epilogue),
    "norm_prologue": Fusion("RMS norm in the prologue of the product that reads it", norm_prologue),
    "qkv_epilogue": Fusion("rope and cache write in the epilogue of Q, K and V", qkv_epilogue),
}


def chosen(fusions: str | Iterable[str]) -> frozenset[str]:
    """Names of fusions from "all", "none" or a comma list. Raises UnknownFusion."""
    if fusions == "all":
        return frozenset(FUSIONS)
    listed = fusions.split(",") if isinstance(fusions, str) else fusions
    names = {n.strip() for n in listed} - {"", "none"}
    if unknown := names - FUSIONS.keys():
        raise UnknownFusion(f"no fusion is named {', '.join(sorted(unknown))}; there are {', '.join(FUSIONS)}")
    return frozenset(names)


def fuse(
    captured: Captured,
    fusions: str | Iterable[str] = "all",
    refuse: Refusal = anything,
    swapped: Callable[[fx.Node], bool] = lambda _: False,
) -> tuple[Lowered, Counter[str]]:
    """The captured step as contracts, with the named fusions; and notes on what was left, with how often.

    `refuse` and `swapped`: see Rewrite. Raises Unsupported for an operation that no contract computes.
    """
    names = chosen(fusions)
    lowering = Lowering(captured, RULES, gqa="gqa" in names)
    lowered = lowering.run(find(lowering, names))
    work = Rewrite(lowered.graph, names, refuse, swapped)
    gather_first(work)
    for name, fusion in FUSIONS.items():
        if name in names and fusion.apply is not None:
            work.fusion = name
            fusion.apply(work)
    lowered.graph.eliminate_dead_code()
    lowered.graph.lint()
    for node in lowered.graph.nodes:
        if is_op(node, "argmax+advance"):
            lowered.logits = source(node.kwargs["logits"])
    return lowered, work.notes
