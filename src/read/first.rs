//! What the first events of a document say, where nothing around the events does.

use super::args;
use super::document::{Document, Shape};
use super::event::Elements;
use super::json::PAD;
use super::reader::Stored;
use crate::error::Result;

/// Bytes of events that are looked at. Names of processes and lanes come first, and there may be some hundreds.
const LOOK: usize = 256 << 10;

/// What the first events say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct First {
    /// The timestamp of the first event that has one and is no metadata.
    pub(crate) ts: Option<Vec<u8>>,
    /// The rank that stands in their arguments, as TensorPlay's documents without metadata have it, if it is one.
    pub(crate) rank: Option<i64>,
}

/// Looks at the first events of a document. Damage is met, and reported, when the events are read.
pub(crate) fn look(stored: &Stored, document: &Document) -> Result<First> {
    let mut first = First::default();
    if document.shape == Shape::Bare {
        return Ok(first);
    }
    let mut source = stored.open()?;
    let mut buffer = Vec::new();
    if source.skip_to(document.events_at).and_then(|()| source.fill(&mut buffer, LOOK)).is_err() {
        return Ok(first);
    }
    let length = buffer.len();
    buffer.resize(length + PAD, 0);
    let (mut elements, mut ranks_differ) = (Elements::new(length, false), false);
    while let Ok(Some(event)) = elements.next(&buffer) {
        if event.phase(&buffer) == b'M' {
            continue;
        }
        if first.ts.is_none() {
            first.ts = event.ts.get(&buffer).map(<[u8]>::to_vec);
        }
        if let Some(raw) = args::get(&buffer, &event, "rank") {
            let rank = std::str::from_utf8(raw).ok().and_then(|text| text.parse().ok()).filter(|&rank: &i64| rank >= 0);
            ranks_differ |= rank.is_none() || first.rank.is_some_and(|known| Some(known) != rank);
            first.rank = first.rank.or(rank);
        }
    }
    if ranks_differ {
        first.rank = None;
    }
    Ok(first)
}
