//! Journals, and traces recovered from them.

use super::guard::guard_waits;
use super::input::{check_out, path, write_out};
use super::status::tp_status;
use super::trace::{live, tp_trace};
use super::types::*;
use super::write::options;
use crate::journal::recover;
use crate::output::{Progress, Target};

/// What became of a journal.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_recover_report {
    /// `sizeof(tp_recover_report)`, set by the caller.
    pub size: usize,
    /// Events in the document.
    pub events: u64,
    /// Spans that have no end of their own: they end where the journal does, and carry `unfinished`.
    pub unfinished: u64,
    /// Bytes of the journal that were read.
    pub journal_bytes: u64,
    /// Bytes behind them that were cut, since they are damaged or half written.
    pub cut_bytes: u64,
}

/// Brings the journal of a trace (`journal` of `tp_trace_options`) up to date, and waits until the disk has it. Without
/// a journal it does nothing. It happens by itself too: within a second in the file, and within two on the disk.
///
/// Any thread. `TP_STATUS_IO` if the system does not take it, for instance on a full disk: recording goes on, and it is
/// tried again by itself; what the journal does not have then is still in the trace.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_sync_journal(trace: *const tp_trace) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for the handle.
        let trace = unsafe { live(trace) }?;
        Ok(trace.sync_journal()?)
    })
}

/// Makes the trace that a journal tells of, up to where it ends or is damaged, and writes it to `out_path`, as
/// `tp_trace_write` does. Spans that were open end where the journal does, and have `"unfinished": true`.
///
/// `journal`: left as it is. It may be that of a process that still runs.
/// `options`: NULL for the defaults; read during the call only.
/// `report`: NULL, or gets what became of it, on success; the caller sets its size.
///
/// Any thread. `TP_STATUS_MALFORMED` if it is no journal, or nothing in it is whole; `TP_STATUS_IO`,
/// `TP_STATUS_CANCELLED`, `TP_STATUS_INVALID_ARGUMENT`. A file at `out_path` stays as it was.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_recover(
    journal: tp_str,
    out_path: tp_str,
    options: *const tp_write_options,
    report: *mut tp_recover_report,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for texts and struct.
        let (journal, target, (mut export, watcher)) =
            unsafe { (path("journal", journal)?, path("out_path", out_path)?, self::options(options)?) };
        // SAFETY: the caller vouches for the struct.
        let size = if report.is_null() { 0 } else { unsafe { check_out(report) }? };
        if export.trace_name.is_empty() {
            export.trace_name = target.to_string_lossy().into_owned();
        }
        let mut progress = |progress: &Progress| watcher.tell(progress);
        let (recovered, _) = recover(journal, Target::File(target), &export, Some(&mut progress))?;
        if !report.is_null() {
            let told = tp_recover_report {
                size,
                events: recovered.events,
                unfinished: recovered.unfinished,
                journal_bytes: recovered.journal_bytes,
                cut_bytes: recovered.cut_bytes,
            };
            // SAFETY: checked above.
            unsafe { write_out(report, told) };
        }
        Ok(())
    })
}
