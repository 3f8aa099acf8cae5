//! A trace from the journal of a process that is gone.

use std::fs::File;
use std::io::{self, BufReader, Read, Seek, SeekFrom};
use std::path::Path;

use super::block::{self, End, Kind, MAGIC};
use super::facts::Facts;
use super::file::same;
use super::lanes;
use super::restore::Restorer;
use crate::error::{Error, Result};
use crate::export::{ExportOptions, Exported, export};
use crate::model::clock::ClockDomain;
use crate::model::counts::RecordCounts;
use crate::model::span::Span;
use crate::model::store::Store;
use crate::output::{OnProgress, Target};
use crate::record::{Converter, Revival, Table};

/// What became of a journal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Recovered {
    /// Events in the document.
    pub events: u64,
    /// Spans that have no end of their own: they end where the journal does, and carry `unfinished`.
    pub unfinished: u64,
    /// Bytes of the journal that were read.
    pub journal_bytes: u64,
    /// Bytes behind them that were cut, since they are damaged or half written.
    pub cut_bytes: u64,
    /// What is wrong where it was cut; empty for nothing.
    pub damage: String,
}

/// What has to be known before the first record is read.
#[derive(Default)]
struct Survey {
    facts: Option<Facts>,
    table: Table,
    /// Whether ticks are those of the processor's counter, and the anchors.
    clock: (bool, Vec<[u64; 3]>),
}

/// Makes the trace that a journal tells of, up to where it ends or is damaged, and writes it.
///
/// The journal stays as it is. It may be that of a process that still runs.
///
/// # Errors
/// [`Error::Malformed`] if it is no journal or there is nothing whole in it; [`Error::InvalidArgument`] if the target is
/// the journal; [`Error::Io`]. A file at the target stays as
/// it was.
pub fn recover(
    journal: &Path,
    target: Target<'_>,
    options: &ExportOptions,
    progress: Option<OnProgress<'_>>,
) -> Result<(Recovered, Exported)> {
    let failed = |action| move |source| Error::Io { action, path: journal.to_owned(), source };
    let bad = |offset, what: &str| Error::Malformed { path: journal.to_owned(), offset, what: what.to_owned() };
    // Before it is opened: that of a pipe would wait.
    if !std::fs::metadata(journal).map_err(failed("open"))?.is_file() {
        return Err(bad(0, "not a regular file"));
    }
    let file = File::open(journal).map_err(failed("open"))?;
    let meta = file.metadata().map_err(failed("read"))?;
    if let Target::File(path) = &target
        && std::fs::metadata(path).is_ok_and(|found| same(&found, &meta))
    {
        return Err(Error::invalid(format!(
            "{}: the output would replace the journal: choose another path",
            path.display()
        )));
    }
    let mut reader = BufReader::with_capacity(1 << 16, file);
    let mut magic = Vec::with_capacity(MAGIC.len());
    (&mut reader).take(MAGIC.len() as u64).read_to_end(&mut magic).map_err(failed("read"))?;
    if let Some([number, more]) = magic.strip_prefix(b"tptrace journal ")
        && (matches!(number, b'2'..=b'9') || number.is_ascii_digit() && more.is_ascii_digit())
    {
        return Err(bad(0, "this journal is of a newer tptrace: recover it with that"));
    }
    if magic != *MAGIC {
        return Err(bad(0, "this is not a journal of tptrace: it does not begin with \"tptrace journal 1\""));
    }
    let mut survey = Survey::default();
    let end = block::each(&mut reader, |kind, contents| survey.block(kind, contents)).map_err(failed("read"))?;
    let Survey { facts: Some(facts), table, clock: (counter, anchors) } = survey else {
        return Err(bad(end.good, "there is nothing whole in this journal"));
    };

    let converter = Converter::from_numbers(counter, &anchors);
    let clock = facts.clock();
    let mut store = Store::new(Span::new(clock.base_ns));
    facts.restore(&mut store);
    let offset_ns = match clock.domain {
        ClockDomain::Realtime => clock.anchor.realtime_ns.saturating_sub(clock.anchor.monotonic_ns),
        ClockDomain::Monotonic | ClockDomain::Unknown => 0,
    };
    let uncertainty_ns = converter.as_ref().map_or(0, Converter::uncertainty_ns);
    let mut revival = converter.map(|converter| Revival::new(&table, converter, offset_ns));
    let mut restorer = Restorer::new(end.good);
    reader.seek(SeekFrom::Start(MAGIC.len() as u64)).map_err(failed("read"))?;
    // The process may have written more meanwhile.
    let mut good = (&mut reader).take(end.good - MAGIC.len() as u64);
    let mut recorded = false;
    let end = pass(&mut good, end, |kind, contents| {
        if kind != Kind::Lane {
            return restorer.block(&mut store, kind, contents);
        }
        recorded = true;
        let Some(revival) = &mut revival else { return Err("records without a clock".into()) };
        lanes::read_piece(contents, |piece| {
            if !piece.name.is_empty() && !facts.names(piece.thread) {
                store.thread_names.insert(piece.thread, piece.name.to_owned());
            }
            revival.piece(&mut store, piece);
        })?;
        restorer.check(&store)
    })
    .map_err(failed("read"))?;
    let (mut snapshot, unfinished) = match &mut revival {
        Some(revival) => (revival.finish(&mut store), revival.unfinished),
        None => (store.snapshot(), 0),
    };
    snapshot.host_name = Some(facts.host_name().to_owned());
    if recorded || facts.recorded() != RecordCounts::default() {
        snapshot.recording = Some((facts.recorded(), uncertainty_ns));
    }
    let recovered = Recovered {
        events: snapshot.event_count(),
        unfinished,
        journal_bytes: end.good,
        cut_bytes: meta.len().saturating_sub(end.good),
        damage: end.damage.unwrap_or_default(),
    };
    snapshot.recovered = Some(recovered.clone());
    drop(store);
    let exported = export(&snapshot, clock, target, options, progress)?;
    Ok((recovered, exported))
}

/// The second pass over what was good in the first. What is found wrong only now is cut too.
fn pass(from: &mut impl Read, first: End, block: impl FnMut(Kind, &[u8]) -> Result<(), String>) -> io::Result<End> {
    let second = block::each(from, block)?;
    Ok(if second.damage.is_some() { second } else { first })
}

impl Survey {
    fn block(&mut self, kind: Kind, contents: &[u8]) -> Result<(), String> {
        match kind {
            Kind::Facts => {
                let facts = serde_json::from_slice(contents);
                self.facts = Some(facts.map_err(|error| format!("what the journal says of the trace: {error}"))?);
            }
            Kind::Anchors => lanes::read_anchors(contents, &mut self.clock)?,
            _ => lanes::note(&mut self.table, kind, contents)?,
        }
        Ok(())
    }
}
