// What crosses between page and server: messages as job.pack makes them, errors, limits by WebGPU's kebab-case names.

export class JobError extends Error {
  constructor(name, message, details = {}) {
    super(message);
    Object.assign(this, { name, details });
  }
}

export const kebab = (name) => name.replace(/([a-z])([A-Z1-9])/g, "$1-$2").toLowerCase();

export function numbers(limits) {
  const found = {};
  for (const name in limits) if (typeof limits[name] === "number") found[kebab(name)] = limits[name];
  return found;
}

// A message: 4 bytes (little endian) length of the JSON, the JSON, then the blobs. Here a blob is a list of pieces.
export function pack(data, blobs = []) {
  const sizes = blobs.map((pieces) => pieces.reduce((sum, piece) => sum + piece.byteLength, 0));
  const header = new TextEncoder().encode(JSON.stringify({ ...data, blob_sizes: sizes }));
  const message = new Uint8Array(4 + header.byteLength + sizes.reduce((a, b) => a + b, 0));
  new DataView(message.buffer).setUint32(0, header.byteLength, true);
  let end = 4;
  for (const piece of [header, ...blobs.flat()]) {
    message.set(piece, end);
    end += piece.byteLength;
  }
  return message;
}

export function unpack(buffer) {
  const length = new DataView(buffer).getUint32(0, true);
  const data = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, length)));
  let start = 4 + length;
  const blobs = data.blob_sizes.map((size) => {
    start += size;
    return { start: start - size, size };
  });
  return { data, blobs, buffer };
}
