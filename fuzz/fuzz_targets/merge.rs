//! The merge scanner on any bytes: an error that names a byte, or strict JSON in which a valid input's events all are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use tptrace::Error;
use tptrace::merge::{Input, Limits, MergeOptions, merge};
use tptrace::output::{Target, WriteOptions};

fn merged(data: &[u8], options: &MergeOptions) -> Result<Value, Error> {
    let input = |name: &str| Input::Reader { name: name.into(), reader: Box::new(std::io::Cursor::new(data.to_vec())) };
    let mut out = Vec::new();
    let report = merge(vec![input("first"), input("second")], Target::Writer(&mut out), options, None)?;
    let document: Value = serde_json::from_slice(&out).expect("strict JSON");
    assert!(report.kept() as usize <= document["traceEvents"].as_array().expect("events").len());
    Ok(document)
}

/// The events of a document that serde_json accepts.
fn events(data: &[u8]) -> Option<Vec<Value>> {
    let data = data.strip_prefix(b"\xef\xbb\xbf").unwrap_or(data);
    match serde_json::from_slice(data).ok()? {
        Value::Array(events) => Some(events),
        Value::Object(mut document) => match document.remove("traceEvents") {
            Some(Value::Array(events)) => Some(events),
            _ => None,
        },
        _ => None,
    }
}

fuzz_target!(|data: &[u8]| {
    let limits = Limits { event_bytes: 1 << 20, metadata_bytes: 1 << 16, ..Limits::default() };
    let write = WriteOptions { threads: 1, ..WriteOptions::default() };
    let base = MergeOptions { limits, write, ..MergeOptions::default() };
    let verbatim = merged(data, &MergeOptions { verbatim: true, ..base.clone() });
    let normal = merged(data, &base);
    match merged(data, &MergeOptions { salvage: true, ..base }) {
        // Even salvage refuses what is no document at all.
        Ok(_) | Err(Error::Malformed { .. } | Error::Limit { .. }) => {}
        Err(error) => panic!("salvage: {error}"),
    }
    for result in [&verbatim, &normal] {
        if let Err(error) = result {
            assert!(matches!(error, Error::Malformed { .. } | Error::Limit { .. }), "{error}");
        }
    }
    let (Some(expected), Ok(verbatim)) = (events(data), verbatim) else { return };
    let got = verbatim["traceEvents"].as_array().expect("events");
    assert_eq!(got.len(), 2 * expected.len());
    for (before, after) in expected.iter().chain(&expected).zip(got) {
        let (mut before, mut after) = (before.clone(), after.clone());
        before.as_object_mut().and_then(|event| event.remove("pid"));
        after.as_object_mut().and_then(|event| event.remove("pid"));
        assert_eq!(before, after);
    }
});
