//! Where records become events of a trace.

use std::sync::Arc;

use super::clock::Clock;
use crate::model::gpu::GpuReport;
use crate::trace::Shared;

/// Times may be that far outside of a collection: clocks of CPU and GPU are matched by the driver, not equal.
const SLACK_NS: i64 = 1_000_000_000;

/// What a reader adds to.
#[derive(Debug)]
pub(super) struct Intake {
    pub(super) shared: Arc<Shared>,
    pub(super) clock: Clock,
    pub(super) report: GpuReport,
    first: i64,
    last: i64,
}

impl Intake {
    /// `started`: the trace's time before anything was collected.
    pub(super) fn new(shared: Arc<Shared>, clock: Clock, started: i64) -> Self {
        Self { shared, clock, report: GpuReport::default(), first: started.saturating_sub(SLACK_NS), last: i64::MAX }
    }

    /// Before each buffer: what is in it has happened by now.
    pub(super) fn begin(&mut self, now: impl Fn() -> u64) {
        self.clock.check(now);
        self.last = self.clock.trace_now().saturating_add(SLACK_NS);
        self.report.buffers += 1;
    }

    /// A record's times on the trace's clock; `None` if they cannot be, which is counted.
    #[inline]
    pub(super) fn times(&mut self, start: u64, end: u64) -> Option<(i64, i64)> {
        if start == 0 || end == 0 {
            self.report.no_times += 1;
            return None;
        }
        let (start, end) = (self.clock.convert(start), self.clock.convert(end));
        if start < self.first || start > self.last || end > self.last {
            self.report.out_of_window += 1;
            return None;
        }
        self.report.inverted_times += u64::from(end < start);
        Some((start, end))
    }
}
