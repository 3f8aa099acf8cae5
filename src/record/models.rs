//! Models of live recording: the code itself, run by loom in all orders that its threads may take turns in, with every
//! value that the memory model lets a load see. Chunks hold two records here.
//!
//!     RUSTFLAGS="--cfg loom" cargo test --release --lib --no-default-features --target-dir target/loom record::models

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::sync::Arc;

use loom::thread;

use super::chunk::{Chunk, FIRST, Record};
use super::core::{Core, Full, Limits};
use super::lane::Lane;
use super::names::{self, Name};
use super::{Cursor, Outcome, Piece, Teller, kind};

thread_local! {
    /// Mappings of this model that are there. All threads of a model are one of the system's.
    static MAPPED: Cell<i64> = const { Cell::new(0) };
}

/// Mappings came, or went.
pub(super) fn mapped(change: i64) {
    MAPPED.set(MAPPED.get() + change);
}

/// Runs a model in all orders, in each of which all memory must be given back.
fn model(run: impl Fn() + Send + Sync + 'static) {
    model_within(None, run);
}

/// The same in those orders in which threads are interrupted so often at most; of more than two threads with long ways to go
/// there are too many orders.
fn model_within(interruptions: Option<usize>, run: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = interruptions;
    builder.check(move || {
        MAPPED.set(0);
        run();
        assert_eq!(MAPPED.get(), 0, "mappings are left, or were given back twice");
    });
}

fn core(limits: Limits) -> Arc<Core> {
    Core::new(limits, Arc::default())
}

/// A flight recorder that has room for the lane and this many chunks.
fn recent(chunks: usize) -> Limits {
    let bytes = (4096 + chunks * FIRST) * 5;
    Limits { bytes: bytes.div_ceil(2).next_multiple_of(5), full: Full::KeepRecent }
}

/// A lane of the thread that makes it, as `local` has them.
struct Mine(*mut Lane);

impl Mine {
    fn new(core: &Core) -> Self {
        Self(core.add_lane())
    }

    /// Records a number.
    fn push(&self, core: &Core, number: u64) -> Outcome {
        // SAFETY: the thread's own lane lives until it leaves it.
        unsafe { &*self.0 }.push(core, &[[kind::INSTANT, number]])
    }

    /// Records numbers, as long as there is room.
    fn push_all(&self, core: &Core, numbers: RangeInclusive<u64>) {
        for number in numbers {
            if self.push(core, number) != Outcome::Recorded {
                break;
            }
        }
    }

    /// The thread ends.
    fn leave(self) {
        // SAFETY: as above; the clone keeps the trace's side while the lane is left.
        let core = Arc::clone(&unsafe { &*self.0 }.core);
        core.leave(self.0);
    }
}

/// Runs something on a thread beside this one.
fn beside<T: 'static>(core: &Arc<Core>, run: impl FnOnce(&Core) -> T + 'static) -> thread::JoinHandle<T> {
    let core = Arc::clone(core);
    thread::spawn(move || run(&core))
}

/// The numbers of a document that is written now, lane by lane.
fn written(core: &Core) -> Vec<Vec<u64>> {
    let mut lanes = Vec::new();
    core.read().each(|seen, _, _| {
        let mut numbers = Vec::new();
        seen.visit(|records| numbers.extend(records.iter().map(|&[_, number]: &Record| number)));
        lanes.push(numbers);
        0
    });
    lanes
}

/// Whether they follow one another.
fn consecutive(numbers: &[u64]) -> bool {
    numbers.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// A reader sees whole records, from the first on, while the thread goes on into another chunk; two readers get each of
/// them once.
#[test]
fn what_is_published_is_whole() {
    model(|| {
        let core = core(Limits::default());
        let writer = beside(&core, |core| {
            let lane = Mine::new(core);
            lane.push_all(core, 1..=5);
            lane.leave();
        });
        let first = written(&core).concat();
        writer.join().expect("no panic");
        let all = [first, written(&core).concat()].concat();
        assert_eq!(all, [1, 2, 3, 4, 5]);
        core.close();
    });
}

/// A flight recorder takes the oldest chunk, but none that is being copied, in place of which there is one more until then: a
/// reader and the thread that records.
#[test]
fn the_oldest_goes_unless_it_is_read() {
    model(|| {
        let core = core(recent(2));
        let lane = Mine::new(&core);
        lane.push_all(&core, 1..=4);
        let reader = beside(&core, |core| written(core).concat());
        // Both chunks are full: this needs the older one, or one more while that is copied.
        assert_eq!(lane.push(&core, 5), Outcome::Recorded);
        let seen = reader.join().expect("no panic");
        assert!(consecutive(&seen) && seen.len() >= 2, "{seen:?}");
        let overwritten = core.counts().overwritten_chunks;
        assert_eq!(written(&core).concat(), if overwritten == 1 { vec![3, 4, 5] } else { vec![1, 2, 3, 4, 5] });
        // Then there is room for two again.
        lane.push(&core, 6);
        assert_eq!(lane.push(&core, 7), Outcome::Recorded);
        assert_eq!(written(&core).concat(), [5, 6, 7]);
        lane.leave();
        core.close();
    });
}

/// Two threads record into a flight recorder with room for less than both: one takes the other's chunk, whose thread has
/// ended or gone on.
#[test]
fn one_thread_takes_the_chunk_of_another() {
    model(|| {
        let core = core(Limits { bytes: (2 * 4096 + 2 * FIRST) * 5 / 2 + 5, full: Full::KeepRecent });
        let other = beside(&core, |core| {
            let lane = Mine::new(core);
            lane.push(core, 1);
            lane.leave();
        });
        let lane = Mine::new(&core);
        lane.push_all(&core, 11..=13);
        other.join().expect("no panic");
        for numbers in written(&core) {
            assert!(consecutive(&numbers), "{numbers:?}");
        }
        lane.leave();
        core.close();
    });
}

/// The trace is freed while a thread records, and ends, and while another one makes its first lane.
#[test]
fn a_thread_ends_while_its_trace_goes() {
    model(|| {
        let core = core(Limits::default());
        let writer = beside(&core, |core| {
            let lane = Mine::new(core);
            if !lane.0.is_null() {
                lane.push_all(core, 1..=3);
                lane.leave();
            }
        });
        core.close();
        writer.join().expect("no panic");
    });
}

/// The same with a thread that outlives its trace, and frees the lane when it comes by it (`local::find`).
#[test]
fn a_thread_outlives_its_trace() {
    model(|| {
        let core = core(Limits::default());
        let lane = Mine::new(&core);
        lane.push(&core, 1);
        let closing = beside(&core, |core| core.close());
        lane.push(&core, 2);
        // SAFETY: the lane lives until this thread frees or leaves it.
        if core.is_orphan(unsafe { &*lane.0 }) {
            Core::free_lane(lane.0);
        } else {
            lane.leave();
        }
        closing.join().expect("no panic");
    });
}

/// A thread ends while a document is written: one of both frees the lane, and nothing is lost.
#[test]
fn a_thread_ends_while_it_is_read() {
    model(|| {
        let core = core(Limits::default());
        let lane = Mine::new(&core);
        lane.push(&core, 1);
        let reader = beside(&core, |core| written(core).concat());
        lane.push(&core, 2);
        lane.leave();
        let mut seen = reader.join().expect("no panic");
        seen.extend(written(&core).concat());
        assert_eq!(seen, [1, 2]);
        core.close();
    });
}

/// The same for a thread that found no room, or was interrupted, and has recorded nothing.
#[test]
fn a_thread_without_records_ends_while_it_is_read() {
    model(|| {
        let core = core(Limits::default());
        let lane = Mine::new(&core);
        let reader = beside(&core, |core| written(core).len());
        lane.leave();
        assert!(reader.join().expect("no panic") <= 1);
        assert_eq!(written(&core).len(), 0);
        core.close();
    });
}

/// All at once: a thread records and ends, another one writes a document, and the trace goes. Whoever comes last frees the
/// lane, and the document has the first of the records.
#[test]
fn a_trace_goes_while_it_is_read() {
    model(|| {
        let core = core(Limits::default());
        let lane = Mine::new(&core);
        lane.push(&core, 1);
        let reader = beside(&core, |core| written(core).concat());
        let closing = beside(&core, |core| core.close());
        lane.push(&core, 2);
        lane.leave();
        let seen = reader.join().expect("no panic");
        assert!([1, 2].starts_with(&seen), "{seen:?}");
        closing.join().expect("no panic");
    });
}

/// What a journal was told.
#[derive(Default)]
struct Told {
    numbers: Vec<u64>,
    gaps: usize,
    names: usize,
}

impl Teller for Told {
    fn names(&mut self, first: usize, texts: &[&str]) {
        self.names = first + texts.len();
    }

    fn categories(&mut self, _: usize, _: &[&str]) {}

    fn piece(&mut self, piece: &Piece<'_>) {
        self.gaps += usize::from(piece.gap);
        for &[word, number] in piece.records {
            // Whatever stands in the records has its name by now.
            assert!((Name::of_word(word).bits() as usize) < self.names);
            self.numbers.push(number);
        }
    }

    fn anchors(&mut self, _: bool, _: &[[u64; 3]]) {}
}

/// A journal is told of everything once, and of no record before its name.
#[test]
fn a_journal_is_told_of_all_once() {
    model(|| {
        let core = core(Limits::default());
        assert!(core.begin_journal());
        let writer = beside(&core, |core| {
            let lane = Mine::new(core);
            for number in 1..=3 {
                let name = Name::new(if number == 3 { "late" } else { "early" }, "").expect("a name");
                // SAFETY: the thread's own lane lives until it leaves it.
                let pushed = unsafe { &*lane.0 }.push(core, &[[kind::INSTANT | name.word(), number]]);
                assert_eq!(pushed, Outcome::Recorded);
            }
            lane.leave();
        });
        let mut told = Told::default();
        let cursor = core.tell(&Cursor::default(), &mut told);
        writer.join().expect("no panic");
        core.tell(&cursor, &mut told);
        assert_eq!((told.numbers, told.gaps), (vec![1, 2, 3], 0));
        core.close();
    });
}

/// A journal is started while a thread begins to record and a document is written: all is told and stays, or there is no
/// journal.
#[test]
fn a_journal_starts_while_a_trace_is_read() {
    model_within(Some(4), || {
        let core = core(Limits::default());
        // Number 0, which the records have.
        Name::new("none", "").expect("a name");
        let writer = beside(&core, |core| {
            let lane = Mine::new(core);
            lane.push_all(core, 1..=2);
            lane.leave();
        });
        let reader = beside(&core, |core| written(core).concat());
        let mut told = Told::default();
        let begun = core.begin_journal();
        let cursor = if begun { core.tell(&Cursor::default(), &mut told) } else { Cursor::default() };
        writer.join().expect("no panic");
        let before = reader.join().expect("no panic");
        let after = written(&core).concat();
        if begun {
            core.tell(&cursor, &mut told);
            assert_eq!((told.numbers, after), (vec![1, 2], vec![1, 2]));
        } else {
            assert_eq!([before, after].concat(), [1, 2]);
        }
        core.close();
    });
}

/// Two threads intern the same names in different orders: each has one number, which stands for it.
#[test]
fn a_name_has_one_number() {
    model(|| {
        let intern = || ["a", "b"].map(|text| Name::new(text, "both").expect("a name"));
        let other = thread::spawn(|| {
            let [b, a] = ["b", "a"].map(|text| Name::new(text, "both").expect("a name"));
            [a, b]
        });
        let mine = intern();
        assert_eq!(mine.map(Name::texts), [("a", "both"), ("b", "both")]);
        assert_eq!(other.join().expect("no panic"), mine);
        assert_eq!(names::since(0, 0).0.len(), 2);
    });
}

/// A category is switched off while a thread opens spans of it: what begins also ends, and what begins after the switch is
/// not there.
#[test]
fn a_category_is_switched_off() {
    model(|| {
        let core = core(Limits::default());
        let name = Name::new("step", "train").expect("a name");
        let switch = thread::spawn(|| names::enable_category("train", false).expect("known"));
        let lane = Mine::new(&core);
        // SAFETY: the thread's own lane lives until it leaves it.
        let mine = unsafe { &*lane.0 };
        let span = || {
            let begun = if name.is_on() { mine.begin(&core, name) } else { mine.skip() };
            assert_eq!(mine.end(&core), begun);
            begun
        };
        let before = span();
        switch.join().expect("no panic");
        assert_eq!(span(), Outcome::Off);
        let mut kinds = Vec::new();
        core.read().each(|seen, _, _| {
            seen.visit(|records| kinds.extend(records.iter().map(|&[word, _]: &Record| word & 0xff)));
            0
        });
        assert_eq!(kinds, if before == Outcome::Recorded { vec![kind::BEGIN, kind::END] } else { vec![] });
        lane.leave();
        core.close();
    });
}

/// The models must find what they look for: here records are published before they are written.
#[test]
#[should_panic(expected = "Causality violation")]
fn what_is_not_published_is_found() {
    loom::model(|| {
        // SAFETY: mapped with so many bytes, and begun before it is anyone else's.
        let chunk = unsafe {
            let chunk = Chunk::map(FIRST).expect("memory");
            Chunk::begin(chunk, FIRST, &[], 1);
            chunk as usize
        };
        let reader = thread::spawn(move || {
            let chunk = chunk as *mut Chunk;
            // SAFETY: it has begun, and is never unmapped.
            unsafe { Chunk::records(chunk, 0, Chunk::len(chunk)).len() }
        });
        let chunk = chunk as *mut Chunk;
        // SAFETY: as above.
        unsafe {
            (*chunk).publish(1);
            Chunk::watch_writes(chunk, 0, 1);
        }
        let _ = reader.join();
    });
}
