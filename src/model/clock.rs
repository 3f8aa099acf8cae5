//! The clocks that timestamps come from.

use rustix::time::{ClockId, clock_gettime};

/// What the timestamps of a trace count from. It decides whether traces of several processes can be aligned.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClockDomain {
    /// `CLOCK_MONOTONIC` of this machine: `time.perf_counter_ns()` of Python on Linux, `std::chrono::steady_clock`.
    #[default]
    Monotonic,
    /// `CLOCK_REALTIME`: nanoseconds since 1970.
    Realtime,
    /// Something else; such traces are not aligned with others.
    Unknown,
}

impl ClockDomain {
    /// The word for it in a document.
    pub(crate) fn name(self) -> &'static str {
        match self {
            ClockDomain::Monotonic => "monotonic",
            ClockDomain::Realtime => "realtime",
            ClockDomain::Unknown => "unknown",
        }
    }
}

/// Nanoseconds of `CLOCK_MONOTONIC`.
pub fn monotonic_ns() -> i64 {
    read(ClockId::Monotonic)
}

/// Nanoseconds since 1970 by `CLOCK_REALTIME`.
pub fn realtime_ns() -> i64 {
    read(ClockId::Realtime)
}

fn read(clock: ClockId) -> i64 {
    let time = clock_gettime(clock);
    time.tv_sec * 1_000_000_000 + time.tv_nsec
}

/// The same instant on both clocks: what lets traces of several machines be laid side by side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockAnchor {
    /// On `CLOCK_MONOTONIC`, in nanoseconds.
    pub monotonic_ns: i64,
    /// On `CLOCK_REALTIME`, in nanoseconds.
    pub realtime_ns: i64,
    /// How far the two readings may be apart, in nanoseconds.
    pub uncertainty_ns: i64,
}

impl ClockAnchor {
    /// Reads both clocks, the realtime one between two readings of the monotonic one, and keeps the closest of
    /// a few tries, since a thread may be suspended between two readings.
    pub fn now() -> Self {
        let one = || {
            let before = monotonic_ns();
            let realtime_ns = realtime_ns();
            let after = monotonic_ns();
            let half = (after - before) / 2;
            ClockAnchor { monotonic_ns: before + half, realtime_ns, uncertainty_ns: half + 1 }
        };
        (0..4).map(|_| one()).fold(one(), |best, new| if new.uncertainty_ns < best.uncertainty_ns { new } else { best })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anchor_lies_between_two_readings() {
        let before = (monotonic_ns(), realtime_ns());
        let anchor = ClockAnchor::now();
        let after = (monotonic_ns(), realtime_ns());
        assert!(before.0 <= anchor.monotonic_ns && anchor.monotonic_ns <= after.0);
        assert!(before.1 <= anchor.realtime_ns && anchor.realtime_ns <= after.1);
        assert!(anchor.uncertainty_ns > 0);
    }
}
