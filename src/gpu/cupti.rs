//! CUPTI's functions.
//!
//! Nothing here is called before the driver works and has a device (see `discover`).

use super::library::{Loaded, functions};

functions! {
    Functions {
        get_version = "cuptiGetVersion": fn(*mut u32);
    } or {}
}

/// A CUPTI that answers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cupti {
    /// Its own number of its interface.
    pub(super) version: i32,
    /// The CUDA release that it belongs to: major, minor.
    pub(super) cuda: Option<(i32, i32)>,
}

impl Cupti {
    /// Asks for the functions and the version.
    pub(super) fn new(library: Loaded) -> Result<Self, String> {
        let call = Functions::find(library)
            .map_err(|symbol| format!("it has no function {symbol}: it is not NVIDIA's CUPTI, or a very old one"))?;
        let mut version = 0;
        // SAFETY: the driver works; the place is ours.
        let code = unsafe { (call.get_version)(&raw mut version) };
        if code != 0 {
            return Err(format!("cuptiGetVersion failed with {code}: it does not work with this driver"));
        }
        let version = i32::try_from(version).unwrap_or(0);
        Ok(Self { version, cuda: release(version) })
    }
}

/// The CUDA release of a version of CUPTI's interface. 18 is that of 11.8, and of 12.0 and 12.1 as well.
fn release(version: i32) -> Option<(i32, i32)> {
    match version {
        130_000.. => Some((version / 10_000, version % 10_000 / 100)),
        27..100 => Some((12, 9)),
        25 | 26 => Some((12, 8)),
        20..=24 => Some((12, version - 18)),
        17 | 18 => Some((11, version - 10)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::release;

    #[test]
    fn releases_are_told_from_versions() {
        for (version, cuda) in
            [(17, (11, 7)), (18, (11, 8)), (20, (12, 2)), (24, (12, 6)), (26, (12, 8)), (27, (12, 9)), (28, (12, 9))]
        {
            assert_eq!(release(version), Some(cuda));
        }
        assert_eq!(release(130_001), Some((13, 0)));
        assert_eq!(release(130_201), Some((13, 2)));
        assert_eq!(release(130_500), Some((13, 5)));
        assert_eq!(release(0), None);
    }
}
