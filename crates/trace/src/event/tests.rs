use super::*;

#[test]
fn an_event_is_one_cache_line() {
    assert!(size_of::<Event>() <= 64);
}

#[test]
fn numbers_survive_as_file_names() {
    let device = DeviceId::new(259, 70_000);
    assert_eq!(DeviceId::from_file_name(&device.file_name()), Some(device));
    assert_eq!(DeviceId::from_file_name("dev-08-1"), None);
    assert_eq!(DeviceId::from_file_name("dev-8-9999999"), None);
}

#[test]
fn flush_without_data_is_a_flush_and_with_data_a_write() {
    let preflush = Rwbs::FLUSH.with(Rwbs::WRITE);
    assert_eq!(op_of(preflush, 0), Op::Flush);
    assert_eq!(op_of(preflush, 4096), Op::Write);
}
