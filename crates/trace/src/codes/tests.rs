use super::*;

#[test]
fn letters_round_trip() {
    for letters in ["R", "W", "WS", "RA", "FWFS", "FWS", "RM", "WFSM", "D", "DS", "FN", "N"] {
        let bits = Rwbs::from_letters(letters).unwrap();
        let bytes = if letters.contains('N') { 0 } else { 4096 };
        assert_eq!(bits.letters(bytes).as_str(), letters);
    }
    assert_eq!(Rwbs::from_letters("X"), None);
    assert_eq!(Rwbs::from_letters(""), None);
}

#[test]
fn action_letters_round_trip() {
    for code in (1..=15).chain([0x82]) {
        let action = Action(code);
        assert_eq!(Action::from_letters(action.letters()), Some(action));
    }
}
