#!/usr/bin/env node
// Opens a trace in the real Perfetto engine and prints what it saw as JSON.
//
// usage: perfetto.mjs TRACE [--sql QUERY]...      TRACE: .json, .json.gz, .pftrace
//
// exit 0  imported without one error
//      1  imported, but the engine counted errors or data losses, left a slice unfinished, or a --sql query failed
//      2  usage
//      3  the engine refused the file, or died of it
//      4  the engine is not installed (run setup.sh)
import fs from 'node:fs';
import { Engine, perfettoDist } from './lib/engine.mjs';

const USAGE = 'usage: perfetto.mjs TRACE [--sql QUERY]...';
const cut = (s, n = 300) => (s.length > n ? `${s.slice(0, n)}...` : s);

function finish(code, out) {
  fs.writeSync(1, `${JSON.stringify({ reader: 'perfetto', ok: code === 0, ...out }, null, 1)}\n`);
  process.exit(code);
}

function summary(engine) {
  const rows = (sql) => engine.query(sql), first = (sql) => rows(sql)[0];
  const table = (sql) => Object.fromEntries(rows(sql).map((r) => [r.k ?? '', r.n]));
  // A slice's lane: its process (pid) and thread, or the engine's global track when it belongs to neither.
  const lanes = `WITH lane AS (
    SELECT t.id AS track, upid, utid, tid, th.name AS name FROM thread_track t JOIN thread th USING (utid)
    UNION ALL SELECT id, upid, NULL, NULL, name FROM process_track
    UNION ALL SELECT id, NULL, NULL, NULL, name FROM track WHERE id NOT IN (SELECT id FROM thread_track UNION SELECT id FROM process_track))`;
  return {
    slices: first(`SELECT count(*) AS total, ifnull(sum(depth > 0), 0) AS nested, ifnull(sum(dur < 0), 0) AS unfinished, ifnull(sum(dur = 0), 0) AS instants,
      ifnull(max(depth), 0) AS max_depth, min(ts) AS first_ns, max(ts + max(dur, 0)) AS last_ns FROM slice`),
    categories: table('SELECT category AS k, count(*) AS n FROM slice GROUP BY 1 ORDER BY 1'),
    flows: {
      ...first(`SELECT count(*) AS total, ifnull(sum(a.track_id != b.track_id), 0) AS cross_track, ifnull(sum(b.ts < a.ts), 0) AS backwards
        FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in`),
      joins: table(`SELECT ifnull(a.category, '') || ' -> ' || ifnull(b.category, '') AS k, count(*) AS n
        FROM flow JOIN slice a ON a.id = slice_out JOIN slice b ON b.id = slice_in GROUP BY 1 ORDER BY 1`),
    },
    counters: table(`SELECT t.name AS k, count(*) AS n FROM counter c JOIN counter_track t ON t.id = c.track_id GROUP BY 1 ORDER BY 1`),
    processes: rows(`${lanes} SELECT p.pid, p.name, count(DISTINCT l.track) AS lanes, count(s.id) AS slices FROM process p
      LEFT JOIN lane l USING (upid) LEFT JOIN slice s ON s.track_id = l.track GROUP BY upid HAVING slices > 0 OR p.name IS NOT NULL ORDER BY p.pid`),
    lanes: rows(`${lanes} SELECT p.pid, l.tid, l.name, count(*) AS slices, max(s.depth) AS max_depth FROM slice s JOIN lane l ON l.track = s.track_id
      LEFT JOIN process p USING (upid) GROUP BY l.track ORDER BY p.pid, l.tid`),
  };
}

const args = process.argv.slice(2), sql = [];
let file;
while (args.length) {
  const a = args.shift();
  if (a === '--sql' && args.length) sql.push(args.shift());
  else if (!a.startsWith('-') && file === undefined) file = a;
  else { console.error(USAGE); process.exit(2); }
}
if (file === undefined || !fs.statSync(file, { throwIfNoEntry: false })?.isFile()) {
  console.error(`${USAGE}\n${file === undefined ? 'no trace named' : `no such file: ${file}`}`);
  process.exit(2);
}
const dist = perfettoDist();
if (!dist) finish(4, { file, error: 'the Perfetto engine is not installed: run tests/clients/setup.sh' });

try {
  const started = performance.now();
  const engine = await Engine.open(file, dist);
  const head = { file, bytes: fs.statSync(file).size, engine: engine.version, load_ms: Math.round(performance.now() - started) };
  if (engine.refusals.length) finish(3, { ...head, error: cut(engine.refusals[0]), refusals: engine.refusals.map((r) => cut(r)) });
  // The engine's own account of what it could not use: only `info` rows are harmless.
  const problems = engine.query("SELECT name, idx, severity, value, description FROM stats WHERE value > 0 AND severity != 'info'");
  const seen = summary(engine);
  const answers = sql.map((query) => { try { return { query, rows: engine.query(query) }; } catch (e) { return { query, error: e.message }; } });
  const bad = problems.length > 0 || seen.slices.unfinished > 0 || answers.some((a) => a.error);
  finish(bad ? 1 : 0, { ...head, problems, ...seen, ...(sql.length && { sql: answers }) });
} catch (e) {
  finish(3, { file, error: cut(String(e?.stack ?? e), 600) });
}
