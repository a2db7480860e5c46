// Runs the jobs of job.py on this browser's WebGPU: the same commands and the same counts as native.py.
// What can be checked without a device (names, ranges, limits, slots) was checked before it was sent: named.py.
import { COMMANDS, compileAhead } from "./commands.js";
import { clockStep } from "./timing.js";
import { JobError, kebab, pack } from "./wire.js";

const POLLED_WAIT = 0.02; // seconds: an empty wait this long is a timer's (Firefox: 100 ms), not the device's
const CHUNK = 1 << 18; // bytes of a staging buffer that small reads share
const SCOPES = ["internal", "out-of-memory", "validation"];

const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1e3));

export class Runtime {
  // A device, and the buffers, pipelines and programs that live on it by name.
  constructor(device) {
    this.device = device;
    this.queue = device.queue;
    this.names = { buffers: new Map(), pipelines: new Map(), programs: new Map() };
    this.compiled = new Map(); // equal source, entry, slots and constants share a pipeline
    this.layouts = new Map();
    this.spare = []; // staging buffers between jobs
    this.polls = false;
    this.bytes = 0; // of the buffers there are, and at most since last asked
    this.peak = 0;
    this.delayed = 0; // seconds of the delays that a variant asked for
    this.uncaptured = [];
    device.onuncapturederror = ({ error }) => this.uncaptured.push(error.message);
    this.lost = device.lost.then(({ reason, message }) => {
      throw new JobError("DeviceLost", `The device was lost (${reason}): ${message || "no reason given"}`, { reason });
    });
    this.lost.catch(() => {});
    this.begin();
  }

  static async open(adapter, { limits, features }) {
    const requiredLimits = {};
    for (const name in adapter.limits) if (kebab(name) in limits) requiredLimits[name] = limits[kebab(name)];
    const runtime = new Runtime(await adapter.requestDevice({ requiredLimits, requiredFeatures: features }));
    runtime.clockStep = clockStep();
    await runtime.plainWait(); // which ends anywhere between two ticks of a timer, if there is one
    const start = performance.now();
    await runtime.plainWait();
    runtime.polls = (performance.now() - start) / 1e3 > POLLED_WAIT;
    return runtime;
  }

  begin() {
    this.counts = {};
    this.blobs = []; // of the result: each a list of places in staging buffers
    this.chunks = [];
    this.made = [];
    this.uncaptured.length = 0;
    this.encoder = null;
  }

  count(name, by = 1) {
    this.counts[name] = (this.counts[name] ?? 0) + by;
  }

  async run(commands, sent) {
    try {
      return await Promise.race([this.runAll(commands, sent), this.lost]);
    } catch (error) {
      await Promise.race([this.lost, sleep(0.05)]); // whatever failed may have failed for that
      throw error;
    }
  }

  async runAll(commands, sent) {
    // Error scopes are read when the job is through: a round trip or two a job, not one a command.
    this.begin();
    this.ahead = compileAhead(this, commands);
    const values = [];
    const scopes = [];
    let failure = null;
    for (const [index, command] of commands.entries()) {
      this.index = index;
      SCOPES.forEach((filter) => this.device.pushErrorScope(filter));
      try {
        values.push((await COMMANDS[command.do].call(this, command, sent)) ?? null);
      } catch (error) {
        failure = { error, index };
      }
      scopes.push(Promise.all(SCOPES.map(() => this.device.popErrorScope())));
      if (failure) break;
    }
    this.flush();
    const found = (await Promise.all(scopes)).map((errors) => errors.find((error) => error !== null));
    const first = found.findIndex(Boolean);
    if (first >= 0 && (failure === null || first < failure.index)) failure = { error: found[first], index: first };
    if (failure === null && this.uncaptured.length) {
      failure = { error: new JobError("GPUValidationError", this.uncaptured.join("\n")), index: commands.length - 1 };
    }
    if (failure) {
      for (const { kind, name } of this.made.filter((m) => m.index >= failure.index)) this.forget(kind, name);
      this.recycle();
      throw Object.assign(failure.error, { command: failure.index });
    }
    const reply = pack({ values, counts: this.counts }, await this.fetchBlobs());
    this.recycle();
    return reply;
  }

  // Things by name. A program holds its buffers, so that dropping their names does not take them from it.

  keep(kind, name, thing) {
    this.forget(kind, name);
    this.names[kind].set(name, thing);
    this.made.push({ kind, name, index: this.index });
  }

  forget(kind, name) {
    const thing = this.names[kind].get(name);
    this.names[kind].delete(name);
    if (kind === "buffers" && thing) this.release(thing);
    if (kind === "programs" && thing) thing.buffers.forEach((buffer) => this.release(buffer));
  }

  release(buffer) {
    if (--buffer.holders > 0) return;
    this.allocated(-buffer.native.size);
    buffer.native.destroy();
  }

  allocated(size) {
    this.bytes += size;
    this.peak = Math.max(this.peak, this.bytes);
  }

  find(kind, name) {
    const thing = this.names[kind].get(name);
    if (thing) return thing;
    throw new JobError("GPUValidationError", `There is no ${name} among the ${kind}: a job that failed took it along.`);
  }

  buffer(name) {
    return this.find("buffers", name).native;
  }

  // Copies share one encoder until something must come after them

  copies() {
    return (this.encoder ??= this.device.createCommandEncoder());
  }

  flush() {
    if (this.encoder) this.submit(this.encoder);
    this.encoder = null;
  }

  submit(encoder) {
    this.queue.submit([encoder.finish()]);
    this.count("submits");
  }

  stage(size) {
    // A place for `size` bytes in a buffer that is read when the job is through.
    let chunk = this.chunks.find((c) => c.used + size <= c.buffer.size);
    if (!chunk) {
      const fits = this.spare.findIndex((b) => b.size >= size);
      const usage = GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST;
      const buffer = fits >= 0 ? this.spare.splice(fits, 1)[0]
        : this.device.createBuffer({ size: Math.max(size, CHUNK), usage });
      if (fits < 0) this.allocated(buffer.size);
      chunk = { buffer, used: 0 };
      this.chunks.push(chunk);
    }
    const place = { chunk, buffer: chunk.buffer, offset: chunk.used, size };
    chunk.used += Math.ceil(size / 8) * 8;
    return place;
  }

  blob(places) {
    this.blobs.push(places);
    this.count("reads");
    this.count("bytes_read", places.reduce((sum, { size }) => sum + size, 0));
    return { blob: this.blobs.length - 1 };
  }

  async fetchBlobs() {
    if (this.chunks.length) {
      await this.settled(Promise.all(this.chunks.map((c) => c.buffer.mapAsync(GPUMapMode.READ))));
      for (const chunk of this.chunks) chunk.bytes = chunk.buffer.getMappedRange();
    }
    return this.blobs.map((places) => places.map((p) => new Uint8Array(p.chunk.bytes, p.offset, p.size)));
  }

  recycle() {
    for (const { buffer } of this.chunks) {
      buffer.unmap();
      if (buffer.size <= CHUNK && this.spare.length < 16) {
        this.spare.push(buffer);
        continue;
      }
      this.allocated(-buffer.size);
      buffer.destroy();
    }
    this.chunks = [];
  }

  // Waits

  get fence() {
    return this.polls ? "onSubmittedWorkDone, polled by empty submits and error scopes" : "onSubmittedWorkDone";
  }

  plainWait() {
    return this.queue.onSubmittedWorkDone();
  }

  wait() {
    this.count("waits");
    return this.settled(this.plainWait());
  }

  async settled(promise) {
    // Where completion is told on a timer, asking for anything else makes the browser look at once.
    let pending = this.polls;
    const settle = () => (pending = false);
    promise.then(settle, settle);
    while (pending) {
      this.queue.submit([]);
      this.device.pushErrorScope("validation");
      await this.device.popErrorScope();
    }
    return promise;
  }

  // Dispatches

  layout(slots) {
    const key = JSON.stringify(slots);
    if (!this.layouts.has(key)) {
      const entries = slots.map(({ binding, type }) => (
        { binding, visibility: GPUShaderStage.COMPUTE, buffer: { type } }));
      this.layouts.set(key, { key, native: this.device.createBindGroupLayout({ entries }) });
    }
    return this.layouts.get(key);
  }

  bind(groups) {
    this.count("bind_groups", groups.length);
    return groups.map((descriptor) => this.device.createBindGroup(descriptor));
  }

  encode(encoder, steps, { fresh = false, zero = false, lean = false, delay = 0, timestampWrites } = {}) {
    // One compute pass with all of the steps: the loop whose time a dispatch's cost is made of. `lean` leaves out
    // what the pass has set already; `delay` is seconds of a busy wait before each dispatch.
    const pass = encoder.beginComputePass({ timestampWrites });
    let last = null;
    for (const step of steps) {
      if (delay) this.keepBusy(delay);
      const groups = fresh ? this.bind(step.groups) : step.bound;
      if (last?.pipeline !== step.pipeline) pass.setPipeline(step.pipeline);
      for (let i = 0; i < groups.length; i++) if (last?.bound[i] !== groups[i]) pass.setBindGroup(i, groups[i]);
      pass.dispatchWorkgroups(zero ? 0 : step.x, step.y, step.z);
      if (lean) last = step;
    }
    pass.end();
    this.count("passes");
    this.count("dispatches", steps.length);
  }

  keepBusy(seconds) {
    // `delayed` is how long this took in all: more where the system gave the processor to somebody else meanwhile.
    const start = performance.now();
    let now = start;
    while (now < start + 1e3 * seconds) now = performance.now();
    this.delayed += (now - start) / 1e3;
  }

  async issue(steps, mode, { wait = () => this.wait(), after = () => {}, ...how } = {}) {
    // The steps once, in one of the four modes; `after` records what goes behind the last into its submit.
    const together = mode === "one-pass" || mode === "pass-each";
    const passes = mode === "one-pass" ? [steps] : steps.map((step) => [step]);
    let encoder = null;
    for (const [i, group] of passes.entries()) {
      encoder ??= this.device.createCommandEncoder();
      this.encode(encoder, group, how);
      const last = i === passes.length - 1;
      if (last) after(encoder);
      if (together && !last) continue;
      this.submit(encoder);
      encoder = null;
      if (mode === "wait-each") await wait();
    }
  }
}
