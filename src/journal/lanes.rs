//! Live recording in a journal: names, lanes, anchors.

use super::block::{Kind, Sink, USUAL};
use crate::model::pack::{Unpack, put};
use crate::record::{Open, Piece, Record, Table, Teller};

const GAP: u8 = 1;
const OPEN: u8 = 2;

/// Texts with numbers from `first` on, in blocks.
pub(super) fn texts<'t>(out: &mut Sink<'_>, kind: Kind, mut first: usize, texts: impl Iterator<Item = &'t [u8]>) {
    let mut texts = texts.peekable();
    while texts.peek().is_some() {
        out.block(kind, |out| {
            put(out, first as u64);
            let start = out.len();
            while out.len() - start < USUAL
                && let Some(text) = texts.next()
            {
                put(out, text.len() as u64);
                out.extend_from_slice(text);
                first += 1;
            }
        });
    }
}

/// The reverse of [`texts`]: the first number, and the texts.
pub(super) fn read_texts(contents: &[u8]) -> Result<(usize, Vec<&[u8]>), String> {
    let mut from = Unpack(contents);
    let first = from.number() as usize;
    let mut texts = Vec::new();
    while !from.0.is_empty() {
        let length = from.number();
        texts.push(bytes(&mut from, length)?);
    }
    Ok((first, texts))
}

pub(super) fn bytes<'a>(from: &mut Unpack<'a>, length: u64) -> Result<&'a [u8], String> {
    let (bytes, rest) = usize::try_from(length)
        .ok()
        .and_then(|length| from.0.split_at_checked(length))
        .ok_or("a block says that it is longer than it is")?;
    from.0 = rest;
    Ok(bytes)
}

impl Teller for Sink<'_> {
    fn names(&mut self, first: usize, names: &[&str]) {
        texts(self, Kind::Names, first, names.iter().map(|text| text.as_bytes()));
    }

    fn categories(&mut self, first: usize, categories: &[&str]) {
        texts(self, Kind::Categories, first, categories.iter().map(|text| text.as_bytes()));
    }

    fn piece(&mut self, piece: &Piece<'_>) {
        self.block(Kind::Lane, |out| {
            put(out, piece.lane);
            put(out, piece.thread);
            put(out, piece.name.len() as u64);
            out.extend_from_slice(piece.name.as_bytes());
            out.push(if piece.gap { GAP } else { 0 } | if piece.open.is_some() { OPEN } else { 0 });
            if let Some(open) = piece.open {
                put(out, open.len() as u64);
                open.iter().for_each(|span| words(out, [span.name, span.ticks]));
            }
            out.reserve(piece.records.len() * 16);
            piece.records.iter().for_each(|record| words(out, *record));
        });
    }

    fn anchors(&mut self, counter: bool, anchors: &[[u64; 3]]) {
        self.block(Kind::Anchors, |out| {
            out.push(u8::from(counter));
            anchors.iter().flatten().for_each(|number| out.extend_from_slice(&number.to_le_bytes()));
        });
    }
}

fn words(out: &mut Vec<u8>, words: [u64; 2]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

fn pair(bytes: &[u8; 16]) -> [u64; 2] {
    let number = u128::from_le_bytes(*bytes);
    [number as u64, (number >> 64) as u64]
}

/// Hands on the piece in a block.
pub(super) fn read_piece(contents: &[u8], call: impl FnOnce(&Piece<'_>)) -> Result<(), String> {
    let mut from = Unpack(contents);
    let (lane, thread, length) = (from.number(), from.number(), from.number());
    let name = String::from_utf8_lossy(bytes(&mut from, length)?);
    let flags = from.byte();
    let mut open = None;
    if flags & OPEN != 0 {
        let count = from.number();
        let (spans, _) = bytes(&mut from, count.saturating_mul(16))?.as_chunks();
        open = Some(spans.iter().map(pair).map(|[name, ticks]| Open { name, ticks }).collect::<Vec<_>>());
    }
    let (records, []) = from.0.as_chunks() else { return Err("a record is cut".into()) };
    let records: Vec<Record> = records.iter().map(pair).collect();
    let (gap, open) = (flags & GAP != 0, open.as_deref());
    call(&Piece { lane, thread, name: &name, gap, open, records: &records });
    Ok(())
}

/// Adds what a block of anchors says: whether ticks are those of a counter, and the anchors.
pub(super) fn read_anchors(contents: &[u8], clock: &mut (bool, Vec<[u64; 3]>)) -> Result<(), String> {
    let (counter, numbers) = contents.split_first().ok_or("no anchors")?;
    let (numbers, _) = numbers.as_chunks::<24>();
    clock.0 = *counter != 0;
    clock.1.extend(numbers.iter().map(|bytes| {
        let (words, _) = bytes.as_chunks::<8>();
        [words[0], words[1], words[2]].map(u64::from_le_bytes)
    }));
    Ok(())
}

/// Adds texts to a table of names. What is told again, after the file was begun anew, is the same.
pub(super) fn extend(table: &mut Vec<String>, contents: &[u8]) -> Result<(), String> {
    let (first, texts) = read_texts(contents)?;
    if first > table.len() {
        return Err("names are missing".into());
    }
    table.truncate(first);
    table.extend(texts.iter().map(|text| String::from_utf8_lossy(text).into_owned()));
    Ok(())
}

/// What the names of a journal are put into.
pub(super) fn note(table: &mut Table, kind: Kind, contents: &[u8]) -> Result<(), String> {
    match kind {
        Kind::Names => extend(&mut table.texts, contents),
        Kind::Categories => extend(&mut table.categories, contents),
        _ => Ok(()),
    }
}
