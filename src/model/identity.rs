//! Which process of which job a trace comes from.

/// The place of a process in a distributed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RankWorld {
    /// The number of this process in the job.
    pub rank: Option<i64>,
    /// The number of processes in the job.
    pub world_size: Option<i64>,
}

impl RankWorld {
    /// From `RANK`, else `TP_RANK`, and `WORLD_SIZE`, else `TP_WORLD_SIZE`. If either is not an integer, neither counts.
    pub fn from_env() -> Self {
        let get = |first: &str, second: &str| std::env::var(first).or_else(|_| std::env::var(second)).ok();
        Self::parse(get("RANK", "TP_RANK").as_deref(), get("WORLD_SIZE", "TP_WORLD_SIZE").as_deref())
    }

    fn parse(rank: Option<&str>, world: Option<&str>) -> Self {
        let number = |text: Option<&str>| text.map_or(Ok(None), |text| parse_int(text).map(Some).ok_or(()));
        match (number(rank), number(world)) {
            (Ok(rank), Ok(world_size)) => Self { rank, world_size },
            _ => Self::default(),
        }
    }
}

/// An integer as Python's `int()` reads one: blanks around it, a sign, single underscores between digits.
fn parse_int(text: &str) -> Option<i64> {
    let text = text.trim();
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    let well_formed = !digits.is_empty()
        && digits.split('_').all(|group| !group.is_empty() && group.bytes().all(|b| b.is_ascii_digit()));
    if !well_formed {
        return None;
    }
    text.replace('_', "").parse().ok()
}

/// The name of this program: what the system calls the process, else the executable's file name.
pub(crate) fn program_name() -> String {
    let comm = std::fs::read_to_string("/proc/self/comm").ok().map(|name| name.trim_end_matches('\n').to_owned());
    comm.filter(|name| !name.is_empty())
        .or_else(|| std::env::current_exe().ok()?.file_name()?.to_str().map(str::to_owned))
        .unwrap_or_else(|| "process".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_as_python_reads_them() {
        for (text, value) in [("3", 3), (" 4 ", 4), ("+8", 8), ("-1", -1), ("1_000", 1000), ("\t7\n", 7), ("007", 7)] {
            assert_eq!(parse_int(text), Some(value), "{text:?}");
        }
        for text in ["", " ", "abc", "1.0", "0x10", "_1", "1_", "1__0", "+ 8", "--1", "1 2"] {
            assert_eq!(parse_int(text), None, "{text:?}");
        }
    }

    #[test]
    fn one_bad_value_spoils_both() {
        assert_eq!(RankWorld::parse(Some("abc"), Some("8")), RankWorld::default());
        assert_eq!(RankWorld::parse(Some("1"), Some("x")), RankWorld::default());
        assert_eq!(RankWorld::parse(Some("1"), None), RankWorld { rank: Some(1), world_size: None });
        assert_eq!(RankWorld::parse(None, Some("5")), RankWorld { rank: None, world_size: Some(5) });
    }
}
