//! Whether traces are valid, and what each reader will stumble over.
//!
//! One pass checks the text and each event; slices and the ends of flows are then gone over in order, as in a summary.
//! Nothing is an error of the check itself but what cannot be opened at all: damage is what it looks for.
#![forbid(unsafe_code)]

mod codes;
mod flows;
mod notes;
mod report;
mod scan;

pub use codes::{Severity, codes};
pub use report::{CheckReport, FileReport, Finding, Place};

use std::collections::HashMap;

use crate::error::{Error, Result};
use crate::read::cutter::End;
use crate::read::document::Shape;
use crate::read::json::PAD;
use crate::read::names::{self, Name, Shared};
use crate::read::nest::{At, Merged, Visit, sweep_all};
use crate::read::pieces::{Finished, Opened, read_all, threads};
use crate::read::{Input, Limits};
use crate::summary::OnRead;
use crate::sync::{Mutex, lock};
use codes::Code;
use notes::{Notes, find_lines};
use scan::{Scanned, Scanner};

/// How documents are checked.
#[derive(Debug, Clone, Default)]
pub struct CheckOptions {
    /// Threads; 0 for one per core, at most 8.
    pub threads: usize,
    /// Memory bounds.
    pub limits: Limits,
}

/// Checks some documents. `progress` is called on the calling thread now and then, and answers whether to go on.
///
/// # Errors
/// [`Error::Io`] if a file cannot be read; [`Error::Cancelled`]. What is wrong with a document is in the report.
pub fn check(inputs: Vec<Input>, options: &CheckOptions, mut progress: Option<OnRead<'_>>) -> Result<CheckReport> {
    let mut notes = Notes::default();
    let mut report = CheckReport::default();
    // Places among the files of those that can be read at all.
    let (mut documents, mut places) = (Vec::new(), Vec::new());
    for (place, input) in inputs.into_iter().enumerate() {
        let path = match &input {
            Input::Path(path) => path.display().to_string(),
            Input::Reader { name, .. } => name.clone(),
        };
        report.files.push(FileReport { path, ..FileReport::default() });
        match Opened::new(input, &options.limits, true) {
            Ok(one) => {
                documents.push(one);
                places.push(place);
            }
            Err(Error::Malformed { offset, what, .. } | Error::Limit { offset, what, .. }) => {
                report.files[place].findings.push(refused(offset, what));
            }
            Err(error) => return Err(error),
        }
    }
    let total: u64 = documents.iter().map(|one| one.stored.size).sum();
    let total = if documents.iter().any(|one| one.document.gzip) { 0 } else { total };
    let torch: Vec<bool> = documents.iter().map(is_torch).collect();
    let count = threads(options.threads);
    // Slices, and beside them GPU work and memory, or flows.
    let memory = options.limits.sort_bytes.saturating_mul(3);
    let shared = Mutex::new(Shared::new());
    let (scanned, finished) = read_all(
        &documents,
        (&options.limits, true, count),
        |bytes| progress.as_mut().is_none_or(|progress| progress(bytes, total)),
        || Scanner::new(&shared, &torch, count, memory / count),
        |scanner, document, cut| scanner.piece(document, cut),
        Scanner::finish,
    )?;
    let mut events = vec![0; documents.len()];
    let (mut shards, mut ends) = (Vec::new(), Vec::new());
    for Scanned { notes: found, lanes, flows, events: counted } in scanned {
        notes.add(found);
        for (index, sorted) in lanes.into_iter().enumerate() {
            if shards.len() <= index {
                shards.push(Vec::new());
            }
            shards[index].push(sorted);
        }
        ends.push(flows);
        events.iter_mut().zip(counted).for_each(|(all, more)| *all += more);
    }
    let shared = std::mem::replace(&mut *lock(&shared), Shared::new());
    let shards = shards.into_iter().map(Merged::new).collect::<Result<_>>()?;
    let start = || Lanes { names: &shared.names.list, document: 0, notes: Notes::default() };
    let swept = sweep_all(shards, start, |lanes, lane| {
        let process = shared.lanes.list.get(lane as usize).map_or(0, |lane| lane.process);
        lanes.document = shared.processes.list[process as usize].document as usize;
    })?;
    swept.into_iter().for_each(|lanes| notes.add(lanes.notes));
    flows::check(Merged::new(ends)?, &mut notes)?;
    for (index, (one, end)) in documents.iter().zip(&finished).enumerate() {
        surroundings(index, one, end, events[index], torch[index], &mut notes);
    }
    same_ranks(&documents, &finished, &mut notes);
    for ((index, code), count) in notes.found {
        let meaning = code.meaning();
        let places = places[index];
        let detail = count.detail.map_or(String::new(), |detail| format!(": {detail}"));
        report.files[places].findings.push(Finding {
            severity: meaning.severity,
            code: meaning.code,
            readers: meaning.readers,
            message: format!("{}{detail}", meaning.text),
            count: count.count,
            places: count.offsets.iter().map(|&offset| Place { offset, line: 0 }).collect(),
        });
    }
    for ((one, &place), events) in documents.iter().zip(&places).zip(events) {
        let file = &mut report.files[place];
        file.events = events;
        file.findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
        let mut all: Vec<&mut Place> = file.findings.iter_mut().flat_map(|finding| &mut finding.places).collect();
        find_lines(&one.stored, &mut all)?;
    }
    Ok(report)
}

/// The finding of a document whose start is no trace.
fn refused(offset: u64, what: String) -> Finding {
    let meaning = scan::code_of_text(&what).meaning();
    Finding {
        severity: meaning.severity,
        code: meaning.code,
        readers: meaning.readers,
        message: what,
        count: 1,
        places: vec![Place { offset, line: 1 }],
    }
}

/// Whether the readers of PyTorch traces are meant to open it.
fn is_torch(one: &Opened) -> bool {
    ["schemaVersion", "deviceProperties"].iter().any(|key| one.document.get(key).is_some())
}

/// What is met on lanes.
struct Lanes<'n> {
    names: &'n [Name],
    document: usize,
    notes: Notes,
}

impl Visit for Lanes<'_> {
    fn slice(&mut self, _at: &At, _duration: i64, _own: i64) {}

    fn crossing(&mut self, at: &At) -> bool {
        self.notes.at(self.document, Code::Crossing, at.offset);
        // What crosses only this one is drawn.
        false
    }

    fn ends(&self, begin: u32, end: u32) -> bool {
        names::ends(self.names, begin, end)
    }

    fn misplaced(&mut self, at: &At) {
        self.notes.at(self.document, Code::EndOther, at.offset);
    }

    fn no_begin(&mut self, at: &At) {
        self.notes.at(self.document, Code::EndAlone, at.offset);
    }

    fn no_end(&mut self, at: &At) {
        self.notes.at(self.document, Code::BeginAlone, at.offset);
    }

    fn point(&mut self, at: &At, _kind: u8, inside: bool) {
        if !inside {
            self.notes.at(self.document, Code::FlowNoSlice, at.offset);
        }
    }
}

/// What stands around the events, and how they end.
fn surroundings(index: usize, one: &Opened, end: &Finished, events: u64, torch: bool, notes: &mut Notes) {
    let document = &one.document;
    if let Some(broken) = &document.broken {
        notes.whole(index, scan::code_of_text(broken), Some(broken.clone()));
    }
    if let Some((end, at)) = end.end {
        let code = match end {
            End::Closed => None,
            End::Tail => Some(Code::Tail),
            End::Open => Some(Code::OpenArray),
            End::InString | End::InEvent | End::BetweenEvents => Some(Code::Truncated),
            End::TooLong => Some(Code::TooLong),
            End::Unreadable => Some(Code::Gzip),
        };
        if let Some(code) = code {
            notes.at(index, code, at);
        }
    }
    for (_, value) in document.members.iter().chain(&end.tail) {
        let mut padded = value.clone();
        padded.resize(value.len() + PAD, 0);
        scan::surrogates(&padded, value.len(), |code, _| notes.whole(index, code, None));
    }
    if events == 0 && document.broken.is_none() {
        let bare = document.shape == Shape::Bare;
        notes.whole(index, if bare { Code::NoArray } else { Code::NoEvents }, None);
    }
    if document.shape == Shape::Array {
        notes.whole(index, Code::BareArray, None);
    }
    if !torch || document.broken.is_some() {
        return;
    }
    let late = end.tail.iter().find(|(key, _)| key == "distributedInfo").map(|(_, value)| value.as_slice());
    let info = document.get("distributedInfo");
    match info.or(late) {
        Some(raw) if rank(raw).is_some() => {
            if !has_rank_text(raw) {
                notes.whole(index, Code::RankText, None);
            }
            if info.is_none() {
                notes.whole(index, Code::RankLate, None);
            }
        }
        // Merged documents are of many ranks, and on one clock already or never.
        Some(raw) if raw.windows(14).any(|text| text == b"\"merged_ranks\"") => return,
        _ => notes.whole(index, Code::NoRank, None),
    }
    let tail = |key: &str| end.tail.iter().any(|(known, _)| known == key);
    if document.get("baseTimeNanoseconds").is_none() && !tail("baseTimeNanoseconds") {
        notes.whole(index, Code::NoBaseTime, None);
    }
}

fn rank(raw: &[u8]) -> Option<i64> {
    serde_json::from_slice::<serde_json::Value>(raw).ok()?.get("rank")?.as_i64()
}

/// Whether HTA's expression, `"rank":\s+(\d+)`, finds something. It looks at one line at a time.
fn has_rank_text(raw: &[u8]) -> bool {
    const KEY: &[u8] = b"\"rank\":";
    (0..raw.len()).filter(|&at| raw[at..].starts_with(KEY)).any(|at| {
        let rest = &raw[at + KEY.len()..];
        let spaces = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        spaces > 0 && rest.get(spaces).is_some_and(u8::is_ascii_digit)
    })
}

/// Files that claim the same rank.
fn same_ranks(documents: &[Opened], finished: &[Finished], notes: &mut Notes) {
    let mut seen: HashMap<i64, usize> = HashMap::new();
    for (index, (one, end)) in documents.iter().zip(finished).enumerate() {
        let late = end.tail.iter().find(|(key, _)| key == "distributedInfo").map(|(_, value)| value.as_slice());
        if let Some(rank) = one.document.get("distributedInfo").or(late).and_then(rank) {
            let first = *seen.entry(rank).or_insert(index);
            if first != index {
                let other = documents[first].stored.name.display();
                notes.whole(index, Code::SameRank, Some(format!("rank {rank} is of {other} too")));
            }
        }
    }
}
