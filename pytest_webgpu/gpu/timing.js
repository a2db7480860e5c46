// The commands of job.py that time something: the loops run here, where the API is called.
import { JobError } from "./wire.js";

const CLOCK_STEPS = 100; // a sample lasts at least so many steps of the clock
const STEADY = 0.05; // three rounds within this of each other end the warm-up
const ROUNDS_WANTED = 5; // the largest N are left out until so many rounds fit in a variant's budget
const FEWEST_COUNTS = 3; // a line with an offset needs that many
const PHASE_BATCH = 64; // calls of one phase between two readings of the clock, which is coarse in a browser
const MOST_STAMPED = 2048; // a query set holds 4,096 timestamps, two a dispatch
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

function prepared(runtime, variant, index) {
  // A variant as it is being timed: seconds expected of a sample and its repeats, by N.
  const { steps } = runtime.find("programs", variant.program);
  if (!steps.length) throw new JobError("GPUValidationError", `Program ${variant.program} has no dispatch to time`);
  const lists = new Map(variant.counts.map((n) => [n, Array.from({ length: n }, (_, i) => steps[i % steps.length])]));
  const how = { fresh: variant.fresh_bind_groups, zero: variant.zero_workgroups, delay: variant.delay_seconds };
  return { ...variant, index, lists, how, expected: new Map(), repeats: new Map(), spent: 0, cut: false };
}

function time(runtime, variant, n, repeats = 1, wait = () => runtime.wait()) {
  // Seconds of so many times N dispatches and the wait for them.
  return timed(async () => {
    for (let i = 0; i < repeats; i++) {
      await runtime.issue(variant.lists.get(n), variant.mode, { ...variant.how, wait });
      if (variant.mode !== "wait-each") await wait();
    }
  });
}

async function warmUp(runtime, variants, limit) {
  // Rounds of every variant at its middle N until three in a row agree, the first not counted: it compiles.
  const start = now();
  const rounds = [];
  while (now() - start < limit) {
    let total = 0;
    for (const variant of variants) {
      const n = ascending(variant.counts)[rounds.length ? variant.counts.length >> 1 : 0];
      total += await time(runtime, variant, n);
      if (now() - start >= limit) return now() - start;
    }
    rounds.push(total);
    const last = rounds.slice(1).slice(-3);
    if (last.length === 3 && Math.max(...last) <= (1 + STEADY) * Math.min(...last)) break;
  }
  return now() - start;
}

async function calibrate(runtime, variant, least) {
  // One call at each N, smallest first, while some rounds of them fit in the budget.
  const affordable = variant.budget_seconds / Math.min(ROUNDS_WANTED, Math.max(1, variant.rounds));
  let each = 0;
  for (const n of ascending(variant.counts)) {
    const guess = Math.max(each * n, least);
    if (variant.expected.size >= FEWEST_COUNTS && roundSeconds(variant) + guess > affordable) break;
    const seconds = Math.max(await time(runtime, variant, n), runtime.clockStep);
    variant.spent += seconds;
    variant.repeats.set(n, Math.max(1, Math.ceil(least / seconds)));
    variant.expected.set(n, seconds * variant.repeats.get(n));
    each = seconds / n;
  }
}

const ascending = (values) => [...values].sort((a, b) => a - b);
const roundSeconds = ({ expected }) => [...expected.values()].reduce((a, b) => a + b, 0);

async function measure({ variants, seed, min_sample_seconds, warm_up_seconds }) {
  // Every variant at every N, interleaved in random order within each round. The same procedure as in measure.py.
  this.flush();
  const random = randomOf(seed);
  const least = Math.max(min_sample_seconds, CLOCK_STEPS * this.clockStep);
  const all = variants.map((variant, index) => prepared(this, variant, index));
  const warmed = await warmUp(this, all, warm_up_seconds);
  for (const variant of all) await calibrate(this, variant, least);
  const samples = [];
  const delays = [];
  for (let round = 0; round < Math.max(0, ...all.map(({ rounds }) => rounds)); round++) {
    for (const v of all) v.cut ||= round < v.rounds && v.spent + roundSeconds(v) > v.budget_seconds;
    const running = all.filter((v) => !v.cut && round < v.rounds);
    for (const [variant, n] of shuffled(running.flatMap((v) => [...v.expected.keys()].map((n) => [v, n])), random)) {
      const repeats = variant.repeats.get(n);
      this.delayed = 0;
      const seconds = await time(this, variant, n, repeats);
      delays.push(this.delayed);
      variant.spent += seconds;
      samples.push([variant.index, round, n, repeats, seconds]);
    }
  }
  const cut = all.filter((v) => v.cut || v.expected.size < v.counts.length).map(({ label }) => label);
  const value = { samples, cut, warm_up_seconds: warmed, ...(delays.some(Boolean) && { delays }) };
  return this.polls ? { ...value, plain_samples: await plainSamples(this, all) } : value;
}

async function plainSamples(runtime, variants) {
  // What one would measure without polling: the browser's timer, shared out among the dispatches.
  const samples = [];
  for (let round = 0; round < PLAIN_ROUNDS; round++) {
    for (const variant of variants.filter(({ mode }) => mode !== "wait-each")) {
      const counts = new Set([Math.min(...variant.counts), 100, Math.max(...variant.counts)]);
      for (const n of [...counts].filter((n) => variant.expected.has(n))) {
        const seconds = await time(runtime, variant, n, 1, () => runtime.plainWait());
        samples.push([variant.index, round, n, 1, seconds]);
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

async function measureDeviceTime({ program, rounds, repeats }) {
  // Each dispatch, or the program `repeats` times, in a pass whose beginning and end the device stamps.
  this.flush();
  const { device } = this;
  const { steps } = this.find("programs", program);
  if (!steps.length || steps.length > MOST_STAMPED) {
    throw new JobError("GPUValidationError", `Program ${program} has ${steps.length} dispatches: 1 to ${MOST_STAMPED} fit`);
  }
  const passes = repeats === null ? steps.map((step) => [step]) : [Array.from({ length: repeats }, () => steps).flat()];
  const count = 2 * passes.length;
  const querySet = device.createQuerySet({ type: "timestamp", count });
  const stamps = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.QUERY_RESOLVE | GPUBufferUsage.COPY_SRC });
  const target = device.createBuffer({ size: 8 * count, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  const found = [];
  for (let round = 0; round <= rounds; round++) { // the first compiles
    const encoder = device.createCommandEncoder();
    passes.forEach((held, i) => this.encode(encoder, held, {
      timestampWrites: { querySet, beginningOfPassWriteIndex: 2 * i, endOfPassWriteIndex: 2 * i + 1 },
    }));
    encoder.resolveQuerySet(querySet, 0, count, stamps, 0);
    this.submit(encoder);
    found.push([...new BigUint64Array(await read(this, stamps, target))]);
  }
  for (const thing of [querySet, stamps, target]) thing.destroy();
  const apart = found.flatMap((ticks) => ticks.map((tick) => tick - ticks[0]));
  const quantum = apart.map((step) => (step < 0n ? -step : step)).reduce(greatestCommonDivisor, 0n);
  const seconds = found.slice(1).map((ticks) => passes.map((_, i) => (
    Number(ticks[2 * i + 1] - ticks[2 * i]) / 1e9 / (repeats ?? 1))));
  const began = found.slice(1).map((ticks) => passes.map((_, i) => Number(ticks[2 * i] - ticks[0]) / 1e9));
  return { seconds, began_seconds: began, quantum_seconds: Number(quantum) / 1e9 };
}

function greatestCommonDivisor(a, b) {
  while (b) [a, b] = [b, a % b];
  return a;
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
  const steps = this.find("programs", program).steps.slice(0, 1);
  if (!steps.length) throw new JobError("GPUValidationError", `Program ${program} has no dispatch to time`);
  const [{ pipeline, bound, x, y, z }] = steps;
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
  for (let round = 0; round < Math.min(rounds, 50); round++) {
    const start = now();
    await this.issue(steps, "one-pass");
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
  const { groups, made } = this.find("programs", program).steps[0] ?? {};
  if (!groups?.length) throw new JobError("GPUValidationError", `Program ${program} has no bind group to time`);
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
    const within = async (work) => {
      await work();
      const seconds = [];
      const start = now();
      while (seconds.length < 2 || (seconds.length < rounds && now() - start < budget_seconds / 2)) {
        seconds.push(await timed(work));
      }
      return seconds;
    };
    writes.push(await within(() => {
      this.queue.writeBuffer(buffer, 0, data);
      this.count("bytes_written", size);
      return this.wait();
    }));
    reads.push(await within(() => read(this, buffer, target)));
    buffer.destroy();
    target.destroy();
  }
  return { write_seconds: writes, read_seconds: reads };
}

async function trace({ program }) {
  // When the host did what while it issued the program once, in one pass.
  this.flush();
  const { steps } = this.find("programs", program);
  await this.issue(steps, "one-pass", { lean: true });
  await this.wait();
  const start = now();
  const host = [];
  const mark = (name) => host.push([name, host.at(-1)?.[2] ?? 0, now() - start]);
  const encoder = this.device.createCommandEncoder();
  mark("encoder");
  const pass = encoder.beginComputePass();
  mark("pass-begin");
  for (const { pipeline, bound, x, y, z } of steps) {
    pass.setPipeline(pipeline);
    bound.forEach((group, i) => pass.setBindGroup(i, group));
    pass.dispatchWorkgroups(x, y, z);
    mark("dispatch");
  }
  pass.end();
  mark("pass-end");
  const commands = encoder.finish();
  mark("finish");
  this.queue.submit([commands]);
  mark("submit");
  await this.wait();
  mark("wait");
  this.count("dispatches", steps.length);
  for (const name of ["passes", "submits"]) this.count(name);
  return { host };
}

export const TIMINGS = {
  measure,
  trace,
  "measure-waits": measureWaits,
  "measure-phases": measurePhases,
  "measure-creation": measureCreation,
  "measure-transfers": measureTransfers,
  "measure-device-time": measureDeviceTime,
};
