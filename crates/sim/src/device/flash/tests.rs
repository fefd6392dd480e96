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
        slc_bytes: 0,
        fold_ns: 0,
        used: None,
    })
}

fn done(disk: &mut Flash, now: Time, op: Op, page: u64) -> Time {
    disk.completion_time(now, &DiskCommand { request: 0, op, byte: page * 4096, bytes: 4096 })
}

#[test]
fn reads_that_wait_share_a_suspension() {
    let mut disk = disk();
    done(&mut disk, 0, Op::Write, 0);
    // Pages 1, 10 and 19 take the mean time, and no page follows another.
    assert_eq!(done(&mut disk, 0, Op::Read, 10), 3000, "the program is suspended, then the page is read");
    assert_eq!(done(&mut disk, 100, Op::Read, 1), 4000, "the program is suspended already");
    assert_eq!(done(&mut disk, 5000, Op::Read, 19), 8000, "the program had continued");
    // Ten, three pages, and half of each of two suspensions.
    assert_eq!(disk.dies[0].program_until, 15_000);
}

#[test]
fn a_read_waits_for_a_program_that_ends_soon() {
    let mut disk = disk();
    done(&mut disk, 0, Op::Write, 0);
    assert_eq!(done(&mut disk, 8500, Op::Read, 10), 11_000);
    assert_eq!(done(&mut disk, 11_000, Op::Read, 1), 12_000);
}
