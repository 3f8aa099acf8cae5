//! Statuses, and the text of the last failure.

use std::cell::RefCell;
use std::ffi::{CStr, c_char};

use crate::{Error, GpuFailure};

/// What a call came to: one of the `TP_STATUS_` numbers. New numbers may be added; none is ever reused.
pub type tp_status = i32;

/// It worked.
pub const TP_STATUS_OK: tp_status = 0;
/// The handle is NULL: the library is absent, or the handle could not be created.
pub const TP_STATUS_UNAVAILABLE: tp_status = 1;
/// An argument cannot be used; the message says which and why.
pub const TP_STATUS_INVALID_ARGUMENT: tp_status = 2;
/// The system refused an operation on a file; the message names both.
pub const TP_STATUS_IO: tp_status = 3;
/// An input file is damaged; the message gives the byte offset.
pub const TP_STATUS_MALFORMED: tp_status = 4;
/// An input file goes past a limit that keeps memory bounded.
pub const TP_STATUS_LIMIT: tp_status = 5;
/// The caller's output callback answered something other than 0.
pub const TP_STATUS_CALLBACK: tp_status = 6;
/// The caller's progress callback asked to stop.
pub const TP_STATUS_CANCELLED: tp_status = 7;
/// Memory could not be had.
pub const TP_STATUS_OUT_OF_MEMORY: tp_status = 8;
/// A struct from a newer header has a field set that this version does not know.
pub const TP_STATUS_UNSUPPORTED: tp_status = 9;
/// The handle was created before a fork, and this is the child.
pub const TP_STATUS_FORKED: tp_status = 10;
/// A defect of this library, contained: please report the message.
pub const TP_STATUS_INTERNAL: tp_status = 11;
/// GPU work cannot be collected here: no driver, no device, or no CUPTI that works. The trace goes on with its CPU side.
pub const TP_STATUS_GPU_UNAVAILABLE: tp_status = 20;
/// Another profiler collects GPU work, or another trace of this process.
pub const TP_STATUS_GPU_BUSY: tp_status = 21;
/// The system does not permit to collect GPU work; the message says how to change that.
pub const TP_STATUS_GPU_PERMISSION: tp_status = 22;
/// CUPTI failed in some other way.
pub const TP_STATUS_GPU_FAILED: tp_status = 23;

/// A status and its message, on the way out.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: tp_status,
    pub(crate) message: String,
}

impl Failure {
    pub(crate) fn new(status: tp_status, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(TP_STATUS_INVALID_ARGUMENT, message)
    }

    /// Says which element of an array failed.
    pub(crate) fn at(self, what: &str, index: usize) -> Self {
        Self { message: format!("{what} {index}: {}", self.message), ..self }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match &error {
            Error::InvalidArgument(_) => TP_STATUS_INVALID_ARGUMENT,
            Error::Io { .. } => TP_STATUS_IO,
            Error::Malformed { .. } => TP_STATUS_MALFORMED,
            Error::Limit { .. } => TP_STATUS_LIMIT,
            Error::Callback(_) => TP_STATUS_CALLBACK,
            Error::Cancelled => TP_STATUS_CANCELLED,
            Error::Gpu { failure: GpuFailure::Unavailable, .. } => TP_STATUS_GPU_UNAVAILABLE,
            Error::Gpu { failure: GpuFailure::Busy, .. } => TP_STATUS_GPU_BUSY,
            Error::Gpu { failure: GpuFailure::Permission, .. } => TP_STATUS_GPU_PERMISSION,
            Error::Gpu { failure: GpuFailure::Failed, .. } => TP_STATUS_GPU_FAILED,
            Error::OutOfMemory(_) => TP_STATUS_OUT_OF_MEMORY,
            Error::Internal(_) => TP_STATUS_INTERNAL,
        };
        Self::new(status, error.to_string())
    }
}

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Keeps the message for this thread.
pub(crate) fn remember(message: String) {
    // At thread exit the value may be gone already; then nobody is left to ask for it.
    let _ = LAST.try_with(|last| {
        if let Ok(mut last) = last.try_borrow_mut() {
            *last = message;
        }
    });
}

/// A copy of this thread's message.
pub(crate) fn last() -> String {
    LAST.try_with(|last| last.try_borrow().map(|last| last.clone()).unwrap_or_default()).unwrap_or_default()
}

pub(crate) fn name(status: tp_status) -> &'static CStr {
    match status {
        TP_STATUS_OK => c"ok",
        TP_STATUS_UNAVAILABLE => c"unavailable",
        TP_STATUS_INVALID_ARGUMENT => c"invalid argument",
        TP_STATUS_IO => c"input/output error",
        TP_STATUS_MALFORMED => c"malformed input",
        TP_STATUS_LIMIT => c"input over a limit",
        TP_STATUS_CALLBACK => c"output callback failed",
        TP_STATUS_CANCELLED => c"cancelled",
        TP_STATUS_OUT_OF_MEMORY => c"out of memory",
        TP_STATUS_UNSUPPORTED => c"unsupported",
        TP_STATUS_FORKED => c"created before a fork",
        TP_STATUS_INTERNAL => c"internal error",
        TP_STATUS_GPU_UNAVAILABLE => c"GPU collection unavailable",
        TP_STATUS_GPU_BUSY => c"GPU collection busy",
        TP_STATUS_GPU_PERMISSION => c"GPU collection not permitted",
        TP_STATUS_GPU_FAILED => c"GPU collection failed",
        _ => c"unknown status",
    }
}

/// A few words for a status. Static text: never freed, valid for ever. Any thread; never fails.
#[unsafe(no_mangle)]
pub extern "C" fn tp_status_name(status: tp_status) -> *const c_char {
    name(status).as_ptr()
}
