//! The careful scan: checks every byte of a value against the JSON grammar and finds where the value ends.
//!
//! All functions read a buffer that is followed by [`PAD`] zero bytes, so that they may look ahead without asking
//! for the end; a zero byte is valid nowhere, and stops them. UTF-8 is checked apart, for the whole buffer at once.

use std::num::NonZeroU64;

use super::simd;

/// Zero bytes that follow the data in every buffer that is scanned.
pub(crate) const PAD: usize = 64;

/// Open brackets inside one another, at most.
pub(crate) const MAX_DEPTH: usize = 512;

/// What is wrong, and where in the buffer. Packed, so that a result travels in two registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bad(NonZeroU64);

/// The result of a scan.
pub(crate) type Scan<T = usize> = Result<T, Bad>;

/// The ways in which a value can be damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum What {
    Value = 1,
    Literal,
    Number,
    NotANumber,
    Control,
    Escape,
    Unicode,
    Key,
    Colon,
    CommaInObject,
    CommaInArray,
    TrailingComma,
    Depth,
    Utf8,
    Separator,
    End,
    NoDocument,
    NoEvents,
}

impl What {
    const ALL: [What; 18] = [
        What::Value,
        What::Literal,
        What::Number,
        What::NotANumber,
        What::Control,
        What::Escape,
        What::Unicode,
        What::Key,
        What::Colon,
        What::CommaInObject,
        What::CommaInArray,
        What::TrailingComma,
        What::Depth,
        What::Utf8,
        What::Separator,
        What::End,
        What::NoDocument,
        What::NoEvents,
    ];

    /// A sentence for the person who has to mend the file.
    pub(crate) fn text(self) -> &'static str {
        match self {
            What::Value => "expected a value",
            What::Literal => "expected a value (true, false and null are the only bare words of JSON)",
            What::Number => "a number that JSON does not allow",
            What::NotANumber => "NaN and Infinity are not JSON",
            What::Control => "a control character inside a string, or a string that does not end",
            What::Escape => "a backslash escape that JSON does not have",
            What::Unicode => "\\u must be followed by four hexadecimal digits",
            What::Key => "expected a key in double quotes",
            What::Colon => "expected ':' after a key",
            What::CommaInObject => "expected ',' or '}' after a value of an object",
            What::CommaInArray => "expected ',' or ']' after a value of an array",
            What::TrailingComma => "a comma with nothing after it",
            What::Depth => "brackets nested deeper than 512",
            What::Utf8 => "invalid UTF-8",
            What::Separator => "expected ',' between two events",
            What::End => "the document ends inside a value",
            What::NoDocument => "neither an object nor an array of events: this is no trace",
            What::NoEvents => "the value of \"traceEvents\" is no array",
        }
    }
}

impl Bad {
    #[cold]
    pub(crate) fn new(at: usize, what: What) -> Self {
        Bad(NonZeroU64::new((at as u64) << 8 | what as u64).expect("What starts at 1"))
    }

    pub(crate) fn at(self) -> usize {
        (self.0.get() >> 8) as usize
    }

    pub(crate) fn what(self) -> What {
        What::ALL[(self.0.get() as u8 - 1) as usize]
    }
}

/// The first position from `at` on that is not white space.
#[inline(always)]
pub(crate) fn space(bytes: &[u8], mut at: usize) -> usize {
    // Writers put no space or one here, seldom more.
    if bytes[at] > b' ' {
        return at;
    }
    at += usize::from(bytes[at] == b' ');
    if bytes[at] > b' ' {
        return at;
    }
    spaces(bytes, at)
}

#[cold]
fn spaces(bytes: &[u8], mut at: usize) -> usize {
    while matches!(bytes[at], b' ' | b'\n' | b'\r' | b'\t') {
        at += 1;
    }
    at
}

/// The position after the string that starts with the quote at `at`.
#[inline(always)]
pub(crate) fn string(bytes: &[u8], at: usize) -> Scan {
    let mut at = at + 1;
    loop {
        let stops = simd::string_stops(bytes, at);
        if stops == 0 {
            at += 16;
            continue;
        }
        at += stops.trailing_zeros() as usize;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        if bytes[at] != b'\\' {
            return Err(Bad::new(at, What::Control));
        }
        at = escape(bytes, at)?;
    }
}

/// The position after the escape whose backslash is at `at`.
#[inline]
pub(crate) fn escape(bytes: &[u8], at: usize) -> Scan {
    match bytes[at + 1] {
        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(at + 2),
        b'u' if bytes[at + 2..at + 6].iter().all(u8::is_ascii_hexdigit) => Ok(at + 6),
        b'u' => Err(Bad::new(at, What::Unicode)),
        _ => Err(Bad::new(at, What::Escape)),
    }
}

/// The position after the number at `at`.
#[inline(always)]
fn number(bytes: &[u8], at: usize) -> Scan {
    let mut i = at + usize::from(bytes[at] == b'-');
    if bytes[i] == b'0' {
        i += 1;
    } else {
        i = digits(bytes, i).ok_or_else(|| bad_number(bytes, at))?;
    }
    if bytes[i] == b'.' {
        i = digits(bytes, i + 1).ok_or_else(|| bad_number(bytes, at))?;
    }
    if bytes[i] | 0x20 == b'e' {
        i += 1;
        i += usize::from(matches!(bytes[i], b'+' | b'-'));
        i = digits(bytes, i).ok_or_else(|| bad_number(bytes, at))?;
    }
    Ok(i)
}

#[cold]
fn bad_number(bytes: &[u8], at: usize) -> Bad {
    let what = if bytes[at..].starts_with(b"-Inf") { What::NotANumber } else { What::Number };
    Bad::new(at, what)
}

/// The position after the digits at `at`, of which there must be one.
#[inline(always)]
fn digits(bytes: &[u8], at: usize) -> Option<usize> {
    let mut i = at;
    while bytes[i].wrapping_sub(b'0') < 10 {
        i += 1;
    }
    (i > at).then_some(i)
}

/// The position after `true`, `false` or `null`.
#[inline]
fn literal(bytes: &[u8], at: usize) -> Scan {
    for word in [&b"true"[..], b"false", b"null"] {
        if &bytes[at..at + word.len()] == word {
            return Ok(at + word.len());
        }
    }
    let what = match bytes[at] {
        b'N' | b'I' => What::NotANumber,
        0 => What::End,
        c if c.is_ascii_alphabetic() => What::Literal,
        _ => What::Value,
    };
    Err(Bad::new(at, what))
}

/// From the quote of a key to the first byte of its value.
#[inline(always)]
pub(crate) fn key(bytes: &[u8], at: usize) -> Scan {
    if bytes[at] != b'"' {
        return Err(not_a_key(bytes, at));
    }
    let end = string(bytes, at)?;
    colon(bytes, end)
}

#[cold]
pub(crate) fn not_a_key(bytes: &[u8], at: usize) -> Bad {
    Bad::new(at, if bytes[at] == b'}' { What::TrailingComma } else { What::Key })
}

/// From the end of a key to the first byte of its value.
#[inline(always)]
pub(crate) fn colon(bytes: &[u8], at: usize) -> Scan {
    let at = space(bytes, at);
    if bytes[at] != b':' {
        return Err(Bad::new(at, What::Colon));
    }
    Ok(space(bytes, at + 1))
}

/// The position after the value at `at`, whatever it is.
#[inline(always)]
pub(crate) fn value(bytes: &[u8], at: usize) -> Scan {
    match bytes[at] {
        b'"' => string(bytes, at),
        b'-' | b'0'..=b'9' => number(bytes, at),
        b'{' | b'[' => container(bytes, at),
        _ => literal(bytes, at),
    }
}

/// Which of the open brackets are braces: one bit each.
struct Open {
    kinds: [u64; MAX_DEPTH / 64],
    depth: usize,
}

impl Open {
    #[inline(always)]
    fn push(&mut self, object: bool) {
        let bit = 1 << (self.depth % 64);
        let word = &mut self.kinds[self.depth / 64 % (MAX_DEPTH / 64)];
        *word = if object { *word | bit } else { *word & !bit };
        self.depth += 1;
    }

    /// Closes the innermost bracket and says whether the one around it is a brace.
    #[inline(always)]
    fn pop(&mut self) -> bool {
        self.depth -= 1;
        let around = self.depth.wrapping_sub(1) % MAX_DEPTH;
        self.kinds[around / 64] >> (around % 64) & 1 == 1
    }
}

/// The position after the object or array that opens at `at`.
pub(crate) fn container(bytes: &[u8], mut at: usize) -> Scan {
    let mut open = Open { kinds: [0; MAX_DEPTH / 64], depth: 0 };
    loop {
        // Here `at` is at an opening bracket.
        let mut object = bytes[at] == b'{';
        // One level is left for the array or object that this value stands in.
        if open.depth + 1 >= MAX_DEPTH {
            return Err(Bad::new(at, What::Depth));
        }
        open.push(object);
        at = space(bytes, at + 1);
        let empty = if object {
            let empty = bytes[at] == b'}';
            if !empty {
                at = key(bytes, at)?;
            }
            empty
        } else {
            bytes[at] == b']'
        };
        let mut closing = empty;
        loop {
            if !closing {
                // Here `at` is at the first byte of a value.
                match bytes[at] {
                    b'"' => at = string(bytes, at)?,
                    b'-' | b'0'..=b'9' => at = number(bytes, at)?,
                    b'{' | b'[' => break,
                    _ => at = literal(bytes, at)?,
                }
                at = space(bytes, at);
            }
            // Here `at` is after a value, or at the bracket that closes an empty one.
            closing = false;
            let c = bytes[at];
            if c == b',' {
                at = space(bytes, at + 1);
                if object {
                    at = key(bytes, at)?;
                } else if bytes[at] == b']' {
                    return Err(Bad::new(at, What::TrailingComma));
                }
            } else if c == if object { b'}' } else { b']' } {
                at += 1;
                object = open.pop();
                if open.depth == 0 {
                    return Ok(at);
                }
                at = space(bytes, at);
                closing = true;
            } else {
                return Err(not_after_value(bytes, at, object));
            }
        }
    }
}

#[cold]
pub(crate) fn not_after_value(bytes: &[u8], at: usize, object: bool) -> Bad {
    let what = match (bytes[at], object) {
        (0, _) => What::End,
        (_, true) => What::CommaInObject,
        (_, false) => What::CommaInArray,
    };
    Bad::new(at, what)
}

/// The text of a string, given with its quotes and known to be valid JSON. Halves of surrogate pairs without their
/// other half become U+FFFD.
pub(crate) fn decode(quoted: &[u8]) -> String {
    let inner = &quoted[1..quoted.len() - 1];
    if !inner.contains(&b'\\') {
        return String::from_utf8_lossy(inner).into_owned();
    }
    let text = String::from_utf8_lossy(inner);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_ref();
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let (c, used) = unescape(&rest[at..]);
        out.push(c);
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

/// The character of the escape that `text` starts with, and the length of the escape.
fn unescape(text: &str) -> (char, usize) {
    let unit = |from: usize| text.get(from + 2..from + 6).and_then(|hex| u32::from_str_radix(hex, 16).ok());
    let c = match text.as_bytes().get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => {
            let Some(high) = unit(0) else { return (char::REPLACEMENT_CHARACTER, text.len().min(2)) };
            if (0xd800..0xdc00).contains(&high)
                && text[6..].starts_with("\\u")
                && let Some(low) = unit(6).filter(|low| (0xdc00..0xe000).contains(low))
            {
                let c = 0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00);
                return (char::from_u32(c).unwrap_or(char::REPLACEMENT_CHARACTER), 12);
            }
            return (char::from_u32(high).unwrap_or(char::REPLACEMENT_CHARACTER), 6);
        }
        Some(&c) if c.is_ascii() => c as char,
        _ => return (char::REPLACEMENT_CHARACTER, 1),
    };
    (c, 2)
}

/// Appends `text` as a JSON string, in quotes.
pub(crate) fn quote(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    escape_into(out, text);
    out.push(b'"');
}

/// Appends `text` as the inside of a JSON string.
pub(crate) fn escape_into(out: &mut Vec<u8>, text: &str) {
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0..=0x1f => {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
            _ => out.push(byte),
        }
    }
}
