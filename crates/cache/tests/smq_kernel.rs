//! smq against the kernel's own file, compiled as a program. The file is not part of blklab: CONTRIBUTING.md says how to
//! get it. Without it, the test says so and compares nothing.

use blklab_cache::{Access, Geometry, Lookup, Operation, Policy, Smq, SmqKernel, Work};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const ORIGIN_BLOCKS: u64 = 1 << 16;
const BLOCK_SECTORS: u32 = 128;
const COPIED: [&str; 6] = [
    "dm-cache-policy-smq.c",
    "dm-cache-background-tracker.c",
    "dm-cache-background-tracker.h",
    "dm-cache-policy.h",
    "dm-cache-policy-internal.h",
    "dm-cache-block-types.h",
];
const STUBS: [&str; 10] = [
    "dm.h",
    "persistent-data/dm-block-manager.h",
    "linux/device-mapper.h",
    "linux/hash.h",
    "linux/jiffies.h",
    "linux/math64.h",
    "linux/module.h",
    "linux/mutex.h",
    "linux/vmalloc.h",
    "linux/rbtree.h",
];

/// A line of a script: a command and three numbers, as `smq_kernel/program.c` reads them.
type Step = (char, u64, u64, u64);

/// Pseudo-random numbers: every run has the same scripts.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// How a script behaves.
struct Load {
    name: &'static str,
    cache_blocks: u32,
    working_set: u64, // blocks
    drift: u64,       // accesses until the working set moves by one block; 0: it stays
    writes: u64,      // percent
    fast: u64,        // percent of the writes that need no copy
    overwrites: u64,  // percent of the writes that fill their block; the target needs the work at once
    failures: u64,    // percent of the work that fails
    slow: u64,        // pieces of work that run at a time; one of them ends, and not the oldest
    loaded: u64,      // cache blocks in use at the beginning
    tick_ms: u64,     // time between ticks
}

const QUIET: Load = Load {
    name: "reads, all fit",
    cache_blocks: 256,
    working_set: 200,
    drift: 0,
    writes: 0,
    fast: 0,
    overwrites: 0,
    failures: 0,
    slow: 1,
    loaded: 0,
    tick_ms: 20,
};

const LOADS: [Load; 10] = [
    QUIET,
    Load { name: "reads, four times the cache", working_set: 1024, ..QUIET },
    Load { name: "a working set that moves", working_set: 300, drift: 3, ..QUIET },
    Load { name: "reads and writes", working_set: 600, writes: 40, fast: 20, ..QUIET },
    Load { name: "overwritten blocks", working_set: 800, writes: 70, overwrites: 60, ..QUIET },
    Load { name: "work that fails", working_set: 500, writes: 30, failures: 30, drift: 5, ..QUIET },
    Load { name: "slow work", working_set: 2000, writes: 30, slow: 20, ..QUIET },
    Load { name: "more work than the kernel queues", working_set: 9000, cache_blocks: 8192, slow: 100_000, ..QUIET },
    Load { name: "a cache in use", working_set: 700, writes: 20, loaded: 256, drift: 10, ..QUIET },
    Load { name: "long pauses", working_set: 400, writes: 50, fast: 50, drift: 20, tick_ms: 900, ..QUIET },
];

fn script(load: &Load) -> Vec<Step> {
    let mut numbers = Numbers(load.working_set * 1000 + load.writes);
    let mut steps: Vec<Step> = (0..load.loaded).map(|block| ('l', block, block, block % 2)).collect();
    let mut now_ms = 0;
    for count in 0..60_000u64 {
        let start = count.checked_div(load.drift).unwrap_or(0);
        // Half of the accesses go to an eighth of the blocks.
        let span = if numbers.below(2) == 0 { load.working_set / 8 } else { load.working_set };
        let block = (start + numbers.below(span)) % ORIGIN_BLOCKS;
        let mut chance = |percent| u64::from(numbers.below(100) < percent);
        let write = chance(load.writes);
        if write == 1 && chance(load.overwrites) == 1 {
            steps.push(('o', block, 0, 0));
        } else {
            steps.push(('a', block, write, write * chance(load.fast)));
        }
        if write == 1 {
            steps.push(('d', block, 1, 0));
        }
        steps.push(('b', u64::from(count % 64 == 0), 0, 0));
        let success = 1 - chance(load.failures);
        steps.push(('c', numbers.below(load.slow), success, 0));
        if count % 8 == 0 {
            now_ms += load.tick_ms;
            steps.push(('t', now_ms, 0, 0));
        }
    }
    steps
}

/// What our policy decides, in the words of `smq_kernel/program.c`.
fn decisions(cache_blocks: u32, steps: &[Step]) -> String {
    let geometry = Geometry { origin_blocks: ORIGIN_BLOCKS, cache_blocks, block_sectors: BLOCK_SECTORS };
    let mut smq = Smq::new(geometry, SmqKernel::V4_15);
    let (mut running, mut output) = (vec![], String::new());
    let cache_hit = |lookup| if let Lookup::Hit(block) = lookup { Some(block) } else { None };
    for &(command, first, second, third) in steps {
        let access = |write, fast_copy| Access { block: first, sector: first * 128, sectors: 8, write, fast_copy };
        match command {
            'a' => match smq.lookup(access(second == 1, third == 1)) {
                Lookup::Hit(block) => writeln!(output, "hit {block}").unwrap(),
                Lookup::Miss { background_work } => {
                    writeln!(output, "miss {}", u32::from(background_work)).unwrap();
                }
            },
            'o' => {
                let (lookup, work) = smq.lookup_with_work(access(true, true));
                match cache_hit(lookup) {
                    Some(block) => writeln!(output, "hit {block}").unwrap(),
                    None => print_work(&mut output, &mut running, work, true),
                }
            }
            'b' => print_work(&mut output, &mut running, smq.get_background_work(first == 1), false),
            'c' if (first as usize) < running.len() => {
                let (work, overwritten) = running.remove(first as usize);
                complete(&mut smq, work, overwritten, second == 1);
            }
            'd' => match smq.cached_at(first) {
                Some(block) if second == 1 => smq.set_dirty(block),
                Some(block) => smq.clear_dirty(block),
                None => (),
            },
            'l' => smq.load_mapping(first, second as u32, third == 1, None).unwrap(),
            't' => smq.tick(first * 1_000_000),
            _ => (),
        }
    }
    writeln!(output, "residency {}", smq.residency()).unwrap();
    for block in 0..ORIGIN_BLOCKS {
        if let Some(at) = smq.cached_at(block) {
            writeln!(output, "{block} at {at} level {}", smq.get_hint(at)).unwrap();
        }
    }
    output
}

fn print_work(output: &mut String, running: &mut Vec<(Work, bool)>, work: Option<Work>, overwritten: bool) {
    let Some(work) = work else { return output.push_str("none\n") };
    let name = format!("{:?}", work.operation).to_lowercase();
    writeln!(output, "{name} {} {}", work.origin_block, work.cache_block).unwrap();
    running.push((work, overwritten));
}

fn complete(smq: &mut Smq, work: Work, overwritten: bool, success: bool) {
    let promoted = work.operation == Operation::Promote;
    if success && !promoted {
        smq.clear_dirty(work.cache_block);
    }
    smq.complete_background_work(work, success);
    match (success && promoted, overwritten) {
        (true, true) => smq.set_dirty(work.cache_block),
        (true, false) => smq.clear_dirty(work.cache_block),
        (false, _) => (),
    }
}

/// Compiles the kernel's file, with headers of our own for all that is not dm-cache.
fn compile(kernel: &Path) -> PathBuf {
    let own = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/smq_kernel");
    let build = Path::new(env!("CARGO_TARGET_TMPDIR")).join("smq_kernel");
    for name in STUBS {
        std::fs::create_dir_all(build.join(name).parent().unwrap()).unwrap();
        std::fs::write(build.join(name), "#include \"kernel.h\"\n").unwrap();
    }
    for name in COPIED {
        std::fs::copy(kernel.join("drivers/md").join(name), build.join(name)).unwrap();
    }
    let program = build.join("program");
    let mut compiler = Command::new("cc");
    compiler.args(["-std=gnu11", "-O1", "-w", "-I"]).arg(&build).arg("-I").arg(&own).arg("-o").arg(&program);
    assert!(compiler.arg(own.join("program.c")).status().unwrap().success(), "{compiler:?}");
    program
}

fn kernel_decisions(program: &Path, cache_blocks: u32, steps: &[Step]) -> String {
    let mut input = format!("{cache_blocks} {ORIGIN_BLOCKS} {BLOCK_SECTORS}\n");
    for (command, first, second, third) in steps {
        writeln!(input, "{command} {first} {second} {third}").unwrap();
    }
    let mut child = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()).unwrap());
    let done = child.wait_with_output().unwrap();
    writer.join().unwrap();
    assert!(done.status.success(), "{:?}", done.status);
    String::from_utf8(done.stdout).unwrap()
}

#[test]
fn decides_as_the_kernel_itself() {
    let kernel = std::env::var("BLKLAB_KERNEL_SOURCE").unwrap_or("/usr/src/linux-source-6.1".into());
    if !Path::new(&kernel).join("drivers/md").join(COPIED[0]).exists() {
        // Past the harness, which shows nothing of tests that pass.
        let reason = format!("skipped: no kernel sources in {kernel}: CONTRIBUTING.md says how to unpack them\n");
        return std::io::stderr().write_all(reason.as_bytes()).unwrap();
    }
    let program = compile(Path::new(&kernel));
    let mut unequal = vec![];
    for load in &LOADS {
        let steps = script(load);
        let ours = decisions(load.cache_blocks, &steps);
        let kernels = kernel_decisions(&program, load.cache_blocks, &steps);
        if let Some(line) = ours.lines().zip(kernels.lines()).position(|(a, b)| a != b) {
            let line_of = |text: &str| text.lines().nth(line).map(str::to_owned);
            unequal.push((load.name, line, line_of(&ours), line_of(&kernels)));
        } else {
            assert_eq!(ours.len(), kernels.len(), "{}", load.name);
        }
    }
    assert!(unequal.is_empty(), "{} of {} scripts differ: {unequal:#?}", unequal.len(), LOADS.len());
}
