//! op = "argmax+advance"
//! workgroups = ["1"]
//! [types]
//! elem = ["f32", "f16"]
// token = the index of the largest of logits (1, vocab), the lowest of several; position += 1; log[position] = token; a
// workgroup, each lane from its end

alias elem = f32;

struct Params { vocab: u32 }

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read_write> token: array<i32>;
@group(0) @binding(2) var<storage, read_write> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> log: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

const WG = 64u;

var<workgroup> bests: array<i32, WG>;

@compute @workgroup_size(WG)
fn main(@builtin(local_invocation_index) lane: u32) {
    var best = i32(params.vocab - 1u);
    for (var i = i32(params.vocab - 1u) - i32(lane); i >= 0; i -= i32(WG)) {
        if (logits[i] >= logits[best]) {
            best = i;
        }
    }
    bests[lane] = best;
    workgroupBarrier();
    if (lane > 0u) {
        return;
    }
    for (var i = 1u; i < WG; i++) {
        let other = bests[i];
        if (logits[other] > logits[best] || (logits[other] == logits[best] && other < best)) {
            best = other;
        }
    }
    position[0] += 1;
    token[0] = best;
    log[position[0]] = best;
}
