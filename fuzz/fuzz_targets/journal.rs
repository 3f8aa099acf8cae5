//! Whatever a journal says, recovering it ends with a document or an error. Each block of the input gets its checksum, so
//! that the fuzzer gets past it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tptrace::journal::recover;
use tptrace::output::Target;
use tptrace::{ExportOptions, Format};

const MAGIC: &[u8] = b"tptrace journal 1\n";

/// Blocks from pieces: kind, length in two bytes, contents.
fn journal(mut data: &[u8]) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    while let Some((&[kind, low, high], rest)) = data.split_first_chunk() {
        let length = usize::from(u16::from_le_bytes([low, high])).min(rest.len());
        let (contents, rest) = rest.split_at(length);
        let start = out.len();
        out.extend_from_slice(&[kind, 0, 0, 0]);
        out.extend_from_slice(&(length as u32).to_le_bytes());
        let mut sum = crc32fast::Hasher::new();
        sum.update(&out[start..]);
        sum.update(contents);
        out.extend_from_slice(&sum.finalize().to_le_bytes());
        out.extend_from_slice(contents);
        data = rest;
    }
    out
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, data)) = data.split_first() else { return };
    let folder = std::path::Path::new(if cfg!(target_os = "linux") { "/dev/shm" } else { "/tmp" });
    let file = tempfile::NamedTempFile::new_in(folder).expect("a file");
    // The real ones as they are.
    let bytes = if data.starts_with(MAGIC) { data.to_vec() } else { journal(data) };
    std::fs::write(file.path(), &bytes).expect("written");
    let format = if choice & 1 == 0 { Format::Torch } else { Format::Plain };
    let options = ExportOptions { format, ..ExportOptions::default() };
    let mut out = Vec::new();
    match recover(file.path(), Target::Writer(&mut out), &options, None) {
        Ok((report, _)) => {
            serde_json::from_slice::<serde_json::Value>(&out).expect("strict JSON");
            assert_eq!(report.journal_bytes + report.cut_bytes, bytes.len() as u64);
        }
        Err(error) => assert!(out.is_empty(), "{error}"),
    }
});
