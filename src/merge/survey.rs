//! The first pass: what stands around the events of each input.

use super::clock::Clock;
use super::options::MergeOptions;
use super::origin::{self, Origin};
use super::pyint::python_int;
use super::select::{Watch, each};
use crate::error::{Error, Result};
use crate::read::Input;
use crate::read::document::{self, Depth, Document, Shape};
use crate::read::first::{self, First};
use crate::read::reader::Stored;

/// What is known of an input before its events are read.
#[derive(Debug)]
pub(super) struct Surveyed<'a> {
    pub(super) stored: &'a Stored,
    pub(super) document: Document,
    pub(super) world_size: Option<i64>,
    /// It is a merged document whose ranks can be told apart.
    pub(super) merged: bool,
    /// Its ranks, by their pids: one, unless it is a merged document.
    pub(super) origins: Vec<Origin>,
    /// What its first events say.
    pub(super) first: First,
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
    let document = if options.salvage {
        document::peek_or_nothing(stored, depth, &options.limits)?
    } else {
        document::peek(stored, depth, &options.limits, false)?
    };
    let info: Option<serde_json::Value> =
        document.get("distributedInfo").and_then(|raw| serde_json::from_slice(raw).ok());
    let says = |key: &str| info.as_ref().and_then(|info| info.get(key)).is_some_and(|value| !value.is_null());
    let stated = says("rank") || says("merged_ranks");
    let dated = document.get("baseTimeNanoseconds").is_some();
    let first = if stated && dated { First::default() } else { first::look(stored, &document)? };
    Surveyed::of(stored, document, first)
}

impl<'a> Surveyed<'a> {
    /// What a document says. `first`: what its first events say.
    pub(super) fn of(stored: &'a Stored, document: Document, first: First) -> Result<Self> {
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
        let ts = first.ts.as_deref();
        let merged = if rank.is_none() { origin::merged(&stored.name, &document, ts) } else { None };
        let is_merged = merged.is_some();
        let origins = merged.unwrap_or_else(|| {
            // What has no base but a text of ours is dated by that.
            let ts = ts.filter(|_| document.get("tptrace").is_none() && document.shape != Shape::Bare);
            origin::single(&stored.name, rank, Clock::of(&document.members, ts))
        });
        Ok(Surveyed { stored, document, world_size, merged: is_merged, origins, first })
    }

    /// Whether it says of which rank it is, or of which ranks.
    pub(super) fn stated(&self) -> bool {
        self.origins.iter().all(|one| one.rank.or(self.first.rank).is_some())
    }

    /// Takes the document as one of one rank, of which only what its head says counts, as the reference does.
    pub(super) fn into_reference(mut self) -> Self {
        if self.merged {
            self.origins = origin::single(&self.stored.name, None, Clock::default());
        }
        self.first.rank = None;
        self
    }

    /// Whether nothing at all of a damaged input can be read.
    pub(super) fn is_nothing(&self) -> bool {
        let Document { shape, broken, members, .. } = &self.document;
        *shape == Shape::Bare && broken.is_some() && members.is_empty()
    }
}
