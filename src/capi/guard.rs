//! The one door through which every call comes in.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::record::Uncancelled;

use super::status::{Failure, TP_STATUS_INTERNAL, TP_STATUS_OK, remember, tp_status};

/// Runs a call: its failure becomes a status with a message, and so does a panic.
#[inline]
pub(crate) fn guard(call: impl FnOnce() -> Result<(), Failure>) -> tp_status {
    // Unwind safety: the trace's lock forgives poisoning, and outputs are written last.
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => TP_STATUS_OK,
        Ok(Err(failure)) => fail(failure),
        Err(panic) => panicked(&*panic),
    }
}

/// The same for a call that waits for the system: a thread that is cancelled meanwhile ends after it.
pub(crate) fn guard_waits(call: impl FnOnce() -> Result<(), Failure>) -> tp_status {
    let _uncancelled = Uncancelled::new();
    guard(call)
}

#[cold]
fn fail(failure: Failure) -> tp_status {
    remember(failure.message);
    failure.status
}

#[cold]
fn panicked(panic: &(dyn std::any::Any + Send)) -> tp_status {
    let text = panic
        .downcast_ref::<&str>()
        .map(|text| (*text).to_owned())
        .or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "a panic without a message".to_owned());
    remember(format!("internal error (please report it): {text}"));
    TP_STATUS_INTERNAL
}

#[cfg(not(panic = "unwind"))]
compile_error!("tptrace needs panic = \"unwind\": its C boundary turns panics into TP_STATUS_INTERNAL");
