//! Which of the next 16 or 64 bytes are of interest, as a bit mask. The lowest bit is the first byte.

use wide::u8x16;

#[inline(always)]
fn load(bytes: &[u8], at: usize) -> u8x16 {
    let chunk: [u8; 16] = bytes[at..at + 16].try_into().expect("a slice of 16 bytes");
    u8x16::new(chunk)
}

#[inline(always)]
fn splat(byte: u8) -> u8x16 {
    u8x16::splat(byte)
}

/// Bytes that end a run of plain text in a string: the quote, the backslash and control characters.
#[inline(always)]
pub(crate) fn string_stops(bytes: &[u8], at: usize) -> u32 {
    let x = load(bytes, at);
    let control = x.min(splat(0x1f)).simd_eq(x);
    (x.simd_eq(splat(b'"')) | x.simd_eq(splat(b'\\')) | control).to_bitmask()
}

/// The first backslash from `at` on, before `end`; the bytes go on for 16 after it.
#[inline]
pub(crate) fn backslash(bytes: &[u8], mut at: usize, end: usize) -> Option<usize> {
    while at < end {
        let found = load(bytes, at).simd_eq(splat(b'\\')).to_bitmask();
        if found != 0 {
            return Some(at + found.trailing_zeros() as usize).filter(|&at| at < end);
        }
        at += 16;
    }
    None
}

/// The masks of 64 bytes that the boundary finder needs.
pub(crate) struct Masks {
    /// `"`
    pub(crate) quotes: u64,
    /// `\`
    pub(crate) backslashes: u64,
    /// `{` and `[`
    pub(crate) opens: u64,
    /// `}` and `]`
    pub(crate) closes: u64,
}

/// Computes [`Masks`] for `bytes[at..at + 64]`.
#[inline(always)]
pub(crate) fn masks(bytes: &[u8], at: usize) -> Masks {
    let mut m = Masks { quotes: 0, backslashes: 0, opens: 0, closes: 0 };
    for part in 0..4 {
        let x = load(bytes, at + part * 16);
        // '[' and ']' differ from '{' and '}' in this one bit.
        let folded = x | splat(0x20);
        let shift = part * 16;
        m.quotes |= u64::from(x.simd_eq(splat(b'"')).to_bitmask()) << shift;
        m.backslashes |= u64::from(x.simd_eq(splat(b'\\')).to_bitmask()) << shift;
        m.opens |= u64::from(folded.simd_eq(splat(b'{')).to_bitmask()) << shift;
        m.closes |= u64::from(folded.simd_eq(splat(b'}')).to_bitmask()) << shift;
    }
    m
}
