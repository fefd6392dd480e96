use super::*;

#[test]
fn devices_are_numbered_in_order_and_remembered() {
    let mut devices = NamedDevices::default();
    let name = |key: &str| key.replace(',', "_");
    let usr = devices.number(b"usr,0", name);
    let src = devices.number(b"src,1", name);
    assert_ne!(usr, src);
    assert_eq!(devices.number(b"usr,0", name), usr);
    assert_eq!(devices.names[0], (usr.0, "usr_0".into()));
    assert_eq!(devices.number(b"", name), DeviceId::new(NAMED_MAJOR, 2));
}

#[test]
fn too_many_devices_share_a_number() {
    let mut devices = NamedDevices::default();
    for i in 0..NamedDevices::MAX + 10 {
        devices.number(i.to_string().as_bytes(), str::to_owned);
    }
    assert_eq!(devices.names.len(), NamedDevices::MAX);
    assert_eq!(devices.unnumbered, 10);
}
