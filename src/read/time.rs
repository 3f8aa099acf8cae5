//! Times as documents write them: decimal microseconds.

/// A decimal number as it is written: `digits` x 10^-`scale`.
struct Decimal {
    digits: i128,
    scale: u32,
}

impl Decimal {
    /// Exactly; `None` if it is no number or has too many digits.
    fn parse(text: &[u8]) -> Option<Self> {
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            _ => (false, text),
        };
        let (mantissa, exponent) = match text.iter().position(|b| b | 0x20 == b'e') {
            Some(at) => (&text[..at], std::str::from_utf8(&text[at + 1..]).ok()?.parse::<i32>().ok()?),
            None => (text, 0),
        };
        let mut digits: i128 = 0;
        let mut scale: i32 = 0;
        let mut fraction = false;
        let mut any = false;
        for &byte in mantissa {
            match byte {
                b'.' if !fraction => fraction = true,
                b'0'..=b'9' => {
                    digits = digits.checked_mul(10)?.checked_add(i128::from(byte - b'0'))?;
                    scale += i32::from(fraction);
                    any = true;
                }
                _ => return None,
            }
        }
        scale = scale.checked_sub(exponent)?;
        while scale < 0 {
            digits = digits.checked_mul(10)?;
            scale += 1;
            if digits == 0 {
                scale = 0;
            }
        }
        (any && scale <= 36).then_some(Self { digits: if negative { -digits } else { digits }, scale: scale as u32 })
    }
}

/// A timestamp or duration in microseconds, as text, in nanoseconds: the nearest, as readers have it whose numbers are
/// doubles (12.299999999999 is 12.3).
pub(crate) fn parse_ns(text: &[u8]) -> Option<i128> {
    let text = unquoted(text);
    // Digits, and up to three of a fraction: nearly always.
    let mut value: i64 = 0;
    let mut fraction = None;
    if text.len() <= 17 && text.first().is_some_and(u8::is_ascii_digit) {
        let mut plain = true;
        for &byte in text {
            match byte {
                b'0'..=b'9' if fraction != Some(3) => {
                    value = value * 10 + i64::from(byte - b'0');
                    fraction = fraction.map(|n| n + 1);
                }
                b'.' if fraction.is_none() => fraction = Some(0),
                _ => {
                    plain = false;
                    break;
                }
            }
        }
        if plain {
            return Some(i128::from(value) * [1000, 100, 10, 1][fraction.unwrap_or(0)]);
        }
    }
    let number = Decimal::parse(text)?;
    match number.scale {
        0..=3 => number.digits.checked_mul(10i128.pow(3 - number.scale)),
        _ => {
            // Halves go away from 0.
            let unit = 10i128.pow(number.scale - 3);
            let (whole, rest) = (number.digits / unit, number.digits % unit);
            Some(if rest.abs() >= unit - rest.abs() { whole + rest.signum() } else { whole })
        }
    }
}

/// The number inside a string, as some writers put it.
fn unquoted(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inner @ .., b'"'] => inner,
        _ => text,
    }
}

/// Appends the timestamp `text` (microseconds) moved by `offset` nanoseconds, digit for digit. Answers whether it
/// could: text that is no number, or has more than 38 digits, is appended as it was.
pub(crate) fn shift_ts(text: &[u8], offset: i64, out: &mut Vec<u8>) -> bool {
    let inner = unquoted(text);
    let quoted = inner.len() != text.len();
    let Some(sum) = add(inner, offset) else {
        out.extend_from_slice(text);
        return false;
    };
    if quoted {
        out.push(b'"');
    }
    print(&sum, out);
    if quoted {
        out.push(b'"');
    }
    true
}

/// The sum, with as many decimals as the text has, or up to three if it needs them.
fn add(text: &[u8], offset: i64) -> Option<Decimal> {
    let mut number = Decimal::parse(text)?;
    let mut offset = i128::from(offset);
    // Decimals that the offset does not need are not written.
    let mut needed = 3;
    while needed > number.scale && offset % 10 == 0 {
        offset /= 10;
        needed -= 1;
    }
    if needed >= number.scale {
        number.digits = number.digits.checked_mul(10i128.pow(needed - number.scale))?;
        number.scale = needed;
    } else {
        offset = offset.checked_mul(10i128.pow(number.scale - needed))?;
    }
    number.digits = number.digits.checked_add(offset)?;
    Some(number)
}

fn print(number: &Decimal, out: &mut Vec<u8>) {
    if number.digits < 0 {
        out.push(b'-');
    }
    let mut buffer = itoa::Buffer::new();
    let digits = match u64::try_from(number.digits.unsigned_abs()) {
        Ok(small) => buffer.format(small),
        Err(_) => buffer.format(number.digits.unsigned_abs()),
    };
    let scale = number.scale as usize;
    if scale == 0 {
        out.extend_from_slice(digits.as_bytes());
    } else if digits.len() > scale {
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        out.extend_from_slice(whole.as_bytes());
        out.push(b'.');
        out.extend_from_slice(fraction.as_bytes());
    } else {
        out.extend_from_slice(b"0.");
        out.extend(std::iter::repeat_n(b'0', scale - digits.len()));
        out.extend_from_slice(digits.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn moved(text: &str, offset: i64) -> String {
        let mut out = Vec::new();
        shift_ts(text.as_bytes(), offset, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn timestamps_move_digit_for_digit() {
        assert_eq!(moved("1.5", 0), "1.5");
        assert_eq!(moved("1.5", 1), "1.501");
        assert_eq!(moved("1.5", 500_000), "501.5");
        assert_eq!(moved("18.611", 1_000), "19.611");
        assert_eq!(moved("18", 1_000), "19");
        assert_eq!(moved("18", -18_001), "-0.001");
        assert_eq!(moved("0.0000001", 1), "0.0010001");
        assert_eq!(moved("-0.5", 500), "0.0");
        assert_eq!(moved("-0.5", 250), "-0.25");
        assert_eq!(moved("10.123000000000001", 7), "10.130000000000001");
        assert_eq!(moved("1682725898236567", 123), "1682725898236567.123");
        assert_eq!(moved("\"12.5\"", 1), "\"12.501\"");
        assert_eq!(moved("1.5e3", 1), "1500.001");
        assert_eq!(moved("15e-1", 1000), "2.5");
        assert_eq!(moved("null", 5), "null");
        assert_eq!(moved("\"soon\"", 5), "\"soon\"");
        assert_eq!(moved("1e999", 5), "1e999");
        assert_eq!(
            moved("123456789012345678901234567890123456789012", 5),
            "123456789012345678901234567890123456789012"
        );
    }

    #[test]
    fn text_is_read_as_nanoseconds() {
        assert_eq!(parse_ns(b"1.5"), Some(1_500));
        assert_eq!(parse_ns(b"1.5009"), Some(1_501));
        assert_eq!(parse_ns(b"12.299999999999997"), Some(12_300));
        assert_eq!(parse_ns(b"1.0004"), Some(1_000));
        assert_eq!(parse_ns(b"1.0005"), Some(1_001));
        assert_eq!(parse_ns(b"-1.0005"), Some(-1_001));
        assert_eq!(parse_ns(b"-0.0001"), Some(0));
        assert_eq!(parse_ns(b"1e3"), Some(1_000_000));
        assert_eq!(parse_ns(b"\"7\""), Some(7_000));
        assert_eq!(parse_ns(b"1682725898236567.25"), Some(1_682_725_898_236_567_250));
        assert_eq!(parse_ns(b"x"), None);
        assert_eq!(parse_ns(b""), None);
        assert_eq!(parse_ns(b"."), None);
    }
}
