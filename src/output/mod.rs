//! Bytes to a file: the pipeline that makes them in parallel and in order, gzip, and the atomic replace.
//!
//! The exporter and the merger describe their document as an ordered sequence of jobs. [`write()`] runs the
//! jobs on several threads, compresses what they print, and hands the results in order to the target from
//! the calling thread. Memory is bounded by the number of jobs in flight, not by the document.
#![forbid(unsafe_code)]

mod deflate;
mod file;
mod gzip;
mod huffman;
mod pipeline;
mod splice;

use std::io;
use std::path::Path;

use crate::error::{Error, Result};
pub(crate) use file::Pending;
use pipeline::Delivery;
pub(crate) use splice::{Member, Splice};

/// Threads unless told otherwise: each holds some megabytes, and a disk takes what a few of them make.
const DEFAULT_THREADS: usize = 8;

/// More would only wait for the one that writes.
const MAX_THREADS: usize = 32;

/// Whether the document is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Gzip if the path ends in `.gz`, else none. None for a writer.
    #[default]
    Auto,
    /// Plain bytes, whatever the path.
    None,
    /// One gzip member, whatever the path.
    Gzip,
}

/// How a document is written.
#[derive(Debug, Clone)]
pub struct WriteOptions {
    /// Whether the document is compressed.
    pub compression: Compression,
    /// Gzip level from 1 (fastest) to 9 (smallest). Level 1 is the default: the size differs little, the time much.
    pub level: u32,
    /// Wait until the file and its folder entry are on the disk.
    pub fsync: bool,
    /// Threads that format and compress, the calling one included, at most 32; 0 means one per available core, at most 8.
    pub threads: usize,
}

impl Default for WriteOptions {
    fn default() -> Self {
        Self { compression: Compression::Auto, level: 1, fsync: false, threads: 0 }
    }
}

/// Where the bytes go.
pub enum Target<'a> {
    /// A file, replaced as a whole once everything was written; on failure the old file stays as it was.
    /// A target that is not a regular file (a pipe, `/dev/stdout`) is written directly.
    File(&'a Path),
    /// Any writer. It is called on the thread that called [`write()`].
    Writer(&'a mut dyn io::Write),
}

/// How far a write has come.
#[derive(Debug, Clone, Copy, Default)]
pub struct Progress {
    /// Work finished, in the units that the jobs declared.
    pub done: u64,
    /// All the work there is, in the same units; 0 if unknown.
    pub total: u64,
    /// Bytes of document made so far, before compression.
    pub bytes: u64,
    /// Bytes handed to the target so far.
    pub written: u64,
    /// Inputs of a merge that were read to their end.
    pub files: u64,
    /// Events of a merge that were written.
    pub events: u64,
}

/// Called on the calling thread now and then; answers whether to go on.
pub type OnProgress<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// What was written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Written {
    /// Bytes of document, before compression.
    pub bytes: u64,
    /// Bytes handed to the target.
    pub written: u64,
}

/// One piece of the document and the amount of work it stands for.
#[derive(Debug)]
pub struct Job<J> {
    /// What the worker gets.
    pub item: J,
    /// Its share of [`Progress::total`].
    pub units: u64,
}

/// Makes a document out of ordered jobs and writes it to `target`.
///
/// * `total`: the work of all jobs, for the progress reports; 0 if unknown.
/// * `next`: gives the jobs in document order; called by one thread at a time.
/// * `worker`: makes the state of one thread: a closure that appends one job's bytes to a buffer. A job should
///   make about 1 MiB: it is also the unit of compression.
///
/// # Errors
/// The first error of `next` or of a worker in document order, [`crate::Error::Io`] from the target, or
/// [`crate::Error::Cancelled`]. The target file is then as it was before.
pub fn write<J, N, W, M>(
    target: Target<'_>,
    options: &WriteOptions,
    progress: Option<OnProgress<'_>>,
    total: u64,
    next: N,
    worker: M,
) -> Result<Written>
where
    J: Send,
    N: FnMut() -> Result<Option<Job<J>>> + Send,
    W: FnMut(J, &mut Vec<u8>) -> Result<()>,
    M: Fn() -> W + Sync,
{
    write_then(target, options, progress, total, next, worker, |_| Vec::new())
}

/// As [`write()`], with more bytes after the document: `after` gives them as they are to be stored.
pub(crate) fn write_then<J, N, W, M>(
    target: Target<'_>,
    options: &WriteOptions,
    progress: Option<OnProgress<'_>>,
    total: u64,
    next: N,
    worker: M,
    after: impl FnOnce(&Written) -> Vec<u8>,
) -> Result<Written>
where
    J: Send,
    N: FnMut() -> Result<Option<Job<J>>> + Send,
    W: FnMut(J, &mut Vec<u8>) -> Result<()>,
    M: Fn() -> W + Sync,
{
    let threads = match options.threads {
        0 => std::thread::available_parallelism().map_or(1, usize::from).min(DEFAULT_THREADS),
        some => some.min(MAX_THREADS),
    };
    deliver(target, options, progress, total, |delivery, level| {
        let written = pipeline::run(delivery, level, threads, next, worker)?;
        delivery.bytes(&after(&written))?;
        Ok(Written { written: delivery.so_far.written, ..written })
    })
}

/// Writes a document of which parts are compressed already. `parts` hands them to the splice, in order.
pub(crate) fn splice(
    target: Target<'_>,
    options: &WriteOptions,
    progress: Option<OnProgress<'_>>,
    total: u64,
    parts: impl FnOnce(&mut Splice<'_, '_, '_>) -> Result<()>,
) -> Result<Written> {
    deliver(target, options, progress, total, |delivery, level| {
        let mut splice = Splice::new(delivery, level)?;
        parts(&mut splice)?;
        splice.finish()
    })
}

/// Opens the target, lets `make` write to it, and puts it in place.
fn deliver(
    target: Target<'_>,
    options: &WriteOptions,
    progress: Option<OnProgress<'_>>,
    total: u64,
    make: impl FnOnce(&mut Delivery<'_, '_>, Option<u32>) -> Result<Written>,
) -> Result<Written> {
    let gzip = match (options.compression, &target) {
        (Compression::Auto, Target::File(path)) => path.as_os_str().as_encoded_bytes().ends_with(b".gz"),
        (Compression::Auto, Target::Writer(_)) | (Compression::None, _) => false,
        (Compression::Gzip, _) => true,
    };
    if !(1..=9).contains(&options.level) {
        return Err(Error::invalid(format!("{} is not a gzip level from 1 to 9", options.level)));
    }
    let level = gzip.then_some(options.level);
    let so_far = Progress { total, ..Progress::default() };
    match target {
        Target::Writer(writer) => {
            let failed = |error| Error::Io { action: "write", path: "the output".into(), source: error };
            let mut delivery = Delivery { target: writer, failed: &failed, progress, so_far };
            let written = make(&mut delivery, level)?;
            writer.flush().map_err(failed)?;
            Ok(written)
        }
        Target::File(path) => {
            let mut pending = Pending::create(path)?;
            let failed = |error: io::Error| Error::Io { action: "write", path: path.to_path_buf(), source: error };
            let mut delivery = Delivery { target: pending.file(), failed: &failed, progress, so_far };
            let written = make(&mut delivery, level)?;
            pending.commit(options.fsync)?;
            Ok(written)
        }
    }
}
