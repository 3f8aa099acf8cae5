//! What stands around the events of an input: where they start, and the metadata before and after them.

use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::bounds::{Bounds, Found, STEP};
use super::input::Limits;
use super::json::{self, Bad, PAD, Scan, What};
use super::reader::{Source, Stored};
use crate::error::{Error, Result};

/// A key of the document and its value as text.
pub(crate) type Member = (String, Vec<u8>);

/// The kind of document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Shape {
    /// `{"traceEvents": [...], ...}`
    Object,
    /// `[...]`, whose closing bracket may be missing.
    Array,
    /// An object without events.
    Bare,
}

/// An input's surroundings.
#[derive(Debug, Clone)]
pub(crate) struct Document {
    pub(crate) shape: Shape,
    /// The byte after the bracket that opens the events array.
    pub(crate) events_at: u64,
    /// Metadata in document order.
    pub(crate) members: Vec<Member>,
    /// How many of the members stand before the events.
    pub(crate) before: usize,
    /// Whether the end was read too, rather than taken to hold nothing.
    pub(crate) thorough: bool,
    /// Whether the file is compressed.
    pub(crate) gzip: bool,
    /// With salvage: the end could not be read, for this reason.
    pub(crate) broken: Option<String>,
}

impl Document {
    /// The raw value of a key; of a key that occurs twice, the last.
    pub(crate) fn get(&self, key: &str) -> Option<&[u8]> {
        self.members.iter().rev().find(|(k, _)| k == key).map(|(_, v)| v.as_slice())
    }
}

/// How far to read an input for its surroundings.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    /// Only to the first event.
    Head,
    /// The head, and of a plain file its last bytes, in which the end of the events is guessed. The merge
    /// compares what it meets with the guess.
    Guess,
    /// All of it.
    Full,
}

/// How bytes are turned into an error that names the file.
pub(crate) fn malformed(path: &Path, base: u64, bad: Bad) -> Error {
    let (path, offset) = (path.to_path_buf(), base + bad.at() as u64);
    match bad.what() {
        What::Depth => Error::Limit { path, offset, what: What::Depth.text().into() },
        what => Error::Malformed { path, offset, what: what.text().into() },
    }
}

fn damaged(path: &Path, offset: u64, what: &str) -> Error {
    Error::Malformed { path: path.into(), offset, what: what.into() }
}

/// Reads an input's surroundings. With `salvage`, a damaged end is noted, not an error.
pub(crate) fn peek(input: &Stored, depth: Depth, limits: &Limits, salvage: bool) -> Result<Document> {
    let mut source = input.open()?;
    let (mut document, mut buffer, read) = head(&mut source, input, limits, salvage)?;
    document.gzip = !source.is_plain();
    if document.shape == Shape::Bare || depth == Depth::Head {
        return Ok(document);
    }
    if depth == Depth::Guess
        && source.is_plain()
        && let Some(tail) = guess(input, document.shape, document.events_at)?
    {
        document.members.extend(tail);
        document.thorough = true;
        return Ok(document);
    }
    buffer.drain(..(document.events_at - (read - buffer.len() as u64)) as usize);
    let at = document.events_at;
    match full(&mut source, input, document.shape, at, buffer, limits) {
        Ok(tail) => {
            document.members.extend(tail);
            document.thorough = true;
            Ok(document)
        }
        Err(e @ (Error::Malformed { .. } | Error::Limit { .. })) if salvage => {
            document.broken = Some(e.to_string());
            document.thorough = true;
            Ok(document)
        }
        Err(e) => Err(e),
    }
}

/// As [`peek`] with salvage, but what is empty, or gzip of which not even the head can be read, is noted too. Files of other
/// formats stay an error: they are not damaged.
pub(crate) fn peek_or_nothing(input: &Stored, depth: Depth, limits: &Limits) -> Result<Document> {
    match peek(input, depth, limits, true) {
        Err(e @ Error::Malformed { .. }) if input.size == 0 || is_gzip(input) => Ok(nothing(e.to_string())),
        other => other,
    }
}

/// Whether the first bytes are those of gzip.
fn is_gzip(input: &Stored) -> bool {
    let mut magic = [0; 2];
    input.file().is_ok_and(|file| file.read_exact_at(&mut magic, 0).is_ok()) && magic == [0x1f, 0x8b]
}

/// A document of which nothing can be read, for this reason.
fn nothing(reason: String) -> Document {
    Document {
        shape: Shape::Bare,
        events_at: 0,
        members: Vec::new(),
        before: 0,
        thorough: true,
        gzip: false,
        broken: Some(reason),
    }
}

/// The surroundings up to the first event, the bytes read so far and their number.
fn head(source: &mut Source, input: &Stored, limits: &Limits, salvage: bool) -> Result<(Document, Vec<u8>, u64)> {
    let path = &input.name;
    let mut buffer = Vec::new();
    let mut want = 64 << 10;
    loop {
        let got = source.fill(&mut buffer, want)?;
        let length = buffer.len();
        buffer.resize(length + PAD, 0);
        let parsed = parse_head(&buffer, length);
        buffer.truncate(length);
        match parsed {
            Ok((document, end)) => {
                if end > limits.metadata_bytes {
                    return Err(before_events(path, limits, end as u64));
                }
                if document.shape == Shape::Bare {
                    only_space(source, path, &buffer[end..], end as u64)?;
                }
                return Ok((document, buffer, length as u64));
            }
            // The longest word that must be seen whole has five letters, the longest escape six.
            Err(bad) if bad.at() + 8 < length || got == 0 => {
                if salvage && got == 0 {
                    let broken = Some(malformed(path, 0, bad).to_string());
                    let document = Document {
                        shape: Shape::Bare,
                        events_at: length as u64,
                        members: whole_members(&buffer, length),
                        before: 0,
                        thorough: true,
                        gzip: false,
                        broken,
                    };
                    return Ok((document, buffer, length as u64));
                }
                if got == 0 && bad.at() + 8 >= length {
                    let what = if buffer.iter().all(u8::is_ascii_whitespace) {
                        "the file holds nothing but white space"
                    } else if bad.at() >= length {
                        What::End.text()
                    } else {
                        bad.what().text()
                    };
                    return Err(damaged(path, bad.at().min(length) as u64, what));
                }
                return Err(malformed(path, 0, bad));
            }
            Err(_) if length > limits.metadata_bytes => {
                return Err(before_events(path, limits, length as u64));
            }
            Err(_) => want = length.max(64 << 10),
        }
    }
}

#[cold]
fn before_events(path: &Path, limits: &Limits, offset: u64) -> Error {
    let what = format!("more than {} bytes before the first event", limits.metadata_bytes);
    Error::Limit { path: path.into(), offset, what }
}

/// The members before the damage.
fn whole_members(buffer: &[u8], length: usize) -> Vec<Member> {
    let mut padded = buffer[..length].to_vec();
    padded.resize(length + PAD, 0);
    let mut members = Vec::new();
    let at = json::space(&padded, start(&padded));
    if padded[at] == b'{' {
        let mut at = json::space(&padded, at + 1);
        while let Ok((key, value)) = member(&padded, at) {
            members.push((key, padded[value.clone()].to_vec()));
            at = json::space(&padded, value.end);
            if padded[at] != b',' {
                break;
            }
            at = json::space(&padded, at + 1);
        }
    }
    members.retain(|(_, value)| std::str::from_utf8(value).is_ok());
    members
}

fn start(buffer: &[u8]) -> usize {
    if buffer.starts_with(b"\xef\xbb\xbf") { 3 } else { 0 }
}

fn parse_head(buffer: &[u8], length: usize) -> Scan<(Document, usize)> {
    let mut document = Document {
        shape: Shape::Array,
        events_at: 0,
        members: Vec::new(),
        before: 0,
        thorough: false,
        gzip: false,
        broken: None,
    };
    let mut at = json::space(buffer, start(buffer));
    match buffer[at] {
        b'[' => {
            document.events_at = at as u64 + 1;
            return Ok((document, at + 1));
        }
        b'{' => at = json::space(buffer, at + 1),
        0 if at >= length => return Err(Bad::new(at, What::Value)),
        _ => return Err(Bad::new(at, What::NoDocument)),
    }
    document.shape = Shape::Object;
    if buffer[at] != b'}' {
        loop {
            let key = at;
            let value = json::key(buffer, key)?;
            if json::decode(&buffer[key..json::string(buffer, key)?]) == "traceEvents" {
                if buffer[value] != b'[' {
                    // A value that is cut off here may still turn out to be an array.
                    let what = if value < length { What::NoEvents } else { What::Value };
                    return Err(Bad::new(value, what));
                }
                document.events_at = value as u64 + 1;
                document.before = document.members.len();
                utf8(&buffer[..value])?;
                return Ok((document, value + 1));
            }
            let (key, value) = member(buffer, key)?;
            at = json::space(buffer, value.end);
            document.members.push((key, buffer[value].to_vec()));
            match buffer[at] {
                b',' => at = json::space(buffer, at + 1),
                b'}' => break,
                _ => return Err(json::not_after_value(buffer, at, true)),
            }
        }
    }
    utf8(&buffer[..at])?;
    document.shape = Shape::Bare;
    document.before = document.members.len();
    document.events_at = at as u64 + 1;
    document.thorough = true;
    Ok((document, at + 1))
}

fn utf8(bytes: &[u8]) -> Scan<()> {
    std::str::from_utf8(bytes).map(|_| ()).map_err(|e| Bad::new(e.valid_up_to(), What::Utf8))
}

/// The key that starts at `at`, and where its value stands.
pub(crate) fn member(buffer: &[u8], at: usize) -> Scan<(String, Range<usize>)> {
    let value = json::key(buffer, at)?;
    let key = json::decode(&buffer[at..json::string(buffer, at)?]);
    Ok((key, value..json::value(buffer, value)?))
}

/// Checks that only white space is left.
fn only_space(source: &mut Source, path: &Path, seen: &[u8], mut offset: u64) -> Result<()> {
    let mut buffer = seen.to_vec();
    loop {
        if let Some(at) = buffer.iter().position(|b| !matches!(b, b' ' | b'\n' | b'\r' | b'\t')) {
            return Err(damaged(path, offset + at as u64, "something follows the end of the document"));
        }
        offset += buffer.len() as u64;
        buffer.clear();
        if source.fill(&mut buffer, 64 << 10)? == 0 {
            return Ok(());
        }
    }
}

/// The members that follow the events. `buffer` starts at the bracket that closes the array, is padded, and
/// holds the document to its end.
pub(crate) fn parse_tail(buffer: &[u8], length: usize, shape: Shape) -> Scan<Vec<Member>> {
    let mut members = Vec::new();
    let mut at = json::space(buffer, 1);
    if shape == Shape::Object {
        while buffer[at] == b',' {
            let (key, value) = member(buffer, json::space(buffer, at + 1))?;
            at = json::space(buffer, value.end);
            members.push((key, buffer[value].to_vec()));
        }
        if buffer[at] != b'}' {
            return Err(json::not_after_value(buffer, at, true));
        }
        at = json::space(buffer, at + 1);
    }
    if at < length {
        return Err(Bad::new(at, What::Value));
    }
    utf8(&buffer[..length])?;
    Ok(members)
}

/// The tail of a plain file, if its last bytes look like one.
fn guess(input: &Stored, shape: Shape, events_at: u64) -> Result<Option<Vec<Member>>> {
    let file = input.file()?;
    let size = file.metadata().map_err(Error::io("read the size of", &input.name))?.len();
    for window in [16 << 10, 1 << 20] {
        let from = size.saturating_sub(window).max(events_at);
        let mut bytes = vec![0; (size - from) as usize + PAD];
        let length = bytes.len() - PAD;
        if file.read_exact_at(&mut bytes[..length], from).is_err() {
            return Ok(None);
        }
        // An events array ends in the bracket of an event, or is empty.
        let mut last = if from == events_at { b'{' } else { 0 };
        for at in 0..length {
            let c = bytes[at];
            if c == b']'
                && matches!(last, b'}' | b'{')
                && let Ok(tail) = parse_tail(&bytes[at..], length - at, shape)
            {
                return Ok(if has_events(&tail) { None } else { Some(tail) });
            }
            if !matches!(c, b' ' | b'\n' | b'\r' | b'\t') {
                last = c;
            }
        }
        if from == events_at {
            break;
        }
    }
    Ok(None)
}

pub(crate) fn has_events(tail: &[Member]) -> bool {
    tail.iter().any(|(key, _)| key == "traceEvents")
}

/// Reads on to the end of the events and returns what follows them. `buffer` holds what was read of them.
fn full(
    source: &mut Source,
    input: &Stored,
    shape: Shape,
    at: u64,
    mut buffer: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<Member>> {
    let mut bounds = Bounds::default();
    let mut offset = at;
    loop {
        let got = source.fill(&mut buffer, 256 << 10)?;
        let length = buffer.len();
        let to = if got == 0 { length.next_multiple_of(STEP) } else { length / STEP * STEP };
        buffer.resize(length.max(to) + PAD, 0);
        let found = bounds.scan(&buffer, 0, to, &mut None);
        buffer.truncate(length);
        match found {
            Found::End(at) if at < length => {
                buffer.drain(..at);
                return tail(source, input, shape, offset + at as u64, buffer, limits);
            }
            _ if got == 0 && shape == Shape::Array && bounds.between_elements() => return Ok(Vec::new()),
            _ if got == 0 => {
                let what = if bounds.in_string() {
                    "the document ends inside a string"
                } else if bounds.between_elements() {
                    "the document ends before the events array is closed"
                } else {
                    "the document ends inside an event"
                };
                return Err(damaged(&input.name, offset + length as u64, what));
            }
            _ => {
                buffer.drain(..to);
                offset += to as u64;
            }
        }
    }
}

/// Reads the rest of the document. `buffer` starts at the bracket that closes the events, at `offset`.
pub(crate) fn tail(
    source: &mut Source,
    input: &Stored,
    shape: Shape,
    offset: u64,
    mut buffer: Vec<u8>,
    limits: &Limits,
) -> Result<Vec<Member>> {
    while source.fill(&mut buffer, 64 << 10)? > 0 {
        if buffer.len() > limits.metadata_bytes {
            return Err(Error::Limit {
                path: input.name.clone(),
                offset: offset + buffer.len() as u64,
                what: format!("more than {} bytes after the last event", limits.metadata_bytes),
            });
        }
    }
    let length = buffer.len();
    buffer.resize(length + PAD, 0);
    if buffer[0] != b']' {
        return Err(damaged(&input.name, offset, "expected ']' at the end of the events"));
    }
    let members = parse_tail(&buffer, length, shape).map_err(|bad| match bad.what() {
        What::Value => damaged(&input.name, offset + bad.at() as u64, "something follows the end of the document"),
        _ => malformed(&input.name, offset, bad),
    })?;
    if has_events(&members) {
        return Err(damaged(&input.name, offset, "a second traceEvents follows the first"));
    }
    Ok(members)
}

/// An error that names an input which is not what it was.
pub(crate) fn changed(path: &Path) -> Error {
    damaged(path, 0, "it changed while it was read; is it still being written?")
}
