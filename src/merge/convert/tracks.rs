//! Processes, lanes and counters of a document, by what it calls them.

use std::collections::{HashMap, HashSet};

use crate::error::{Error, Result};
use crate::perfetto::packet;
use crate::read::json;

/// Processes, lanes and counters that one document may have: each takes memory.
const MOST: u64 = 4 << 20;

/// What is known of a process or a lane.
#[derive(Debug, Clone, Default)]
pub(super) struct Named {
    pub(super) track: u64,
    /// Its number in Perfetto; 0 while it has none.
    pub(super) number: u32,
    pub(super) name: Option<String>,
    pub(super) labels: Option<String>,
    pub(super) sort: Option<i32>,
    /// As the document calls it.
    raw: Vec<u8>,
    /// Of a lane: its process.
    pub(super) process: usize,
}

#[derive(Debug, Default)]
pub(super) struct Tracks {
    last: u64,
    by_pid: HashMap<Vec<u8>, usize>,
    by_tid: HashMap<(usize, Vec<u8>), usize>,
    by_counter: HashMap<(usize, Vec<u8>), u64>,
    pub(super) processes: Vec<Named>,
    pub(super) lanes: Vec<Named>,
    /// Track, process and name.
    pub(super) counters: Vec<(u64, usize, Vec<u8>)>,
    recent: Option<(Vec<u8>, Vec<u8>, usize)>,
}

impl Tracks {
    /// A new track.
    pub(super) fn track(&mut self) -> Result<u64> {
        self.last += 1;
        if self.last > MOST {
            return Err(Error::invalid(format!(
                "the document has more than {MOST} processes, lanes and counters: no viewer could show them"
            )));
        }
        Ok(self.last)
    }

    /// The process that is called `pid`, as it stands in the document.
    pub(super) fn process(&mut self, pid: &[u8]) -> Result<usize> {
        let pid = if pid.is_empty() { b"0" } else { pid };
        if let Some(&index) = self.by_pid.get(pid) {
            return Ok(index);
        }
        let track = self.track()?;
        self.by_pid.insert(pid.to_vec(), self.processes.len());
        self.processes.push(Named { track, raw: pid.to_vec(), ..Named::default() });
        Ok(self.processes.len() - 1)
    }

    /// The lane `tid` of process `pid`.
    pub(super) fn lane(&mut self, pid: &[u8], tid: &[u8]) -> Result<usize> {
        if let Some((last_pid, last_tid, index)) = &self.recent
            && last_pid == pid
            && last_tid == tid
        {
            return Ok(*index);
        }
        let process = self.process(pid)?;
        let key = (process, if tid.is_empty() { b"0".to_vec() } else { tid.to_vec() });
        let index = match self.by_tid.get(&key) {
            Some(&index) => index,
            None => {
                let track = self.track()?;
                let raw = key.1.clone();
                self.by_tid.insert(key, self.lanes.len());
                self.lanes.push(Named { track, raw, process, ..Named::default() });
                self.lanes.len() - 1
            }
        };
        self.recent = Some((pid.to_vec(), tid.to_vec(), index));
        Ok(index)
    }

    /// The track of a counter of a process.
    pub(super) fn counter(&mut self, process: usize, name: Vec<u8>) -> Result<u64> {
        if let Some(&track) = self.by_counter.get(&(process, name.clone())) {
            return Ok(track);
        }
        let track = self.track()?;
        self.by_counter.insert((process, name.clone()), track);
        self.counters.push((track, process, name));
        Ok(track)
    }

    /// A track beside a lane.
    pub(super) fn beside(&mut self, lane: usize, level: usize) -> Result<Named> {
        let track = self.track()?;
        let Named { process, sort, ref name, ref raw, .. } = self.lanes[lane];
        let name = name.clone().unwrap_or_else(|| format!("lane {}", String::from_utf8_lossy(raw)));
        let name = Some(format!("{name} (overlap {level})"));
        let number = TOP - (track as u32).min(SPARE - 1);
        Ok(Named { track, number, name, sort, process, ..Named::default() })
    }

    /// Gives everything its number: its own if that is one that Perfetto takes.
    pub(super) fn number(&mut self) {
        let mut next = 0;
        for list in [&mut self.processes, &mut self.lanes] {
            let mut used: HashSet<(usize, u32)> = HashSet::new();
            for named in list.iter_mut() {
                let own = std::str::from_utf8(&named.raw).ok().and_then(|raw| raw.parse().ok());
                match own {
                    Some(number @ 1..=LAST) if number != packet::FOR_0 && used.insert((named.process, number)) => {
                        named.number = number;
                    }
                    Some(0) if used.insert((named.process, packet::FOR_0)) => named.number = packet::FOR_0,
                    _ => {}
                }
            }
            for named in list.iter_mut().filter(|named| named.number == 0) {
                named.number = TOP - SPARE - next;
                next += 1;
                if named.name.is_none() {
                    named.name = Some(match named.raw.first() {
                        Some(b'"') => json::decode(&named.raw),
                        _ => String::from_utf8_lossy(&named.raw).into_owned(),
                    });
                }
            }
        }
    }
}

const TOP: u32 = i32::MAX as u32;
/// Numbers at the top for tracks beside lanes.
const SPARE: u32 = 8 << 20;
/// The last number that is kept.
const LAST: u32 = TOP - 2 * SPARE;
