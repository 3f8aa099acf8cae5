//! Writing a trace.

use std::ffi::c_void;
use std::io;

use super::guard::guard_waits;
use super::input::{owned, path, sized};
use super::status::{Failure, tp_status};
use super::trace::{live, tp_trace};
use super::types::*;
use crate::output::{Compression, Progress, Target, WriteOptions};
use crate::{Error, ExportOptions, Format};

/// The caller's progress callback.
pub(crate) struct Watcher {
    pub(crate) call: tp_progress_fn,
    pub(crate) data: *mut c_void,
}

impl Watcher {
    pub(crate) const NONE: Self = Self { call: None, data: std::ptr::null_mut() };

    /// Whether to go on.
    pub(crate) fn tell(&self, progress: &Progress) -> bool {
        let Some(call) = self.call else { return true };
        let told = tp_progress {
            size: size_of::<tp_progress>(),
            done: progress.done,
            total: progress.total,
            bytes: progress.bytes,
            written: progress.written,
            files: progress.files,
            events: progress.events,
        };
        // SAFETY: the caller of the library vouches for its function; it is called on the thread that came in.
        unsafe { call(&raw const told, self.data) == 0 }
    }
}

/// Hands bytes to the caller's output callback.
struct CallbackWriter {
    call: unsafe extern "C" fn(*const u8, usize, *mut c_void) -> i32,
    data: *mut c_void,
    failed: Option<i32>,
}

impl io::Write for CallbackWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: as for the progress callback.
        match unsafe { (self.call)(bytes.as_ptr(), bytes.len(), self.data) } {
            0 => Ok(bytes.len()),
            status => {
                self.failed = Some(status);
                Err(io::Error::other("the output callback failed"))
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// What the numbers for compression and level stand for.
pub(crate) fn compression(compression: i32, level: i32) -> Result<(Compression, u32), Failure> {
    let compression = match compression {
        TP_COMPRESSION_AUTO => Compression::Auto,
        TP_COMPRESSION_NONE => Compression::None,
        TP_COMPRESSION_GZIP => Compression::Gzip,
        other => return Err(Failure::invalid(format!("compression {other} is not a TP_COMPRESSION_ number"))),
    };
    match level {
        0 => Ok((compression, WriteOptions::default().level)),
        level @ 1..=9 => Ok((compression, level as u32)),
        other => Err(Failure::invalid(format!("level {other} is not a gzip level from 1 to 9"))),
    }
}

/// # Safety
/// `from` is NULL or as [`sized`], and its texts are readable.
pub(super) unsafe fn options(from: *const tp_write_options) -> Result<(ExportOptions, Watcher), Failure> {
    let mut export = ExportOptions::default();
    if from.is_null() {
        return Ok((export, Watcher::NONE));
    }
    // SAFETY: the caller vouches for the struct.
    let given = unsafe { sized(from) }?;
    export.format = match given.format {
        TP_FORMAT_PLAIN => Format::Plain,
        TP_FORMAT_TORCH => Format::Torch,
        TP_FORMAT_PERFETTO => Format::Perfetto,
        other => return Err(Failure::invalid(format!("format {other} is not a TP_FORMAT_ number"))),
    };
    let (compression, level) = self::compression(given.compression, given.level)?;
    let known = TP_WRITE_FSYNC | TP_WRITE_KEEP_OVERLAPS | TP_WRITE_AS_REFERENCE;
    if given.flags & !known != 0 || given.reserved != 0 {
        return Err(Failure::invalid(format!("flags {:#x}: unknown bits", given.flags)));
    }
    export.separate_overlaps = given.flags & TP_WRITE_KEEP_OVERLAPS == 0;
    export.as_reference = given.flags & TP_WRITE_AS_REFERENCE != 0;
    let fsync = given.flags & TP_WRITE_FSYNC != 0;
    export.write = WriteOptions { compression, level, fsync, threads: given.threads as usize };
    // SAFETY: the caller vouches for the text.
    export.trace_name = unsafe { owned("trace_name", given.trace_name) }?;
    Ok((export, Watcher { call: given.progress, data: given.progress_data }))
}

/// Writes everything added so far to the file at `path`, replacing it as a whole. Other threads may go on adding;
/// what they add meanwhile does not show. The trace keeps its events.
///
/// The file is written beside its target and renamed when complete: on failure the old file is as it was. A target
/// that is a pipe or a device is written directly.
///
/// `options`: NULL for the defaults; read during the call only.
///
/// Any thread. `TP_STATUS_IO`, `TP_STATUS_CANCELLED`, `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_write(
    trace: *const tp_trace,
    path: tp_str,
    options: *const tp_write_options,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for handle, text and struct.
        let (trace, path, (mut export, watcher)) =
            unsafe { (live(trace)?, self::path("path", path)?, self::options(options)?) };
        if export.trace_name.is_empty() {
            export.trace_name = path.to_string_lossy().into_owned();
        }
        let mut progress = |progress: &Progress| watcher.tell(progress);
        trace.write_to(Target::File(path), &export, Some(&mut progress))?;
        Ok(())
    })
}

/// Writes everything added so far through a callback, so that it can go anywhere. As `tp_trace_write`.
///
/// `output`: called with consecutive pieces of the document, on this thread.
/// `user_data`: handed to `output`.
///
/// Any thread. `TP_STATUS_CALLBACK` if `output` answers something other than 0; `TP_STATUS_CANCELLED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_trace_write_to(
    trace: *const tp_trace,
    output: tp_output_fn,
    user_data: *mut c_void,
    options: *const tp_write_options,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for handle and struct.
        let (trace, (export, watcher)) = unsafe { (live(trace)?, self::options(options)?) };
        let Some(call) = output else { return Err(Failure::invalid("output is NULL")) };
        let mut writer = CallbackWriter { call, data: user_data, failed: None };
        let mut progress = |progress: &Progress| watcher.tell(progress);
        let result = trace.write_to(Target::Writer(&mut writer), &export, Some(&mut progress));
        match (result, writer.failed) {
            (Err(_), Some(status)) => Err(Error::Callback(status).into()),
            (Err(error), None) => Err(error.into()),
            (Ok(_), _) => Ok(()),
        }
    })
}
