//! Integers as Python's `int()` makes them of a JSON value, of any size.

use crate::read::json;

/// An integer of any size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Int {
    Small(i128),
    /// Decimal text without leading zeros, perhaps with a minus sign.
    Big(String),
}

impl Int {
    /// From digits, perhaps after a sign.
    fn parse(negative: bool, digits: &str) -> Self {
        let digits = digits.trim_start_matches('0');
        let sign = if negative { "-" } else { "" };
        if digits.len() <= 38 {
            let small = digits.bytes().fold(0i128, |n, d| n * 10 + i128::from(d - b'0'));
            return Int::Small(if negative { -small } else { small });
        }
        Int::Big(format!("{sign}{digits}"))
    }

    /// This integer plus `n`, as decimal text.
    pub(super) fn plus(&self, n: i128) -> String {
        match self {
            Int::Small(a) => match a.checked_add(n) {
                Some(sum) => sum.to_string(),
                None => add_text(&a.to_string(), n),
            },
            Int::Big(text) => add_text(text, n),
        }
    }

    pub(super) fn small(&self) -> Option<i128> {
        match self {
            Int::Small(n) => Some(*n),
            Int::Big(_) => None,
        }
    }
}

/// Adds in decimal. The text has at least as many digits as any `i128`.
fn add_text(text: &str, n: i128) -> String {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let mut digits: Vec<i16> = digits.bytes().rev().map(|b| i16::from(b - b'0')).collect();
    // Same sign: add the magnitudes; else subtract the smaller one, which is `n`.
    let step = if negative == (n < 0) { 1 } else { -1 };
    let mut carry = 0;
    let mut rest = n.unsigned_abs();
    let mut at = 0;
    while rest > 0 || carry != 0 {
        if at == digits.len() {
            digits.push(0);
        }
        let sum = digits[at] + step * (rest % 10) as i16 + carry;
        digits[at] = sum.rem_euclid(10);
        carry = sum.div_euclid(10);
        rest /= 10;
        at += 1;
    }
    while digits.len() > 1 && digits.last() == Some(&0) {
        digits.pop();
    }
    let sign = if negative { "-" } else { "" };
    sign.chars().chain(digits.iter().rev().map(|&d| char::from(b'0' + d as u8))).collect()
}

/// What `int()` makes of a JSON value, given as text; `None` where it raises.
#[cold]
pub(super) fn python_int(raw: &[u8]) -> Option<Int> {
    match raw.first()? {
        b't' => Some(Int::Small(1)),
        b'f' => Some(Int::Small(0)),
        b'"' => from_text(&json::decode(raw)),
        b'-' | b'0'..=b'9' => {
            let text = std::str::from_utf8(raw).ok()?;
            if text.contains(['.', 'e', 'E']) {
                return from_float(text.parse().ok()?);
            }
            Some(match text.strip_prefix('-') {
                Some(digits) => Int::parse(true, digits),
                None => Int::parse(false, text),
            })
        }
        _ => None,
    }
}

fn from_float(value: f64) -> Option<Int> {
    if !value.is_finite() {
        return None;
    }
    let whole = value.trunc();
    if whole.abs() < 1e38 {
        return Some(Int::Small(whole as i128));
    }
    let text = format!("{whole:.0}");
    Some(match text.strip_prefix('-') {
        Some(digits) => Int::parse(true, digits),
        None => Int::parse(false, &text),
    })
}

/// The longest text that Python converts.
const MAX_DIGITS: usize = 4300;

fn from_text(text: &str) -> Option<Int> {
    let text = text.trim_matches(|c: char| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c));
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let mut digits = String::new();
    let mut underscore = true;
    for c in text.chars() {
        if c == '_' {
            if underscore {
                return None;
            }
            underscore = true;
            continue;
        }
        digits.push(char::from(b'0' + digit(c)?));
        underscore = false;
    }
    if underscore || digits.len() > MAX_DIGITS {
        return None;
    }
    Some(Int::parse(negative, &digits))
}

/// The value of a decimal digit of any script.
fn digit(c: char) -> Option<u8> {
    if c.is_ascii() {
        return c.to_digit(10).map(|d| d as u8);
    }
    // The zeros of Unicode's category Nd; nine digits follow each.
    #[rustfmt::skip]
    const ZEROS: [u32; 65] = [
        0x660, 0x6f0, 0x7c0, 0x966, 0x9e6, 0xa66, 0xae6, 0xb66, 0xbe6, 0xc66, 0xce6, 0xd66, 0xde6, 0xe50, 0xed0,
        0xf20, 0x1040, 0x1090, 0x17e0, 0x1810, 0x1946, 0x19d0, 0x1a80, 0x1a90, 0x1b50, 0x1bb0, 0x1c40, 0x1c50,
        0xa620, 0xa8d0, 0xa900, 0xa9d0, 0xa9f0, 0xaa50, 0xabf0, 0xff10, 0x104a0, 0x10d30, 0x11066, 0x110f0,
        0x11136, 0x111d0, 0x112f0, 0x11450, 0x114d0, 0x11650, 0x116c0, 0x11730, 0x118e0, 0x11950, 0x11c50,
        0x11d50, 0x11da0, 0x16a60, 0x16ac0, 0x16b50, 0x1d7ce, 0x1d7d8, 0x1d7e2, 0x1d7ec, 0x1d7f6, 0x1e140,
        0x1e2f0, 0x1e950, 0x1fbf0,
    ];
    let code = c as u32;
    let at = ZEROS.partition_point(|&zero| zero <= code).checked_sub(1)?;
    (code - ZEROS[at] < 10).then(|| (code - ZEROS[at]) as u8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plus(raw: &str, n: i128) -> Option<String> {
        python_int(raw.as_bytes()).map(|int| int.plus(n))
    }

    #[test]
    fn values_become_integers_as_in_python() {
        for (raw, want) in [
            ("7", "107"),
            ("-7", "93"),
            ("-0", "100"),
            ("7.9", "107"),
            ("-7.9", "93"),
            ("-0.5", "100"),
            ("1e3", "1100"),
            ("true", "101"),
            ("false", "100"),
            ("\" 12_3\\n\"", "223"),
            ("\"+5\"", "105"),
            ("\"-5\"", "95"),
            ("\"\u{661}\u{662}\"", "112"),
            ("\"\\u0661\"", "101"),
            ("\"0012\"", "112"),
            ("1e30", "1000000000000000019884624838756"),
            ("99999999999999999999999999999999999999999999", "100000000000000000000000000000000000000000099"),
            ("-99999999999999999999999999999999999999999999", "-99999999999999999999999999999999999999999899"),
        ] {
            assert_eq!(plus(raw, 100).as_deref(), Some(want), "{raw}");
        }
        for raw in
            ["null", "[]", "{}", "\"\"", "\"Spans\"", "\"1__2\"", "\"_1\"", "\"1_\"", "\"1.5\"", "1e999", "\"- 5\""]
        {
            assert_eq!(plus(raw, 100), None, "{raw}");
        }
    }

    #[test]
    fn decimal_text_is_added_with_any_signs() {
        let ten_to_40 = format!("1{}", "0".repeat(40));
        assert_eq!(add_text(&ten_to_40, -1), "9".repeat(40));
        assert_eq!(add_text(&format!("-{ten_to_40}"), 1), format!("-{}", "9".repeat(40)));
        assert_eq!(add_text(&"9".repeat(40), 1), ten_to_40);
        assert_eq!(Int::Small(i128::MAX).plus(1), "170141183460469231731687303715884105728");
        assert_eq!(Int::Small(i128::MIN).plus(-1), "-170141183460469231731687303715884105729");
    }
}
