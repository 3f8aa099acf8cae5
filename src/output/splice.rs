//! One document out of text and of pieces that were compressed elsewhere, which are copied as they are.

use std::io::{self, Read};

use super::Written;
use super::gzip::{Deflater, HEADER, Trailer};
use super::pipeline::Delivery;
use crate::error::Result;

/// Bytes that are copied at a time.
const STEP: usize = 256 << 10;

/// What stands before and after the deflate blocks of a gzip member that [`super::write`] made: the header; a last,
/// empty block, the checksum and the length.
const BEFORE: u64 = HEADER.len() as u64;
const AFTER: u64 = 10;

/// A gzip member that [`super::write`] made, to be read from its start.
pub(crate) struct Member<'r> {
    pub(crate) reader: &'r mut dyn Read,
    /// Bytes of the member.
    pub(crate) stored: u64,
    /// Bytes of what it holds.
    pub(crate) raw: u64,
    /// What a damaged or unreadable one is called; the number is a byte of the member.
    pub(crate) failed: &'r dyn Fn(u64, io::Error) -> crate::Error,
}

/// Writes the document.
pub(crate) struct Splice<'d, 't, 'p> {
    delivery: &'d mut Delivery<'t, 'p>,
    deflater: Option<Deflater>,
    trailer: Trailer,
}

impl<'d, 't, 'p> Splice<'d, 't, 'p> {
    pub(super) fn new(delivery: &'d mut Delivery<'t, 'p>, level: Option<u32>) -> Result<Self> {
        if level.is_some() {
            delivery.bytes(&HEADER)?;
        }
        Ok(Self { delivery, deflater: level.map(Deflater::new), trailer: Trailer::default() })
    }

    /// Adds text.
    pub(crate) fn text(&mut self, text: &[u8]) -> Result<()> {
        for piece in text.chunks(1 << 20) {
            match &mut self.deflater {
                None => self.delivery.bytes(piece)?,
                Some(deflater) => {
                    let chunk = deflater.chunk(piece, Vec::new())?;
                    self.delivery.bytes(&chunk.bytes)?;
                    self.trailer.add(&chunk);
                }
            }
            self.delivery.so_far.bytes += piece.len() as u64;
        }
        Ok(())
    }

    /// Adds what a member holds. `done`: its share of the work.
    pub(crate) fn member(&mut self, member: Member<'_>, done: u64) -> Result<()> {
        let Member { reader, stored, raw, failed } = member;
        let short = || io::Error::new(io::ErrorKind::InvalidData, "it is no gzip member of this library");
        let mut edges = [0; 10];
        let Some(body) = stored.checked_sub(BEFORE + AFTER) else { return Err(failed(0, short())) };
        let mut buffer = vec![0; STEP];
        if self.deflater.is_some() {
            reader.read_exact(&mut edges).map_err(|error| failed(0, error))?;
            if edges != HEADER {
                return Err(failed(0, short()));
            }
            let mut left = body;
            while left > 0 {
                let piece = &mut buffer[..left.min(STEP as u64) as usize];
                reader.read_exact(piece).map_err(|error| failed(stored - AFTER - left, error))?;
                self.delivery.bytes(piece)?;
                self.delivery.report()?;
                left -= piece.len() as u64;
            }
            reader.read_exact(&mut edges).map_err(|error| failed(stored - AFTER, error))?;
            let [3, 0, crc @ .., a, b, c, d] = edges else { return Err(failed(stored - AFTER, short())) };
            if u32::from_le_bytes([a, b, c, d]) != raw as u32 {
                return Err(failed(stored - 4, short()));
            }
            self.trailer.add_known(u32::from_le_bytes(crc), raw);
            self.delivery.so_far.bytes += raw;
        } else {
            let mut inflate = flate2::read::GzDecoder::new(reader.take(stored));
            let mut total = 0;
            loop {
                let got = match inflate.read(&mut buffer) {
                    Ok(got) => got,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) => return Err(failed(0, error)),
                };
                if got == 0 {
                    break;
                }
                total += got as u64;
                self.delivery.bytes(&buffer[..got])?;
                self.delivery.so_far.bytes += got as u64;
                self.delivery.report()?;
            }
            if total != raw {
                return Err(failed(0, short()));
            }
        }
        self.delivery.so_far.done += done;
        self.delivery.report()
    }

    pub(super) fn finish(self) -> Result<Written> {
        if self.deflater.is_some() {
            self.delivery.bytes(&self.trailer.bytes())?;
        }
        Ok(Written { bytes: self.delivery.so_far.bytes, written: self.delivery.so_far.written })
    }
}
