//! How many events there are, and what had to be dropped or repaired.

/// How many events of each kind a trace holds, and what had to be dropped or repaired.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Ops stored.
    pub ops: u64,
    /// GPU activities stored.
    pub gpu_activities: u64,
    /// Memory events stored.
    pub memory_events: u64,
    /// Stack samples stored.
    pub samples: u64,
    /// Counter values stored.
    pub counters: u64,
    /// Instants stored.
    pub instants: u64,
    /// Events refused or dropped: bad values, samples without a frame.
    pub dropped: u64,
    /// Slices whose end came before their start; they get 1 ns.
    pub clamped: u64,
    /// Texts that were not UTF-8 and got U+FFFD in place of the bad bytes.
    pub repaired_texts: u64,
    /// Slices that the last write moved to an extra lane, since they overlapped another on theirs.
    pub overlaps_moved: u64,
    /// Slices that the last write left where they overlap, since 255 extra lanes were not enough.
    pub overlaps_left: u64,
    /// Flows that the last write left out, since they would have run backwards in time.
    pub flows_dropped: u64,
}

/// What live recording had to leave out or mend.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RecordCounts {
    /// Records dropped: no room, spans too deep, or a signal that interrupted the recording of its own thread.
    pub dropped: u64,
    /// Ends without a begin.
    pub unmatched: u64,
    /// Chunks of older records that made room for newer ones.
    pub overwritten_chunks: u64,
}
