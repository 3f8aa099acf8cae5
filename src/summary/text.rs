//! Summaries as tables for people.

use std::fmt::Write;

use super::compare::Comparison;
use super::report::{GpuTime, NameKind, Summary};

/// How tables are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Rows of a table, at most.
    pub top: usize,
    /// Headings in bold, with the escapes of a terminal.
    pub colour: bool,
    /// Columns of the terminal, to which long names are cut; `None` for no cut.
    pub width: Option<usize>,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self { top: 10, colour: false, width: None }
    }
}

/// The unit in which a column of times is easy to read, and its nanoseconds.
fn unit(most: u64) -> (&'static str, f64, usize) {
    match most {
        0..10_000 => ("ns", 1.0, 0),
        10_000..10_000_000 => ("us", 1e3, 3),
        10_000_000..10_000_000_000 => ("ms", 1e6, 3),
        _ => ("s", 1e9, 3),
    }
}

/// A table whose last column is text, aligned left; all others are aligned right.
struct Table {
    title: String,
    heads: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Rows that are not shown.
    more: usize,
}

impl Table {
    fn new(title: &str) -> Self {
        Self { title: title.into(), heads: Vec::new(), rows: Vec::new(), more: 0 }
    }

    fn column(&mut self, head: impl Into<String>, cells: impl Iterator<Item = String>) {
        self.heads.push(head.into());
        for (index, cell) in cells.enumerate() {
            if self.rows.len() <= index {
                self.rows.push(vec![String::new(); self.heads.len() - 1]);
            }
            self.rows[index].push(cell);
        }
    }

    /// A column of times, in one unit.
    fn times(&mut self, head: &str, times: &[i64]) {
        let (name, scale, digits) = unit(times.iter().map(|time| time.unsigned_abs()).max().unwrap_or(0));
        self.column(format!("{head} {name}"), times.iter().map(|&time| format!("{:.*}", digits, time as f64 / scale)));
    }

    fn print(&self, out: &mut String, options: &TextOptions) {
        if self.rows.is_empty() {
            return;
        }
        let columns = self.heads.len();
        let wide = |text: &String| text.chars().count();
        let widths: Vec<usize> = (0..columns)
            .map(|at| self.rows.iter().map(|row| wide(&row[at])).max().unwrap_or(0).max(wide(&self.heads[at])))
            .collect();
        let (bold, plain) = if options.colour { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
        let _ = writeln!(out, "\n{bold}{}{plain}", self.title);
        let before: usize = widths[..columns - 1].iter().map(|width| width + 2).sum();
        let room = options.width.map(|width| width.saturating_sub(before).max(16));
        for (row, head) in std::iter::once((&self.heads, true)).chain(self.rows.iter().map(|row| (row, false))) {
            let mut line = String::new();
            for (cell, width) in row[..columns - 1].iter().zip(&widths) {
                let _ = write!(line, "{:>width$}  ", cell);
            }
            line.push_str(&cut(&row[columns - 1], room));
            let line = line.trim_end();
            let (from, to) = if head && options.colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
            let _ = writeln!(out, "{from}{line}{to}");
        }
        if self.more > 0 {
            let _ = writeln!(out, "... and {} more", self.more);
        }
    }
}

/// The name in so many characters, without control characters, which could do things to a terminal.
fn cut(name: &str, room: Option<usize>) -> String {
    let clean: String = name.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
    match room {
        Some(room) if clean.chars().count() > room => {
            let tail = room / 3;
            let skip = clean.chars().count() - tail;
            let head: String = clean.chars().take(room - tail - 3).collect();
            format!("{head}...{}", clean.chars().skip(skip).collect::<String>())
        }
        _ => clean,
    }
}

fn percent(part: u64, of: u64) -> String {
    if of == 0 { "-".into() } else { format!("{:.1}%", 100.0 * part as f64 / of as f64) }
}

fn signed(times: impl Iterator<Item = u64>) -> Vec<i64> {
    times.map(|time| i64::try_from(time).unwrap_or(i64::MAX)).collect()
}

fn bytes(count: i64) -> String {
    format!("{:.3}", count as f64 / (1 << 20) as f64)
}

/// Columns of GPU time.
fn gpu_columns(table: &mut Table, gpu: &[GpuTime]) {
    table.column("GPU work", gpu.iter().map(|gpu| gpu.activities.to_string()));
    table.times("busy", &signed(gpu.iter().map(|gpu| gpu.busy_ns)));
    table.column("busy", gpu.iter().map(|gpu| percent(gpu.busy_ns, gpu.busy_ns + gpu.idle_ns)));
    table.times("idle", &signed(gpu.iter().map(|gpu| gpu.idle_ns)));
    table.times("compute", &signed(gpu.iter().map(|gpu| gpu.compute_ns)));
    table.times("comm", &signed(gpu.iter().map(|gpu| gpu.communication_ns)));
    table.column("overlapped", gpu.iter().map(|gpu| percent(gpu.overlap_ns, gpu.communication_ns)));
    table.times("copies", &signed(gpu.iter().map(|gpu| gpu.memory_ns)));
}

impl Summary {
    /// One JSON object, whose keys are the fields of [`Summary`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Tables.
    pub fn to_text(&self, options: &TextOptions) -> String {
        let mut out = String::new();
        self.header(&mut out, options);
        self.rank_table(&mut out, options);
        self.step_table(&mut out, options);
        let many = [
            (NameKind::Gpu, "Kernels, copies and fills"),
            (NameKind::Op, "Operators"),
            (NameKind::Call, "Runtime and driver calls"),
            (NameKind::Annotation, "Annotations"),
            (NameKind::Other, "Other slices"),
        ];
        for (kind, title) in many {
            self.name_table(kind, title, &mut out, options);
        }
        self.stream_table(&mut out, options);
        self.gap_table(&mut out, options);
        self.memory_table(&mut out, options);
        self.lane_table(&mut out, options);
        out
    }

    fn has_gpu(&self) -> bool {
        !self.streams.is_empty()
    }

    fn header(&self, out: &mut String, options: &TextOptions) {
        for file in self.files.iter().take(options.top) {
            let ranks: Vec<String> = file.ranks.iter().take(8).map(i64::to_string).collect();
            let more = if file.ranks.len() > 8 { ", ..." } else { "" };
            let of = match (file.rank_stated, file.ranks.len()) {
                (_, 0) => "no events with a time".to_owned(),
                (false, _) => "no rank stated".to_owned(),
                (true, 1) => format!("rank {}", ranks[0]),
                (true, count) => format!("{count} ranks: {}{more}", ranks.join(", ")),
            };
            let _ = writeln!(out, "{}: {of}", cut(&file.path, None));
            for damage in &file.damage {
                let _ = writeln!(out, "damaged: {}", cut(damage, None));
            }
        }
        if self.files.len() > options.top {
            let _ = writeln!(out, "... and {} more files", self.files.len() - options.top);
        }
        let e = &self.events;
        let _ = writeln!(
            out,
            "{} events: {} slices, {} instants, {} counter values, {} flow ends, {} memory events, {} metadata, {} others",
            e.all, e.slices, e.instants, e.counters, e.flow_ends, e.memory, e.metadata, e.others
        );
        for warning in &self.warnings {
            let _ = writeln!(out, "warning: {warning}");
        }
    }

    /// The columns that say where a row belongs, if there is more than one place.
    fn places(&self, table: &mut Table, places: &[(usize, i64)]) {
        if self.files.len() > 1 && self.ranks.len() > self.files.len() {
            table.column("file", places.iter().map(|&(file, _)| (file + 1).to_string()));
        }
        if self.ranks.len() > 1 {
            table.column("rank", places.iter().map(|&(_, rank)| rank.to_string()));
        }
    }

    fn rank_table(&self, out: &mut String, options: &TextOptions) {
        let mut table = Table::new(if self.has_gpu() { "Ranks: where the GPU's time goes" } else { "Ranks" });
        let rows = &self.ranks[..self.ranks.len().min(options.top)];
        table.more = self.ranks.len() - rows.len();
        table.times("span", &signed(rows.iter().map(|rank| rank.span_ns)));
        if self.has_gpu() {
            let gpu: Vec<GpuTime> = rows.iter().map(|rank| rank.gpu).collect();
            gpu_columns(&mut table, &gpu);
        }
        table.column("rank", rows.iter().map(|rank| rank.rank.to_string()));
        table.print(out, options);
    }

    fn step_table(&self, out: &mut String, options: &TextOptions) {
        let mut table = Table::new("Steps");
        let rows = &self.steps[..self.steps.len().min(options.top)];
        table.more = self.steps.len() - rows.len();
        self.places(&mut table, &rows.iter().map(|row| (row.file, row.rank)).collect::<Vec<_>>());
        table.times("duration", &signed(rows.iter().map(|step| step.duration_ns)));
        if self.has_gpu() {
            gpu_columns(&mut table, &rows.iter().map(|step| step.gpu).collect::<Vec<_>>());
        }
        table.column("step", rows.iter().map(|step| step.step.to_string()));
        table.print(out, options);
    }

    fn name_table(&self, kind: NameKind, title: &str, out: &mut String, options: &TextOptions) {
        let all: Vec<_> = self.names.iter().filter(|name| name.kind == kind).collect();
        let rows = &all[..all.len().min(options.top)];
        let of: u64 = all.iter().fold(0, |sum, name| sum.saturating_add(name.self_ns));
        let mut table = Table::new(title);
        table.more = all.len() - rows.len();
        table.times("self", &signed(rows.iter().map(|name| name.self_ns)));
        table.column("self", rows.iter().map(|name| percent(name.self_ns, of)));
        table.times("total", &signed(rows.iter().map(|name| name.total_ns)));
        table.column("count", rows.iter().map(|name| name.count.to_string()));
        table.times("mean", &signed(rows.iter().map(|name| name.mean_ns().round() as u64)));
        table.times("max", &signed(rows.iter().map(|name| name.max_ns)));
        if kind == NameKind::Other {
            table.column("category", rows.iter().map(|name| cut(&name.category, Some(24))));
        }
        table.column("name", rows.iter().map(|name| name.name.clone()));
        table.print(out, options);
    }

    fn stream_table(&self, out: &mut String, options: &TextOptions) {
        let rows = &self.streams[..self.streams.len().min(options.top)];
        let mut table = Table::new("GPU streams");
        table.more = self.streams.len() - rows.len();
        self.places(&mut table, &rows.iter().map(|row| (row.file, row.rank)).collect::<Vec<_>>());
        table.column("pid", rows.iter().map(|row| cut(&row.pid, Some(16))));
        table.column("GPU work", rows.iter().map(|row| row.activities.to_string()));
        table.times("busy", &signed(rows.iter().map(|row| row.busy_ns)));
        table.column("busy", rows.iter().map(|row| percent(row.busy_ns, row.span_ns)));
        table.column("stream", rows.iter().map(|row| row.stream.clone()));
        table.print(out, options);
    }

    fn gap_table(&self, out: &mut String, options: &TextOptions) {
        for (title, one) in [("Longest gaps of a stream", true), ("Longest gaps of a rank's whole GPU work", false)] {
            let all: Vec<_> = self.gaps.iter().filter(|gap| gap.stream.is_some() == one).collect();
            let rows = &all[..all.len().min(options.top)];
            let mut table = Table::new(title);
            self.places(&mut table, &rows.iter().map(|row| (row.file, row.rank)).collect::<Vec<_>>());
            if one {
                table.column("stream", rows.iter().map(|row| row.stream.clone().unwrap_or_default()));
            }
            table.times("gap", &signed(rows.iter().map(|row| row.duration_ns)));
            let begin = |file: usize, rank: i64| {
                self.ranks.iter().find(|one| (one.file, one.rank) == (file, rank)).map_or(0, |rank| rank.start_ns)
            };
            let starts: Vec<i64> = rows.iter().map(|row| row.start_ns - begin(row.file, row.rank)).collect();
            table.times("at", &starts);
            let half = options.width.map(|_| 40);
            table.column("after", rows.iter().map(|row| cut(&row.after, half.or(Some(60)))));
            table.column("before", rows.iter().map(|row| row.before.clone()));
            table.print(out, options);
        }
    }

    fn memory_table(&self, out: &mut String, options: &TextOptions) {
        let rows = &self.memory[..self.memory.len().min(options.top)];
        let mut table = Table::new("Memory");
        table.more = self.memory.len() - rows.len();
        self.places(&mut table, &rows.iter().map(|row| (row.file, row.rank)).collect::<Vec<_>>());
        table.column("peak MiB", rows.iter().map(|row| bytes(row.peak_bytes)));
        table.column("reserved MiB", rows.iter().map(|row| row.peak_reserved_bytes.map_or("-".into(), bytes)));
        table.column("allocations", rows.iter().map(|row| row.allocations.to_string()));
        table.column("frees", rows.iter().map(|row| row.frees.to_string()));
        table.column("counted from", rows.iter().map(|row| if row.totals_stated { "0" } else { "start" }.to_owned()));
        table.column("device", rows.iter().map(|row| row.device.clone()));
        table.print(out, options);
    }

    fn lane_table(&self, out: &mut String, options: &TextOptions) {
        let rows = &self.lanes[..self.lanes.len().min(options.top)];
        let mut table = Table::new("Lanes");
        table.more = self.lanes.len() - rows.len();
        self.places(&mut table, &rows.iter().map(|row| (row.file, row.rank)).collect::<Vec<_>>());
        table.column("pid", rows.iter().map(|row| cut(&row.pid, Some(16))));
        table.column("tid", rows.iter().map(|row| cut(&row.tid, Some(16))));
        table.column("slices", rows.iter().map(|row| row.slices.to_string()));
        table.times("busy", &signed(rows.iter().map(|row| row.busy_ns)));
        table.column("name", rows.iter().map(|row| row.name.clone()));
        table.print(out, options);
    }
}

impl Comparison {
    /// One JSON object, whose keys are the fields of [`Comparison`].
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// A table.
    pub fn to_text(&self, options: &TextOptions) -> String {
        let mut out = String::new();
        let mut line = |what: &str, old: f64, new: f64| {
            let change = if old > 0.0 { format!("{:+.1}%", 100.0 * (new - old) / old) } else { "-".into() };
            let (name, scale, digits) = unit(old.max(new) as u64);
            let _ = writeln!(out, "{what}: {:.*} -> {:.*} {name} ({change})", digits, old / scale, digits, new / scale);
        };
        line("span", self.span_ns[0] as f64, self.span_ns[1] as f64);
        if let [Some(old), Some(new)] = self.step_mean_ns {
            line("mean step", old, new);
        }
        type Part = (&'static str, fn(&GpuTime) -> u64);
        let parts: [Part; 5] = [
            ("GPU busy", |gpu| gpu.busy_ns),
            ("GPU idle", |gpu| gpu.idle_ns),
            ("compute", |gpu| gpu.compute_ns),
            ("communication", |gpu| gpu.communication_ns),
            ("overlap of both", |gpu| gpu.overlap_ns),
        ];
        if self.gpu.iter().any(|gpu| gpu.activities > 0) {
            for (what, of) in parts {
                line(what, of(&self.gpu[0]) as f64, of(&self.gpu[1]) as f64);
            }
        }
        let rows = &self.names[..self.names.len().min(options.top)];
        let mut table = Table::new("Largest changes of total time");
        table.more = self.names.len() - rows.len();
        table.times("change", &rows.iter().map(|row| row.delta_ns).collect::<Vec<_>>());
        table.column(
            "change",
            rows.iter().map(|row| match row.total_ns {
                [0, _] if row.count[0] == 0 => "new".into(),
                [_, 0] if row.count[1] == 0 => "gone".into(),
                [0, _] => "-".into(),
                [old, _] => format!("{:+.1}%", 100.0 * row.delta_ns as f64 / old as f64),
            }),
        );
        for (side, head) in ["old", "new"].into_iter().enumerate() {
            table.times(&format!("{head} total"), &signed(rows.iter().map(|row| row.total_ns[side])));
            table.column(format!("{head} count"), rows.iter().map(|row| row.count[side].to_string()));
        }
        table.column("category", rows.iter().map(|row| cut(&row.category, Some(24))));
        table.column("name", rows.iter().map(|row| row.name.clone()));
        table.print(&mut out, options);
        out
    }
}
