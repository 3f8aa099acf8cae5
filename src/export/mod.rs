//! A trace to a document: lanes, metadata, flows, formats.
#![forbid(unsafe_code)]

mod document;
mod flows;
mod json;
mod lanes;
mod overlap;
mod perfetto;
mod print;

use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};
use crate::model::log::CHUNK;
use crate::model::snapshot::Snapshot;
use crate::output::{self, Job, OnProgress, Target, WriteOptions, Written};

pub(crate) use document::ClockInfo;
use document::Document;
use print::Printer;

/// What the document looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Format {
    /// Chrome's trace format, as the exporter that tptrace replaces writes it.
    #[default]
    Plain,
    /// The same with what the readers of PyTorch's traces look for.
    Torch,
    /// Perfetto's own format, with what the torch format has, in about a fifth of the size. Other readers do not know it.
    /// Slices that overlap are always separated.
    Perfetto,
}

/// How a trace is turned into a document.
#[derive(Debug, Clone)]
pub struct ExportOptions {
    /// What the document looks like.
    pub format: Format,
    /// Draw slices that overlap without nesting in extra lanes beside theirs, so that no viewer loses them.
    pub separate_overlaps: bool,
    /// Repeat the reference in what a viewer cannot tell or would better be told otherwise: double arithmetic in
    /// times, correlation ids as flow ids, lanes of ops without a name. For drop-ins.
    pub as_reference: bool,
    /// `traceName` in the torch format.
    pub trace_name: String,
    /// Compression, threads and file handling.
    pub write: WriteOptions,
}

impl Default for ExportOptions {
    fn default() -> Self {
        Self {
            format: Format::Plain,
            separate_overlaps: true,
            as_reference: false,
            trace_name: String::new(),
            write: WriteOptions::default(),
        }
    }
}

/// What an export did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Exported {
    /// Bytes made and written.
    pub written: Written,
    /// Slices drawn in an extra lane.
    pub overlaps_moved: u64,
    /// Slices that overlap still, since their lane has 255 extra lanes already.
    pub overlaps_left: u64,
    /// Flows left out, since they would have run backwards in time.
    pub flows_dropped: u64,
}

/// A piece of the document: about a mebibyte.
#[derive(Debug, Clone, Copy)]
enum Piece {
    Head,
    /// One chunk of the log of that section.
    Ops(usize),
    Gpu(usize),
    Memory(usize),
    Samples(usize),
    Counters(usize),
    Instants(usize),
    Marks(usize),
    Flows(usize),
    Tail,
}

/// Writes what `snapshot` holds.
pub(crate) fn export(
    snapshot: &Snapshot,
    clock: ClockInfo,
    target: Target<'_>,
    options: &ExportOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<Exported> {
    if options.format == Format::Perfetto && (options.as_reference || !options.separate_overlaps) {
        return Err(Error::invalid(
            "Perfetto's format cannot repeat the reference or keep overlaps: its tracks hold no slices that cross; \
             leave these options out, or choose the plain or the torch format",
        ));
    }
    let document = Document::new(snapshot, clock, options);
    if options.format == Format::Perfetto {
        return perfetto::export(&document, target, options, progress);
    }
    let flows_dropped = AtomicU64::new(0);
    let mut pieces = pieces(&document);
    let written = output::write(
        target,
        &options.write,
        progress,
        snapshot.event_count(),
        || Ok(group(&mut pieces)),
        || {
            let mut printer = Printer::new(&document);
            let flows_dropped = &flows_dropped;
            move |pieces: Vec<Piece>, out: &mut Vec<u8>| {
                pieces.into_iter().for_each(|piece| printer.piece(out, piece));
                flows_dropped.fetch_add(std::mem::take(&mut printer.flows_dropped), Ordering::Relaxed);
                Ok(())
            }
        },
    )?;
    Ok(Exported {
        written,
        overlaps_moved: document.overlaps_moved(),
        overlaps_left: document.overlaps_left(),
        flows_dropped: flows_dropped.into_inner(),
    })
}

/// The next pieces that make about as much as a full chunk: a small document is compressed as one.
fn group(pieces: &mut impl Iterator<Item = (Piece, u64, usize)>) -> Option<Job<Vec<Piece>>> {
    let mut job = Job { item: Vec::new(), units: 0 };
    let mut lines = 0;
    while lines < CHUNK
        && let Some((piece, units, more)) = pieces.next()
    {
        job.item.push(piece);
        job.units += units;
        lines += more;
    }
    (!job.item.is_empty()).then_some(job)
}

/// All pieces in order, each with the number of events that it finishes, and about how many lines it prints.
fn pieces(document: &Document<'_>) -> impl Iterator<Item = (Piece, u64, usize)> + Send {
    let snapshot = document.snapshot;
    let chunks = |len: usize, piece: fn(usize) -> Piece| {
        (0..len.div_ceil(CHUNK)).map(move |i| {
            let events = CHUNK.min(len - i * CHUNK);
            (piece(i), events as u64, events)
        })
    };
    let gpu = snapshot.gpu.len();
    std::iter::once((Piece::Head, 0, 0))
        .chain(chunks(snapshot.ops.len(), Piece::Ops))
        .chain(chunks(gpu, Piece::Gpu))
        .chain(chunks(snapshot.memory.len(), Piece::Memory))
        .chain(chunks(snapshot.samples.len(), Piece::Samples))
        .chain(chunks(snapshot.counters.len(), Piece::Counters))
        .chain(chunks(snapshot.instants.len(), Piece::Instants))
        .chain(chunks(snapshot.marks.len(), Piece::Marks))
        .chain(chunks(gpu, Piece::Flows).map(|(piece, _, lines)| (piece, 0, lines))) // the activities counted above
        .chain(std::iter::once((Piece::Tail, 0, 0)))
}

impl Printer<'_> {
    fn piece(&mut self, out: &mut Vec<u8>, piece: Piece) {
        let document = self.document;
        let snapshot = document.snapshot;
        let numbered = |chunk: usize| (chunk * CHUNK) as u32..;
        match piece {
            Piece::Head => document.head(out),
            Piece::Ops(chunk) => {
                for (index, op) in numbered(chunk).zip(snapshot.ops.chunk(chunk)) {
                    self.op(out, index, op);
                }
            }
            Piece::Gpu(chunk) => {
                for (index, gpu) in numbered(chunk).zip(snapshot.gpu.chunk(chunk)) {
                    self.gpu(out, index, gpu);
                }
            }
            Piece::Memory(chunk) => snapshot.memory.chunk(chunk).iter().for_each(|event| self.memory(out, event)),
            Piece::Samples(chunk) => snapshot.samples.chunk(chunk).iter().for_each(|sample| self.sample(out, sample)),
            Piece::Counters(chunk) => {
                snapshot.counters.chunk(chunk).iter().for_each(|counter| self.counter(out, counter));
            }
            Piece::Instants(chunk) => {
                snapshot.instants.chunk(chunk).iter().for_each(|instant| self.instant(out, instant));
            }
            Piece::Marks(chunk) => snapshot.marks.chunk(chunk).iter().for_each(|mark| self.mark(out, mark)),
            Piece::Flows(chunk) => {
                for (index, gpu) in numbered(chunk).zip(snapshot.gpu.chunk(chunk)) {
                    self.flow(out, index, gpu);
                }
            }
            Piece::Tail => document.tail(out),
        }
    }
}
