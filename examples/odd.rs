//! Writes traces at the edges of what readers take: huge ids, odd names, nothing at all, times before the base. The
//! tests show them to the real readers.
//!
//!     cargo run --release --example odd -- FOLDER

use std::path::Path;

use tptrace::{
    Arg, Counter, ExportOptions, Format, GpuActivity, GpuKind, Int, Op, OpKind, Result, Trace, TraceOptions, Value,
};

const FORMATS: [(&str, Format); 3] =
    [("plain.json", Format::Plain), ("torch.json", Format::Torch), ("pftrace", Format::Perfetto)];

fn write(folder: &Path, name: &str, trace: &Trace) -> Result<()> {
    for (kind, format) in FORMATS {
        let path = folder.join(format!("{name}.{kind}"));
        trace.write(path, &ExportOptions { format, ..ExportOptions::default() })?;
    }
    Ok(())
}

fn kernel(start_ns: i64, end_ns: i64, correlation: u64, op: u64) -> GpuActivity<'static> {
    GpuActivity {
        name: "kernel".into(),
        start_ns,
        end_ns,
        stream: 7,
        correlation_id: Int::Unsigned(correlation),
        external_id: Some(Int::Unsigned(op)),
        ..GpuActivity::default()
    }
}

fn launch(start_ns: i64, correlation: u64, op: u64) -> GpuActivity<'static> {
    GpuActivity {
        name: "cudaLaunchKernel".into(),
        kind: GpuKind::Runtime,
        end_ns: start_ns + 10,
        os_thread: u64::MAX,
        ..kernel(start_ns, 0, correlation, op)
    }
}

fn huge_ids() -> Result<Trace> {
    let trace = Trace::new(&TraceOptions { base_ns: Some(0), ..TraceOptions::default() });
    let ids = [1, (1 << 53) + 1, (1 << 63) - 1, 1 << 63, u64::MAX - 1];
    for (at, &id) in (0..).zip(&ids) {
        let start_ns = 10_000 * at;
        trace.add_op(&Op {
            name: "op".into(),
            start_ns,
            end_ns: start_ns + 1_000,
            thread_id: id,
            id: Some(id),
            ..Op::default()
        })?;
        trace.add_gpu(&launch(start_ns + 100, id, id))?;
        trace.add_gpu(&kernel(start_ns + 2_000, start_ns + 3_000, id, id))?;
    }
    Ok(trace)
}

fn odd_names() -> Result<Trace> {
    let trace = Trace::new(&TraceOptions { base_ns: Some(0), ..TraceOptions::default() });
    trace.set_process_name("\u{1F600} \"process\"");
    let names: [&[u8]; 8] = [
        "\u{1F600} emoji".as_bytes(),
        b"quote \" backslash \\ slash /",
        b"newline \n tab \t return \r",
        b"control \x01 \x1f delete \x7f",
        b"nul \0 inside",
        b"bad \xff\xfe\xed\xa0\x80 UTF-8",
        b"",
        "\u{65E5}\u{672C} \u{2028}".as_bytes(),
    ];
    for (at, &name) in (0..).zip(&names) {
        let args = [Arg { key: name.into(), value: Value::Text(name.into()) }];
        let start_ns = 1_000 * at;
        trace.add_op(&Op { name: name.into(), start_ns, end_ns: start_ns + 500, args: &args, ..Op::default() })?;
        let values = [Arg { key: name.into(), value: Value::Float(0.5) }];
        trace.add_counter(&Counter { name: name.into(), time_ns: start_ns, values: &values })?;
    }
    Ok(trace)
}

/// Activities before the base, flows against the clock, correlation ids that several share or that are 0.
fn odd_times() -> Result<Trace> {
    let trace = Trace::new(&TraceOptions { base_ns: Some(1_000_000), ..TraceOptions::default() });
    for at in 0..20 {
        let start_ns = 900_000 + 10_000 * at;
        let name = "op".into();
        let op = trace.add_op(&Op { name, start_ns, end_ns: start_ns + 5_000, thread_id: 0, ..Op::default() })?;
        let shared = if at % 3 == 0 { 0 } else { 5 };
        trace.add_gpu(&launch(start_ns + 100, shared, op))?;
        // GPU clocks run ahead at times.
        trace.add_gpu(&kernel(start_ns - 3_000, start_ns + if at % 2 == 0 { 2_000 } else { -1_000 }, shared, op))?;
    }
    // Children that were reported before their parents, a slice that takes no time, one that ends before it starts.
    for (name, start_ns, end_ns) in [("child", 2_000_100, 2_000_200), ("parent", 2_000_000, 2_001_000)] {
        trace.add_op(&Op { name: name.into(), kind: OpKind::Backward, start_ns, end_ns, ..Op::default() })?;
    }
    for (name, start_ns, end_ns) in [("no time", 3_000_000, 3_000_000), ("backwards", 3_001_000, 3_000_500)] {
        trace.add_op(&Op { name: name.into(), start_ns, end_ns, ..Op::default() })?;
    }
    Ok(trace)
}

/// Four hundred kernels of one stream, each crossing the next.
fn crossing() -> Result<Trace> {
    let trace = Trace::new(&TraceOptions { base_ns: Some(0), ..TraceOptions::default() });
    for at in 0..400 {
        trace
            .add_gpu(&GpuActivity { external_id: None, ..kernel(1_000 * at, 1_000 * at + 1_500, at as u64 + 1, 0) })?;
    }
    Ok(trace)
}

fn main() -> Result<()> {
    let Some(folder) = std::env::args_os().nth(1) else { return Err(tptrace::Error::invalid("name a folder")) };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder.join("kept")).map_err(tptrace::Error::io("create", folder))?;
    write(folder, "empty", &Trace::default())?;
    write(folder, "huge-ids", &huge_ids()?)?;
    write(folder, "odd-names", &odd_names()?)?;
    write(folder, "odd-times", &odd_times()?)?;
    let crossing = crossing()?;
    for (name, separate_overlaps) in [("moved", true), ("kept", false)] {
        let path = folder.join(format!("kept/{name}.json"));
        crossing.write(path, &ExportOptions { separate_overlaps, ..ExportOptions::default() })?;
    }
    Ok(())
}
