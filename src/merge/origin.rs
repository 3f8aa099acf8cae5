//! The ranks of an input: one, or of a merged document those that were merged, which are taken apart again.
//!
//! So a merge of merged documents is one of all the documents that these were made of.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::clock::Clock;
use crate::read::document::{Document, Member, member};
use crate::read::json::{self, PAD};

/// Pids of one rank in a document of the reference's merger.
const BLOCK: u64 = 10_000_000;

/// One rank of an input.
#[derive(Debug, Clone)]
pub(super) struct Origin {
    /// As the document states it; `None` if it does not.
    pub(super) rank: Option<i64>,
    /// The document that it was in.
    pub(super) file: PathBuf,
    /// What messages call it.
    pub(super) label: PathBuf,
    pub(super) clock: Clock,
    /// Nanoseconds that an earlier merge added to its timestamps.
    pub(super) moved: i64,
    /// Where its pids begin in the input.
    pub(super) base: u64,
    /// An earlier merge of ours has named its processes, and given each rank so many sort indices.
    pub(super) sorts: Option<i64>,
    /// What its document said of itself, where that is not what the input says.
    pub(super) metadata: Option<Vec<Member>>,
}

/// A rank in the list of a merged document.
#[derive(Default)]
struct Entry {
    rank: Option<i64>,
    file: String,
    moved: i64,
    base: Option<u64>,
    metadata: Vec<Member>,
}

/// The ranks of a merged document, in the order of their pids; `None` if it is not merged, or does not tell them apart.
pub(super) fn merged(name: &Path, document: &Document, first_ts: Option<&[u8]>) -> Option<Vec<Origin>> {
    let json = |key: &str| document.get(key).and_then(|raw| serde_json::from_slice::<Value>(raw).ok());
    let label = |rank: i64| PathBuf::from(format!("{} (rank {rank})", name.display()));
    let Some(raw) = document.get("ranks") else {
        return of_reference(name, &json("distributedInfo")?, document, label);
    };
    let entries = entries(raw)?;
    let sorts = super::lanes::sort_range(entries.len());
    let own = json("tptrace").unwrap_or_default();
    // Timestamps that were moved by hand are on no clock that the ranks' documents tell of.
    let by_hand = own["merge"]["aligned"] == true
        && own["clock"]["base_ns"].is_null()
        && entries.iter().any(|one| one.moved != 0);
    // The first timestamp tells of all ranks only where they are on one clock.
    let first_ts = first_ts.filter(|_| entries.len() == 1 || own["merge"]["aligned"] == true);
    let mut origins = Vec::with_capacity(entries.len());
    for Entry { rank, file, moved, base, metadata } in entries {
        let (rank, base) = (rank?, base?);
        let clock = if by_hand { Clock::default() } else { Clock::of(&metadata, first_ts).moved(moved) };
        origins.push(Origin {
            rank: Some(rank),
            file: file.into(),
            label: label(rank),
            clock,
            moved,
            base,
            sorts: Some(sorts),
            metadata: Some(metadata),
        });
    }
    // Ranks that were cut out have no events here.
    for cut in own["cuts"].as_array().into_iter().flatten() {
        if let Some(kept) = cut["ranks"].as_array() {
            origins.retain(|one| kept.iter().any(|rank| rank.as_i64() == one.rank));
        }
    }
    origins.sort_by_key(|one| one.base);
    (!origins.is_empty() && origins.windows(2).all(|pair| pair[0].base < pair[1].base)).then_some(origins)
}

/// Those of a document of the reference's merger, or of a verbatim merge.
fn of_reference(name: &Path, info: &Value, document: &Document, label: impl Fn(i64) -> PathBuf) -> Option<Vec<Origin>> {
    let ranks = info.get("merged_ranks")?.as_array()?;
    let mut ranks: Vec<u64> = ranks.iter().map(Value::as_u64).collect::<Option<_>>()?;
    ranks.sort_unstable();
    ranks.dedup();
    let mut origins = Vec::with_capacity(ranks.len());
    for number in ranks {
        let rank = i64::try_from(number).ok()?;
        origins.push(Origin {
            rank: Some(rank),
            file: name.into(),
            label: label(rank),
            clock: Clock::of(&document.members, None),
            moved: 0,
            base: number.checked_mul(BLOCK)?,
            sorts: None,
            metadata: None,
        });
    }
    (!origins.is_empty()).then_some(origins)
}

/// The list of ranks, with the metadata as they are written.
fn entries(raw: &[u8]) -> Option<Vec<Entry>> {
    let mut bytes = raw.to_vec();
    bytes.resize(raw.len() + PAD, 0);
    let mut list = Vec::new();
    let mut at = json::space(&bytes, 1);
    while bytes[0] == b'[' && bytes[at] == b'{' {
        let mut entry = Entry::default();
        for (key, value) in object(&bytes, at) {
            let number = || serde_json::from_slice::<Value>(&value).ok();
            match key.as_str() {
                "rank" => entry.rank = number()?.as_i64(),
                "offset_ns" => entry.moved = number()?.as_i64()?,
                "pid_base" => entry.base = number()?.as_u64(),
                "file" => entry.file = number()?.as_str()?.to_owned(),
                "metadata" => {
                    let mut padded = value.clone();
                    padded.resize(value.len() + PAD, 0);
                    entry.metadata = object(&padded, 0);
                }
                _ => {}
            }
        }
        list.push(entry);
        at = json::space(&bytes, json::value(&bytes, at).ok()?);
        if bytes[at] != b',' {
            break;
        }
        at = json::space(&bytes, at + 1);
    }
    (!list.is_empty()).then_some(list)
}

/// The members of the object that starts at `at`.
fn object(bytes: &[u8], at: usize) -> Vec<Member> {
    let mut members = Vec::new();
    if bytes[at] != b'{' {
        return members;
    }
    let mut at = json::space(bytes, at + 1);
    while let Ok((key, value)) = member(bytes, at) {
        at = json::space(bytes, value.end);
        members.push((key, bytes[value].to_vec()));
        if bytes[at] != b',' {
            break;
        }
        at = json::space(bytes, at + 1);
    }
    members
}

/// The one rank of a document that is not merged.
pub(super) fn single(name: &Path, rank: Option<i64>, clock: Clock) -> Vec<Origin> {
    vec![Origin { rank, file: name.into(), label: name.into(), clock, moved: 0, base: 0, sorts: None, metadata: None }]
}
