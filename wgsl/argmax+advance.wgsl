//! op = "argmax+advance"
//! guarded = true
//! [[pass]]
//! entry = "scan"
//! workgroups = ["SPLIT"]
//! [[pass]]
//! entry = "advance"
//! workgroups = ["1"]
//! [scratch]
//! values = {dtype = "f32", shape = ["SPLIT"]}
//! indices = {dtype = "u32", shape = ["SPLIT"]}
//! [tune]
//! WG = [256, 64]
//! SPLIT = [64, 256, 16]
// token = the index of the largest of logits (1, vocab), the lowest of several; position += 1; log[position] = token.
// SPLIT workgroups scan, then one joins and advances, so that the next token needs nothing from the host.

struct Params { vocab: u32 }
struct Best { value: f32, index: u32 }

// The larger value, or the lower index of two equal ones.
fn better(a: Best, b: Best) -> Best {
    if (b.value > a.value || (b.value == a.value && b.index < a.index)) {
        return b;
    }
    return a;
}

@group(0) @binding(0) var<storage, read> logits: array<f32>;
@group(0) @binding(1) var<storage, read_write> values: array<f32>;
@group(0) @binding(2) var<storage, read_write> indices: array<u32>;
@group(0) @binding(3) var<storage, read_write> token: array<u32>;
@group(0) @binding(4) var<storage, read_write> position: array<u32>;
@group(0) @binding(5) var<storage, read_write> log: array<u32>;
@group(0) @binding(6) var<uniform> params: Params;

override WG: u32 = 256;
override SPLIT: u32 = 64;

var<workgroup> bests: array<Best, WG>;

// The best of the workgroup, in every invocation; WG is a power of two.
fn workgroup_best(lane: u32, mine: Best) -> Best {
    bests[lane] = mine;
    for (var stride = WG / 2u; stride > 0u; stride /= 2u) {
        workgroupBarrier();
        if (lane < stride) {
            bests[lane] = better(bests[lane], bests[lane + stride]);
        }
    }
    return workgroupUniformLoad(&bests[0]);
}

@compute @workgroup_size(WG)
fn scan(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    // Each lane starts from an element, so no value stands for "none".
    let first = min(group.x * WG + lane, params.vocab - 1u);
    var best = Best(logits[first], first);
    for (var i = first + SPLIT * WG; i < params.vocab; i += SPLIT * WG) {
        best = better(best, Best(logits[i], i));
    }
    best = workgroup_best(lane, best);
    if (lane == 0u && group.x < SPLIT) {
        values[group.x] = best.value;
        indices[group.x] = best.index;
    }
}

@compute @workgroup_size(WG)
fn advance(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
    let start = lane % SPLIT;
    var best = Best(values[start], indices[start]);
    for (var i = lane + WG; i < SPLIT; i += WG) {
        best = better(best, Best(values[i], indices[i]));
    }
    best = workgroup_best(lane, best);
    if (lane == 0u && group.x == 0u) {
        let next = position[0] + 1u;
        token[0] = best.index;
        position[0] = next;
        log[next] = best.index;
    }
}
