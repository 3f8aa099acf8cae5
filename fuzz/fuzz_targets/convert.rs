//! Any bytes turned into Perfetto's format: an error, or packets that hold together, one for each event that was counted.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tptrace::Error;
use tptrace::merge::Input;
use tptrace::merge::convert::{ConvertReport, ConvertTo, convert};
use tptrace::output::{Target, WriteOptions};

fn converted(data: &[u8], to: ConvertTo) -> Result<(Vec<u8>, ConvertReport), Error> {
    let input = Input::Reader { name: "trace".into(), reader: Box::new(std::io::Cursor::new(data.to_vec())) };
    let write = WriteOptions { threads: 1, ..WriteOptions::default() };
    let mut out = Vec::new();
    let report = convert(input, Target::Writer(&mut out), to, &write, None)?;
    Ok((out, report))
}

fn varint(bytes: &mut &[u8]) -> u64 {
    let mut value = 0;
    for at in 0..10 {
        let (&byte, rest) = bytes.split_first().expect("a whole varint");
        *bytes = rest;
        value |= u64::from(byte & 127) << (7 * at);
        if byte < 128 {
            return value;
        }
    }
    panic!("a varint of more than ten bytes");
}

/// The fields of a message: numbers, and contents of those that have a length.
fn fields(mut bytes: &[u8]) -> Vec<(u64, &[u8])> {
    let mut all = Vec::new();
    while !bytes.is_empty() {
        let key = varint(&mut bytes);
        let length = match key & 7 {
            0 => {
                varint(&mut bytes);
                0
            }
            1 => 8,
            2 => usize::try_from(varint(&mut bytes)).expect("a length"),
            5 => 4,
            other => panic!("wire type {other}"),
        };
        let (content, rest) = bytes.split_at(length);
        bytes = rest;
        all.push((key >> 3, content));
    }
    all
}

fuzz_target!(|data: &[u8]| {
    match converted(data, ConvertTo::Json) {
        Ok((same, _)) => assert!(data.starts_with(&[0x1f, 0x8b]) || same == data),
        Err(error) => assert!(matches!(error, Error::Malformed { .. }), "{error}"),
    }
    let (trace, report) = match converted(data, ConvertTo::Perfetto) {
        Ok(done) => done,
        Err(error) => return assert!(matches!(error, Error::Malformed { .. } | Error::Limit { .. }), "{error}"),
    };
    assert_eq!(trace.len() as u64, report.written.bytes);
    let mut events = 0;
    for (number, packet) in fields(&trace) {
        assert_eq!(number, 1, "a trace is packets");
        for (number, content) in fields(packet) {
            // A track event; one more stands for the document.
            if number == 11 {
                events += 1;
                fields(content);
            }
        }
    }
    assert!(events <= 2 * report.events + 1, "{events} packets for {} events", report.events);
});
