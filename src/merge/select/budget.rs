//! The size budget: the longest events that fit.
//!
//! A first pass sums the bytes of events by their duration, in classes that are 3 % wide; classes are then kept from
//! the longest down while they fit. Of the class that fits in part, an even share is kept.

/// Classes within a doubling of the duration.
const STEPS: u32 = 32;
/// Of what has no duration (0), and of durations below 2^63 ns.
const CLASSES: usize = 1 + 60 * STEPS as usize;

/// The class of a duration; longer ones have higher classes.
#[inline]
pub(super) fn class(duration: Option<i64>) -> usize {
    let Some(duration) = duration else { return 0 };
    let ns = duration.max(0) as u64;
    if ns < u64::from(STEPS) {
        return 1 + ns as usize;
    }
    let exponent = ns.ilog2();
    let within = (ns >> (exponent - STEPS.ilog2())) as u32 - STEPS;
    1 + ((exponent - STEPS.ilog2() + 1) * STEPS + within) as usize
}

/// The shortest duration of a class.
fn shortest(class: usize) -> u64 {
    let Some(place) = class.checked_sub(1) else { return 0 };
    let (row, within) = (place as u32 / STEPS, place as u32 % STEPS);
    match row {
        0 => u64::from(within),
        row => u64::from(STEPS + within) << (row - 1),
    }
}

/// Bytes by class.
#[derive(Debug, Clone)]
pub(super) struct Histogram {
    /// Of events by themselves, and of flow events, which go with the shortest of their slices.
    own: Vec<u64>,
    flow: Vec<u64>,
    /// Of what is always kept.
    pub(super) fixed: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { own: vec![0; CLASSES], flow: vec![0; CLASSES], fixed: 0 }
    }
}

impl Histogram {
    #[inline]
    pub(super) fn add(&mut self, duration: Option<i64>, bytes: u64) {
        self.own[class(duration)] += bytes;
    }

    pub(super) fn add_flow(&mut self, duration: Option<i64>, bytes: u64) {
        self.flow[class(duration)] += bytes;
    }

    pub(super) fn merge(&mut self, other: &Histogram) {
        self.fixed += other.fixed;
        for (mine, theirs) in [(&mut self.own, &other.own), (&mut self.flow, &other.flow)] {
            mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    /// What is kept of it in `room` bytes; `None` if all fits.
    pub(super) fn floor(&self, room: u64) -> Option<Floor> {
        let mut left = room;
        for class in (0..CLASSES).rev() {
            let (own, flow) = (self.own[class], self.flow[class]);
            match left.checked_sub(own + flow) {
                Some(rest) => left = rest,
                // Flows of this class may all belong to the slices that are kept; those of none go.
                None => {
                    let flow = if class == 0 { 0 } else { flow };
                    let share = left.saturating_sub(flow).min(own);
                    return Some(Floor { class, share, of: own.max(1) });
                }
            }
        }
        None
    }
}

/// The class that fits in part, and how much of it does: `share` of `of` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Floor {
    class: usize,
    share: u64,
    of: u64,
}

impl Floor {
    /// Whether a flow of which the slices stay does. `shortest`: of them, if it hangs on any.
    pub(super) fn keeps_flow(&self, shortest: Option<i64>) -> bool {
        class(shortest) >= self.class && shortest.is_some()
    }

    /// The duration from which on all is kept. Zero: only some of what has no duration was left out.
    pub(super) fn duration_ns(&self) -> u64 {
        if self.class == 0 { 0 } else { shortest(self.class + 1) }
    }
}

/// Spreads the share over the events of one input.
#[derive(Debug, Default)]
pub(super) struct Share {
    seen: u64,
    kept: u64,
}

impl Share {
    /// Whether an event is kept.
    #[inline]
    pub(super) fn keeps(&mut self, floor: &Floor, duration: Option<i64>, bytes: u64) -> bool {
        let class = class(duration);
        if class != floor.class {
            return class > floor.class;
        }
        self.seen += bytes;
        let allowed = u128::from(self.seen) * u128::from(floor.share) / u128::from(floor.of);
        let keep = u128::from(self.kept + bytes) <= allowed;
        self.kept += if keep { bytes } else { 0 };
        keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_ascend_and_stay_narrow() {
        let mut last = class(None);
        for ns in (0..5000).chain((0..50).map(|k| (1i64 << 40) + k * 1_000_000_000)).chain([i64::MAX]) {
            let class = class(Some(ns));
            assert!(class >= last && class < CLASSES, "{ns}");
            let least = shortest(class);
            assert!(least <= ns as u64 && ns as u64 - least <= least / 32, "{ns}");
            if class + 1 < CLASSES {
                assert!(shortest(class + 1) > ns as u64, "{ns}");
            }
            last = class;
        }
    }

    #[test]
    fn the_longest_stay_within_the_room() {
        let mut histogram = Histogram::default();
        let events: Vec<(Option<i64>, u64)> =
            (0..1000).map(|i| ((i % 10 > 0).then_some((i % 10) * 1000), 100 + i as u64 % 7)).collect();
        events.iter().for_each(|&(duration, bytes)| histogram.add(duration, bytes));
        let all: u64 = events.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(histogram.floor(all), None);
        for room in [0, 5, 1000, 50_000, 60_123, all - 1] {
            let floor = histogram.floor(room).expect("not all fits");
            let mut share = Share::default();
            let kept: Vec<_> = events.iter().filter(|(d, b)| share.keeps(&floor, *d, *b)).collect();
            let bytes: u64 = kept.iter().map(|(_, bytes)| bytes).sum();
            assert!(bytes <= room && room - bytes < 300, "{bytes} of {room}");
            let least = kept.iter().map(|(duration, _)| duration).min();
            assert!(least.is_none_or(|least| events.iter().filter(|(d, _)| d > least).count()
                == kept.iter().filter(|(d, _)| d > least).count()));
        }
    }
}
