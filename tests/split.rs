//! A merge in parts makes the document that a merge at once makes.

use std::fs;
use std::path::{Path, PathBuf};

use flate2::bufread::GzDecoder;
use serde_json::{Value, json};
use std::io::Read;
use tptrace::Error;
use tptrace::merge::{Alignment, Input, MergeOptions, MergeReport, Selection, merge, split};
use tptrace::output::{Target, WriteOptions};

struct Files {
    folder: tempfile::TempDir,
    inputs: Vec<PathBuf>,
}

impl Files {
    fn of(documents: &[String]) -> Self {
        let folder = tempfile::tempdir().expect("scratch");
        let inputs: Vec<PathBuf> = (0..documents.len()).map(|i| folder.path().join(format!("in{i}.json"))).collect();
        for (path, document) in inputs.iter().zip(documents) {
            fs::write(path, document).expect("written");
        }
        Self { folder, inputs }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn whole(&self, out: &Path, options: &MergeOptions) -> Result<MergeReport, Error> {
        merge(self.inputs.iter().cloned().map(Input::Path).collect(), Target::File(out), options, None)
    }

    /// The plan, and a fragment for each input that is selected.
    fn fragments(&self, options: &MergeOptions) -> Result<(String, Vec<PathBuf>), Error> {
        let survey = |path: &PathBuf| split::survey(Input::Path(path.clone()), options);
        let surveys = self.inputs.iter().map(survey).collect::<Result<Vec<_>, _>>()?;
        let plan = split::plan(&surveys, options)?;
        assert_eq!(plan.tasks.len(), self.inputs.len());
        let mut fragments = Vec::new();
        for (index, (input, task)) in self.inputs.iter().zip(&plan.tasks).enumerate() {
            if let Some(task) = task {
                let path = self.path(&format!("fragment{index}.gz"));
                split::fragment(Input::Path(input.clone()), task, &path, &WriteOptions::default(), None)?;
                fragments.push(path);
            }
        }
        Ok((plan.join, fragments))
    }

    fn parts(&self, out: &Path, options: &MergeOptions) -> Result<MergeReport, Error> {
        let (plan, mut fragments) = self.fragments(options)?;
        // The plan knows their order.
        fragments.reverse();
        split::join(&plan, &fragments, Target::File(out), &WriteOptions::default(), None)
    }

    /// Merges at once and in parts, plain and compressed, and compares.
    fn compare(&self, options: &MergeOptions) -> MergeReport {
        let options = MergeOptions { trace_name: Some("the trace".into()), ..options.clone() };
        let (whole, parts, packed) = (self.path("whole.json"), self.path("parts.json"), self.path("parts.json.gz"));
        let expected = self.whole(&whole, &options).expect("merged");
        let report = self.parts(&parts, &options).expect("merged in parts");
        let text = fs::read_to_string(&whole).expect("UTF-8");
        let _: Value = serde_json::from_str(&text).expect("strict JSON");
        similar(&text, &fs::read_to_string(&parts).expect("UTF-8"));
        let told = self.parts(&packed, &options).expect("merged in parts");
        similar(&text, &inflate(&packed));
        assert_eq!(told.written.written, fs::metadata(&packed).expect("a file").len());
        let plain = |report: &MergeReport| MergeReport { written: Default::default(), ..report.clone() };
        assert_eq!(plain(&report), plain(&expected));
        assert_eq!(plain(&told), plain(&expected));
        report
    }
}

/// The same lines. Names of processes stand behind each part's events, not behind all.
fn similar(whole: &str, parts: &str) {
    fn sorted(text: &str) -> Vec<&str> {
        let mut lines: Vec<&str> = text.lines().map(|line| line.trim_end_matches(',')).collect();
        lines.sort_unstable();
        lines
    }
    let _: Value = serde_json::from_str(parts).expect("strict JSON");
    assert_eq!(sorted(whole), sorted(parts));
}

/// One member, as readers of one member see it.
fn inflate(path: &Path) -> String {
    let bytes = fs::read(path).expect("read");
    let mut rest = bytes.as_slice();
    let mut text = String::new();
    GzDecoder::new(&mut rest).read_to_string(&mut text).expect("inflated");
    assert!(rest.is_empty(), "one member");
    text
}

fn rank(rank: i64, count: usize) -> String {
    let mut events = vec![json!({"ph": "M", "name": "process_name", "pid": 7, "tid": 0, "args": {"name": "python"}})];
    for i in 0..count as u64 {
        events.push(json!({"ph": "X", "cat": "cpu_op", "name": format!("op{}", i % 9), "pid": 7, "tid": 1, "ts": i * 10, "dur": i % 7}));
        events.push(json!({"ph": "s", "cat": "ac2g", "name": "ac2g", "id": i, "pid": 7, "tid": 1, "ts": i * 10}));
        events.push(
            json!({"ph": "f", "cat": "ac2g", "name": "ac2g", "id": i, "pid": 0, "tid": 3, "ts": i * 10 + 5, "bp": "e"}),
        );
        events
            .push(json!({"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 3, "ts": i * 10 + 5, "dur": i % 5}));
    }
    json!({"schemaVersion": 1, "distributedInfo": {"rank": rank, "world_size": 4}, "host_name": "h", "traceEvents": events,
        "baseTimeNanoseconds": 1_700_000_000_000_000_000u64 + 1000 * rank.unsigned_abs()})
    .to_string()
}

#[test]
fn parts_make_the_same_document() {
    let many = Files::of(&[rank(2, 4_000), rank(0, 10), "{\"a\": 1}".into(), "[]".into(), rank(1, 3)]);
    let report = many.compare(&MergeOptions::default());
    assert!(report.missing_ranks.contains(&3) || report.missing_ranks.is_empty());
    assert_eq!(report.kept(), 3 + 4 * 4_013);
    many.compare(&MergeOptions { verbatim: true, ..MergeOptions::default() });
    many.compare(&MergeOptions { alignment: Alignment::Offsets(vec![0, 1, 2, 3, 4]), ..MergeOptions::default() });
    let window = Selection {
        window_ns: Some((20_000, 90_000)),
        min_duration_ns: 2000,
        exclude_names: vec!["op3".into()],
        ..Selection::default()
    };
    let report = many.compare(&MergeOptions { selection: window, ..MergeOptions::default() });
    assert!(report.cut().window > 0 && report.cut().name > 0 && report.cut().duration > 0 && report.cut().flow > 0);
    let ranks = Selection { ranks: vec![1, 2], ..Selection::default() };
    let report = many.compare(&MergeOptions { selection: ranks, ..MergeOptions::default() });
    assert_eq!(report.ranks, vec![1i64, 2]);
    Files::of(&["{}".into(), "[]".into()]).compare(&MergeOptions::default());
    Files::of(&[rank(0, 0)]).compare(&MergeOptions::default());
}

#[test]
fn damage_is_told_and_salvaged() {
    let mut cut = rank(1, 100);
    cut.truncate(cut.len() - 400);
    let files = Files::of(&[rank(0, 5), cut]);
    match files.fragments(&MergeOptions::default()) {
        Err(Error::Malformed { path, .. }) => assert_eq!(path, files.inputs[1]),
        other => panic!("{other:?}"),
    }
    let report = files.compare(&MergeOptions { salvage: true, ..MergeOptions::default() });
    assert_eq!((report.lost(), report.inputs[1].damage.len()), (1, 1), "{report:?}");
}

#[test]
fn wrong_parts_are_refused_and_the_target_stays() {
    let files = Files::of(&[rank(0, 50), rank(1, 50)]);
    let out = files.path("out.json.gz");
    fs::write(&out, "before").expect("written");
    let options = MergeOptions::default();
    let (plan, fragments) = files.fragments(&options).expect("fragments");
    let (other, _) = files.fragments(&options).expect("fragments");
    let saved: Vec<Vec<u8>> = fragments.iter().map(|path| fs::read(path).expect("read")).collect();
    let join = |plan: &str, fragments: &[PathBuf]| {
        let result = split::join(plan, fragments, Target::File(&out), &WriteOptions::default(), None);
        let error = result.expect_err("refused").to_string();
        assert_eq!(fs::read(&out).expect("read"), b"before", "{error}");
        error
    };
    // The fragments are of the second plan now.
    assert!(join(&plan, &fragments).contains("of another plan"));
    assert!(join(&other, &fragments[..1]).contains("fragments are missing, of"));
    assert!(join(&other, &[fragments[0].clone(), fragments[0].clone()]).contains("of the same input"));
    assert!(join(&other, &[files.inputs[0].clone()]).contains("no whole fragment"));
    assert!(join("{}", &fragments).contains("this is no plan"));
    assert!(join(&other.replace("\"plan\"", "\"task\""), &fragments).contains("it is a task"));
    let with = |bytes: &[u8]| fs::write(&fragments[1], bytes).expect("written");
    for length in [0, 5, 20, saved[1].len() / 2, saved[1].len() - 1] {
        with(&saved[1][..length]);
        assert!(join(&other, &fragments).contains("no whole fragment"), "{length}");
    }
    for (at, plain) in [(0, false), (3, false), (200, true)] {
        let mut bytes = saved[1].clone();
        bytes[at] ^= 0x55;
        with(&bytes);
        let target = if plain { files.path("out.json") } else { out.clone() };
        let result = split::join(&other, &fragments, Target::File(&target), &WriteOptions::default(), None);
        assert!(matches!(result, Err(Error::Malformed { ref path, .. }) if *path == fragments[1]), "{at}: {result:?}");
    }
    with(&saved[1]);
    let surveys: Vec<String> =
        files.inputs.iter().map(|path| split::survey(Input::Path(path.clone()), &options).expect("surveyed")).collect();
    let refused = |selection| {
        let options = MergeOptions { selection, ..MergeOptions::default() };
        split::plan(&surveys, &options).expect_err("refused").to_string()
    };
    assert!(refused(Selection { max_bytes: Some(1 << 30), ..Selection::default() }).contains("size budget"));
    assert!(refused(Selection { window_ns: Some((0, 1)), ..Selection::default() }).contains("without the time window"));
    assert!(split::plan(&["x"], &options).expect_err("refused").to_string().contains("this is no survey"));
    fs::write(&files.inputs[0], rank(0, 51)).expect("written");
    let task = split::plan(&surveys, &options).expect("planned").tasks[0].clone().expect("a task");
    let late = split::fragment(
        Input::Path(files.inputs[0].clone()),
        &task,
        &files.path("late"),
        &WriteOptions::default(),
        None,
    );
    assert!(late.expect_err("changed").to_string().contains("changed"));
    assert!(!files.path("late").exists());
}

#[test]
fn tasks_that_cannot_be_are_refused() {
    let files = Files::of(&[rank(0, 3), rank(1, 3)]);
    let options = MergeOptions::default();
    let survey = |path: &PathBuf| split::survey(Input::Path(path.clone()), &options).expect("surveyed");
    let surveys: Vec<String> = files.inputs.iter().map(survey).collect();
    let task = split::plan(&surveys, &options).expect("planned").tasks[1].clone().expect("a task");
    let out = files.path("fragment.gz");
    let fragment = |changes: &[(&str, Value)]| {
        let mut told: Value = serde_json::from_str(&task).expect("JSON");
        for (place, value) in changes {
            *told["content"].pointer_mut(place).expect("a member") = value.clone();
        }
        let input = Input::Path(files.inputs[1].clone());
        split::fragment(input, &told.to_string(), &out, &WriteOptions::default(), None)
    };
    for (changes, why) in [
        (vec![("/index", json!(2))], "none of the inputs"),
        (vec![("/inputs", json!(0))], "none of the inputs"),
        (vec![("/count", json!(0))], "none of the ranks"),
        (vec![("/fates", json!([]))], "none of the ranks"),
        (vec![("/position", json!(u64::MAX))], "none of the inputs"),
        (vec![("/fates/0/place", json!(7))], "none of the ranks"),
        (vec![("/fates/0/block", json!(0))], "block of pids"),
        (vec![("/fates/0/block", json!(3))], "block of pids"),
        (vec![("/fates/0/block", json!(u64::MAX))], "block of pids"),
        (vec![("/fates/0/base", json!(u64::MAX))], "block of pids"),
        (vec![("/fates/0/base", json!(1u64 << 32))], "block of pids"),
        (vec![("/plan", json!("x".repeat(70_000)))], "name of its plan"),
        (vec![("/survey/events_at", json!(u64::MAX))], "start after its end"),
    ] {
        let error = fragment(&changes).expect_err("refused").to_string();
        assert!(error.contains("this is no task") && error.contains(why), "{changes:?}: {error}");
        assert!(!out.exists());
    }
    // Limits may be any.
    for number in [json!(0), json!(usize::MAX)] {
        fragment(&[("/event_bytes", number.clone()), ("/sort_bytes", number)]).expect("a fragment");
    }
    for offset in [i64::MIN, i64::MAX] {
        fragment(&[("/fates/0/offset", json!(offset)), ("/fates/0/rank", json!(offset))]).expect("a fragment");
    }
}
