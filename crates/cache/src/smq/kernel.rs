//! What changed in smq, by kernel.

/// A state of smq. Later ones have every change of the earlier ones.
///
/// The steps between 4.12-rc1 and 4.12 are those of the fix in 4.12-rc2, in the order of the commits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SmqKernel {
    V4_2, // 4.2 to 4.11: every access counts in the hotspot queue, and a miss replaces a clean block in one step
    /// 4.12-rc1 (b29d4986): only misses count, work runs in the background, promoted blocks start at the bottom.
    V4_12Rc1,
    IdleTime,             // "idle_time" of the I/O tracker fixed. It concerns the target only
    LowerHalf,            // only the lower half of the clean queue is demoted
    WriteBackVictims,     // 78c45607: without a clean victim, a dirty block is written back if there is any
    TopLevel,             // 4d44ec5a: promoted blocks start at the top level
    NoPreemptiveDemotion, // 6cf4cc8f: no demotions before a miss needs a block
    TracksAllIo,          // 701e03e4: the target tracks all I/O, and no block is written back unless it is idle
    V4_15, // 4.15 (deb71918, 1e72a8e8): work is limited, blocks are used in order, writeback skips sentinels when idle
}

/// Every state: its name, and the version or commit by which it is known.
pub const SMQ_KERNELS: &[(SmqKernel, &str)] = &[
    (SmqKernel::V4_2, "4.2"),
    (SmqKernel::V4_12Rc1, "4.12-rc1"),
    (SmqKernel::IdleTime, "idle-time"),
    (SmqKernel::LowerHalf, "lower-half"),
    (SmqKernel::WriteBackVictims, "78c45607"),
    (SmqKernel::TopLevel, "4d44ec5a"),
    (SmqKernel::NoPreemptiveDemotion, "6cf4cc8f"),
    (SmqKernel::TracksAllIo, "701e03e4"),
    (SmqKernel::V4_15, "4.15"),
];

impl SmqKernel {
    /// Parses a version (`4.11.6`, `4.12-rc1`, `6.1.0-13-amd64`) or a name of [`SMQ_KERNELS`].
    pub fn parse(text: &str) -> Option<Self> {
        // A kernel built from a commit has its name behind a plus sign: 4.12.0-rc1+78c45607b909.
        let named = |&&(_, name): &&(SmqKernel, &str)| match text.split_once('+') {
            Some((_, commit)) => commit == name || (name.len() == 8 && commit.starts_with(name)),
            None => text == name,
        };
        if let Some(&(kernel, _)) = SMQ_KERNELS.iter().find(named) {
            return Some(kernel);
        }
        let mut numbers = text.split(['.', '-', '+']);
        let mut number = || numbers.next()?.parse::<u32>().ok();
        match (number()?, number()?) {
            (4, 12) if text.contains("-rc1") => Some(Self::V4_12Rc1),
            (4, 2..=11) => Some(Self::V4_2),
            (4, 12..=14) => Some(Self::TracksAllIo),
            (4, 15..) | (5.., _) => Some(Self::V4_15),
            _ => None,
        }
    }

    /// Before the rework: the interface of 4.11.
    pub fn replaces(self) -> bool {
        self == Self::V4_2
    }
}
