//! Encoded events that wait to be picked up in another order.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use crate::error::{Error, Result};
use crate::read::reader::nameless_file;

/// Bytes that are kept in memory, and read ahead.
const HELD: usize = 32 << 20;
const AHEAD: usize = 64 << 10;

fn failed(error: std::io::Error) -> Error {
    Error::io("keep events in a temporary file in", &std::env::temp_dir())(error)
}

/// Items one after the other, found again by where they start.
#[derive(Debug, Default)]
pub(super) struct Spool {
    held: Vec<u8>,
    /// Where what is held starts.
    start: u64,
    file: Option<File>,
    window: Vec<u8>,
    window_at: u64,
}

impl Spool {
    /// Adds an item and answers where it starts.
    pub(super) fn push(&mut self, item: &[u8]) -> Result<u64> {
        if self.held.len() >= HELD {
            if self.file.is_none() {
                self.file = Some(nameless_file()?);
            }
            if let Some(file) = &mut self.file {
                file.write_all(&self.held).map_err(failed)?;
                self.start += self.held.len() as u64;
                self.held.clear();
            }
        }
        let at = self.start + self.held.len() as u64;
        self.held.extend_from_slice(&(item.len() as u32).to_le_bytes());
        self.held.extend_from_slice(item);
        Ok(at)
    }

    /// The item that starts at `at`.
    pub(super) fn get(&mut self, at: u64, item: &mut Vec<u8>) -> Result<()> {
        let mut length = [0; 4];
        self.read(at, &mut length)?;
        item.clear();
        item.resize(u32::from_le_bytes(length) as usize, 0);
        self.read(at + 4, item)
    }

    fn read(&mut self, at: u64, into: &mut [u8]) -> Result<()> {
        if at >= self.start {
            let at = (at - self.start) as usize;
            into.copy_from_slice(&self.held[at..at + into.len()]);
            return Ok(());
        }
        let Some(file) = &self.file else { return Ok(()) };
        let inside = |window: &[u8], window_at: u64| {
            at >= window_at && at + into.len() as u64 <= window_at + window.len() as u64
        };
        if !inside(&self.window, self.window_at) {
            if into.len() > AHEAD {
                return file.read_exact_at(into, at).map_err(failed);
            }
            self.window.resize(AHEAD.min((self.start - at) as usize), 0);
            file.read_exact_at(&mut self.window, at).map_err(failed)?;
            self.window_at = at;
        }
        let from = (at - self.window_at) as usize;
        into.copy_from_slice(&self.window[from..from + into.len()]);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn items_come_back_in_any_order() {
        let mut spool = Spool::default();
        let item = |n: usize| vec![n as u8; if n % 100 == 7 { 100_000 } else { n % 5000 }];
        let places: Vec<u64> = (0..20_000).map(|n| spool.push(&item(n)).expect("room")).collect();
        assert!(spool.file.is_some());
        let mut got = Vec::new();
        for n in (0..20_000).step_by(3).chain((0..20_000).rev().step_by(7)) {
            spool.get(places[n], &mut got).expect("read");
            assert!(got == item(n), "{n}");
        }
    }
}
