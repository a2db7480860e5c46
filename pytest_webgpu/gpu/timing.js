// The commands of job.py that time something: the loops run here, where the API is called.

const CLOCK_STEPS = 100; // a sample lasts at least so many steps of the clock
const STEADY = 0.05; // three rounds within this of each other end the warm-up
const PHASE_BATCH = 64; // calls of one phase between two readings of the clock, which is coarse in a browser
const PLAIN_ROUNDS = 3; // of the waits that are not polled, which take 100 ms each

const now = () => performance.now() / 1e3;

async function timed(work) {
  const start = now();
  await work();
  return now() - start;
}

export function clockStep() {
  // The smallest step that the clock makes, in seconds.
  let step = Infinity;
  for (let i = 0; i < 50; i++) {
    const start = performance.now();
    let end = start;
    while (end === start) end = performance.now();
    step = Math.min(step, end - start);
  }
  return step / 1e3;
}

function randomOf(seed) {
  // mulberry32: numbers in [0, 1), the same for the same seed
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

function shuffled(items, random) {
  for (let i = items.length - 1; i > 0; i--) {
    const j = Math.floor(random() * (i + 1));
    [items[i], items[j]] = [items[j], items[i]];
  }
  return items;
}

function cycled(steps, count) {
  return Array.from({ length: count }, (_, i) => steps[i % steps.length]);
}

function timedVariants(runtime, variants) {
  return variants.map((variant, index) => {
    const { steps } = runtime.find("programs", variant.program);
    const lists = new Map(variant.counts.map((n) => [n, cycled(steps, n)]));
    const how = { fresh: variant.fresh_bind_groups, zero: variant.zero_workgroups };
    return { ...variant, index, lists, how, spent: 0 };
  });
}

async function sample(runtime, variant, n, least, wait) {
  // [repeats, seconds] of N dispatches and the wait for them, repeated until that lasts
  const steps = variant.lists.get(n);
  const start = now();
  let repeats = 0;
  let seconds = 0;
  do {
    await runtime.issue(steps, variant.mode, { ...variant.how, wait });
    if (variant.mode !== "wait-each") await wait();
    repeats++;
    seconds = now() - start;
  } while (seconds < least);
  return [repeats, seconds];
}

async function warmUp(runtime, variants, limit, wait) {
  const start = now();
  const rounds = [];
  while (now() - start < limit) {
    const began = now();
    for (const variant of variants) await sample(runtime, variant, Math.min(...variant.counts), 0, wait);
    rounds.push(now() - began);
    const last = rounds.slice(-3);
    if (last.length === 3 && Math.max(...last) <= Math.min(...last) * (1 + STEADY)) break;
  }
  return now() - start;
}

async function measure({ variants, seed, min_sample_seconds, warm_up_seconds }) {
  this.flush();
  const random = randomOf(seed);
  const least = Math.max(min_sample_seconds, CLOCK_STEPS * this.clockStep);
  const all = timedVariants(this, variants);
  const wait = () => this.wait();
  const warmed = await warmUp(this, all, warm_up_seconds, wait);
  const samples = [];
  const cut = new Set();
  for (let round = 0; round < Math.max(...all.map(({ rounds }) => rounds)); round++) {
    const turns = all.filter(({ rounds }) => round < rounds).flatMap((v) => v.counts.map((n) => [v, n]));
    for (const [variant, n] of shuffled(turns, random)) {
      if (variant.spent > variant.budget_seconds) {
        cut.add(variant.label);
        continue;
      }
      const [repeats, seconds] = await sample(this, variant, n, least, wait);
      variant.spent += seconds;
      samples.push([variant.index, round, n, repeats, seconds]);
    }
  }
  const value = { samples, cut: [...cut], warm_up_seconds: warmed, clock_step_seconds: this.clockStep, fence: this.fence };
  return this.polls ? { ...value, plain_samples: await plainSamples(this, all) } : value;
}

async function plainSamples(runtime, variants) {
  // What one would measure without polling: the browser's timer, shared out among the dispatches.
  const samples = [];
  for (let round = 0; round < PLAIN_ROUNDS; round++) {
    for (const variant of variants.filter(({ mode }) => mode !== "wait-each")) {
      const counts = [...new Set([Math.min(...variant.counts), 100, Math.max(...variant.counts)])];
      for (const n of counts.filter((n) => variant.lists.has(n))) {
        const [repeats, seconds] = await sample(runtime, variant, n, 0, () => runtime.plainWait());
        samples.push([variant.index, round, n, repeats, seconds]);
      }
    }
  }
  return samples;
}

async function measureWaits({ rounds }) {
  this.flush();
  const empty = [];
  const reads = [];
  const plain = [];
  const usage = GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const source = this.device.createBuffer({ size: 4, usage });
  const target = this.device.createBuffer({ size: 4, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  for (let i = 0; i < rounds; i++) {
    empty.push(await timed(() => this.wait()));
    reads.push(await timed(() => read(this, source, target)));
  }
  for (let i = 0; this.polls && i < PLAIN_ROUNDS; i++) plain.push(await timed(() => this.plainWait()));
  source.destroy();
  target.destroy();
  const value = { clock_step_seconds: this.clockStep, empty_wait_seconds: empty, read_seconds: reads, fence: this.fence };
  return this.polls ? { ...value, plain_empty_wait_seconds: plain } : value;
}

async function read(runtime, source, target) {
  const encoder = runtime.device.createCommandEncoder();
  encoder.copyBufferToBuffer(source, 0, target, 0, target.size);
  runtime.submit(encoder);
  await runtime.settled(target.mapAsync(GPUMapMode.READ));
  const copy = target.getMappedRange().slice();
  target.unmap();
  runtime.count("reads");
  runtime.count("bytes_read", target.size);
  return copy;
}

async function measurePhases({ program, rounds }) {
  // A phase is timed over a batch of its calls, since one call is shorter than the clock's step.
  this.flush();
  const { device, queue } = this;
  const { pipeline, bound, x, y, z } = this.find("programs", program).steps[0];
  const phases = {};
  const note = (name, seconds) => (phases[name] ??= []).push(seconds);
  const phase = (name, calls) => {
    const start = now();
    const made = calls();
    note(name, (now() - start) / PHASE_BATCH);
    return made;
  };
  for (let round = 0; round < Math.ceil(rounds / PHASE_BATCH) + 4; round++) {
    const each = Array.from({ length: PHASE_BATCH });
    const encoders = phase("encoder", () => each.map(() => device.createCommandEncoder()));
    const passes = phase("pass-begin", () => encoders.map((encoder) => encoder.beginComputePass()));
    phase("set-pipeline", () => passes.forEach((pass) => pass.setPipeline(pipeline)));
    phase("set-bind-group", () => passes.forEach((pass) => bound.forEach((group, i) => pass.setBindGroup(i, group))));
    phase("dispatch", () => passes.forEach((pass) => pass.dispatchWorkgroups(x, y, z)));
    phase("pass-end", () => passes.forEach((pass) => pass.end()));
    const buffers = phase("finish", () => encoders.map((encoder) => encoder.finish()));
    phase("submit", () => buffers.forEach((buffer) => queue.submit([buffer])));
    await this.wait();
    for (const name of ["passes", "dispatches", "submits"]) this.count(name, PHASE_BATCH);
  }
  const step = this.find("programs", program).steps.slice(0, 1);
  for (let round = 0; round < Math.min(rounds, 50); round++) {
    const start = now();
    await this.issue(step, "one-pass");
    const issued = now();
    await this.wait();
    note("wait", now() - issued);
    note("whole", now() - start);
  }
  return { phases, batch: PHASE_BATCH };
}

async function measureCreation({ program, rounds, pipelines, buffer_size }) {
  this.flush();
  const { device } = this;
  const { groups, made } = this.find("programs", program).steps[0];
  const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
  const seconds = { buffer: [], "bind-group": [], pipeline: [] };
  for (let round = 0; round < rounds; round++) {
    const each = Array.from({ length: PHASE_BATCH });
    let start = now();
    const buffers = each.map(() => device.createBuffer({ size: buffer_size, usage }));
    seconds.buffer.push((now() - start) / PHASE_BATCH);
    buffers.forEach((buffer) => buffer.destroy());
    start = now();
    each.forEach(() => this.bind(groups));
    seconds["bind-group"].push((now() - start) / PHASE_BATCH / Math.max(1, groups.length));
  }
  const { layout, compute } = made.descriptor;
  for (let i = 0; i < pipelines; i++) {
    seconds.pipeline.push(await timed(() => device.createComputePipelineAsync({
      layout, compute: { ...compute, module: device.createShaderModule({ code: `${made.code}\n// ${Math.random()}` }) },
    })));
  }
  this.count("buffers", rounds * PHASE_BATCH);
  this.count("pipelines", pipelines);
  return { seconds, batch: PHASE_BATCH };
}

async function measureTransfers({ sizes, rounds, budget_seconds }) {
  this.flush();
  const writes = [];
  const reads = [];
  for (const size of sizes) {
    const usage = GPUBufferUsage.STORAGE | GPUBufferUsage.COPY_SRC | GPUBufferUsage.COPY_DST;
    const buffer = this.device.createBuffer({ size, usage });
    const target = this.device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
    const data = new Uint8Array(size).fill(1);
    const [written, readBack] = [[], []];
    const start = now();
    for (let round = 0; round < rounds && (round < 2 || now() - start < budget_seconds); round++) {
      written.push(await timed(() => {
        this.queue.writeBuffer(buffer, 0, data);
        return this.wait();
      }));
      readBack.push(await timed(() => read(this, buffer, target)));
      this.count("bytes_written", size);
    }
    buffer.destroy();
    target.destroy();
    writes.push(written);
    reads.push(readBack);
  }
  return { write_seconds: writes, read_seconds: reads };
}

export const TIMINGS = {
  measure,
  "measure-waits": measureWaits,
  "measure-phases": measurePhases,
  "measure-creation": measureCreation,
  "measure-transfers": measureTransfers,
};
