#!/usr/bin/env node
// Opens two traces in the real Perfetto engine, one after the other, and compares what it saw: every slice with its lane, its
// times and its arguments, every flow, every counter value, every name.
//
// usage: compare.mjs JSON PFTRACE
//
// exit 0  the same
//      1  different; the first differences are printed
//      2  usage
//      3  the engine refused a file, or counted errors that it did not count for the other
//      4  the engine is not installed (run setup.sh)
import fs from 'node:fs';
import { Engine, perfettoDist } from './lib/engine.mjs';

const files = process.argv.slice(2);
if (files.length !== 2 || !files.every((f) => fs.statSync(f, { throwIfNoEntry: false })?.isFile())) {
  console.error('usage: compare.mjs JSON PFTRACE');
  process.exit(2);
}
const dist = perfettoDist();
if (!dist) { console.error('the Perfetto engine is not installed: run tests/clients/setup.sh'); process.exit(4); }

// Says what the trace as a whole is like; JSON has that outside the events, where this engine does not look.
const WHOLE = ['Record Window End', 'Trace metadata'];

// The engine shows the control characters of JSON as they are escaped there.
const text = (s) => s?.replace(/[\x00-\x1f]/g, (c) => JSON.stringify(c).slice(1, -1));
// And what is beyond its integers as doubles.
// Its reading of decimals is exact to some fifteen digits.
const number = (n) => (Number.isSafeInteger(Number(n)) ? String(Number(n)) : String(Number(Number(n).toPrecision(14))));

// An array is one text in a .pftrace, and an argument for each of its elements in JSON, where empty ones are lost.
function whole(args) {
  const arrays = new Map(), out = [];
  const print = (v) => (Array.isArray(v) ? `[${v.map(print).filter((x) => x !== '[]')}]` : String(v).replace(/^"|"$/g, ''));
  for (const [key, value] of args) {
    const [, name, places] = /^(.*?)((?:\[\d+\])*)$/s.exec(key);
    if (places) {
      const path = [...places.matchAll(/\d+/g)].map((m) => +m[0]);
      let at = arrays.get(name) ?? arrays.set(name, []).get(name);
      for (const index of path.slice(0, -1)) at = at[index] ??= [];
      at[path.at(-1)] = value;
      continue;
    }
    let array;
    try { array = JSON.parse(value.slice(1, -1)); } catch { array = null; }
    if (Array.isArray(array)) arrays.set(name, array); else out.push(`${name}=${value}`);
  }
  for (const [name, array] of arrays) if (print(array) !== '[]') out.push(`${name}=${print(array)}`);
  return out;
}

function argsOf(engine) {
  const sets = new Map();
  for (const r of engine.query('SELECT arg_set_id AS id, key, int_value AS i, string_value AS s, real_value AS r, value_type AS t FROM args')) {
    // The two formats differ in the prefix, in the dots of a key, which are shown as underscores, and in the types of numbers that
    // are equal: 1 and 1.0.
    if (r.key.startsWith('legacy_event.')) continue;           // its own notes
    const key = text(r.key).replace(/^(args|debug)\./, '').replace(/[.]/g, '_');
    const value = r.t === 'string' || r.t === 'json' ? `"${text(r.s)}"` : r.t === 'null' ? 'null' : r.t === 'bool' ? `${Boolean(r.i)}` : number(r.t === 'real' ? r.r : r.i);
    if (!sets.has(r.id)) sets.set(r.id, []);
    sets.get(r.id).push([key, value]);
  }
  return new Map([...sets].map(([id, args]) => [id, whole(args).sort().join(' ')]));
}

function seen(engine) {
  const args = argsOf(engine);
  // Process 0 and thread 0 have another number in a .pftrace.
  const from0 = (id) => (id === 0 ? 999_999 : id);
  // What is called by text, not by a number, gets some number.
  const lane = (t) => (t.process && t.thread ? `[${t.process}, ${t.thread}]` : `[${from0(t.pid)} ${t.process}, ${from0(t.tid)} ${t.thread}]`);
  const tracks = new Map(engine.query(`
    SELECT t.id, p.pid, p.name AS process, th.tid, th.name AS thread, t.name FROM track t
    LEFT JOIN thread_track tt ON tt.id = t.id LEFT JOIN thread th USING (utid)
    LEFT JOIN process_track pt ON pt.id = t.id
    LEFT JOIN process p ON p.upid = ifnull(pt.upid, th.upid)`).map((t) => [t.id, t.tid === null ? `[${from0(t.pid)} ${t.name}]` : lane(t)]));
  const slices = new Map(), out = [];
  for (const s of engine.query('SELECT id, track_id, ts, dur, depth, category, name, arg_set_id FROM slice')) {
    if (WHOLE.includes(s.name)) continue;
    const place = `${tracks.get(s.track_id)} ${s.ts}+${s.dur} ${s.category ?? ''}:${s.name === null || s.name === '' ? '[No name]' : text(s.name)}`;
    slices.set(s.id, place);
    out.push(`slice ${place} depth ${s.depth} {${args.get(s.arg_set_id) ?? ''}}`);
  }
  for (const f of engine.query('SELECT slice_out, slice_in FROM flow')) out.push(`flow ${slices.get(f.slice_out)} -> ${slices.get(f.slice_in)}`);
  for (const c of engine.query(`SELECT t.name, p.pid, c.ts, c.value FROM counter c JOIN counter_track t ON t.id = c.track_id
    LEFT JOIN process_counter_track pc ON pc.id = t.id LEFT JOIN process p USING (upid)`)) out.push(`counter ${from0(c.pid)} ${text(c.name)} ${c.ts} ${c.value}`);
  return out.sort();
}

const problemsOf = (engine) => engine.query("SELECT name, value FROM stats WHERE value > 0 AND severity != 'info'");

const loads = [];
for (const file of files) {
  const started = performance.now();
  const engine = await Engine.open(file, dist);
  const ms = Math.round(performance.now() - started);
  if (engine.refusals.length) { console.error(`${file}: ${engine.refusals[0].slice(0, 300)}`); process.exit(3); }
  loads.push({ file, bytes: fs.statSync(file).size, ms, problems: problemsOf(engine), seen: seen(engine) });
}
const [json, own] = loads;
const counts = new Map();
json.seen.forEach((line) => counts.set(line, (counts.get(line) ?? 0) + 1));
own.seen.forEach((line) => counts.set(line, (counts.get(line) ?? 0) - 1));
const lost = [], added = [];
for (const [line, n] of counts) if (n) (n > 0 ? lost : added).push(line);
const cut = (lines) => lines.slice(0, 8).map((line) => (line.length > 600 ? `${line.slice(0, 600)}...` : line));
console.log(JSON.stringify({
  ok: !lost.length && !added.length && own.problems.length === 0,
  engine: dist.version, seen: json.seen.length, load_ms: loads.map((l) => l.ms), bytes: loads.map((l) => l.bytes),
  problems: loads.map((l) => l.problems), only_in_json: lost.length, only_in_pftrace: added.length,
  ...(lost.length && { lost: cut(lost) }), ...(added.length && { added: cut(added) }),
}, null, 1));
process.exit(own.problems.length ? 3 : lost.length || added.length ? 1 : 0);
