//! From when to when a trace lasts.

/// The extent of a trace, kept up to date event by event.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    base: i64,
    /// The earliest time of any event.
    pub(crate) first: Option<i64>,
    /// The latest time of any event: of a slice its end.
    pub(crate) last: Option<i64>,
    /// The latest end of a slice.
    last_slice: Option<i64>,
    /// The latest end of a slice in microseconds since the base, by floating-point sums as the reference makes them.
    /// They may differ from the exact end in the last digit, and a drop-in has to repeat that.
    pub(crate) float_last: Option<f64>,
}

/// The shortest slice: what takes no time still has to be seen.
pub(crate) const MIN_DURATION_NS: i64 = 1;

impl Span {
    pub(crate) fn new(base: i64) -> Self {
        Self { base, first: None, last: None, last_slice: None, float_last: None }
    }

    #[inline]
    pub(crate) fn point(&mut self, time: i64) {
        self.extend(time, time);
    }

    #[inline]
    fn extend(&mut self, start: i64, end: i64) {
        self.first = Some(self.first.map_or(start, |first| first.min(start)));
        self.last = Some(self.last.map_or(end, |last| last.max(end)));
    }

    #[inline]
    pub(crate) fn slice(&mut self, start: i64, end: i64) {
        let end = end.max(start.saturating_add(MIN_DURATION_NS));
        self.extend(start, end);
        // The float sum can only be the greatest where the exact one is within its rounding error.
        let near = self.last_slice.is_none_or(|last| end > last.saturating_sub(4096));
        if near || self.is_coarse(end) {
            let sum = float_us(start, self.base) + float_us(end, start).max(0.001);
            self.float_last = Some(self.float_last.map_or(sum, |last| last.max(sum)));
        }
        self.last_slice = Some(self.last_slice.map_or(end, |last| last.max(end)));
    }

    /// True where doubles are too far apart for the shortcut of [`Span::slice`].
    #[inline]
    fn is_coarse(&self, end: i64) -> bool {
        end.checked_sub(self.base).is_none_or(|relative| relative.unsigned_abs() > 1 << 53)
    }
}

/// `time - base` in microseconds, as `(time - base) / 1e3` in Python.
#[inline]
pub(crate) fn float_us(time: i64, base: i64) -> f64 {
    match time.checked_sub(base) {
        Some(ns) => ns as f64 / 1e3,
        None => (i128::from(time) - i128::from(base)) as f64 / 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_float_end_is_the_greatest_sum() {
        let mut span = Span::new(1_000_000);
        for (start, end) in [(1_000_500, 1_002_750), (1_003_000, 1_009_123), (1_000_000, 1_000_001)] {
            span.slice(start, end);
        }
        assert_eq!(span.first, Some(1_000_000));
        assert_eq!(span.last, Some(1_009_123));
        assert_eq!(span.float_last.map(|us| us + 1.0), Some(10.123000000000001));
    }

    #[test]
    fn what_takes_no_time_ends_a_trace_too() {
        let mut span = Span::new(0);
        span.point(9_000_000);
        span.slice(1_000, 2_000);
        span.point(500);
        assert_eq!((span.first, span.last, span.float_last), (Some(500), Some(9_000_000), Some(2.0)));
    }

    #[test]
    fn extremes_do_not_overflow() {
        let mut span = Span::new(i64::MIN);
        span.slice(i64::MAX, i64::MIN);
        span.slice(i64::MIN, i64::MAX);
        span.point(i64::MIN);
        assert_eq!((span.first, span.last), (Some(i64::MIN), Some(i64::MAX)));
        assert!(span.float_last.unwrap().is_finite());
    }
}
