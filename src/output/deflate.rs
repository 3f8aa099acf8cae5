//! A deflate encoder (RFC 1951) for gzip level 1.
//!
//! Why our own: a trace is compressed while it is written, so this is where the time goes. On traces the libraries'
//! fast levels are either too slow for that or make larger files than zlib's level 1; `benches/compress.rs` has the
//! ratios. It finds matches greedily through one hash table, as all fast encoders do, and codes each block anew.

use super::huffman::{self, MAX_BITS};

const HASH_BITS: u32 = 15;
const WINDOW: usize = 32 << 10;
const MIN_MATCH: usize = 4;
const MAX_MATCH: usize = 258;
/// Tokens of one block.
const BLOCK: usize = 24 << 10;
/// Input bytes of one block, so that what does not compress can be stored without looking far back.
const BLOCK_BYTES: usize = 512 << 10;
/// Positions are kept in 32 bits; longer input is taken in parts.
const PART: usize = 1 << 30;

const END_OF_BLOCK: usize = 256;
const LITERALS: usize = 286;
const DISTANCES: usize = 30;
/// The order in which the lengths of the length code are sent.
const ORDER: [usize; 19] = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

/// (symbol, extra bits, base) of match length `index + 3`.
const LENGTHS: [(u16, u8, u16); 256] = lengths();
/// Symbol of distance `index + 1` up to 256, and of `(distance - 1) >> 7` beyond.
const DISTANCE_SYMBOLS: [u8; 512] = distance_symbols();

const fn lengths() -> [(u16, u8, u16); 256] {
    let mut table = [(0, 0, 0); 256];
    let mut symbol = 257;
    let mut index = 0;
    while index < 255 {
        let extra = if symbol < 265 { 0 } else { (symbol - 261) / 4 };
        let base = index;
        let mut n = 0;
        while n < 1 << extra && index < 255 {
            table[index] = (symbol, extra as u8, base as u16);
            index += 1;
            n += 1;
        }
        symbol += 1;
    }
    table[255] = (285, 0, 255);
    table
}

const fn distance_extra(symbol: usize) -> u32 {
    if symbol < 4 { 0 } else { (symbol as u32 - 2) / 2 }
}

const fn distance_base(symbol: usize) -> u32 {
    if symbol < 4 { symbol as u32 } else { (2 + (symbol as u32 & 1)) << distance_extra(symbol) }
}

const fn distance_symbols() -> [u8; 512] {
    let mut table = [0; 512];
    let mut symbol = 0;
    while symbol < DISTANCES {
        let (base, extra) = (distance_base(symbol) as usize, distance_extra(symbol));
        let mut n = 0;
        while n < 1 << extra {
            let distance = base + n;
            if distance < 256 {
                table[distance] = symbol as u8;
            } else {
                table[256 + (distance >> 7)] = symbol as u8;
            }
            n += 1;
        }
        symbol += 1;
    }
    table
}

/// The symbol of a distance, given as distance - 1.
#[inline]
fn distance_symbol(less_one: usize) -> usize {
    let slot = if less_one < 256 { less_one } else { 256 + (less_one >> 7) };
    usize::from(DISTANCE_SYMBOLS[slot & 511])
}

/// Compresses chunks, one after the other; nothing of a chunk is remembered in the next.
#[derive(Debug)]
pub(super) struct Encoder {
    /// The last position of each hash, plus one.
    table: Box<[u32; 1 << HASH_BITS]>,
    /// A literal, or `length << 16 | distance - 1`.
    tokens: Vec<u32>,
    codes: Box<Codes>,
}

/// What a block is coded with.
#[derive(Debug)]
struct Codes {
    literal_counts: [u32; LITERALS],
    distance_counts: [u32; DISTANCES],
    literal_lengths: [u8; LITERALS],
    distance_lengths: [u8; DISTANCES],
    literal_codes: [u16; LITERALS],
    distance_codes: [u16; DISTANCES],
    /// Code and extra bits of each match length, and how many bits these are.
    matches: [(u32, u8); 256],
}

impl Default for Encoder {
    fn default() -> Self {
        Self {
            table: vec![0; 1 << HASH_BITS]
                .into_boxed_slice()
                .try_into()
                .unwrap_or_else(|_| Box::new([0; 1 << HASH_BITS])),
            tokens: Vec::with_capacity(BLOCK),
            codes: Box::new(Codes {
                literal_counts: [0; LITERALS],
                distance_counts: [0; DISTANCES],
                literal_lengths: [0; LITERALS],
                distance_lengths: [0; DISTANCES],
                literal_codes: [0; LITERALS],
                distance_codes: [0; DISTANCES],
                matches: [(0, 0); 256],
            }),
        }
    }
}

#[inline]
fn load(data: &[u8], at: usize) -> Option<u64> {
    data.get(at..)?.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Of the first five bytes.
#[inline]
fn hash(bytes: u64) -> usize {
    ((bytes << 24).wrapping_mul(0x9E37_79B1_85EB_CA87) >> (64 - HASH_BITS)) as usize
}

/// How many bytes from `a` and `b` on are equal, up to the longest match.
#[inline]
fn common(data: &[u8], a: usize, b: usize) -> usize {
    let most = MAX_MATCH.min(data.len() - b);
    let mut length = 0;
    while let (Some(x), Some(y)) = (load(data, a + length), load(data, b + length)) {
        let differ = x ^ y;
        if differ != 0 {
            return most.min(length + differ.trailing_zeros() as usize / 8);
        }
        length += 8;
        if length >= most {
            return most;
        }
    }
    while length < most && data[a + length] == data[b + length] {
        length += 1;
    }
    length
}

impl Encoder {
    /// Appends `raw` to `out` as whole deflate blocks, none of them the last, ending at a byte boundary.
    pub(super) fn encode(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let mut bits = Bits::new(out);
        for part in raw.chunks(PART) {
            self.table.fill(0);
            self.part(part, &mut bits);
        }
        bits.stored(&[]);
        bits.finish();
    }

    fn part(&mut self, data: &[u8], bits: &mut Bits<'_>) {
        let mut at = 0;
        while at < data.len() {
            let start = at;
            self.tokens.clear();
            at = self.tokenize(data, at);
            self.block(&data[start..at], bits);
        }
    }

    /// Tokens from `at` on, as many as fit a block; answers where they end.
    fn tokenize(&mut self, data: &[u8], mut at: usize) -> usize {
        let stop = data.len().min(at + BLOCK_BYTES);
        let Self { table, tokens, .. } = self;
        while tokens.len() < BLOCK - 1 {
            let Some(here) = load(data, at).filter(|_| at < stop) else { break };
            let slot = &mut table[hash(here)];
            let candidate = *slot as usize;
            *slot = at as u32 + 1;
            // 0 stands for "none" and makes the distance too great by itself, save at the start.
            let distance = (at + 1).wrapping_sub(candidate);
            if candidate != 0
                && distance <= WINDOW
                && load(data, candidate - 1).is_some_and(|there| there as u32 == here as u32)
            {
                let length = common(data, candidate - 1, at);
                debug_assert!(length >= MIN_MATCH);
                tokens.push((length as u32) << 16 | (distance as u32 - 1));
                // A few positions inside the match, so that later text finds its way back here.
                let end = at + length;
                for inside in [at + 1, at + 2, end - 2, end - 1] {
                    if let Some(bytes) = load(data, inside) {
                        table[hash(bytes)] = inside as u32 + 1;
                    }
                }
                at = end;
            } else {
                tokens.push(here as u32 & 0xff);
                at += 1;
            }
        }
        // The last bytes of the input, too few to look for matches with.
        if data.len() - at < 8 {
            while at < data.len() && tokens.len() < BLOCK {
                tokens.push(u32::from(data[at]));
                at += 1;
            }
        }
        at
    }

    /// Writes the tokens of `raw` as one block, or `raw` itself if that is shorter.
    fn block(&mut self, raw: &[u8], bits: &mut Bits<'_>) {
        let Self { tokens, codes, .. } = self;
        codes.count(tokens);
        huffman::lengths(&codes.literal_counts, MAX_BITS, &mut codes.literal_lengths);
        huffman::lengths(&codes.distance_counts, MAX_BITS, &mut codes.distance_lengths);
        let header = Header::new(codes);
        let dynamic = header.cost() + codes.cost();
        let stored = (raw.len() as u64 + 5 * raw.len().div_ceil(0xffff) as u64) * 8;
        if stored <= dynamic {
            raw.chunks(0xffff).for_each(|piece| bits.stored(piece));
            return;
        }
        codes.assign();
        bits.reserve(dynamic);
        header.write(bits);
        codes.write(tokens, bits);
    }
}

impl Codes {
    fn count(&mut self, tokens: &[u32]) {
        self.literal_counts.fill(0);
        self.distance_counts.fill(0);
        for &token in tokens {
            if token < 256 {
                self.literal_counts[token as usize] += 1;
            } else {
                let (symbol, ..) = LENGTHS[((token >> 16) as usize - 3) & 255];
                self.literal_counts[usize::from(symbol)] += 1;
                self.distance_counts[distance_symbol(token as usize & 0xffff)] += 1;
            }
        }
        self.literal_counts[END_OF_BLOCK] = 1;
    }

    /// Bits of all tokens.
    fn cost(&self) -> u64 {
        let sum = |counts: &[u32], lengths: &[u8], extra: &dyn Fn(usize) -> u32| -> u64 {
            (0..)
                .zip(counts.iter().zip(lengths))
                .map(|(symbol, (&count, &length))| u64::from(count) * u64::from(u32::from(length) + extra(symbol)))
                .sum()
        };
        let length_extra = |symbol: usize| if (265..285).contains(&symbol) { (symbol as u32 - 261) / 4 } else { 0 };
        sum(&self.literal_counts, &self.literal_lengths, &length_extra)
            + sum(&self.distance_counts, &self.distance_lengths, &distance_extra)
    }

    fn assign(&mut self) {
        huffman::codes(&self.literal_lengths, &mut self.literal_codes);
        huffman::codes(&self.distance_lengths, &mut self.distance_codes);
        for (index, slot) in self.matches.iter_mut().enumerate() {
            let (symbol, extra, base) = LENGTHS[index];
            let length = self.literal_lengths[usize::from(symbol)];
            let code = u32::from(self.literal_codes[usize::from(symbol)]);
            *slot = (code | ((index as u32 - u32::from(base)) << length), length + extra);
        }
    }

    fn write(&self, tokens: &[u32], bits: &mut Bits<'_>) {
        for &token in tokens {
            if token < 256 {
                let symbol = token as usize;
                bits.put(u64::from(self.literal_codes[symbol]), u32::from(self.literal_lengths[symbol]));
            } else {
                let (code, length) = self.matches[((token >> 16) as usize - 3) & 255];
                let less_one = token & 0xffff;
                let symbol = distance_symbol(less_one as usize);
                let distance_length = u32::from(self.distance_lengths[symbol]);
                let extra = u64::from(less_one - distance_base(symbol)) << distance_length;
                let distance = u64::from(self.distance_codes[symbol]) | extra;
                let length = u32::from(length);
                // At most 20 + 28 bits.
                bits.put(u64::from(code) | distance << length, length + distance_length + distance_extra(symbol));
            }
        }
        let end = END_OF_BLOCK;
        bits.put(u64::from(self.literal_codes[end]), u32::from(self.literal_lengths[end]));
    }
}

/// The code lengths of a block, run-length coded and Huffman coded themselves.
struct Header {
    /// (symbol, extra bits, their value)
    items: Vec<(u8, u8, u8)>,
    literals: usize,
    distances: usize,
    lengths: [u8; 19],
    codes: [u16; 19],
    sent: usize,
}

impl Header {
    fn new(codes: &Codes) -> Self {
        let used = |lengths: &[u8], least: usize| {
            lengths.iter().rposition(|&length| length > 0).map_or(least, |last| (last + 1).max(least))
        };
        let literals = used(&codes.literal_lengths, 257);
        let distances = used(&codes.distance_lengths, 1);
        let all = [&codes.literal_lengths[..literals], &codes.distance_lengths[..distances]].concat();
        let items = run_lengths(&all);
        let mut counts = [0; 19];
        items.iter().for_each(|item| counts[usize::from(item.0)] += 1);
        let (mut lengths, mut assigned) = ([0; 19], [0; 19]);
        huffman::lengths(&counts, 7, &mut lengths);
        huffman::codes(&lengths, &mut assigned);
        let sent = ORDER.iter().rposition(|&symbol| lengths[symbol] > 0).map_or(4, |last| (last + 1).max(4));
        Self { items, literals, distances, lengths, codes: assigned, sent }
    }

    fn cost(&self) -> u64 {
        let items = self.items.iter().map(|item| u64::from(self.lengths[usize::from(item.0)] + item.1));
        17 + 3 * self.sent as u64 + items.sum::<u64>()
    }

    fn write(&self, bits: &mut Bits<'_>) {
        bits.put(0b100, 3); // not the last; dynamic codes
        bits.put(self.literals as u64 - 257, 5);
        bits.put(self.distances as u64 - 1, 5);
        bits.put(self.sent as u64 - 4, 4);
        for &symbol in &ORDER[..self.sent] {
            bits.put(u64::from(self.lengths[symbol]), 3);
        }
        for &(symbol, extra, value) in &self.items {
            let symbol = usize::from(symbol);
            bits.put(u64::from(self.codes[symbol]), u32::from(self.lengths[symbol]));
            bits.put(u64::from(value), u32::from(extra));
        }
    }
}

fn run_lengths(lengths: &[u8]) -> Vec<(u8, u8, u8)> {
    let mut items = Vec::with_capacity(lengths.len());
    let mut rest = lengths;
    while let Some(&value) = rest.first() {
        let run = rest.iter().take_while(|&&length| length == value).count();
        rest = &rest[run..];
        let mut left = run;
        if value == 0 {
            while left >= 11 {
                let n = left.min(138);
                items.push((18, 7, (n - 11) as u8));
                left -= n;
            }
            if left >= 3 {
                items.push((17, 3, (left - 3) as u8));
                left = 0;
            }
        } else {
            items.push((value, 0, 0));
            left -= 1;
            while left >= 3 {
                let n = left.min(6);
                items.push((16, 2, (n - 3) as u8));
                left -= n;
            }
        }
        items.extend(std::iter::repeat_n((value, 0, 0), left));
    }
    items
}

/// Writes bits, lowest first.
struct Bits<'a> {
    out: &'a mut Vec<u8>,
    /// Where the next byte goes; `out` may be longer.
    at: usize,
    pending: u64,
    count: u32,
}

impl<'a> Bits<'a> {
    fn new(out: &'a mut Vec<u8>) -> Self {
        Self { at: out.len(), out, pending: 0, count: 0 }
    }

    /// Makes room for so many bits more.
    fn reserve(&mut self, bits: u64) {
        let least = self.at + bits as usize / 8 + 32;
        if self.out.len() < least {
            self.out.resize(least, 0);
        }
    }

    /// At most 57 bits, for which [`Bits::reserve`] made room.
    #[inline]
    fn put(&mut self, value: u64, count: u32) {
        self.pending |= value << self.count;
        self.count += count;
        if let Some(place) = self.out[self.at..].first_chunk_mut::<8>() {
            *place = self.pending.to_le_bytes();
        }
        self.at += (self.count >> 3) as usize;
        self.pending = self.pending.checked_shr(self.count & !7).unwrap_or(0);
        self.count &= 7;
    }

    /// A stored block of at most 65,535 bytes.
    fn stored(&mut self, raw: &[u8]) {
        self.reserve(8 * (raw.len() as u64 + 8));
        self.put(0, 3);
        // To the byte boundary.
        if self.count > 0 {
            self.put(0, 8 - self.count);
        }
        let length = raw.len() as u64;
        self.put(length | (!length & 0xffff) << 16, 32);
        self.out[self.at..self.at + raw.len()].copy_from_slice(raw);
        self.at += raw.len();
    }

    fn finish(self) {
        self.out.truncate(self.at);
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    fn round_trip(raw: &[u8]) -> usize {
        let mut out = b"before".to_vec();
        let mut encoder = Encoder::default();
        encoder.encode(raw, &mut out);
        // Twice, to show that nothing is left of the first.
        encoder.encode(raw, &mut out);
        out.extend_from_slice(&[3, 0]);
        let mut back = Vec::new();
        flate2::read::DeflateDecoder::new(&out[6..]).read_to_end(&mut back).unwrap();
        assert!(back == [raw, raw].concat(), "{} bytes", raw.len());
        out.len() / 2
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut state = 1u64;
        (0..length)
            .map(|_| {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                (state >> 56) as u8
            })
            .collect()
    }

    #[test]
    fn small_and_odd_inputs() {
        for length in (0..64).chain([255, 256, 257, 258, 259, 260, 516, 517]) {
            round_trip(&vec![b'a'; length]);
            round_trip(&noise(length));
            round_trip(&b"abcdefgh".repeat(length)[..length]);
        }
    }

    #[test]
    fn limits_of_window_block_and_stored_piece() {
        for length in [WINDOW, 65_535, 65_536, BLOCK, BLOCK_BYTES, BLOCK_BYTES * 2] {
            for length in length - 2..length + 3 {
                let noise = noise(length);
                assert!(round_trip(&noise) < length + length / 1000 + 64);
                round_trip(&[&noise[..], &noise[..100]].concat());
                round_trip(&vec![0; length]);
            }
        }
        // Matches at the greatest distance and just beyond.
        for gap in [WINDOW - 10, WINDOW - 9, WINDOW - 8, WINDOW - 7, WINDOW] {
            let text = [b"0123456789".to_vec(), noise(gap - 10), b"0123456789abcdef".to_vec()].concat();
            round_trip(&text);
        }
    }

    #[test]
    fn every_length_and_distance() {
        let noise = noise(WINDOW);
        for length in 3..=258 {
            let mut text = noise[..300].to_vec();
            text.extend_from_slice(&noise[7..7 + length]);
            text.push(!noise[7 + length]);
            round_trip(&text);
        }
        for distance in (1..WINDOW).step_by(37) {
            let mut text = noise[..distance].to_vec();
            text.extend_from_slice(&noise[..distance.min(20)]);
            round_trip(&text);
        }
    }

    #[test]
    fn traces_shrink() {
        let text: String = (0..20_000)
            .map(|i| {
                format!(
                    ",\n{{\"name\":\"aten::op{}\",\"ts\":{}.{:03},\"dur\":3.{:03}}}",
                    i % 200,
                    i * 7,
                    i % 997,
                    i % 13
                )
            })
            .collect();
        assert!(round_trip(text.as_bytes()) < text.len() / 5);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn any_bytes(raw in proptest::collection::vec(any::<u8>(), 0..5000)) {
            round_trip(&raw);
        }
        #[test]
        fn few_symbols(raw in proptest::collection::vec(0u8..4, 0..20000)) {
            round_trip(&raw);
        }
        #[test]
        fn repeated_pieces(pieces in proptest::collection::vec((0usize..3000, 1usize..400), 1..200)) {
            let base = noise(4000);
            let text: Vec<u8> = pieces.iter().flat_map(|&(from, length)| base[from..from + length].to_vec()).collect();
            round_trip(&text);
        }
    }
}
