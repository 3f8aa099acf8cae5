//! Recording from Rust.

use super::names::Name;
use super::{Async, Flow, Outcome};
use crate::error::Result;
use crate::model::event::Value;
use crate::trace::Trace;

/// A span of the thread that opened it; closed when it goes.
#[derive(Debug)]
pub struct Span<'t> {
    trace: &'t Trace,
    /// Spans belong to their thread.
    _here: std::marker::PhantomData<*const ()>,
}

impl Span<'_> {
    /// Adds an argument. Of spans inside one another it goes to the innermost that is open.
    pub fn arg(&self, key: Name, value: Value<'_>) -> Outcome {
        self.trace.core().arg(key, value)
    }
}

impl Drop for Span<'_> {
    fn drop(&mut self) {
        self.trace.core().end();
    }
}

/// Live recording. All of it from any thread, at any time, also while the trace is written; none of it fails, but
/// [`Outcome`] says what became of it. Times are of the processor's time-stamp counter where it runs evenly, else of
/// CLOCK_MONOTONIC.
impl Trace {
    /// Opens a span until the guard goes.
    #[inline]
    pub fn span(&self, name: Name) -> Span<'_> {
        self.core().begin(name);
        Span { trace: self, _here: std::marker::PhantomData }
    }

    /// Opens a span by a name that is made up. Names are interned for the process, and never freed.
    ///
    /// # Errors
    /// As [`Name::new`].
    pub fn span_named(&self, name: &str) -> Result<Span<'_>> {
        Ok(self.span(Name::new(name, "")?))
    }

    /// Opens a span on this thread.
    #[inline]
    pub fn begin_span(&self, name: Name) -> Outcome {
        self.core().begin(name)
    }

    /// Closes the span that was opened last on this thread.
    #[inline]
    pub fn end_span(&self) -> Outcome {
        self.core().end()
    }

    /// An argument of the span that was opened last on this thread. Texts are cut at 1024 bytes.
    pub fn span_arg(&self, key: Name, value: Value<'_>) -> Outcome {
        self.core().arg(key, value)
    }

    /// A span on this thread with given times, in nanoseconds of the trace's clock.
    pub fn complete_span(&self, name: Name, start_ns: i64, end_ns: i64) -> Outcome {
        self.core().complete(name, start_ns, end_ns)
    }

    /// Something that happens now on this thread.
    pub fn record_instant(&self, name: Name) -> Outcome {
        self.core().instant(name)
    }

    /// The value of a counter now. NaN and infinities are dropped when the trace is written.
    pub fn record_counter(&self, name: Name, value: f64) -> Outcome {
        self.core().counter(name, value)
    }

    /// A part of an async span, which may begin on one thread and end on another; `id` tells those of one name apart.
    pub fn record_async(&self, what: Async, name: Name, id: u64) -> Outcome {
        self.core().asynchronous(what, name, id)
    }

    /// A part of a flow, an arrow from one span to others. It hangs on the span that is open on this thread.
    pub fn record_flow(&self, what: Flow, name: Name, id: u64) -> Outcome {
        self.core().flow(what, name, id)
    }
}
