//! Flow, async and object ids, renumbered so that no two inputs share one.
//!
//! Input k of n turns id i into i x n + k: ids of one input stay apart, those of different inputs cannot meet, and
//! nothing must be remembered. What is too large for that is hashed into a range of its own.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use crate::read::json::{self, PAD};

/// Integers above are not exact in JavaScript; the upper half of what is below holds hashed ids.
const EXACT: u64 = 1 << 53;
/// Text ids may use 63 bits, which is what Perfetto reads them into; the upper half holds hashed ids.
const TEXT: u64 = 1 << 63;

/// The renumbering of one input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ids {
    /// Which of the inputs it is, from 0.
    pub(super) position: u64,
    /// How many inputs there are.
    pub(super) count: u64,
}

impl Ids {
    /// Whether ids change at all.
    pub(super) fn active(self) -> bool {
        self.count > 1
    }

    /// Appends the new value of an `id`, `id2` or `bind_id`, given as text.
    pub(super) fn map(self, raw: &[u8], out: &mut Vec<u8>) {
        if let Some(id) = small(raw) {
            out.extend_from_slice(itoa::Buffer::new().format(self.number(id, raw)).as_bytes());
            return;
        }
        match raw.first() {
            Some(b'"') => self.text(raw, out),
            Some(b'{') => self.object(raw, out),
            Some(b'-' | b'0'..=b'9') => {
                let float: Option<f64> = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok());
                let whole = float.filter(|f| f.fract() == 0.0 && (0.0..EXACT as f64).contains(f));
                let id = match whole {
                    Some(f) => self.number(f as u64, raw),
                    None => self.hashed(raw, EXACT),
                };
                out.extend_from_slice(itoa::Buffer::new().format(id).as_bytes());
            }
            _ => out.extend_from_slice(raw),
        }
    }

    fn number(self, id: u64, raw: &[u8]) -> u64 {
        match id.checked_mul(self.count).and_then(|id| id.checked_add(self.position)) {
            Some(new) if new < EXACT / 2 => new,
            _ => self.hashed(raw, EXACT),
        }
    }

    /// A number in the upper half of `0..range`.
    fn hashed(self, raw: &[u8], range: u64) -> u64 {
        let mut hasher = FixedState::with_seed(self.position).build_hasher();
        hasher.write(raw);
        range / 2 + hasher.finish() % (range / 2)
    }

    /// Perfetto reads the text of a flow id as hexadecimal.
    fn text(self, raw: &[u8], out: &mut Vec<u8>) {
        let inner = &raw[1..raw.len() - 1];
        let (prefix, digits) = match inner {
            [b'0', b'x' | b'X', digits @ ..] => (&inner[..2], digits),
            _ => (&inner[..0], inner),
        };
        let hex = !digits.is_empty() && digits.iter().all(u8::is_ascii_hexdigit);
        out.push(b'"');
        if !hex {
            out.extend_from_slice(itoa::Buffer::new().format(self.position).as_bytes());
            out.push(b':');
            out.extend_from_slice(inner);
            out.push(b'"');
            return;
        }
        let zeros = digits.iter().take_while(|&&d| d == b'0').count();
        let value = std::str::from_utf8(digits).ok().and_then(|text| u64::from_str_radix(text, 16).ok());
        let new = value
            .and_then(|id| id.checked_mul(self.count)?.checked_add(self.position))
            .filter(|&new| new < TEXT / 2)
            .unwrap_or_else(|| self.hashed(&digits.to_ascii_lowercase(), TEXT));
        out.extend_from_slice(prefix);
        // Texts that differ in leading zeros only are different ids to some readers.
        let zeros = if zeros == digits.len() { zeros - 1 } else { zeros };
        out.extend(std::iter::repeat_n(b'0', zeros));
        let text = if digits.iter().any(u8::is_ascii_uppercase) { format!("{new:X}") } else { format!("{new:x}") };
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }

    /// `id2` holds the id under "local" or "global".
    fn object(self, raw: &[u8], out: &mut Vec<u8>) {
        let mut padded = raw.to_vec();
        padded.resize(raw.len() + PAD, 0);
        let mut copied = 0;
        let mut at = json::space(&padded, 1);
        while let Ok((_, value)) = crate::read::document::member(&padded, at) {
            at = json::space(&padded, value.end);
            if raw[value.start] != b'{' {
                out.extend_from_slice(&raw[copied..value.start]);
                self.map(&raw[value.clone()], out);
                copied = value.end;
            }
            if padded[at] != b',' {
                break;
            }
            at = json::space(&padded, at + 1);
        }
        out.extend_from_slice(&raw[copied..]);
    }
}

/// The number, if it is written with up to 19 digits and nothing else.
#[inline(always)]
pub(super) fn small(raw: &[u8]) -> Option<u64> {
    if raw.is_empty() || raw.len() > 19 {
        return None;
    }
    let mut value: u64 = 0;
    for &byte in raw {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value.wrapping_mul(10).wrapping_add(u64::from(digit));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(raw: &str, position: u64, count: u64) -> String {
        let mut out = Vec::new();
        Ids { position, count }.map(raw.as_bytes(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn ids_of_two_inputs_never_meet() {
        assert_eq!(map("5", 0, 2), "10");
        assert_eq!(map("5", 1, 2), "11");
        assert_eq!(map("5.0", 1, 2), "11");
        assert_eq!(map("\"0x1f\"", 1, 2), "\"0x3f\"");
        assert_eq!(map("\"1F\"", 1, 2), "\"3F\"");
        assert_eq!(map("\"0x01f\"", 1, 2), "\"0x03f\"");
        assert_eq!(map("\"0\"", 1, 2), "\"1\"");
        assert_eq!(map("\"req\"", 1, 2), "\"1:req\"");
        assert_eq!(map("{\"local\": \"0x1\", \"global\":2}", 1, 2), "{\"local\": \"0x3\", \"global\":5}");
        assert_eq!(map("null", 1, 2), "null");
        let ids =
            ["-1", "9007199254740993", "9007199254740992", "18446744073709551615", "\"0xffffffffffffffff\"", "1.5"];
        let mut seen = std::collections::HashSet::new();
        for id in ids {
            for position in 0..8 {
                assert!(seen.insert(map(id, position, 8)), "{id} of {position}");
                let number = map(id, position, 8);
                if !number.starts_with('"') {
                    assert!(number.parse::<u64>().unwrap() < EXACT);
                }
            }
        }
    }
}
