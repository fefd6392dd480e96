use super::*;

#[test]
fn syncs_and_bios_take_turns() {
    let mut barrier = Barrier::new(true);
    assert!(barrier.enter(1, 0, true) && barrier.raise(1 << 30) && barrier.is_pending(0));
    // The barrier is raised: new tasks wait, and the sync begins no other piece.
    assert!(!barrier.enter(2, 8, false) && !barrier.raise(0));
    barrier.leave(0);
    assert!(!barrier.is_pending(0) && barrier.woken.is_empty());
    barrier.lower(0);
    assert_eq!(barrier.woken.len(), 1);
    assert!(!barrier.raise(0));
    assert!(barrier.enter(2, 8, false) && barrier.raise(0));
}

#[test]
fn raid1_has_many_barriers_and_reads_pass_them() {
    let mut barrier = Barrier::new(false);
    assert!((0..DEPTH).all(|_| barrier.raise(0)) && !barrier.raise(0) && barrier.raise(1 << UNIT_BITS));
    assert!(barrier.enter(1, 0, false) && barrier.enter(1, 3 << UNIT_BITS, true));
    assert!(!barrier.enter(1, 0, true));
}
