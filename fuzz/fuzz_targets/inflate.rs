//! A document in gzip members: whole, it reads as it does plain; damaged, it ends with an error or with what came before.
#![no_main]

use std::io::Write;

use libfuzzer_sys::fuzz_target;
use tptrace::Error;
use tptrace::merge::{Input, Limits, MergeOptions, cut};
use tptrace::output::{Target, WriteOptions};

fn read(data: &[u8], salvage: bool) -> Result<Vec<u8>, Error> {
    let limits = Limits { event_bytes: 1 << 20, metadata_bytes: 1 << 16, ..Limits::default() };
    let write = WriteOptions { threads: 1, ..WriteOptions::default() };
    let options = MergeOptions { salvage, limits, write, ..MergeOptions::default() };
    let input = Input::Reader { name: "trace".into(), reader: Box::new(std::io::Cursor::new(data.to_vec())) };
    let mut out = Vec::new();
    cut(input, Target::Writer(&mut out), &options, None)?;
    Ok(out)
}

/// One member, with a name and a comment in its header if wanted.
fn member(bytes: &[u8], level: u32, named: bool, out: &mut Vec<u8>) {
    let mut header = flate2::GzBuilder::new();
    if named {
        header = header.filename("trace.json").comment("of a test").extra(b"TP\x02\x00ab".to_vec());
    }
    let mut encoder = header.write(out, flate2::Compression::new(level));
    encoder.write_all(bytes).expect("compressed");
    encoder.finish().expect("finished");
}

fuzz_target!(|data: &[u8]| {
    let [how, members, at_low, at_high, change, tail, document @ ..] = data else { return };
    // Of bytes that say they are something else, the same cannot be expected.
    if document.is_empty() || document.starts_with(&[0x1f, 0x8b]) {
        return;
    }
    let pieces = document.chunks(document.len().div_ceil(1 + usize::from(members % 4)));
    let mut packed = Vec::new();
    for piece in pieces {
        member(piece, u32::from(how % 10), how & 64 != 0, &mut packed);
        // An empty one between them changes nothing.
        if how & 128 != 0 {
            member(&[], 1, false, &mut packed);
        }
    }
    // Nor do zeros behind them.
    packed.resize(packed.len() + usize::from(tail % 8), 0);
    let plain = read(document, false);
    match (&plain, read(&packed, false)) {
        (Ok(plain), Ok(inflated)) => assert_eq!(*plain, inflated),
        (Err(plain), Err(inflated)) => assert_eq!(plain.to_string(), inflated.to_string()),
        (plain, inflated) => panic!("plain: {plain:?}, inflated: {inflated:?}"),
    }
    let at = usize::from(u16::from_le_bytes([*at_low, *at_high])) % packed.len();
    if *change == 0 {
        packed.truncate(at);
    } else {
        packed[at] ^= change;
    }
    for salvage in [false, true] {
        match read(&packed, salvage) {
            Ok(document) => {
                serde_json::from_slice::<serde_json::Value>(&document).expect("strict JSON");
            }
            Err(error) => assert!(matches!(error, Error::Malformed { .. } | Error::Limit { .. }), "{error}"),
        }
    }
});
