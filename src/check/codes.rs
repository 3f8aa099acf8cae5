//! Everything a check can find.

use serde::Serialize;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// A reader draws or counts something otherwise than it was meant.
    Warning,
    /// A reader refuses the document, fails on it or loses events.
    Error,
}

/// What each code stands for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Meaning {
    pub(super) code: &'static str,
    pub(super) severity: Severity,
    /// Who stumbles over it.
    pub(super) readers: &'static [&'static str],
    pub(super) text: &'static str,
}

const P: &str = "Perfetto";
const C: &str = "Chrome";
const H: &str = "HTA";
const T: &str = "TensorBoard";
const ALL: &[&str] = &[P, C, H, T];

macro_rules! codes {
    ($($name:ident $code:literal $severity:ident $readers:expr, $text:literal;)*) => {
        /// A kind of finding.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub(super) enum Code { $($name),* }

        /// In the order of [`Code`].
        pub(super) const MEANINGS: &[Meaning] = &[
            $(Meaning { code: $code, severity: Severity::$severity, readers: $readers, text: $text }),*
        ];
    };
}

codes! {
    BadJson "bad-json" Error ALL, "this is not JSON";
    Truncated "truncated" Error ALL, "the document ends before it should";
    Gzip "damaged-gzip" Error ALL, "the gzip data are damaged or end too early";
    Tail "damaged-end" Error ALL, "what follows the events is damaged";
    Nan "nan" Error &[P, C, T], "NaN and Infinity are not JSON: leave the value out, or write it as text";
    Control "control-character" Error &[C, H], "a control character in a string must be written as \\u00XX";
    Utf8 "invalid-utf8" Error &[H, T], "bytes that are not UTF-8";
    Surrogate "surrogate-escape" Error &[P], "an escape of a surrogate, as \\ud83d\\ude00: write the character itself, as UTF-8";
    LoneSurrogate "lone-surrogate" Error &[P, H], "half of a surrogate pair: it is no character";
    TrailingComma "trailing-comma" Error &[C, H, T], "a comma with nothing after it";
    Depth "deep-nesting" Error &[C, H, T], "brackets nested deeper than 512: what is in there was not checked";
    TooLong "event-too-long" Error &[P, C], "an event longer than 4 MiB: what follows was not checked";
    NotObject "not-an-object" Error ALL, "an element of the events that is no object";
    NoPhase "no-ph" Error &[P, C], "an event without a phase (\"ph\"), or with one that is no letter";
    NoName "no-name" Error &[C, H, T], "an event without a name, or with one that is no text";
    NoTs "no-ts" Error &[P, T], "an event without a time (\"ts\")";
    NoDur "no-dur" Error &[P, H, T], "a slice (\"X\") without a duration (\"dur\")";
    BadTime "bad-time" Error &[P, H, T], "a time or duration that is no number";
    TextTime "time-as-text" Error &[H, T], "a time or duration written as text: write it as a number";
    NegativeDur "negative-dur" Error &[P, T], "a negative duration";
    NegativeTs "negative-ts" Error &[P], "a time before 0: Perfetto drops the event";
    FlowId "flow-id" Error &[P], "a flow without an id, or with one that is neither a whole number below 2^63 nor hexadecimal text";
    AsyncId "async-without-id" Error &[P, C], "an event of an async span (\"b\", \"n\", \"e\") without an id";
    NoCategory "no-cat" Error &[H, T], "a slice without a category (\"cat\") in a PyTorch trace";
    StepName "step-name" Error &[H], "a name that starts with ProfilerStep must go on with #N";
    LabelArgs "metadata-without-args" Error &[P, C], "a name of a process or thread (\"M\") without \"args\"";
    Crossing "crossing-slices" Error &[P], "slices of one lane that overlap without one enclosing the other: Perfetto drops the later one";
    NoStream "gpu-without-stream" Error &[H], "GPU work without args.stream: HTA does not see it";
    NoEvents "no-events" Warning &[P, H, T], "there are no events";
    NoArray "no-trace-events" Error ALL, "there is no \"traceEvents\": this is JSON, but no trace";
    BareArray "bare-array" Warning &[H, T], "a bare array of events: there is no place for rank, devices and clock";
    OpenArray "open-array" Warning &[C, H, T], "the bracket that closes the events is missing";
    TimePrecision "time-precision" Warning &[P, C, H, T], "a time with more digits than a double holds, which is rounded (to 0.25 us for times since 1970): write times relative to baseTimeNanoseconds";
    KeyTwice "key-twice" Warning ALL, "an event with a key twice: which of the values counts differs between readers";
    NoPid "no-pid" Warning &[P, H, T], "an event without a process (\"pid\")";
    NoTid "no-tid" Warning &[P, H, T], "an event without a lane (\"tid\")";
    TextPid "text-pid" Warning &[P, T], "a pid or tid that is text: readers make a number of it, which may be another's";
    PidRange "pid-range" Warning &[P], "a pid or tid that is no whole number from 0 to 2^32 - 1: Perfetto takes it for 0, or for another";
    TidZero "tid-zero" Warning &[P], "lane 0 of a process: Perfetto draws it as the lane with the number of the process";
    BadArgs "args-not-object" Warning &[H, T], "\"args\" that is no object";
    CounterText "counter-without-number" Warning &[P], "a counter (\"C\") with a value that is no number, or with none";
    NoDevice "gpu-without-device" Warning &[T], "GPU work without args.device";
    NoCorrelation "gpu-without-correlation" Warning &[H, T], "GPU work or a launch without args.correlation: it cannot be linked";
    NoExternalId "op-without-external-id" Warning &[T], "an operator without args.\"External id\": its kernels cannot be found";
    CpuStream "cpu-with-stream" Warning &[H], "CPU work with args.stream: HTA takes it for GPU work";
    EndAlone "end-without-begin" Warning &[P, C], "an end (\"E\") without a begin (\"B\")";
    EndOther "end-of-another" Warning &[P, C], "an end (\"E\") whose name or category is not that of the innermost begin (\"B\"): Perfetto ends the begin that has them, or none, Chrome the innermost";
    BeginAlone "begin-without-end" Warning &[P, C], "a begin (\"B\") without an end (\"E\"): it is drawn to the end of the trace";
    FlowNoStart "flow-without-start" Warning &[P, C], "an end of a flow whose start is missing: no arrow is drawn";
    FlowNoEnd "flow-without-end" Warning &[P, C], "a start of a flow whose end is missing: no arrow is drawn";
    FlowTwice "flow-started-twice" Warning &[P, C], "a flow that starts a second time: arrows go to the wrong place";
    FlowBackwards "flow-backwards" Warning &[P, C], "a flow that ends before it starts: no arrow is drawn";
    FlowNoSlice "flow-without-slice" Warning &[P, C], "an end of a flow with no slice around it on its lane: Chrome draws no arrow, Perfetto one from the slice before, if there is one";
    AsyncNoEnd "async-without-end" Warning &[P, C], "a begin of an async span (\"b\") without its end (\"e\"): it is drawn to the end of the trace";
    AsyncNoBegin "async-without-begin" Warning &[P, C], "an end of an async span (\"e\") without its begin (\"b\"): it is left out";
    NoRank "no-rank" Warning &[H], "no distributedInfo.rank: HTA takes it for rank 0";
    RankText "rank-not-found" Warning &[H], "HTA finds the rank by its text, `\"rank\": N` with a space, which is not there: it takes it for rank 0";
    RankLate "rank-after-events" Warning &[H], "distributedInfo stands after the events, where readers of the head do not see it";
    NoBaseTime "no-base-time" Warning &["tptrace merge"], "no baseTimeNanoseconds: ranks cannot be brought onto one clock";
    SameRank "same-rank" Warning &[H], "another of the files has the same rank: HTA keeps one of them";
}

impl Code {
    pub(super) fn meaning(self) -> &'static Meaning {
        &MEANINGS[self as usize]
    }
}

/// All codes there are, each with its severity, the readers that stumble over it, and what it means.
pub fn codes() -> impl Iterator<Item = (&'static str, Severity, &'static [&'static str], &'static str)> {
    MEANINGS.iter().map(|meaning| (meaning.code, meaning.severity, meaning.readers, meaning.text))
}
