//! Merging files.

use std::ffi::c_void;
use std::path::PathBuf;

use super::guard::guard_waits;
use super::input::{array, owned, owned_texts, path, sized};
use super::status::{Failure, tp_status};
use super::types::*;
use super::write::Watcher;
use crate::merge::{Alignment, Input, MergeOptions, MergeReport, Selection, merge};
use crate::output::{Progress, Target, WriteOptions};

/// Shift pids by rank x 10,000,000 and change nothing else. For drop-in replacements.
pub const TP_MERGE_VERBATIM: u32 = 1;
/// Keep what can be kept of damaged inputs, and tell of the rest, instead of failing.
pub const TP_MERGE_SALVAGE: u32 = 2;
/// Wait until the file is on the disk.
pub const TP_MERGE_FSYNC: u32 = 4;
/// Only what reaches into the time from `window_start_ns` to `window_end_ns`.
pub const TP_MERGE_WINDOW: u32 = 8;

/// Move timestamps onto one clock if every input says how; else leave them and warn.
pub const TP_ALIGN_AUTO: i32 = 0;
/// Move timestamps by the time bases that the inputs state, comparable or not.
pub const TP_ALIGN_FORCE: i32 = 1;
/// Leave timestamps alone.
pub const TP_ALIGN_OFF: i32 = 2;
/// Add `offsets_ns` to the timestamps of each input.
pub const TP_ALIGN_OFFSETS: i32 = 3;

/// Told one sentence, on the thread that called the function. The text is valid during the call.
pub type tp_message_fn = Option<unsafe extern "C" fn(message: tp_str, user_data: *mut c_void)>;

/// How files are merged. Zero-filled with `size` set is the default.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_merge_options {
    /// `sizeof(tp_merge_options)`.
    pub size: usize,
    /// `TP_MERGE_` bits.
    pub flags: u32,
    /// A `TP_ALIGN_` number.
    pub alignment: i32,
    /// For `TP_ALIGN_OFFSETS`: nanoseconds to add, one number for each input.
    pub offsets_ns: *const i64,
    /// How many there are.
    pub offset_count: usize,
    /// A `TP_COMPRESSION_` number.
    pub compression: i32,
    /// Gzip level from 1 (fastest) to 9 (smallest); 0 for the default, 1.
    pub level: i32,
    /// Threads, the calling one included, at most 32; 0 for one per core, at most 8.
    pub threads: u32,
    /// Must be 0.
    pub reserved: u32,
    /// `traceName` of the merged document; the path if empty.
    pub trace_name: tp_str,
    /// Told how far the merge has come, in bytes of input; may be NULL.
    pub progress: tp_progress_fn,
    /// Handed to `progress`.
    pub progress_data: *mut c_void,
    /// Told what was odd about the inputs and, with `TP_MERGE_SALVAGE`, damaged; may be NULL.
    pub warn: tp_message_fn,
    /// Handed to `warn`.
    pub warn_data: *mut c_void,
    /// Only inputs of these ranks; all if there are none. Metadata, that is names of processes and lanes, always stay; of
    /// the rest each of the following leaves out some. Slices that are written as begin and end stay or go as one, and
    /// flows stay if all slices that they hang on do.
    pub ranks: *const i64,
    /// How many there are.
    pub rank_count: usize,
    /// With `TP_MERGE_WINDOW`: from here on, in nanoseconds after the earliest event of all inputs.
    pub window_start_ns: i64,
    /// With `TP_MERGE_WINDOW`: before this. Slices that reach into the window stay whole.
    pub window_end_ns: i64,
    /// Only events of one of these categories; all if there are none.
    pub categories: *const tp_str,
    /// How many there are.
    pub category_count: usize,
    /// Only events whose name matches one of these regular expressions somewhere; all if there are none.
    pub names: *const tp_str,
    /// How many there are.
    pub name_count: usize,
    /// No events whose name matches one of these.
    pub exclude_names: *const tp_str,
    /// How many there are.
    pub exclude_name_count: usize,
    /// Only slices at least this long, in nanoseconds, and what has no duration.
    pub min_duration_ns: u64,
    /// Bytes of the document before compression: the longest slices that fit stay, what has no duration goes first. 0 for no
    /// bound.
    pub max_bytes: u64,
}

/// What a merge did.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tp_merge_report {
    /// `sizeof(tp_merge_report)`, set by the caller.
    pub size: usize,
    /// Events of the inputs that were written.
    pub events: u64,
    /// Damaged events among them, written after repair.
    pub repaired: u64,
    /// Damaged pieces that could not be kept.
    pub lost: u64,
    /// Sentences that `warn` was told, or would have been.
    pub warnings: u64,
    /// How far timestamps of different inputs may be apart, in nanoseconds; UINT64_MAX for unknown.
    pub uncertainty_ns: u64,
    /// Whether timestamps share one clock now: 1 or 0.
    pub aligned: u64,
    /// Bytes of the document, before compression.
    pub bytes: u64,
    /// Bytes of the file.
    pub written: u64,
    /// Events left out because of the time window.
    pub cut_window: u64,
    /// Events left out because of their category.
    pub cut_category: u64,
    /// Events left out because of their name.
    pub cut_name: u64,
    /// Events left out because they are too short.
    pub cut_duration: u64,
    /// Events left out because of the size.
    pub cut_budget: u64,
    /// Flow events left out because a slice that they hang on was.
    pub cut_flow: u64,
    /// With `max_bytes`, if it was too small for all: slices at least this long are all there; else UINT64_MAX.
    pub complete_from_ns: u64,
}

pub(super) unsafe fn options(
    from: *const tp_merge_options,
) -> Result<(MergeOptions, Watcher, tp_message_fn, *mut c_void), Failure> {
    let mut merge = MergeOptions::default();
    if from.is_null() {
        return Ok((merge, Watcher::NONE, None, std::ptr::null_mut()));
    }
    // SAFETY: the caller vouches for the struct and what it points to.
    let (given, name) = unsafe {
        let given = sized(from)?;
        (given, owned("trace_name", given.trace_name)?)
    };
    if given.flags & !(TP_MERGE_VERBATIM | TP_MERGE_SALVAGE | TP_MERGE_FSYNC | TP_MERGE_WINDOW) != 0
        || given.reserved != 0
    {
        return Err(Failure::invalid(format!("flags {:#x}: unknown bits", given.flags)));
    }
    merge.verbatim = given.flags & TP_MERGE_VERBATIM != 0;
    merge.salvage = given.flags & TP_MERGE_SALVAGE != 0;
    merge.alignment = match given.alignment {
        TP_ALIGN_AUTO => Alignment::Auto,
        TP_ALIGN_FORCE => Alignment::Force,
        TP_ALIGN_OFF => Alignment::Off,
        TP_ALIGN_OFFSETS => {
            // SAFETY: the caller vouches for the array.
            let offsets = unsafe { array("offsets_ns", given.offsets_ns, given.offset_count) }?;
            Alignment::Offsets(offsets.to_vec())
        }
        other => return Err(Failure::invalid(format!("alignment {other} is not a TP_ALIGN_ number"))),
    };
    let window = given.flags & TP_MERGE_WINDOW != 0;
    if !window && (given.window_start_ns, given.window_end_ns) != (0, 0) {
        return Err(Failure::invalid("a time window is given without TP_MERGE_WINDOW"));
    }
    // SAFETY: the caller vouches for arrays and texts.
    merge.selection = unsafe {
        Selection {
            ranks: array("ranks", given.ranks, given.rank_count)?.to_vec(),
            window_ns: window.then_some((given.window_start_ns, given.window_end_ns)),
            categories: owned_texts("categories", given.categories, given.category_count)?,
            min_duration_ns: given.min_duration_ns,
            names: owned_texts("names", given.names, given.name_count)?,
            exclude_names: owned_texts("exclude_names", given.exclude_names, given.exclude_name_count)?,
            max_bytes: (given.max_bytes > 0).then_some(given.max_bytes),
        }
    };
    let (compression, level) = super::write::compression(given.compression, given.level)?;
    merge.trace_name = (!name.is_empty()).then_some(name);
    merge.write =
        WriteOptions { compression, level, fsync: given.flags & TP_MERGE_FSYNC != 0, threads: given.threads as usize };
    Ok((merge, Watcher { call: given.progress, data: given.progress_data }, given.warn, given.warn_data))
}

/// All that a merge has to say, in sentences.
fn messages(report: &MergeReport) -> impl Iterator<Item = String> {
    let damage = report.inputs.iter().flat_map(|input| {
        let counts = (input.repaired + input.lost > 0).then(|| {
            let (path, repaired, lost) = (input.path.display(), input.repaired, input.lost);
            format!("{path}: {repaired} events were repaired, {lost} damaged pieces left out")
        });
        counts.into_iter().chain(input.damage.iter().cloned())
    });
    report.warnings.iter().cloned().chain(damage)
}

/// Merges trace files, one for each rank, into one. JSON and gzip are told apart by the bytes of a file, not by its name.
/// The output may be one of the inputs: it is replaced when complete, and as it was on failure.
///
/// Unless told otherwise, the ranks' processes, lanes and flows are kept apart, processes are named and sorted by rank,
/// and timestamps are moved onto one clock where the files say how.
///
/// `paths`: `count` of them, read during the call only.
/// `options`: NULL for the defaults.
/// `report`: the caller sets its size; written on success. May be NULL.
///
/// Any thread. `TP_STATUS_IO`, `TP_STATUS_MALFORMED` and `TP_STATUS_LIMIT` with file and byte offset in the message,
/// `TP_STATUS_CANCELLED`, `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_merge(
    paths: *const tp_str,
    count: usize,
    out_path: tp_str,
    options: *const tp_merge_options,
    report: *mut tp_merge_report,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for texts and struct.
        let (paths, target, (mut merge_options, watcher, warn, warn_data)) =
            unsafe { (array("paths", paths, count)?, path("out_path", out_path)?, self::options(options)?) };
        let inputs = paths
            .iter()
            // SAFETY: as above.
            .map(|&one| Ok(Input::Path(PathBuf::from(unsafe { path("a path", one) }?))))
            .collect::<Result<Vec<_>, Failure>>()?;
        if merge_options.trace_name.is_none() {
            merge_options.trace_name = Some(target.to_string_lossy().into_owned());
        }
        if !report.is_null() {
            // SAFETY: the caller vouches for the struct; it starts with its size.
            unsafe { super::input::check_out(report) }?;
        }
        let mut progress = |progress: &Progress| watcher.tell(progress);
        let done = merge(inputs, Target::File(target), &merge_options, Some(&mut progress))?;
        // SAFETY: the report was checked above, and the function is the caller's own.
        unsafe { tell(&done, warn, warn_data, report) };
        Ok(())
    })
}

/// Tells the caller what a merge did.
///
/// # Safety
/// `report` is NULL or was approved of by `check_out`; `warn` is the caller's function.
pub(super) unsafe fn tell(done: &MergeReport, warn: tp_message_fn, data: *mut c_void, report: *mut tp_merge_report) {
    let mut warnings = 0;
    for message in messages(done) {
        warnings += 1;
        // SAFETY: the caller's own function.
        unsafe { give(warn, data, &message) };
    }
    if !report.is_null() {
        let cut = done.cut();
        let told = tp_merge_report {
            size: 0,
            events: done.kept(),
            repaired: done.repaired(),
            lost: done.lost(),
            warnings,
            uncertainty_ns: done.uncertainty_ns.unwrap_or(u64::MAX),
            aligned: u64::from(done.aligned),
            bytes: done.written.bytes,
            written: done.written.written,
            cut_window: cut.window,
            cut_category: cut.category,
            cut_name: cut.name,
            cut_duration: cut.duration,
            cut_budget: cut.budget,
            cut_flow: cut.flow,
            complete_from_ns: done.complete_from_ns.unwrap_or(u64::MAX),
        };
        // SAFETY: checked by the caller.
        unsafe { super::input::write_out(report, told) };
    }
}

/// Hands a text to the caller's function, if there is one.
///
/// # Safety
/// The function is the caller's own.
pub(super) unsafe fn give(to: tp_message_fn, data: *mut c_void, text: &str) {
    let Some(to) = to else { return };
    let text = tp_str { ptr: text.as_ptr().cast(), len: text.len() };
    // SAFETY: vouched for by the caller; the text lives during the call.
    unsafe { to(text, data) };
}
