//! Blocks: how they are written, and read from a file that may be damaged.

use std::fs::File;
use std::io::{self, Read, Write};

/// The first line of a journal.
pub(super) const MAGIC: &[u8; 18] = b"tptrace journal 1\n";

/// Bytes of a block's contents, enough for the longest text; a larger number is damage.
pub(super) const MOST: usize = (1 << 30) + (1 << 22);
/// Blocks are ended when they have grown past this.
pub(super) const USUAL: usize = 1 << 20;

const HEAD: usize = 12;

/// What a block tells. Numbers are never used for something else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Kind {
    /// What stands beside the events, as JSON. The last one counts.
    Facts = 1,
    /// Names of spans.
    Names = 2,
    /// Categories of spans.
    Categories = 3,
    /// Instants on the clock of the ticks and on CLOCK_MONOTONIC.
    Anchors = 4,
    /// Records of one thread.
    Lane = 5,
    /// Texts of events.
    Texts = 6,
    /// Side data of events.
    Packed = 7,
    Ops = 8,
    Gpu = 9,
    Links = 10,
    Memory = 11,
    Samples = 12,
    Counters = 13,
    Instants = 14,
}

impl Kind {
    fn of(number: u8) -> Option<Self> {
        use Kind::*;
        let all = [
            Facts, Names, Categories, Anchors, Lane, Texts, Packed, Ops, Gpu, Links, Memory, Samples, Counters,
            Instants,
        ];
        all.into_iter().find(|kind| *kind as u8 == number)
    }
}

/// Adds a block whose contents `fill` writes; none if it writes nothing.
pub(super) fn add(out: &mut Vec<u8>, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&[kind as u8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    fill(out);
    let length = out.len() - start - HEAD;
    if length == 0 || length > MOST {
        out.truncate(start);
        return;
    }
    out[start + 4..start + 8].copy_from_slice(&(length as u32).to_le_bytes());
    let sum = sum(&out[start..start + 8], &out[start + HEAD..]);
    out[start + 8..start + HEAD].copy_from_slice(&sum.to_le_bytes());
}

fn sum(head: &[u8], contents: &[u8]) -> u32 {
    let mut sum = crc32fast::Hasher::new();
    sum.update(head);
    sum.update(contents);
    sum.finalize()
}

/// Takes blocks and puts them into a file, many at once.
pub(super) struct Sink<'f> {
    file: &'f File,
    buffer: Vec<u8>,
    /// Bytes that were taken.
    pub(super) bytes: u64,
    result: io::Result<()>,
}

impl<'f> Sink<'f> {
    /// `file`: where it stands.
    pub(super) fn new(file: &'f File) -> Self {
        Self { file, buffer: Vec::new(), bytes: 0, result: Ok(()) }
    }

    /// Adds a block whose contents `fill` writes; none if it writes nothing.
    pub(super) fn block(&mut self, kind: Kind, fill: impl FnOnce(&mut Vec<u8>)) {
        let before = self.buffer.len();
        add(&mut self.buffer, kind, fill);
        self.bytes += (self.buffer.len() - before) as u64;
        if self.buffer.len() >= USUAL {
            self.put();
        }
    }

    fn put(&mut self) {
        if self.result.is_ok() {
            self.result = self.file.write_all(&self.buffer);
        }
        self.buffer.clear();
    }

    /// Whether all of it is in the file.
    pub(super) fn finish(mut self) -> io::Result<u64> {
        self.put();
        self.result.map(|()| self.bytes)
    }
}

/// Where the good part of a journal ends, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct End {
    /// Bytes that are good.
    pub(super) good: u64,
    /// What is wrong there; `None` at the end of the file.
    pub(super) damage: Option<String>,
}

/// Hands out the blocks of a journal up to the first that is damaged. The first line was read already.
pub(super) fn each(from: &mut impl Read, mut block: impl FnMut(Kind, &[u8]) -> Result<(), String>) -> io::Result<End> {
    let (mut head, mut contents) = (Vec::with_capacity(HEAD), Vec::new());
    let mut good = MAGIC.len() as u64;
    let damaged = |good: u64, what: &str| Ok(End { good, damage: Some(what.to_owned()) });
    loop {
        head.clear();
        match from.take(HEAD as u64).read_to_end(&mut head)? {
            0 => return Ok(End { good, damage: None }),
            HEAD => {}
            _ => return damaged(good, "the head of a block is cut"),
        }
        let length = u32::from_le_bytes([head[4], head[5], head[6], head[7]]) as usize;
        let told = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let Some(kind) = Kind::of(head[0]) else { return damaged(good, "no block begins here") };
        if length > MOST || head[1..4] != [0; 3] {
            return damaged(good, "no block begins here");
        }
        contents.clear();
        // Not as much memory as the head says, which may be wrong, but as there are bytes.
        if from.take(length as u64).read_to_end(&mut contents)? < length {
            return damaged(good, "a block is cut");
        }
        if sum(&head[..8], &contents) != told {
            return damaged(good, "the checksum of a block is wrong");
        }
        if let Err(what) = block(kind, &contents) {
            return damaged(good, &what);
        }
        good += (HEAD + length) as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> (Vec<(Kind, Vec<u8>)>, End) {
        let mut blocks = Vec::new();
        let end = each(&mut { bytes }, |kind, contents| {
            blocks.push((kind, contents.to_vec()));
            Ok(())
        });
        (blocks, end.expect("read"))
    }

    #[test]
    fn what_is_whole_is_read_however_it_is_cut_or_changed() {
        let mut bytes = Vec::new();
        let mut ends = vec![0];
        for (kind, contents) in [(Kind::Names, &b"abc"[..]), (Kind::Lane, &[7; 300]), (Kind::Facts, b"{}")] {
            add(&mut bytes, kind, |out| out.extend_from_slice(contents));
            ends.push(bytes.len());
        }
        add(&mut bytes, Kind::Ops, |_| {});
        assert_eq!(ends.last(), Some(&bytes.len()));
        for cut in 0..=bytes.len() {
            let (blocks, end) = read(&bytes[..cut]);
            let whole = ends.iter().filter(|end| **end <= cut).count() - 1;
            assert_eq!((blocks.len(), end.good), (whole, 18 + ends[whole] as u64), "{cut}");
            assert_eq!(end.damage.is_none(), ends.contains(&cut));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0x10;
            let (blocks, end) = read(&changed);
            let before = ends.iter().filter(|end| **end <= at).count() - 1;
            assert_eq!((blocks.len(), end.damage.is_some()), (before, true), "{at}: {end:?}");
        }
    }
}
