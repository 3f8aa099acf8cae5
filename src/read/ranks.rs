//! Which rank a process is of.

use super::document::{Document, Member};

/// What a document says of its ranks.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ranks {
    /// It is of one rank.
    one: Option<i64>,
    /// A merged document of ours: where the pids of each rank begin.
    blocks: Vec<(u64, i64)>,
    /// A merged document: pids move by rank x 10,000,000.
    merged: bool,
    /// Its place among the documents.
    place: i64,
}

/// Pids of one rank in a merged document.
const BLOCK: u64 = 10_000_000;

impl Ranks {
    /// `tail`: the members after the events, if the document does not know them. `claimed`: the rank in the arguments of
    /// its first events.
    pub(crate) fn of(document: &Document, tail: &[Member], place: usize, claimed: Option<i64>) -> Self {
        let get = |key: &str| -> Option<serde_json::Value> {
            let tail = tail.iter().rev().find(|(known, _)| known == key).map(|(_, value)| value.as_slice());
            serde_json::from_slice(tail.or_else(|| document.get(key))?).ok()
        };
        let info = get("distributedInfo");
        let info = |key: &str| info.as_ref().and_then(|info| info.get(key));
        let mut blocks: Vec<(u64, i64)> = get("ranks")
            .as_ref()
            .and_then(|ranks| ranks.as_array())
            .into_iter()
            .flatten()
            .filter_map(|rank| Some((rank.get("pid_base")?.as_u64()?, rank.get("rank")?.as_i64()?)))
            .collect();
        blocks.sort_unstable();
        let merged = info("merged_ranks").is_some();
        let many = merged || !blocks.is_empty();
        let one = info("rank").and_then(serde_json::Value::as_i64).or(claimed.filter(|_| !many));
        Self { one, blocks, merged, place: place as i64 }
    }

    /// Whether the document says of which ranks it is.
    pub(crate) fn stated(&self) -> bool {
        self.one.is_some() || self.merged || !self.blocks.is_empty()
    }

    /// Whether the document is a merged one.
    pub(crate) fn many(&self) -> bool {
        self.merged || !self.blocks.is_empty()
    }

    /// The rank of a process. `name`: the one that the document gives it.
    pub(crate) fn rank(&self, pid: &str, name: Option<&str>) -> i64 {
        let named = name.and_then(|name| name.strip_prefix("rank ")?.split_once(": ")?.0.parse().ok());
        if let Some(rank) = named {
            return rank;
        }
        if let (false, Some(rank)) = (self.merged, self.one) {
            return rank;
        }
        match pid.parse::<u64>() {
            Ok(pid) if !self.blocks.is_empty() => {
                let above = self.blocks.partition_point(|&(base, _)| base <= pid);
                self.blocks[above.saturating_sub(1)].1
            }
            Ok(pid) if self.merged => (pid / BLOCK) as i64,
            _ => self.one.unwrap_or(self.place),
        }
    }
}
