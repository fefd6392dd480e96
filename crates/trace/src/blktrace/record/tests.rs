use super::*;
use proptest::prelude::*;

/// The records in big-endian bytes, with their payloads.
pub fn big_endian(mut little: &[u8]) -> Vec<u8> {
    let mut big = Vec::new();
    while let Some((fixed, rest)) = little.split_first_chunk::<RECORD>() {
        let record = Record::decode::<false, RECORD>(fixed);
        let (pdu, rest) = rest.split_at(rest.len().min(record.pdu_len.into()));
        little = rest;
        let mut fields = fixed.as_slice();
        for size in [4, 4, 8, 8, 4, 4, 4, 4, 4, 2, 2] {
            big.extend(fields[..size].iter().rev());
            fields = &fields[size..];
        }
        if record.is_note() && record.action & 0xffff == NOTE_TIMESTAMP {
            pdu.chunks(4).for_each(|word| big.extend(word.iter().rev()));
        } else {
            big.extend(pdu);
        }
    }
    big
}

proptest! {
    #[test]
    fn records_round_trip_in_both_orders(bytes in proptest::array::uniform32(any::<u8>()), tail in proptest::array::uniform16(any::<u8>())) {
        let mut raw = [0u8; RECORD];
        raw[..32].copy_from_slice(&bytes);
        raw[32..].copy_from_slice(&tail);
        let little = Record::decode::<false, RECORD>(&raw);
        prop_assert_eq!(little.encode(), raw);
        let big = Record::decode::<true, RECORD>(&raw);
        prop_assert_eq!(big_endian(&big.encode()), raw);
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

#[test]
fn zone_appends_are_writes() {
    let (zone_append, write, complete) = (1u64 << 16, 1 << 1, 1 << 7);
    let mut raw = [0u8; WIDE_RECORD];
    raw[..4].copy_from_slice(&WIDE_MAGIC.to_le_bytes());
    raw[32..40].copy_from_slice(&(8 | (zone_append | write | complete) << 16).to_le_bytes());
    let (record, size) = Record::first::<false>(&raw).unwrap();
    let event = record.event(&[]);
    assert_eq!((event.action, event.rwbs, size), (Action::COMPLETE, Rwbs::WRITE.with(Rwbs::COMPLETE), WIDE_RECORD));
    assert_eq!(Record::first::<false>(&raw[..WIDE_RECORD - 1]), None);
}
