//! The clock that spans are timed by: the processor's time-stamp counter where it runs evenly, else CLOCK_MONOTONIC.
//!
//! Ticks become nanoseconds by anchors: the same instant on both clocks, taken when a trace begins, now and then while it
//! is recorded, and when it is written. Between two of them the clocks run alike, but for what the system's clock is
//! steered meanwhile.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::model::clock::monotonic_ns;

/// Whether the counter may be used: 0 for not known yet, 1 yes, 2 no.
static COUNTER: AtomicU8 = AtomicU8::new(0);

/// The time now, in ticks.
#[inline(always)]
pub(super) fn now() -> u64 {
    #[cfg(target_arch = "x86_64")]
    if COUNTER.load(Ordering::Relaxed) == 1 {
        // SAFETY: every x86-64 processor has the instruction, and it is allowed: `prepare` has used it.
        return unsafe { std::arch::x86_64::_rdtsc() };
    }
    monotonic_ns() as u64
}

/// As `now`, for benchmarks: what one reading costs.
#[doc(hidden)]
pub fn now_ticks() -> u64 {
    prepare();
    now()
}

/// How far a conversion of ticks may be off on this machine, in nanoseconds, by the anchors taken now.
pub fn ticks_uncertainty_ns() -> u64 {
    prepare();
    Anchor::now().uncertainty
}

/// Chooses the clock, once.
pub(super) fn prepare() {
    if COUNTER.load(Ordering::Relaxed) == 0 {
        COUNTER.store(if has_even_counter() { 1 } else { 2 }, Ordering::Relaxed);
    }
}

#[cfg(target_arch = "x86_64")]
fn has_even_counter() -> bool {
    use std::arch::x86_64::__cpuid;
    // Bit 8 of EDX of leaf 0x80000007: the counter runs at one rate in all states of the processor.
    let even = __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & 1 << 8 != 0;
    // The system checks that the processors' counters agree before it uses them itself.
    let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
    even && source.map_or(true, |name| matches!(name.trim(), "tsc" | "kvm-clock" | "hyperv_clocksource_tsc_page"))
}

#[cfg(not(target_arch = "x86_64"))]
fn has_even_counter() -> bool {
    false
}

/// The same instant on both clocks.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Anchor {
    pub(super) ticks: u64,
    pub(super) ns: i64,
    /// How far the readings may be apart, in nanoseconds.
    pub(super) uncertainty: u64,
}

impl Anchor {
    /// The closest of a few tries, since a thread may be suspended between two readings.
    pub(super) fn now() -> Self {
        let one = || {
            let before = monotonic_ns();
            let ticks = now();
            let after = monotonic_ns();
            Anchor { ticks, ns: before + (after - before) / 2, uncertainty: ((after - before) / 2 + 1) as u64 }
        };
        (0..4).map(|_| one()).fold(one(), |best, new| if new.uncertainty < best.uncertainty { new } else { best })
    }
}

/// Anchors of one trace. A fixed number, so that adding one takes no memory.
#[derive(Debug)]
pub(super) struct Anchors {
    list: [Anchor; MOST],
    count: usize,
}

const MOST: usize = 64;
/// Anchors closer than this say nothing new.
const APART_NS: i64 = 100_000_000;

impl Anchors {
    pub(super) fn new() -> Self {
        let mut list = [Anchor::default(); MOST];
        list[0] = Anchor::now();
        Self { list, count: 1 }
    }

    /// Adds one, if the last one is some time ago or `always`.
    pub(super) fn add(&mut self, always: bool) {
        let last = self.list[self.count - 1];
        if !always && monotonic_ns() - last.ns < APART_NS {
            return;
        }
        if self.count == MOST {
            // Every other one says as much about the past.
            for index in 1..MOST / 2 {
                self.list[index] = self.list[index * 2];
            }
            self.count = MOST / 2;
        }
        let new = Anchor::now();
        if new.ticks > last.ticks && new.ns > last.ns {
            self.list[self.count] = new;
            self.count += 1;
        }
    }

    pub(super) fn converter(&self) -> Converter {
        let counter = COUNTER.load(Ordering::Relaxed) == 1;
        Converter { anchors: self.list[..self.count].to_vec(), counter, near: 0 }
    }
}

/// Turns ticks into nanoseconds of CLOCK_MONOTONIC.
#[derive(Debug)]
pub(crate) struct Converter {
    pub(super) anchors: Vec<Anchor>,
    /// Ticks are of the processor's counter, else nanoseconds.
    pub(super) counter: bool,
    near: usize,
}

impl Converter {
    /// From the numbers of a journal; `None` if they cannot be those of anchors.
    pub(crate) fn from_numbers(counter: bool, numbers: &[[u64; 3]]) -> Option<Self> {
        let anchors: Vec<Anchor> =
            numbers.iter().map(|&[ticks, ns, uncertainty]| Anchor { ticks, ns: ns as i64, uncertainty }).collect();
        let ascending = anchors.windows(2).all(|pair| pair[0].ticks < pair[1].ticks && pair[0].ns < pair[1].ns);
        let in_range = anchors.iter().all(|anchor| (0..1 << 62).contains(&anchor.ns));
        (ascending && in_range && !anchors.is_empty()).then_some(Self { anchors, counter, near: 0 })
    }

    /// The time of the last anchor.
    pub(crate) fn last_ns(&self) -> i64 {
        self.anchors.last().map_or(0, |anchor| anchor.ns)
    }

    pub(crate) fn ns(&mut self, ticks: u64) -> i64 {
        let anchors = &self.anchors;
        if !self.counter || anchors.len() < 2 {
            let only = anchors.last().copied().unwrap_or_default();
            return only.ns.wrapping_add(ticks.wrapping_sub(only.ticks) as i64);
        }
        // Times of one thread ascend: the pair of before is most likely the one.
        let fits = |at: usize| anchors[at].ticks <= ticks && ticks <= anchors[at + 1].ticks;
        if !fits(self.near) {
            self.near = anchors.partition_point(|anchor| anchor.ticks <= ticks).clamp(1, anchors.len() - 1) - 1;
        }
        let (from, to) = (anchors[self.near], anchors[self.near + 1]);
        let past = i128::from(ticks) - i128::from(from.ticks);
        let ns = past * i128::from(to.ns - from.ns) / i128::from(to.ticks - from.ticks);
        from.ns.saturating_add(ns.clamp(i64::MIN.into(), i64::MAX.into()) as i64)
    }

    pub(crate) fn uncertainty_ns(&self) -> u64 {
        self.anchors.iter().map(|anchor| anchor.uncertainty).max().unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_become_the_time_that_the_system_tells() {
        prepare();
        let mut anchors = Anchors::new();
        let readings: Vec<(i64, u64, i64)> = (0..50)
            .map(|_| {
                std::thread::sleep(std::time::Duration::from_micros(200));
                (monotonic_ns(), now(), monotonic_ns())
            })
            .collect();
        anchors.add(true);
        let mut converter = anchors.converter();
        let slack = 2 * converter.uncertainty_ns() as i64 + 50;
        for (before, ticks, after) in readings {
            let ns = converter.ns(ticks);
            assert!(before - slack <= ns && ns <= after + slack, "{before} {ns} {after}, {slack}");
        }
    }

    #[test]
    fn anchors_stay_few_and_ascend() {
        prepare();
        let mut anchors = Anchors::new();
        for _ in 0..500 {
            anchors.add(true);
        }
        let converter = anchors.converter();
        assert!(converter.anchors.len() <= MOST && converter.anchors.len() > 10);
        assert!(converter.anchors.windows(2).all(|pair| pair[0].ticks < pair[1].ticks && pair[0].ns < pair[1].ns));
    }
}
