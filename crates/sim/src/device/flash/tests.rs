use super::*;

/// One die whose program takes 10 µs and whose page takes 1 µs; everything else is immediate.
fn disk() -> Flash {
    Flash::new(&FlashSpec {
        read_command_ns: 0,
        write_command_ns: 0,
        read_bandwidth: 1 << 50,
        write_bandwidth: 1 << 50,
        read_latency_ns: 0,
        write_latency_ns: 0,
        units: 1,
        page_bytes: 4096,
        page_read_ns: 1000,
        program_bytes: 4096,
        program_ns: 10_000,
        buffer_bytes: 1 << 20,
        suspend_ns: 2000,
        resume_ns: 0,
        turnaround_ns: 0,
        slc_bytes: 0,
        fold_ns: 0,
        cell_bits: 0,
        direct_ns: 0,
        capacity: 0,
        filled_bytes: 0,
        flush_ns: 50_000,
        fua_ns: 20_000,
        sustained_read_command_ns: 0,
        sustained_read_bandwidth: 0,
        sustained_write_bandwidth: 0,
        sustained_write_command_ns: 0,
        cached_write_command_ns: 0,
        slc_fill: None,
        condition: Condition::Fresh,
        used: None,
    })
}

fn done(disk: &mut Flash, now: Time, op: Op, page: u64) -> Time {
    disk.completion_time(now, &DiskCommand { request: 0, op, byte: page * 4096, bytes: 4096, fua: false })
}

#[test]
fn reads_that_wait_share_a_suspension() {
    let mut disk = disk();
    done(&mut disk, 0, Op::Write, 0);
    // Pages 1, 10 and 19 take the mean time, and no page follows another.
    assert_eq!(done(&mut disk, 0, Op::Read, 10), 3000, "the program is suspended, then the page is read");
    assert_eq!(done(&mut disk, 100, Op::Read, 1), 4000, "the program is suspended already");
    assert_eq!(done(&mut disk, 5000, Op::Read, 19), 8000, "the program had continued");
    // Ten, three pages, and two suspensions.
    assert_eq!(disk.dies[0].program_until, 17_000);
}

#[test]
fn a_resumed_program_runs_for_a_while() {
    let mut disk = Flash::new(&FlashSpec { resume_ns: 4000, program_ns: 30_000, ..disk().model });
    done(&mut disk, 0, Op::Write, 0);
    assert_eq!(done(&mut disk, 5000, Op::Read, 10), 8000);
    assert_eq!(done(&mut disk, 9000, Op::Read, 1), 15_000, "from 12 µs on it can be suspended");
    assert_eq!(done(&mut disk, 20_000, Op::Read, 19), 23_000);
}

#[test]
fn a_program_that_no_read_suspended_can_be_suspended_at_once() {
    let mut disk = Flash::new(&FlashSpec { resume_ns: 4000, program_ns: 30_000, ..disk().model });
    // The die reads until 1 µs, and then programs.
    assert_eq!(done(&mut disk, 0, Op::Read, 10), 1000);
    done(&mut disk, 1000, Op::Write, 0);
    assert_eq!(done(&mut disk, 2000, Op::Read, 1), 5000);
    // Its end at 34 µs is that of the suspension; the program behind it was not suspended.
    done(&mut disk, 6000, Op::Write, 1);
    assert_eq!(done(&mut disk, 30_500, Op::Read, 10), 33_500);
    assert_eq!(done(&mut disk, 36_800, Op::Read, 1), 40_000, "the second program begins at 37 µs");
}

#[test]
fn a_read_waits_for_a_program_that_ends_soon() {
    let mut disk = disk();
    done(&mut disk, 0, Op::Write, 0);
    assert_eq!(done(&mut disk, 8500, Op::Read, 10), 11_000);
    assert_eq!(done(&mut disk, 11_000, Op::Read, 1), 12_000);
}

#[test]
fn reads_and_writes_that_take_turns_cost_time() {
    let mut disk = Flash::new(&FlashSpec { turnaround_ns: 300, buffer_bytes: 1 << 30, ..disk().model });
    for op in [Op::Read, Op::Write, Op::Write, Op::Read, Op::Write] {
        done(&mut disk, 0, op, 1);
    }
    assert_eq!(disk.interface_ns.round(), 3.0 * 300.0);
}

#[test]
fn a_flush_takes_its_time_only_after_a_write() {
    let mut disk = disk();
    assert_eq!(done(&mut disk, 1000, Op::Flush, 0), 1000);
    done(&mut disk, 2000, Op::Write, 0);
    assert_eq!(done(&mut disk, 2000, Op::Flush, 0), 52_000);
    assert_eq!(done(&mut disk, 3000, Op::Flush, 0), 52_000, "it waits for the one that runs");
    done(&mut disk, 4000, Op::Write, 1);
    assert_eq!(done(&mut disk, 4000, Op::Flush, 0), 102_000);
}

#[test]
fn writes_that_must_be_durable_share_the_time_for_it() {
    let mut disk = disk();
    let mut durable =
        |now| disk.completion_time(now, &DiskCommand { request: 0, op: Op::Write, byte: 0, bytes: 512, fua: true });
    assert_eq!(durable(1000), 21_000);
    assert_eq!(durable(2000), 41_000, "it came too late for the first");
    assert_eq!(durable(15_000), 41_000, "and this one shares the second");
    assert_eq!(durable(90_000), 110_000);
}

#[test]
fn the_cache_is_smaller_the_fuller_the_disk_is() {
    let spec = |filled: u64, cell_bits| FlashSpec {
        slc_bytes: 200 << 30,
        capacity: 1 << 40,
        filled_bytes: filled << 30,
        cell_bits,
        ..disk().model
    };
    let bytes = |filled, cell_bits| {
        let (slc, direct) = spec(filled, cell_bits).slc_and_direct_bytes();
        (slc / f64::from(1 << 30), direct / f64::from(1 << 30))
    };
    assert_eq!(bytes(0, 0), (200.0, 424.0), "empty: three bits in 200 GiB of the cache are 600 GiB");
    assert_eq!(bytes(224, 4), (180.0, 80.0), "nine tenths of 800 GiB, for four bits");
    assert_eq!(bytes(1024, 3), (5.12, 0.0), "full: a fixed part is left");
}

#[test]
fn data_that_are_written_again_keep_free_blocks() {
    let fill = |pages: u64| {
        let model = FlashSpec {
            slc_bytes: 4 * 4096,
            fold_ns: 40_000,
            direct_ns: 20_000,
            capacity: 20 * 4096,
            buffer_bytes: 4096,
            ..disk().model
        };
        let mut disk = Flash::new(&model);
        for write in 0..20 {
            done(&mut disk, 0, Op::Write, write % pages);
        }
        disk.die_ns
    };
    assert_eq!(fill(6), 4 * 10_000 + 16 * 20_000, "the same six pages");
    assert_eq!(
        fill(20),
        4 * 10_000 + 8 * 20_000 + 8 * 40_000,
        "the whole disk: 20 pages less three for each cached one"
    );
}

#[test]
fn commands_take_longer_when_the_cache_of_single_bit_cells_is_full() {
    let fill = |slc_fill, condition| {
        let model = FlashSpec {
            slc_bytes: 4 * 4096,
            fold_ns: 40_000,
            buffer_bytes: 1 << 20,
            cached_write_command_ns: 1000,
            sustained_write_command_ns: 7000,
            condition,
            slc_fill,
            ..disk().model
        };
        let mut disk = Flash::new(&model);
        (0..6).for_each(|write| _ = done(&mut disk, 0, Op::Write, write));
        disk.interface_ns.round()
    };
    assert_eq!(fill(None, Condition::Used), 4.0 * 1000.0 + 2.0 * 7000.0, "it was idle, so its cache is empty");
    assert_eq!(fill(Some(0.5), Condition::Used), 2.0 * 1000.0 + 4.0 * 7000.0);
    assert_eq!(fill(None, Condition::Worn), (6.0 * 7000.0 * WORN).round(), "after years of writes it is full");
}

#[test]
fn a_full_cache_takes_data_again_after_a_pause() {
    let model = FlashSpec {
        slc_bytes: 4 * 4096,
        fold_ns: 40_000,
        buffer_bytes: 1 << 20,
        condition: Condition::Used,
        ..disk().model
    };
    let mut disk = Flash::new(&model);
    let programmed = |disk: &mut Flash, now| {
        let before = disk.die_ns;
        done(disk, now, Op::Write, 0);
        disk.die_ns - before
    };
    let first: Vec<_> = (0..6).map(|_| programmed(&mut disk, 0)).collect();
    assert_eq!(first, [10_000, 10_000, 10_000, 10_000, 40_000, 40_000]);
    assert_eq!(programmed(&mut disk, 500_000_000), 40_000, "half a second is no pause");
    assert_eq!(programmed(&mut disk, 2_000_000_000), 10_000);
}
