//! How the commands write their output.

use clap::Args;

use crate::output::{Compression, WriteOptions};

#[derive(Debug, Args)]
pub(super) struct Compress {
    /// Compress, whatever the name of the output.
    #[arg(long)]
    gzip: bool,
    /// Gzip level, from fastest to smallest.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=9))]
    level: u32,
}

impl Compress {
    pub(super) fn options(&self) -> WriteOptions {
        let compression = if self.gzip { Compression::Gzip } else { Compression::Auto };
        WriteOptions { compression, level: self.level, ..WriteOptions::default() }
    }
}
