// The page: says what this browser has, asks for jobs, runs them, posts the results, until it is told to end.
import { Runtime } from "./runtime.js";
import { numbers, pack, unpack } from "./wire.js";

const id = crypto.randomUUID();
const end = new AbortController();
const NEEDED = { // what came late to some browser
  GPUDevice: ["createComputePipelineAsync", "popErrorScope", "lost"],
  GPUQueue: ["onSubmittedWorkDone"],
  GPUShaderModule: ["getCompilationInfo"],
};
const say = (text) => (document.getElementById("state").textContent = text);

function missing() {
  if (!isSecureContext) return "This page is no secure context: WebGPU needs https, localhost or 127.0.0.1.";
  if (!navigator.gpu) return `This browser has no WebGPU (navigator.gpu is missing): ${navigator.userAgent}`;
  const absent = Object.entries(NEEDED).flatMap(([type, names]) => (
    names.filter((name) => !(name in (globalThis[type]?.prototype ?? {}))).map((name) => `${type}.${name}`)));
  return absent.length ? `This browser's WebGPU lacks ${absent.join(", ")}: ${navigator.userAgent}` : null;
}

const requestAdapter = () => navigator.gpu.requestAdapter({ powerPreference: "high-performance" });

async function greeting() {
  const lack = missing();
  if (lack) return { lack };
  const adapter = await requestAdapter();
  if (!adapter) return { lack: `This browser has WebGPU and no adapter for it: ${navigator.userAgent}` };
  const told = {};
  for (const name in adapter.info) if (typeof adapter.info[name] !== "function") told[name] = adapter.info[name];
  const versions = await navigator.userAgentData?.getHighEntropyValues(["fullVersionList", "platformVersion"]);
  const agent = { text: navigator.userAgent, versions: versions?.fullVersionList ?? [] };
  return { told, features: [...adapter.features], limits: numbers(adapter.limits), agent };
}

async function exchange(body) {
  const response = await fetch("exchange", { method: "POST", body, headers: { "X-Page": id } });
  if (response.status === 204) return null;
  if (!response.ok) throw new Error(`the server answered ${response.status}`);
  return unpack(await response.arrayBuffer());
}

function refusal(error) {
  const { name, message, details, command } = error;
  const kind = error.constructor.name.startsWith("GPU") ? error.constructor.name : name;
  return pack({ error: { name: kind, message, details: details ?? {}, command: command ?? null } });
}

async function stayAlive() {
  // The request's end tells the server of this page's end; its text tells a page whose device hangs to start afresh.
  const response = await fetch(`alive?page=${id}`, { signal: end.signal });
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let read; !(read = await reader.read()).done; ) if (read.value.includes("reload")) location.reload();
}

async function serve() {
  stayAlive().catch(() => {});
  let runtime = null;
  let jobs = 0;
  let body = pack({ hello: await greeting().catch((error) => ({ lack: String(error) })) });
  for (;;) {
    const sent = await exchange(body);
    body = null;
    if (sent === null) continue;
    if (sent.data.reload) return location.reload();
    if (sent.data.end) {
      window.close(); // which browsers allow where a script opened the page
      return `The run has ended. ${jobs} jobs were run here.`;
    }
    try {
      if (sent.data.open) {
        runtime?.device.destroy();
        runtime = await Runtime.open(await requestAdapter(), sent.data.open);
        const features = [...runtime.device.features];
        body = pack({ features, limits: numbers(runtime.device.limits) });
      } else {
        say(`Job ${++jobs}.`);
        body = await runtime.run(sent.data.commands, sent);
      }
    } catch (error) {
      body = refusal(error);
    }
  }
}

serve()
  .then((text) => text && say(text), (error) => say(`The run's server is gone: ${error.message}`))
  .finally(() => end.abort());
