//! From the collector's clock to the trace's.

use crate::model::clock::{ClockDomain, monotonic_ns, realtime_ns};

/// The same instant on both clocks.
#[derive(Debug, Clone, Copy)]
struct Sample {
    collector: i64,
    /// The trace's time less the collector's.
    offset: i64,
    uncertainty: i64,
}

/// A difference between samples that is worth following.
const NOTABLE_NS: i64 = 1000;
/// Readings that are good enough, and how many are tried for one.
const CLOSE_NS: i64 = 250;
const TRIES: u32 = 32;

/// Converts times, by samples of both clocks taken while collecting: that the two run alike is measured, not assumed.
#[derive(Debug)]
pub(super) struct Clock {
    domain: ClockDomain,
    /// Ascending; one only as long as the offset stays what it was.
    samples: Vec<Sample>,
    latest: Sample,
    /// The offset was once at least this, and once at most that, whatever the readings' noise.
    highest_low: i64,
    lowest_high: i64,
}

impl Clock {
    /// `now` tells the collector's time.
    pub(super) fn new(domain: ClockDomain, now: impl Fn() -> u64) -> Self {
        let sample = take(domain, now);
        let (highest_low, lowest_high) = (sample.offset - sample.uncertainty, sample.offset + sample.uncertainty);
        Self { domain, samples: vec![sample], latest: sample, highest_low, lowest_high }
    }

    /// The trace's time.
    pub(super) fn trace_now(&self) -> i64 {
        trace_now(self.domain)
    }

    /// Compares the clocks again.
    pub(super) fn check(&mut self, now: impl Fn() -> u64) {
        let sample = take(self.domain, now);
        self.highest_low = self.highest_low.max(sample.offset - sample.uncertainty);
        self.lowest_high = self.lowest_high.min(sample.offset + sample.uncertainty);
        let (known, noise) = self.samples.last().map_or((0, 0), |last| (last.offset, last.uncertainty));
        if (sample.offset - known).abs() > NOTABLE_NS + noise + sample.uncertainty {
            // The offset was as before up to the latest sample, and moved from there.
            if self.samples.last().is_none_or(|last| last.collector < self.latest.collector) {
                self.samples.push(Sample { offset: known, ..self.latest });
            }
            self.samples.push(sample);
        }
        self.latest = sample;
    }

    /// The trace's time for the collector's.
    #[inline]
    pub(super) fn convert(&self, time: u64) -> i64 {
        let time = i64::try_from(time).unwrap_or(i64::MAX);
        match self.samples.as_slice() {
            [only] => time.saturating_add(only.offset),
            samples => time.saturating_add(between(samples, time)),
        }
    }

    /// How far a conversion may be off.
    pub(super) fn uncertainty_ns(&self) -> u64 {
        self.samples.iter().chain([&self.latest]).map(|sample| sample.uncertainty).max().unwrap_or(0).unsigned_abs()
    }

    /// How much the clocks moved against each other.
    pub(super) fn drift_ns(&self) -> u64 {
        u64::try_from(self.highest_low - self.lowest_high).unwrap_or(0)
    }
}

/// The offset at a time, in a straight line from the sample before to the one after.
fn between(samples: &[Sample], time: i64) -> i64 {
    let after = samples.partition_point(|sample| sample.collector <= time);
    match (after.checked_sub(1).map(|before| samples[before]), samples.get(after)) {
        (Some(before), Some(after)) => {
            let span = i128::from((after.collector - before.collector).max(1));
            let moved = i128::from(after.offset - before.offset) * i128::from(time - before.collector) / span;
            before.offset + moved as i64
        }
        (Some(one), None) => one.offset,
        (None, one) => one.map_or(0, |one| one.offset),
    }
}

fn trace_now(domain: ClockDomain) -> i64 {
    match domain {
        ClockDomain::Realtime => realtime_ns(),
        ClockDomain::Monotonic | ClockDomain::Unknown => monotonic_ns(),
    }
}

/// Reads the collector's clock between two readings of the trace's; the closest of some tries, since a thread may be
/// suspended in between.
fn take(domain: ClockDomain, now: impl Fn() -> u64) -> Sample {
    let one = || {
        let before = trace_now(domain);
        let collector = i64::try_from(now()).unwrap_or(i64::MAX);
        let after = trace_now(domain);
        let half = (after - before) / 2;
        Sample { collector, offset: (before + half).saturating_sub(collector), uncertainty: half + 1 }
    };
    let mut best = one();
    for tried in 1..TRIES {
        if best.uncertainty <= CLOSE_NS && tried >= 4 {
            break;
        }
        let new = one();
        if new.uncertainty < best.uncertainty {
            best = new;
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_constant_offset_is_found_to_the_nanoseconds_between_readings() {
        let clock = Clock::new(ClockDomain::Monotonic, || (realtime_ns() + 12_345) as u64);
        let (monotonic, other) = (monotonic_ns(), (realtime_ns() + 12_345) as u64);
        let off = clock.convert(other) - monotonic;
        assert!((0..1_000_000).contains(&off), "{off}");
        assert!(clock.uncertainty_ns() < 1_000_000);
        assert_eq!(clock.drift_ns(), 0);
    }

    #[test]
    fn a_drift_is_followed() {
        let ahead = Cell::new(1_000_000_000);
        let now = || (monotonic_ns() + ahead.get()) as u64;
        let mut clock = Clock::new(ClockDomain::Monotonic, now);
        for _ in 0..5 {
            clock.check(now);
        }
        assert_eq!(clock.samples.len(), 1, "noise is no drift");
        let middle = now();
        let middle_true = middle as i64 - ahead.get();
        std::thread::sleep(std::time::Duration::from_millis(2));
        clock.check(now);
        std::thread::sleep(std::time::Duration::from_millis(2));
        ahead.set(ahead.get() + 5_000_000);
        clock.check(now);
        let late = now();
        assert!((clock.convert(middle) - middle_true).abs() < 100_000, "what was before stays");
        assert!((clock.convert(late) - (late as i64 - ahead.get())).abs() < 100_000);
        assert!((4_000_000..6_000_000).contains(&clock.drift_ns()), "{}", clock.drift_ns());
    }

    #[test]
    fn times_between_samples_lie_on_a_line() {
        let sample = |collector, offset| Sample { collector, offset, uncertainty: 1 };
        let samples = [sample(1000, 10), sample(2000, 20)];
        assert_eq!([500, 1000, 1500, 2000, 9000].map(|time| between(&samples, time)), [10, 10, 15, 20, 20]);
    }
}
