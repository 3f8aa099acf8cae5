//! Finds where the elements of the events array end, 64 bytes at a time, without reading their contents.
//!
//! It trusts that the document is valid: the careful scan of [`super::json`] runs over every element afterwards
//! and reports, in document order, whatever made that trust wrong.

use super::simd;

/// Bytes looked at in one step.
pub(crate) const STEP: usize = 64;

/// Where the scan stands between two steps.
#[derive(Debug, Clone, Default)]
pub(crate) struct Bounds {
    /// All ones if the next byte is inside a string.
    in_string: u64,
    /// One if the next byte is escaped.
    escaped: u64,
    /// Open brackets, counted from inside the events array.
    depth: i64,
}

/// What a scan met.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Nothing special: the bytes were all looked at.
    More,
    /// The bracket that closes the array is at this position.
    End(usize),
}

impl Bounds {
    /// Looks at `bytes[from..to]`, a multiple of [`STEP`] bytes. `last` becomes the position just after the last
    /// object or array that ended as an element of the events array.
    #[inline]
    pub(crate) fn scan(&mut self, bytes: &[u8], from: usize, to: usize, last: &mut Option<usize>) -> Found {
        let mut at = from;
        while at + STEP <= to {
            let m = simd::masks(bytes, at);
            let quotes = m.quotes & !self.escapes(m.backslashes);
            let inside = prefix_xor(quotes) ^ self.in_string;
            self.in_string = ((inside as i64) >> 63) as u64;
            let opens = m.opens & !inside;
            let closes = m.closes & !inside;
            let down = i64::from(closes.count_ones());
            if self.depth - down <= 0 && down > 0 {
                let mut brackets = opens | closes;
                while brackets != 0 {
                    let bit = brackets.trailing_zeros();
                    brackets &= brackets - 1;
                    if opens >> bit & 1 == 1 {
                        self.depth += 1;
                    } else {
                        self.depth -= 1;
                        if self.depth == 0 {
                            *last = Some(at + bit as usize + 1);
                        } else if self.depth < 0 {
                            return Found::End(at + bit as usize);
                        }
                    }
                }
            } else {
                self.depth += i64::from(opens.count_ones()) - down;
            }
            at += STEP;
        }
        Found::More
    }

    /// Whether the scan stands between elements, outside any of them.
    pub(crate) fn between_elements(&self) -> bool {
        self.depth == 0 && self.in_string == 0
    }

    /// Whether the scan stands inside a string.
    pub(crate) fn in_string(&self) -> bool {
        self.in_string != 0
    }

    /// The bytes of this step that a backslash escapes.
    #[inline(always)]
    fn escapes(&mut self, backslashes: u64) -> u64 {
        if backslashes == 0 {
            return std::mem::take(&mut self.escaped);
        }
        // Runs of backslashes are rare: one at a time is fast enough.
        let mut escaped = self.escaped;
        let mut rest = backslashes & !escaped;
        self.escaped = 0;
        while rest != 0 {
            let bit = rest.trailing_zeros();
            if bit == 63 {
                self.escaped = 1;
                break;
            }
            escaped |= 2 << bit;
            rest &= !(3 << bit);
        }
        escaped
    }
}

/// Bit n of the result is the parity of bits 0 to n.
#[inline(always)]
fn prefix_xor(mut x: u64) -> u64 {
    x ^= x << 1;
    x ^= x << 2;
    x ^= x << 4;
    x ^= x << 8;
    x ^= x << 16;
    x ^= x << 32;
    x
}
