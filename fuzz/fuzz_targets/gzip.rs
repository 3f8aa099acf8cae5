//! What our encoder compresses, zlib-rs inflates to the same bytes: one member and nothing after it.
#![no_main]

use std::io::Read;

use libfuzzer_sys::fuzz_target;
use tptrace::output::{Compression, Job, Target, WriteOptions, write};

fuzz_target!(|data: &[u8]| {
    let Some((&head, body)) = data.split_first() else { return };
    // Repeated as the head says, so that matches run far and blocks fill up.
    let mut expected = body.repeat(1 + usize::from(head % 64) * 16);
    expected.truncate(256 << 10);
    // Not so many pieces that handing them round is all that takes time.
    let mut jobs = expected.chunks((1 + usize::from(head)).max(expected.len() / 32));
    let options = WriteOptions {
        compression: Compression::Gzip,
        level: 1,
        threads: 1 + usize::from(head % 3),
        ..WriteOptions::default()
    };
    let mut written = Vec::new();
    write(
        Target::Writer(&mut written),
        &options,
        None,
        0,
        || Ok(jobs.next().map(|item| Job { item, units: 0 })),
        || {
            |piece: &[u8], out: &mut Vec<u8>| {
                out.extend_from_slice(piece);
                Ok(())
            }
        },
    )
    .expect("written");
    let mut decoder = flate2::bufread::GzDecoder::new(&written[..]);
    let mut inflated = Vec::new();
    decoder.read_to_end(&mut inflated).expect("gzip");
    assert!(decoder.into_inner().is_empty());
    assert_eq!(inflated, expected);
});
