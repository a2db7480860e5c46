"""Fusions around attention: Q, K and V as one product, rotary positions with the writes of the cache, both in one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import fx

from pytest_webgpu.compiler.graph import cut, is_op, output_of, part, shape_of, source
from pytest_webgpu.compiler.matcher import Call, X, match
from pytest_webgpu.compiler.rewrite import Rewrite, sole_user, splits_freely


@dataclass(frozen=True)
class Heads:
    """The products that one attention's queries, keys and values come from, and what lies between."""

    linears: tuple[fx.Node, fx.Node, fx.Node]
    q: fx.Node
    writes: tuple[fx.Node, fx.Node]


def heads_of(attention: fx.Node) -> Heads | None:
    """What feeds an attention over a cache; None where it is not three products."""
    writes = []
    for name in ("k", "v"):
        node: Any = source(attention.kwargs[name])
        while is_op(node, "copy"):
            node = source(node.kwargs["x"])
        if not is_op(node, "kv_cache_write"):
            return None
        writes.append(node)
    k_write, v_write = writes
    q, k, v = (_product(n) for n in (attention.kwargs["q"], k_write.kwargs["x"], v_write.kwargs["x"]))
    if q is None or k is None or v is None:
        return None
    return Heads((q, k, v), source(attention.kwargs["q"]), (k_write, v_write))


def _product(node: Any) -> fx.Node | None:
    node = source(node)
    while is_op(node, "rope", "rms_norm"):
        node = source(node.kwargs["x"])
    return node if is_op(node, "linear") else None


def join_qkv(work: Rewrite) -> None:
    """Three products of the same x as one. With rope_cache, what follows them becomes rope+kv_cache_write.

    Left alone where the joined rows would have to be copied apart: more than one row, or columns that no binding
    can start at, unless rope_cache takes them as they are.
    """
    for attention in work.nodes("attention"):
        heads = heads_of(attention)
        joined = work.join(heads.linears) if heads is not None else None
        if heads is None or joined is None:
            continue
        if "rope_cache" in work.names and _rope_cache(work, joined, heads):
            continue
        if splits_freely(heads.linears):
            work.split(joined, heads.linears)
        else:
            work.note("the joined product would have to be copied apart")
            work.drop(joined)


def _rope_cache(work: Rewrite, qkv: fx.Node, heads: Heads) -> bool:
    """rope of q, rope of k, and both writes of the cache as one op that takes the joined product."""
    k_write, v_write = heads.writes
    q_rope, k_rope = heads.q, source(k_write.kwargs["x"])
    straight = source(v_write.kwargs["x"]) is heads.linears[2]
    if not straight or not all(is_op(n, "rope") for n in (q_rope, k_rope)):
        return False
    if source(q_rope.kwargs["x"]) is not heads.linears[0] or source(k_rope.kwargs["x"]) is not heads.linears[1]:
        return False
    if any(sole_user(n) is None for n in (*heads.linears, k_rope)):
        return False
    tables = {name: q_rope.kwargs[name] for name in ("cos", "sin")}
    if any(k_rope.kwargs[name] is not table for name, table in tables.items()):
        return False
    caches = {"k_cache": k_write.kwargs["cache"], "v_cache": v_write.kwargs["cache"]}
    arguments = {"qkv": qkv, **tables, **caches, "start": k_write.kwargs["start"]}
    work.fusion, outer = "rope_cache", work.fusion
    made = work.make(heads.linears[0], "rope+kv_cache_write", arguments, of=(q_rope, k_rope, k_write, v_write))
    work.fusion = outer
    if made is None:
        return False
    for i, old in enumerate((q_rope, k_write, v_write)):
        with work.graph.inserting_after(made):
            item = output_of(work.graph, made, i)
        work.replace(old, item)
    return True


def qkv_epilogue(work: Rewrite) -> None:
    """rope+kv_cache_write of rms_norm+linear as one op, which takes both tables and both caches whole."""
    product = Call(
        "rms_norm+linear", x=X("x"), norm_weight=X("norm_weight"), weight=X("weight"), bias=X("bias"), eps=X("eps"),
        bind="product",
    )  # fmt: skip
    pattern = Call(
        "rope+kv_cache_write", qkv=product, cos=X("cos"), sin=X("sin"), k_cache=X("k"), v_cache=X("v"),
        start=X("start"),
    )  # fmt: skip
    for node in work.nodes("rope+kv_cache_write"):
        m = match(node, pattern)
        table, cache = (halves(m["cos"], m["sin"]), halves(m["k"], m["v"])) if m is not None else (None, None)
        if m is None or table is None or cache is None:
            continue
        arguments = {name: m[name] for name in ("x", "norm_weight", "weight", "bias", "eps", "start")}
        arguments |= {"rope_table": table, "kv_cache": cache}
        made = work.make(node, "rms_norm+linear+rope+kv_cache_write", arguments, of=(node, m["product"]))
        if made is None:
            continue
        with work.graph.inserting_before(node):
            q, both = (output_of(work.graph, made, i) for i in (0, 1))
            shape = shape_of(both)[1:]
            size = torch.Size(shape).numel()
            outputs = (q, cut(work.graph, both, 0, shape), cut(work.graph, both, size, shape))
        for item in list(node.users):
            work.replace(item, outputs[item.args[1]])


def halves(first: Any, second: Any) -> fx.Node | None:
    """The tensor whose two halves, in this order, the two nodes are."""
    if not all(isinstance(n, fx.Node) and n.target is part for n in (first, second)):
        return None
    base, size = first.args[0], torch.Size(shape_of(first)).numel()
    both = second.args[0] is base and (first.args[1], second.args[1]) == (0, size)
    return base if both and shape_of(base) == (2, *shape_of(first)) else None
