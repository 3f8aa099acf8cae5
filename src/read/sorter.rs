//! Records sorted in bounded memory: runs of them are sorted and put into a temporary file, and merged when read.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;

use super::reader::nameless_file;
use crate::error::{Error, Result};

/// Bytes of all runs that are read ahead, and of one at least.
const AHEAD: usize = 8 << 20;
const LEAST: usize = 4 << 10;

/// What is sorted, by its words.
pub(crate) type Record<const N: usize> = [u64; N];

/// Takes records in any order.
#[derive(Debug)]
pub(crate) struct Sorter<const N: usize> {
    held: Vec<Record<N>>,
    most: usize,
    file: Option<File>,
    /// How many records each run in the file has.
    runs: Vec<usize>,
}

fn failed(error: std::io::Error) -> Error {
    Error::io("sort events in a temporary file in", &std::env::temp_dir())(error)
}

impl<const N: usize> Sorter<N> {
    /// `bytes`: memory for the records.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { held: Vec::new(), most: (bytes / (8 * N)).max(2), file: None, runs: Vec::new() }
    }

    pub(crate) fn push(&mut self, record: Record<N>) -> Result<()> {
        if self.held.len() == self.most {
            self.spill()?;
        }
        if self.held.len() == self.held.capacity() {
            // No further than it may come.
            self.held.reserve_exact(self.held.len().max(1 << 10).min(self.most - self.held.len()));
        }
        self.held.push(record);
        Ok(())
    }

    fn spill(&mut self) -> Result<()> {
        self.held.sort_unstable();
        if self.file.is_none() {
            self.file = Some(nameless_file()?);
        }
        let Some(file) = &mut self.file else { return Ok(()) };
        let mut bytes = Vec::with_capacity(64 << 10);
        for records in self.held.chunks((64 << 10) / (8 * N)) {
            bytes.clear();
            bytes.extend(records.iter().flatten().flat_map(|word| word.to_le_bytes()));
            file.write_all(&bytes).map_err(failed)?;
        }
        self.runs.push(self.held.len());
        self.held.clear();
        Ok(())
    }

    /// All records in order.
    pub(crate) fn sorted(mut self) -> Result<Sorted<N>> {
        if self.runs.is_empty() {
            self.held.sort_unstable();
            return Ok(Sorted { held: self.held.into_iter(), file: None, runs: Vec::new(), heads: BinaryHeap::new() });
        }
        self.spill()?;
        let size = 8 * N;
        let ahead = (AHEAD.min(self.most * size) / self.runs.len()).max(LEAST) / size * size;
        let mut offset = 0;
        let runs = self.runs.iter().map(|&count| {
            let start = offset;
            offset += (count * size) as u64;
            Run { next: start, end: offset, bytes: Vec::new(), at: 0, ahead }
        });
        let mut sorted =
            Sorted { held: Vec::new().into_iter(), file: self.file, runs: runs.collect(), heads: BinaryHeap::new() };
        for run in 0..sorted.runs.len() {
            sorted.advance(run)?;
        }
        Ok(sorted)
    }
}

/// A run in the file, being read.
#[derive(Debug)]
struct Run {
    next: u64,
    end: u64,
    bytes: Vec<u8>,
    at: usize,
    ahead: usize,
}

/// Gives records in order.
#[derive(Debug)]
pub(crate) struct Sorted<const N: usize> {
    held: std::vec::IntoIter<Record<N>>,
    file: Option<File>,
    runs: Vec<Run>,
    /// The next record of each run.
    heads: BinaryHeap<Reverse<(Record<N>, usize)>>,
}

impl<const N: usize> Sorted<N> {
    pub(crate) fn next(&mut self) -> Result<Option<Record<N>>> {
        if self.file.is_none() {
            return Ok(self.held.next());
        }
        let Some(Reverse((record, run))) = self.heads.pop() else { return Ok(None) };
        self.advance(run)?;
        Ok(Some(record))
    }

    /// Puts the next record of a run among the heads.
    fn advance(&mut self, index: usize) -> Result<()> {
        let (Some(file), Some(run)) = (&self.file, self.runs.get_mut(index)) else { return Ok(()) };
        if run.at == run.bytes.len() {
            run.bytes.resize((run.end - run.next).min(run.ahead as u64) as usize, 0);
            file.read_exact_at(&mut run.bytes, run.next).map_err(failed)?;
            run.next += run.bytes.len() as u64;
            run.at = 0;
        }
        let Some(bytes) = run.bytes.get(run.at..run.at + 8 * N) else { return Ok(()) };
        run.at += 8 * N;
        let mut record = [0; N];
        for (word, bytes) in record.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("a chunk of 8 bytes"));
        }
        self.heads.push(Reverse((record, index)));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_come_in_order_whatever_the_memory() {
        let records: Vec<[u64; 2]> = (0..1000u64).map(|i| [i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 97, i]).collect();
        let mut expected = records.clone();
        expected.sort_unstable();
        for bytes in [0, 33, 1600, 1 << 20] {
            let mut sorter = Sorter::new(bytes);
            records.iter().for_each(|&record| sorter.push(record).expect("room"));
            let mut sorted = sorter.sorted().expect("sorted");
            let mut got = Vec::new();
            while let Some(record) = sorted.next().expect("read") {
                got.push(record);
            }
            assert_eq!(got, expected, "{bytes}");
        }
        assert_eq!(Sorter::<2>::new(0).sorted().expect("sorted").next().expect("read"), None);
    }
}
