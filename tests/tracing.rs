//! What the macros of `tracing` say is in the trace.

use std::sync::Arc;

use serde_json::{Value, json};
use tptrace::output::Target;
use tptrace::record::enable_category;
use tptrace::tracing::TraceLayer;
use tptrace::{ExportOptions, Format, Trace};
use tracing::{debug_span, field, info, info_span, warn};
use tracing_subscriber::prelude::*;

fn recorded(run: impl FnOnce()) -> Vec<Value> {
    let trace = Arc::new(Trace::default());
    let subscriber = tracing_subscriber::registry().with(TraceLayer::new(&trace));
    tracing::subscriber::with_default(subscriber, run);
    let mut out = Vec::new();
    let options = ExportOptions { format: Format::Torch, ..ExportOptions::default() };
    trace.write_to(Target::Writer(&mut out), &options, None).expect("written");
    let document: Value = serde_json::from_slice(&out).expect("strict JSON");
    // Without the marks of the format's own.
    let own = |event: &&Value| event["pid"] == 0 && ["X", "i"].contains(&event["ph"].as_str().unwrap_or(""));
    document["traceEvents"].as_array().expect("events").iter().filter(own).cloned().collect()
}

fn named<'e>(events: &'e [Value], name: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

#[test]
fn spans_and_events_with_their_fields() {
    let events = recorded(|| {
        let step =
            info_span!(target: "train", "step", batch = 3, rate = 0.5, on = true, who = "me", late = field::Empty);
        let _entered = step.enter();
        {
            let _inner = debug_span!("inner", list = ?[1, 2], big = u64::MAX).entered();
            info!(loss = 0.25, "half done");
        }
        step.record("late", -7);
        warn!("odd");
    });
    let [step] = named(&events, "step")[..] else { panic!("{events:?}") };
    let [inner] = named(&events, "inner")[..] else { panic!("{events:?}") };
    let args = &step["args"];
    assert_eq!((&step["cat"], &args["batch"], &args["rate"]), (&json!("train"), &json!(3), &json!(0.5)));
    assert_eq!((&args["on"], &args["who"], &args["late"]), (&json!(true), &json!("me"), &json!(-7)));
    assert_eq!((&inner["args"]["list"], &inner["args"]["big"]), (&json!("[1, 2]"), &json!(u64::MAX)));
    let time = |event: &Value, key: &str| event[key].as_f64().expect("a number");
    assert!(time(step, "ts") <= time(inner, "ts"));
    assert!(time(inner, "ts") + time(inner, "dur") <= time(step, "ts") + time(step, "dur") + 0.001);
    let [half] = named(&events, "half done")[..] else { panic!("{events:?}") };
    assert_eq!((&half["args"]["loss"], &half["args"]["level"]), (&json!(0.25), &json!("INFO")));
    assert_eq!((half["tid"].as_u64(), named(&events, "odd").len()), (step["tid"].as_u64(), 1));
    assert!(time(inner, "ts") <= time(half, "ts") && time(half, "ts") <= time(inner, "ts") + time(inner, "dur") + 0.1);
}

#[test]
fn a_span_may_be_entered_again_and_elsewhere() {
    let events = recorded(|| {
        let span = info_span!("again", n = 1);
        drop(span.enter());
        drop(span.enter());
        let dispatch = tracing::dispatcher::get_default(Clone::clone);
        std::thread::spawn(move || tracing::dispatcher::with_default(&dispatch, || drop(span.entered())))
            .join()
            .expect("no panic");
    });
    let again = named(&events, "again");
    assert!(again.len() == 3 && again.iter().all(|event| event["args"]["n"] == 1), "{again:?}");
    assert_eq!(again[0]["tid"], again[1]["tid"]);
    assert_ne!(again[0]["tid"], again[2]["tid"]);
}

#[test]
fn a_category_that_is_off_says_nothing() {
    enable_category("quiet", false).expect("known");
    let events = recorded(|| {
        let _span = info_span!(target: "quiet", "unseen", n = 1).entered();
        info!(target: "quiet", "unheard");
        let _span = info_span!("seen").entered();
    });
    assert_eq!((events.len(), named(&events, "seen").len()), (1, 1), "{events:?}");
}
