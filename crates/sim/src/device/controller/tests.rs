use super::*;

fn command(op: Op, byte: u64, bytes: u32) -> DiskCommand {
    DiskCommand { request: 0, op, byte, bytes, fua: false }
}

#[test]
fn cached_writes_are_read_and_drained_in_the_order_of_their_bytes() {
    let mut controller = Controller::new(&ControllerSpec { write_cache_bytes: 16_384, ..Default::default() });
    for byte in [81_920, 8192, 4096] {
        assert_eq!(controller.start(1, command(Op::Write, byte, 4096)), Admission::Cached);
    }
    assert_eq!(controller.start(1, command(Op::Read, 4608, 512)), Admission::Cached);
    assert_eq!(controller.start(1, command(Op::Read, 12_288, 512)), Admission::Passed);
    assert_eq!(controller.start(2, command(Op::Read, 4608, 512)), Admission::Passed, "another disk");
    assert_eq!(controller.start(1, command(Op::Write, 0, 8192)), Admission::Waits, "it is full");
    assert_eq!(controller.start(1, command(Op::Flush, 0, 0)), Admission::Cached);
    assert_eq!(controller.next_dirty(1, 0), Some((4096, 8192)));
    assert!(controller.admit().is_none(), "the disk has not written them yet");
    controller.free(8192);
    assert_eq!(controller.admit().map(|(disk, waiting)| (disk, waiting.byte)), Some((1, 0)));
    assert_eq!(controller.next_dirty(1, 12_288), Some((81_920, 4096)));
    assert_eq!(controller.next_dirty(1, 86_016), Some((0, 8192)), "from the beginning again");
    assert_eq!(controller.next_dirty(1, 0), None);
}

#[test]
fn completions_are_held_back_from_three_commands_on() {
    let mut controller = Controller::new(&ControllerSpec { coalesce_ns: 100, ..Default::default() });
    for _ in 0..4 {
        assert_eq!(controller.start(1, command(Op::Read, 0, 4096)), Admission::Passed);
    }
    let at: Vec<Time> = [1000, 1040, 1100, 1101].into_iter().map(|now| controller.serve(now, 4096).0).collect();
    assert_eq!(at, [1100, 1100, 1100, 1101], "the last is alone");
}
