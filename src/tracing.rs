//! A layer that records what the `tracing` crate's macros say (feature `tracing`).
//!
//! ```
//! use std::sync::Arc;
//! use tracing_subscriber::prelude::*;
//! use tptrace::{ExportOptions, Trace, tracing::TraceLayer};
//!
//! let trace = Arc::new(Trace::default());
//! let subscriber = tracing_subscriber::registry().with(TraceLayer::new(&trace));
//! tracing::subscriber::with_default(subscriber, || {
//!     let _step = tracing::info_span!("step", batch = 3).entered();
//!     tracing::info!(loss = 0.5, "done");
//! });
//! # let folder = tempfile::tempdir()?;
//! # std::env::set_current_dir(&folder)?;
//! trace.write("trace.json.gz", &ExportOptions::default())?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Each time a span is entered, and so each poll of an instrumented future, is a slice on the thread that enters it, with
//! the span's fields as arguments; its target is the category, which [`crate::record::enable_category`] switches. Events
//! are instants, named by their message. Spans of one thread have to be left in the reverse order of their entering, as
//! guards in their scopes are: else the slices keep their times, and change their names.
#![forbid(unsafe_code)]

use std::fmt::{self, Write};
use std::sync::Arc;

use tracing_core::field::{Field, Visit};
use tracing_core::span::{Attributes, Id, Record};
use tracing_core::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use crate::model::clock::ClockDomain;
use crate::model::event::{Arg, Instant, InstantScope, OwnedValue, Text, Value};
use crate::record::Name;
use crate::{Trace, monotonic_ns, realtime_ns};

/// Records spans and events into a trace. Any number of layers may record into one.
#[derive(Debug, Clone)]
pub struct TraceLayer {
    trace: Arc<Trace>,
}

impl TraceLayer {
    /// A layer for this trace, which it keeps.
    pub fn new(trace: &Arc<Trace>) -> Self {
        Self { trace: Arc::clone(trace) }
    }
}

/// The fields of one call.
#[derive(Debug, Default)]
struct Fields(Vec<(&'static str, OwnedValue)>);

impl Visit for Fields {
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.push((field.name(), OwnedValue::Int(value)));
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.push((field.name(), OwnedValue::Uint(value)));
    }
    fn record_f64(&mut self, field: &Field, value: f64) {
        self.0.push((field.name(), OwnedValue::Float(value)));
    }
    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.push((field.name(), OwnedValue::Bool(value)));
    }
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.push((field.name(), OwnedValue::Text(value.into())));
    }
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = String::new();
        // A value whose Debug fails shows as far as it came.
        let _ = write!(text, "{value:?}");
        self.0.push((field.name(), OwnedValue::Text(text.into())));
    }
}

/// What is kept of a span until it closes.
#[derive(Debug)]
struct Known {
    name: Option<Name>,
    args: Vec<(Name, OwnedValue)>,
}

/// Keys that cannot be interned are left out: there is a limit, and it is the 256th category's.
fn keys(fields: Fields) -> impl Iterator<Item = (Name, OwnedValue)> {
    fields.0.into_iter().filter_map(|(key, value)| Some((Name::new(key, "").ok()?, value)))
}

impl<S: Subscriber + for<'s> LookupSpan<'s>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let metadata = attributes.metadata();
        let name = Name::new(metadata.name(), metadata.target()).or_else(|_| Name::new(metadata.name(), "")).ok();
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        // Two layers of this kind say the same.
        span.extensions_mut().replace(Known { name, args: keys(fields).collect() });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let mut fields = Fields::default();
        values.record(&mut fields);
        let open = context.lookup_current().is_some_and(|current| current.id() == *id);
        let mut extensions = span.extensions_mut();
        let Some(known) = extensions.get_mut::<Known>() else { return };
        for (key, value) in keys(fields) {
            if open {
                self.trace.span_arg(key, value.value());
            }
            known.args.push((key, value));
        }
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        let extensions = span.extensions();
        let Some(Known { name: Some(name), args }) = extensions.get::<Known>() else { return };
        self.trace.begin_span(*name);
        for (key, value) in args {
            self.trace.span_arg(*key, value.value());
        }
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if span.extensions().get::<Known>().is_some_and(|known| known.name.is_some()) {
            self.trace.end_span();
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let metadata = event.metadata();
        let category = Name::new("", metadata.target());
        if category.is_ok_and(|category| !category.is_on()) {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let said = fields.0.iter().position(|(key, _)| *key == "message").map(|at| fields.0.remove(at).1);
        let name = match &said {
            Some(OwnedValue::Text(message)) => Text(message),
            _ => metadata.name().into(),
        };
        let level = metadata.level().as_str();
        let mut args = vec![
            Arg { key: "level".into(), value: Value::Text(level.into()) },
            Arg { key: "target".into(), value: Value::Text(metadata.target().into()) },
        ];
        args.extend(fields.0.iter().map(|(key, value)| Arg { key: (*key).into(), value: value.value() }));
        let time_ns = match self.trace.clock_domain() {
            ClockDomain::Realtime => realtime_ns(),
            ClockDomain::Monotonic | ClockDomain::Unknown => monotonic_ns(),
        };
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        let instant = Instant { name, time_ns, thread_id, scope: InstantScope::Thread, args: &args };
        // What cannot be stored is counted there.
        let _ = self.trace.add_instant(&instant);
    }
}
