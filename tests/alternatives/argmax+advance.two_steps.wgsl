//! op = "argmax+advance"
//! [[pass]]
//! entry = "maximum"
//! workgroups = ["1"]
//! [[pass]]
//! entry = "find"
//! workgroups = ["ceil_div(vocab, 64)"]
//! [[pass]]
//! entry = "advance"
//! workgroups = ["1"]
//! [scratch]
//! highest = {dtype = "f32", shape = ["1"]}
//! found = {dtype = "u32", shape = ["vocab"]}
//! [types]
//! elem = ["f32", "f16"]
// token = the index of the largest of logits (1, vocab), the lowest of several; position += 1; log[position] = token:
// the maximum, the lowest index that has it, the advance, a pass each

alias elem = f32;

struct Params { vocab: u32 }

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read_write> highest: array<f32>;
@group(0) @binding(2) var<storage, read_write> found: array<u32>;
@group(0) @binding(3) var<storage, read_write> token: array<i32>;
@group(0) @binding(4) var<storage, read_write> position: array<i32>;
@group(0) @binding(5) var<storage, read_write> log: array<i32>;
@group(0) @binding(6) var<uniform> params: Params;

@compute @workgroup_size(1)
fn maximum() {
    highest[0] = f32(logits[0]);
    for (var i = 1u; i < params.vocab; i++) {
        highest[0] = max(highest[0], f32(logits[i]));
    }
}

@compute @workgroup_size(64)
fn find(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x < params.vocab) {
        found[id.x] = select(params.vocab, id.x, f32(logits[id.x]) == highest[0]);
    }
}

@compute @workgroup_size(1)
fn advance() {
    var best = i32(found[0]);
    for (var i = 1u; i < params.vocab; i++) {
        best = min(best, i32(found[i]));
    }
    position[0] += 1;
    token[0] = best;
    log[position[0]] = best;
}
