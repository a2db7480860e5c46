//! op = "argmax+advance"
//! workgroups = ["1"]
//! [types]
//! elem = ["f32", "f16"]
// token = the index of the largest of logits (1, vocab), the lowest of several; position += 1; log[position] = token;
// one invocation does all

alias elem = f32;

struct Params { vocab: u32 }

@group(0) @binding(0) var<storage, read> logits: array<elem>;
@group(0) @binding(1) var<storage, read_write> token: array<i32>;
@group(0) @binding(2) var<storage, read_write> position: array<i32>;
@group(0) @binding(3) var<storage, read_write> log: array<i32>;
@group(0) @binding(4) var<uniform> params: Params;

@compute @workgroup_size(1)
fn main() {
    var best = 0;
    for (var i = 1; i < i32(params.vocab); i++) {
        best = select(best, i, logits[i] > logits[best]);
    }
    position[0] += 1;
    token[0] = best;
    log[position[0]] = best;
}
