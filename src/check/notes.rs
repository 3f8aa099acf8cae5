//! Findings as they are met.

use std::collections::BTreeMap;

use super::codes::Code;
use super::report::Place;
use crate::error::Result;
use crate::read::reader::Stored;

/// Places that are kept of each finding.
const PLACES: usize = 3;

/// How often a finding was met in a document, and where first.
#[derive(Debug, Clone, Default)]
pub(super) struct Count {
    pub(super) count: u64,
    /// Bytes of JSON before them, ascending.
    pub(super) offsets: Vec<u64>,
    /// Words that say more.
    pub(super) detail: Option<String>,
}

impl Count {
    fn place(&mut self, offset: u64) {
        if self.offsets.len() < PLACES || self.offsets.last().is_some_and(|&last| last > offset) {
            self.offsets.push(offset);
            self.offsets.sort_unstable();
            self.offsets.truncate(PLACES);
        }
    }
}

/// Findings by document and code.
#[derive(Debug, Default)]
pub(super) struct Notes {
    pub(super) found: BTreeMap<(usize, Code), Count>,
}

impl Notes {
    /// Notes a finding of a whole document.
    pub(super) fn whole(&mut self, document: usize, code: Code, detail: Option<String>) {
        let count = self.found.entry((document, code)).or_default();
        count.count += 1;
        count.detail = count.detail.take().or(detail);
    }

    /// Notes a finding at a place.
    #[cold]
    pub(super) fn at(&mut self, document: usize, code: Code, offset: u64) {
        let count = self.found.entry((document, code)).or_default();
        count.count += 1;
        count.place(offset);
    }

    pub(super) fn add(&mut self, other: Notes) {
        for (key, theirs) in other.found {
            let mine = self.found.entry(key).or_default();
            mine.count += theirs.count;
            theirs.offsets.into_iter().for_each(|offset| mine.place(offset));
            mine.detail = mine.detail.take().or(theirs.detail);
        }
    }
}

/// Finds the lines of places, by reading the document again up to the last of them.
pub(super) fn find_lines(stored: &Stored, places: &mut [&mut Place]) -> Result<()> {
    places.sort_unstable_by_key(|place| place.offset);
    let Some(last) = places.last().map(|place| place.offset) else { return Ok(()) };
    let mut source = stored.open()?;
    let (mut buffer, mut offset, mut line, mut next) = (Vec::new(), 0u64, 1u64, 0);
    while offset <= last {
        buffer.clear();
        // Damage was reported before: what cannot be read has no lines.
        let got = source.fill(&mut buffer, 256 << 10).unwrap_or(0);
        let mut at = 0;
        while next < places.len() && (places[next].offset < offset + got as u64 || got == 0) {
            let to = (places[next].offset.saturating_sub(offset) as usize).min(got);
            line += breaks(&buffer[at..to]);
            places[next].line = line;
            (at, next) = (to, next + 1);
        }
        line += breaks(&buffer[at..]);
        offset += got as u64;
        if got == 0 {
            break;
        }
    }
    Ok(())
}

fn breaks(bytes: &[u8]) -> u64 {
    bytes.iter().filter(|&&byte| byte == b'\n').count() as u64
}
