//! The first pass: what stands around the events of each input.

use super::clock::Clock;
use super::options::MergeOptions;
use super::pyint::python_int;
use super::select::{Watch, each};
use crate::error::{Error, Result};
use crate::read::Input;
use crate::read::document::{self, Depth, Document, Shape};
use crate::read::event::Elements;
use crate::read::json::PAD;
use crate::read::reader::Stored;

/// Bytes in which the first timestamp of an input is looked for.
const FIRST: usize = 64 << 10;

/// What is known of an input before its events are read.
#[derive(Debug)]
pub(super) struct Surveyed<'a> {
    pub(super) stored: &'a Stored,
    pub(super) document: Document,
    /// As the document states it.
    pub(super) rank: Option<i64>,
    pub(super) world_size: Option<i64>,
    pub(super) clock: Clock,
    pub(super) first_ts: Option<Vec<u8>>,
}

/// Makes every input one that can be read twice.
pub(super) fn store(inputs: Vec<Input>) -> Result<Vec<Stored>> {
    inputs.into_iter().map(Stored::new).collect()
}

/// Reads the surroundings of all inputs, several at a time.
pub(super) fn survey<'a>(stored: &'a [Stored], depth: Depth, options: &MergeOptions) -> Result<Vec<Surveyed<'a>>> {
    each(stored.len(), &Watch::default(), |_| true, |index| one(&stored[index], depth, options))
}

fn one<'a>(stored: &'a Stored, depth: Depth, options: &MergeOptions) -> Result<Surveyed<'a>> {
    let document = document::peek(stored, depth, &options.limits, options.salvage)?;
    let dated = document.get("baseTimeNanoseconds").is_some() || document.get("tptrace").is_some();
    let first = if dated || document.shape == Shape::Bare { None } else { first_timestamp(stored, &document)? };
    Surveyed::of(stored, document, first)
}

impl<'a> Surveyed<'a> {
    /// What a document says. `first_ts`: its first timestamp, where nothing else dates it.
    pub(super) fn of(stored: &'a Stored, document: Document, first_ts: Option<Vec<u8>>) -> Result<Self> {
        let info: Option<serde_json::Value> =
            document.get("distributedInfo").and_then(|raw| serde_json::from_slice(raw).ok());
        let number = |key: &str| -> Result<Option<i64>> {
            match info.as_ref().and_then(|info| info.get(key)) {
                None | Some(serde_json::Value::Null) => Ok(None),
                Some(value) => match python_int(value.to_string().as_bytes()).and_then(|int| int.small()) {
                    Some(number) if !value.is_string() && i64::try_from(number).is_ok() => Ok(Some(number as i64)),
                    _ if key == "rank" => Err(Error::Malformed {
                        path: stored.name.clone(),
                        offset: 0,
                        what: format!("distributedInfo.rank is {value}, which is no rank"),
                    }),
                    _ => Ok(None),
                },
            }
        };
        let (rank, world_size) = (number("rank")?, number("world_size")?);
        let clock = Clock::of(&document, first_ts.as_deref());
        Ok(Surveyed { stored, document, rank, world_size, clock, first_ts })
    }
}

/// The timestamp of the first event that has one and is no metadata, if it stands near the start.
fn first_timestamp(stored: &Stored, document: &Document) -> Result<Option<Vec<u8>>> {
    let mut source = stored.open()?;
    source.skip_to(document.events_at)?;
    let mut buffer = Vec::new();
    // Damage is met, and reported, when the events are read.
    if source.fill(&mut buffer, FIRST).is_err() {
        return Ok(None);
    }
    let length = buffer.len();
    buffer.resize(length + PAD, 0);
    let mut elements = Elements::new(length, false);
    while let Ok(Some(event)) = elements.next(&buffer) {
        if event.phase(&buffer) != b'M'
            && let Some(ts) = event.ts.get(&buffer)
        {
            return Ok(Some(ts.to_vec()));
        }
    }
    Ok(None)
}
