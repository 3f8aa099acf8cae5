//! A merge in parts, which may run on several machines.

use std::ffi::c_void;
use std::path::PathBuf;

use super::guard::guard_waits;
use super::input::{array, check_out, owned, owned_texts, path};
use super::merge::{give, options, tell, tp_merge_options, tp_merge_report, tp_message_fn};
use super::status::{Failure, tp_status};
use super::types::*;
use crate::merge::{Input, split};
use crate::output::{Progress, Target};

fn receiver(to: tp_message_fn) -> Result<(), Failure> {
    if to.is_some() { Ok(()) } else { Err(Failure::invalid("give is NULL: nobody would get the result")) }
}

/// The first step of a merge in parts: reads what one file says of itself, and gives it to `give` as one text, for
/// `tp_merge_plan`. May run on any machine that has the file, at the same time as others.
///
/// The steps are: a survey of each file; one `tp_merge_plan`; `tp_merge_fragment` for each file; one `tp_merge_join`. All
/// take the same options, and the same version of the library. The document is that of `tp_trace_merge`.
///
/// `options`: NULL for the defaults.
/// `give`: called once, on success, on this thread; the text is valid during the call.
///
/// Any thread. Errors as for `tp_trace_merge`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_merge_survey(
    path: tp_str,
    options: *const tp_merge_options,
    give: tp_message_fn,
    give_data: *mut c_void,
) -> tp_status {
    guard_waits(|| {
        receiver(give)?;
        // SAFETY: the caller vouches for text and struct.
        let (path, (options, ..)) = unsafe { (self::path("path", path)?, self::options(options)?) };
        let survey = split::survey(Input::Path(path.into()), &options)?;
        // SAFETY: the caller's own function.
        unsafe { self::give(give, give_data, &survey) };
        Ok(())
    })
}

/// The second step: settles what the parts have in common, and gives `count` + 1 texts: a task for each survey, in their
/// order, empty for a file that the options leave out; and last the plan, for `tp_merge_join`.
///
/// `surveys`: `count` texts of `tp_merge_survey`.
/// `options`: those of the surveys. `max_bytes` must be 0, since a size budget looks at all events at once.
/// `give`: called on success, on this thread; the texts are valid during the call.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_merge_plan(
    surveys: *const tp_str,
    count: usize,
    options: *const tp_merge_options,
    give: tp_message_fn,
    give_data: *mut c_void,
) -> tp_status {
    guard_waits(|| {
        receiver(give)?;
        // SAFETY: the caller vouches for texts and struct.
        let (surveys, (options, ..)) = unsafe { (owned_texts("surveys", surveys, count)?, self::options(options)?) };
        let plan = split::plan(&surveys, &options)?;
        let tasks = plan.tasks.iter().map(|task| task.as_deref().unwrap_or_default());
        for text in tasks.chain([plan.join.as_str()]) {
            // SAFETY: the caller's own function.
            unsafe { self::give(give, give_data, text) };
        }
        Ok(())
    })
}

/// The third step: rewrites the events of one file into a compressed fragment. May run on any machine that has the file, at
/// the same time as others. Any reader of gzip shows what is in a fragment.
///
/// `path`: the file, which may have another path than when it was surveyed.
/// `task`: the one that `tp_merge_plan` gave for its survey.
/// `out_path`: the fragment, replaced when complete.
/// `options`: level, threads, `TP_MERGE_FSYNC` and progress count; NULL for the defaults.
///
/// Any thread. Errors as for `tp_trace_merge`; `TP_STATUS_MALFORMED` too if the file is not the one that was surveyed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_merge_fragment(
    path: tp_str,
    task: tp_str,
    out_path: tp_str,
    options: *const tp_merge_options,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for texts and struct.
        let (path, task, target, (options, watcher, ..)) = unsafe {
            let (path, target) = (self::path("path", path)?, self::path("out_path", out_path)?);
            (path, owned("task", task)?, target, self::options(options)?)
        };
        let mut progress = |progress: &Progress| watcher.tell(progress);
        split::fragment(Input::Path(path.into()), &task, target, &options.write, Some(&mut progress))?;
        Ok(())
    })
}

/// The last step: makes the document of all fragments, by copying their compressed bytes into one gzip member, or by
/// inflating them if it is not to be compressed.
///
/// `plan`: the last text of `tp_merge_plan`.
/// `fragments`: `count` paths, in any order.
/// `out_path`: replaced when complete, and as it was on failure.
/// `options`: compression, `TP_MERGE_FSYNC`, progress and `warn` count; NULL for the defaults.
/// `report`: the caller sets its size; written on success. May be NULL.
///
/// Any thread. `TP_STATUS_INVALID_ARGUMENT` for a fragment that is missing, there twice or of another plan,
/// `TP_STATUS_MALFORMED` for one that is not whole, `TP_STATUS_IO`, `TP_STATUS_CANCELLED`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tp_merge_join(
    plan: tp_str,
    fragments: *const tp_str,
    count: usize,
    out_path: tp_str,
    options: *const tp_merge_options,
    report: *mut tp_merge_report,
) -> tp_status {
    guard_waits(|| {
        // SAFETY: the caller vouches for texts and struct.
        let (plan, fragments, target, (options, watcher, warn, warn_data)) = unsafe {
            let fragments = array("fragments", fragments, count)?;
            (owned("plan", plan)?, fragments, path("out_path", out_path)?, self::options(options)?)
        };
        let fragments = fragments
            .iter()
            // SAFETY: as above.
            .map(|&one| Ok(PathBuf::from(unsafe { path("a path", one) }?)))
            .collect::<Result<Vec<_>, Failure>>()?;
        if !report.is_null() {
            // SAFETY: the caller vouches for the struct; it starts with its size.
            unsafe { check_out(report) }?;
        }
        let mut progress = |progress: &Progress| watcher.tell(progress);
        let done = split::join(&plan, &fragments, Target::File(target), &options.write, Some(&mut progress))?;
        // SAFETY: the report was checked above, and the function is the caller's own.
        unsafe { tell(&done, warn, warn_data, report) };
        Ok(())
    })
}
