use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn records_round_trip_in_both_orders(bytes in proptest::array::uniform32(any::<u8>()), tail in proptest::array::uniform16(any::<u8>())) {
        let mut raw = [0u8; RECORD];
        raw[..32].copy_from_slice(&bytes);
        raw[32..].copy_from_slice(&tail);
        let little = Record::decode::<false>(&raw);
        prop_assert_eq!(little.encode(ByteOrder::Little), raw);
        let big = Record::decode::<true>(&raw);
        prop_assert_eq!(big.encode(ByteOrder::Big), raw);
    }
}

#[test]
fn remap_payload_is_big_endian_and_names_the_target() {
    let record = Record { magic: MAGIC, action: 15, device: 1, ..Record::default() };
    let pdu = [0, 0xf, 0xd0, 1, 0, 0x90, 0, 0x7f, 0, 0, 0, 0, 0, 0, 3, 0xe8];
    let event = record.event(&pdu);
    assert_eq!(event.arg_device, DeviceId::new(253 >> 8, 0xfd001));
    assert_eq!(event.target_device.to_string(), "9,127");
    assert_eq!(event.arg_sector, 1000);
    assert_eq!(event.payload(), pdu);
}
