// The commands of job.py, by name, each called on a Runtime. Those that time something: timing.js.
import { TIMINGS } from "./timing.js";
import { JobError } from "./wire.js";

const PIECE = 1 << 26; // larger reads go through several staging buffers
const IN_FLIGHT = 8; // repetitions between two marks: the host runs at most three times as many ahead
const KEPT = 512; // pipelines kept for being asked for again
const USAGES = { storage: ["STORAGE"], uniform: ["UNIFORM"], indirect: ["STORAGE", "INDIRECT"] };

export const COMMANDS = {
  "make-buffer"({ name, size, usage }) {
    const bits = [...USAGES[usage], "COPY_SRC", "COPY_DST"].map((use) => GPUBufferUsage[use]);
    const native = this.device.createBuffer({ label: name, size, usage: bits.reduce((a, b) => a | b) });
    this.allocated(size);
    this.keep("buffers", name, { native, holders: 1 });
    this.count("buffers");
  },

  "write-buffer"({ name, data, offset }, sent) {
    const { start, size } = sent.blobs[data.blob];
    this.flush();
    this.queue.writeBuffer(this.buffer(name), offset, sent.buffer, start, size);
    this.count("writes");
    this.count("bytes_written", size);
  },

  "fill-buffer"({ name, word, offset, size }) {
    if (word === 0) {
      this.copies().clearBuffer(this.buffer(name), offset, size);
      return;
    }
    this.flush();
    const words = new Uint32Array(Math.min(size, 1 << 22) / 4).fill(word >>> 0);
    for (let done = 0; done < size; done += words.byteLength) {
      const count = Math.min(words.byteLength, size - done);
      this.queue.writeBuffer(this.buffer(name), offset + done, words.buffer, 0, count);
    }
    this.count("writes");
    this.count("bytes_written", size);
  },

  "copy-buffer"({ source, target, size, source_offset, target_offset }) {
    this.copies().copyBufferToBuffer(this.buffer(source), source_offset, this.buffer(target), target_offset, size);
  },

  "read-buffer"({ name, offset, size }) {
    const places = [];
    for (let done = 0; done < size; done += PIECE) {
      const place = this.stage(Math.min(PIECE, size - done));
      this.copies().copyBufferToBuffer(this.buffer(name), offset + done, place.buffer, place.offset, place.size);
      places.push(place);
    }
    return this.blob(places);
  },

  async "make-pipeline"(command) {
    const key = keyOf(command);
    const made = this.compiled.get(key) ?? await (this.ahead.get(key) ?? compile(this, command));
    if (!this.compiled.delete(key)) this.count("pipelines");
    this.compiled.set(key, made); // the latest asked for is the last to be let go
    if (this.compiled.size > KEPT) this.compiled.delete(this.compiled.keys().next().value);
    this.keep("pipelines", command.name, made);
    return { warnings: made.warnings };
  },

  "make-program"({ name, dispatches }) {
    const held = new Set();
    const shared = new Map(); // equal bind groups are one, and need not be set again
    const steps = dispatches.map(({ pipeline, bound, workgroups: [x, y, z] }) => {
      const made = this.find("pipelines", pipeline);
      const { native, layouts } = made;
      const groups = layouts.map((layout, index) => {
        const here = bound.filter((b) => b.group === index);
        const entries = here.map(({ binding, buffer, offset, size }) => {
          held.add(this.find("buffers", buffer));
          return { binding, resource: { buffer: this.buffer(buffer), offset, size: size ?? undefined } };
        });
        return { key: layout.key + JSON.stringify(here), layout: layout.native, entries };
      });
      const bind = (group) => {
        if (!shared.has(group.key)) shared.set(group.key, this.bind([group])[0]);
        return shared.get(group.key);
      };
      return { pipeline: native, made, groups, bound: groups.map(bind), x, y, z };
    });
    held.forEach((buffer) => buffer.holders++);
    this.keep("programs", name, { steps, buffers: [...held] });
    this.count("programs");
  },

  async "run-program"({ name, times, mode, wait, collect }) {
    const { steps } = this.find("programs", name);
    this.flush();
    const place = collect && this.stage(collect.size * times);
    const marks = [];
    let throttled = 0;
    const start = performance.now();
    for (let i = 0; i < times; i++) {
      const after = collect ? (encoder) => encoder.copyBufferToBuffer(
        this.buffer(collect.buffer), collect.offset, place.buffer, place.offset + i * collect.size, collect.size) : undefined;
      await this.issue(steps, mode, { after, lean: true });
      if (i % IN_FLIGHT !== IN_FLIGHT - 1) continue;
      const began = performance.now();
      marks.push(this.plainWait());
      if (marks.length > 2) {
        await this.settled(marks.shift());
        this.count("throttles");
      }
      throttled += performance.now() - began;
    }
    const encoded = performance.now();
    if (wait) await this.wait();
    const value = { seconds: (performance.now() - start) / 1e3, encode_seconds: (encoded - start - throttled) / 1e3 };
    return collect ? { ...value, ...this.blob([place]) } : value;
  },

  "measure-memory"() {
    const told = { bytes: this.bytes, peak_bytes: this.peak };
    this.peak = this.bytes;
    return told;
  },

  drop({ names }) {
    this.flush();
    for (const name of names) {
      for (const kind of ["programs", "pipelines", "buffers"]) {
        const fits = name.endsWith("*") ? [...this.names[kind].keys()].filter((n) => n.startsWith(name.slice(0, -1)))
          : [name];
        fits.forEach((found) => this.forget(kind, found));
      }
    }
  },

  "lose-device"() {
    this.device.destroy(); // for those who inject faults; no command of job.py
    return new Promise(() => {});
  },

  ...TIMINGS,
};

const keyOf = ({ code, entry, slots, constants }) => JSON.stringify([code, entry, slots, constants]);

export function compileAhead(runtime, commands) {
  // A job's pipelines are compiled side by side, where the browser has threads for that. Errors wait for their command.
  const ahead = new Map();
  runtime.device.pushErrorScope("validation"); // modules that do not compile: getCompilationInfo tells more
  for (const command of commands) {
    if (command.do !== "make-pipeline") continue;
    const key = keyOf(command);
    if (!runtime.compiled.has(key) && !ahead.has(key)) ahead.set(key, compile(runtime, command));
  }
  runtime.device.popErrorScope().catch(() => {});
  for (const made of ahead.values()) made.catch(() => {});
  return ahead;
}

async function compile(runtime, { code, entry, slots, constants }) {
  const { device } = runtime;
  const module = device.createShaderModule({ code });
  const messages = (await module.getCompilationInfo()).messages;
  const error = messages.find(({ type }) => type === "error");
  if (error) {
    throw new JobError("CompileError", error.message, { line: error.lineNum || null, column: error.linePos || null });
  }
  const groups = Math.max(0, ...slots.map(({ group }) => group + 1));
  const layouts = Array.from({ length: groups }, (_, i) => runtime.layout(slots.filter(({ group }) => group === i)));
  const layout = device.createPipelineLayout({ bindGroupLayouts: layouts.map(({ native }) => native) });
  const compute = { module, entryPoint: entry, constants };
  const native = await device.createComputePipelineAsync({ layout, compute });
  const warnings = messages.map(({ lineNum, linePos, message }) => `${lineNum}:${linePos}: ${message}`);
  return { native, layouts, warnings, descriptor: { layout, compute }, code };
}
