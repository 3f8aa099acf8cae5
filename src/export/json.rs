//! Printing JSON values. Everything that ends up in a document passes through here.

use crate::model::event::Int;
use crate::model::span::float_us;

/// A string with its quotes. `clean` says that nothing in it needs escaping.
#[inline]
pub(super) fn text(out: &mut Vec<u8>, text: (&[u8], bool)) {
    out.push(b'"');
    inside(out, text);
    out.push(b'"');
}

/// A string without its quotes.
#[inline]
pub(super) fn inside(out: &mut Vec<u8>, (bytes, clean): (&[u8], bool)) {
    if clean { out.extend_from_slice(bytes) } else { escaped(out, bytes) }
}

/// A string with its quotes.
pub(super) fn string(out: &mut Vec<u8>, text: &str) {
    self::text(out, (text.as_bytes(), false));
}

/// The inside of a string: quotes, backslashes and control characters escaped, all else as it is. Characters
/// beyond ASCII stay raw UTF-8, since Perfetto refuses a file with `\ud83d` pairs.
fn escaped(out: &mut Vec<u8>, bytes: &[u8]) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|&b| b < 0x20 || b == b'"' || b == b'\\') {
        out.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
            }
        }
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
}

/// An integer.
#[inline]
pub(super) fn integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An integer of either sign.
#[inline]
pub(super) fn int(out: &mut Vec<u8>, value: Int) {
    match value {
        Int::Unsigned(value) => integer(out, value),
        Int::Negative(value) => integer(out, value),
    }
}

/// A double, in the fewest digits that read back as the same. What JSON has no number for becomes text.
pub(super) fn float(out: &mut Vec<u8>, value: f64) {
    if value.is_finite() {
        out.extend_from_slice(zmij::Buffer::new().format_finite(value).as_bytes());
    } else if value.is_nan() {
        out.extend_from_slice(b"\"NaN\"");
    } else {
        out.extend_from_slice(if value > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
    }
}

/// A finite double rounded to four decimals, ties to even as Python's `round(value, 4)`.
pub(super) fn rounded4(out: &mut Vec<u8>, value: f64) {
    let scaled = value * 1e4;
    let whole = scaled.round();
    // The product is off by at most one part in 2^53: far from a tie its rounding is that of the exact value.
    if scaled.abs() < 1e12 && (scaled.fract().abs() - 0.5).abs() > 1e-3 {
        let units = whole.abs() as u64;
        if whole < 0.0 {
            out.push(b'-');
        }
        integer(out, units / 10_000);
        let digits = (units % 10_000) as u16;
        out.push(b'.');
        out.extend([1000, 100, 10, 1].map(|power| b'0' + (digits / power % 10) as u8));
    } else {
        // Exact decimal digits, correctly rounded.
        out.extend_from_slice(format!("{value:.4}").as_bytes());
    }
}

/// Turns timestamps into decimal microseconds since the base.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) base: i64,
    /// Print what double arithmetic gives, as the reference does, where that differs from the exact value.
    pub(super) as_doubles: bool,
}

/// Integers of nanoseconds from here on are not all doubles: the reference rounds them.
const EXACT_DOUBLES: u64 = 1 << 53;

impl Times {
    /// A timestamp.
    #[inline]
    pub(super) fn timestamp(&self, out: &mut Vec<u8>, time: i64) {
        self.difference(out, time, self.base);
    }

    /// A duration; at least 1 ns, so that the slice can be seen.
    #[inline]
    pub(super) fn duration(&self, out: &mut Vec<u8>, start: i64, end: i64) {
        if end > start { self.difference(out, end, start) } else { out.extend_from_slice(b"0.001") }
    }

    #[inline]
    fn difference(&self, out: &mut Vec<u8>, time: i64, since: i64) {
        match time.checked_sub(since) {
            Some(ns) if ns.unsigned_abs() < EXACT_DOUBLES => microseconds(out, ns),
            _ if self.as_doubles => float(out, float_us(time, since)),
            Some(ns) => microseconds(out, ns),
            None => wide_microseconds(out, i128::from(time) - i128::from(since)),
        }
    }
}

/// Nanoseconds as microseconds with three decimals.
#[inline]
fn microseconds(out: &mut Vec<u8>, ns: i64) {
    if ns < 0 {
        out.push(b'-');
    }
    let ns = ns.unsigned_abs();
    integer(out, ns / 1000);
    decimals(out, (ns % 1000) as u16);
}

#[cold]
fn wide_microseconds(out: &mut Vec<u8>, ns: i128) {
    if ns < 0 {
        out.push(b'-');
    }
    let ns = ns.unsigned_abs();
    integer(out, ns / 1000);
    decimals(out, (ns % 1000) as u16);
}

#[inline]
fn decimals(out: &mut Vec<u8>, thousandths: u16) {
    let digit = |value: u16| b'0' + value as u8;
    out.extend_from_slice(&[b'.', digit(thousandths / 100), digit(thousandths / 10 % 10), digit(thousandths % 10)]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(print: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        print(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn strings_are_escaped() {
        let hard = "q\"b\\n\n\r\t\u{1}\u{1f}\u{7f}é漢😀</script>\u{2028}";
        let json = printed(|out| string(out, hard));
        assert_eq!(serde_json::from_str::<String>(&json).unwrap(), hard);
        assert!(!json.contains("\\ud8"));
    }

    #[test]
    fn times_are_exact() {
        let times = Times { base: 0, as_doubles: false };
        let ts = |ns| printed(|out| times.timestamp(out, ns));
        assert_eq!(ts(0), "0.000");
        assert_eq!(ts(500), "0.500");
        assert_eq!(ts(-1500), "-1.500");
        assert_eq!(ts(-1), "-0.001");
        assert_eq!(ts(i64::MAX), "9223372036854775.807");
        assert_eq!(ts(i64::MIN), "-9223372036854775.808");
        let far = Times { base: i64::MIN, as_doubles: false };
        assert_eq!(printed(|out| far.timestamp(out, i64::MAX)), "18446744073709551.615");
        assert_eq!(printed(|out| times.duration(out, 5, 5)), "0.001");
        assert_eq!(printed(|out| times.duration(out, 5, 4)), "0.001");
        assert_eq!(printed(|out| times.duration(out, i64::MAX, i64::MIN)), "0.001");
        assert_eq!(printed(|out| times.duration(out, i64::MIN, i64::MAX)), "18446744073709551.615");
    }

    #[test]
    fn doubles_where_the_reference_has_them() {
        let times = Times { base: 0, as_doubles: true };
        let ns = 1_700_000_000_123_456_789;
        let json = printed(|out| times.timestamp(out, ns));
        assert_eq!(json.parse::<f64>().unwrap(), ns as f64 / 1e3);
        assert_eq!(printed(|out| times.timestamp(out, 1_234_567)), "1234.567");
    }

    #[test]
    fn rounding_is_python_s() {
        for (value, text) in [
            (0.0, "0.0000"),
            (1.23456789, "1.2346"),
            (0.00005, "0.0001"), // the double lies above the tie
            (2.00005, "2.0000"), // the double lies below the tie
            (1e300, "1e300"),
            (123456.78905, "123456.7891"),
            (0.5, "0.5000"),
        ] {
            let json = printed(|out| rounded4(out, value));
            let expected: f64 = text.parse().unwrap();
            assert_eq!(json.parse::<f64>().unwrap(), expected, "{value}");
        }
    }

    #[test]
    fn floats_read_back() {
        for value in [0.0, -0.0, 1.5, 1e16, 1e-7, f64::MAX, f64::MIN_POSITIVE, 0.1 + 0.2] {
            let json = printed(|out| float(out, value));
            assert_eq!(serde_json::from_str::<f64>(&json).unwrap().to_bits(), value.to_bits());
        }
        assert_eq!(printed(|out| float(out, f64::NAN)), "\"NaN\"");
        assert_eq!(printed(|out| float(out, f64::NEG_INFINITY)), "\"-Infinity\"");
    }
}
