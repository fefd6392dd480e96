use super::*;

fn remap(to: (u32, u64), from: (u32, u64)) -> Event {
    Event {
        device: DeviceId(to.0),
        target_device: DeviceId(to.0),
        sector: to.1,
        bytes: 4096,
        arg_device: DeviceId(from.0),
        arg_sector: from.1,
        ..Event::default()
    }
}

fn queue(device: u32, sector: u64) -> Event {
    Event { device: DeviceId(device), sector, bytes: 4096, ..Event::default() }
}

#[test]
fn a_bio_comes_from_its_own_remap_though_another_came_between() {
    let mut remaps = Remaps::default();
    remaps.remap(&remap((9, 100), (253, 0)));
    remaps.remap(&remap((9, 500), (254, 0)));
    assert_eq!(remaps.source_of(&queue(9, 100)), DeviceId(253));
    assert_eq!(remaps.source_of(&queue(9, 500)), DeviceId(254));
    assert_eq!(remaps.source_of(&queue(9, 500)), DeviceId(0));
}

#[test]
fn a_plug_may_hold_hundreds() {
    let mut remaps = Remaps::default();
    (0..500).for_each(|n| remaps.remap(&remap((9, n * 8), (253, n))));
    assert!((0..500).all(|n| remaps.source_of(&queue(9, n * 8)) == DeviceId(253)));
}

#[test]
fn unmatched_remaps_are_forgotten() {
    let mut remaps = Remaps::default();
    (0..100_000).for_each(|n| remaps.remap(&remap((9, n * 8), (253, n))));
    assert!(remaps.waiting.len() <= WAITING);
}

#[test]
fn the_source_of_a_remap_through_a_partition_is_the_volume_above_it() {
    let mut remaps = Remaps::default();
    remaps.remap(&remap((81, 100), (253, 0)));
    remaps.remap(&remap((80, 2148), (81, 100)));
    assert_eq!(remaps.source_of(&queue(80, 2148)), DeviceId(253));
}
