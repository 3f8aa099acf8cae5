//! One gzip member (RFC 1952) out of chunks that were compressed apart.
//!
//! Each chunk is a run of deflate blocks (RFC 1951) that ends at a byte boundary and refers to nothing before it, so
//! chunks can be made on any thread and joined by concatenation. The checksums are joined too.

use crc32fast::Hasher;
use flate2::{Compress, Compression, FlushCompress, Status};

use super::deflate::Encoder;
use crate::error::{Error, Result};

/// No name, no time (the same trace gives the same file), unknown system.
pub(super) const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];

/// A piece of the output, with what is needed to join it to the others.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) bytes: Vec<u8>,
    /// Length before compression.
    pub(super) raw_len: u64,
    crc: Option<Hasher>,
}

impl Chunk {
    pub(super) fn plain(bytes: Vec<u8>) -> Self {
        Self { raw_len: bytes.len() as u64, bytes, crc: None }
    }
}

/// Compresses chunks for one thread.
#[derive(Debug)]
pub(super) enum Deflater {
    /// Level 1: our own encoder.
    Fast(Box<Encoder>),
    /// The other levels.
    Library(Compress),
}

impl Deflater {
    pub(super) fn new(level: u32) -> Self {
        match level {
            0 | 1 => Deflater::Fast(Box::default()),
            level => Deflater::Library(Compress::new(Compression::new(level.min(9)), false)),
        }
    }

    /// Compresses `raw` into `out`, which is empty.
    pub(super) fn chunk(&mut self, raw: &[u8], mut out: Vec<u8>) -> Result<Chunk> {
        let mut crc = Hasher::new();
        crc.update(raw);
        match self {
            Deflater::Fast(encoder) => encoder.encode(raw, &mut out),
            Deflater::Library(compress) => library(compress, raw, &mut out)?,
        }
        Ok(Chunk { bytes: out, raw_len: raw.len() as u64, crc: Some(crc) })
    }
}

fn library(compress: &mut Compress, raw: &[u8], out: &mut Vec<u8>) -> Result<()> {
    compress.reset();
    out.reserve(raw.len() / 8 + 64);
    loop {
        let consumed = compress.total_in() as usize;
        let status = compress
            .compress_vec(&raw[consumed..], out, FlushCompress::Sync)
            .map_err(|error| Error::Internal(format!("deflate: {error}")))?;
        // A flush is complete once it leaves room in the output.
        let done = compress.total_in() as usize == raw.len() && out.len() < out.capacity();
        if done || status == Status::StreamEnd {
            return Ok(());
        }
        out.reserve(out.capacity().max(4096));
    }
}

/// The end of the member.
#[derive(Debug, Default)]
pub(super) struct Trailer {
    crc: Hasher,
    len: u64,
}

impl Trailer {
    pub(super) fn add(&mut self, chunk: &Chunk) {
        if let Some(crc) = &chunk.crc {
            self.crc.combine(crc);
        }
        self.len += chunk.raw_len;
    }

    /// Adds a piece of which only checksum and length are known.
    pub(super) fn add_known(&mut self, crc: u32, raw_len: u64) {
        self.crc.combine(&Hasher::new_with_initial_len(crc, raw_len));
        self.len += raw_len;
    }

    /// A last, empty block; the checksum; the length modulo 2^32.
    pub(super) fn bytes(&self) -> [u8; 10] {
        let mut bytes = [3, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        bytes[2..6].copy_from_slice(&self.crc.clone().finalize().to_le_bytes());
        bytes[6..].copy_from_slice(&(self.len as u32).to_le_bytes());
        bytes
    }
}
