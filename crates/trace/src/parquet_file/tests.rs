use super::*;
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

fn info() -> impl Strategy<Value = TraceInfo> {
    let name = || "[^\\p{Cc}]{0,12}";
    let counts = (any::<u64>(), any::<u64>(), any::<u64>());
    let clock = (any::<Option<u64>>(), any::<Option<u64>>(), any::<Option<u64>>());
    let lists = (vec(name(), 1..5), vec((any::<u32>(), name()), 0..4), vec((".*", ".*"), 0..4));
    (counts, clock, any::<[bool; 4]>(), lists).prop_map(|(counts, clock, known, lists)| {
        let [layers, processes, directions, completions] = known;
        let input = |name| Input { name, files: vec!["x.parquet".into()] };
        let warning = |(path, message)| Warning { path, message };
        TraceInfo {
            format: "blktrace".into(),
            capabilities: Capabilities { layers, processes, directions, completions, clock_ns: clock.0 },
            inputs: lists.0.into_iter().map(input).collect(),
            start_unix_ns: clock.1,
            dropped: clock.2,
            messages: counts.0,
            out_of_order: counts.1,
            sequence_gaps: counts.2,
            device_names: lists.1,
            warnings: lists.2.into_iter().map(warning).collect(),
            ..TraceInfo::default()
        }
    })
}

/// Information about a file that has not been read.
fn unknown() -> TraceInfo {
    let file = Input { name: String::new(), files: vec!["x.parquet".into()] };
    TraceInfo { format: "parquet".into(), inputs: vec![file], ..TraceInfo::default() }
}

proptest! {
    #[test]
    fn written_metadata_is_read_back(
        info in info(),
        inputs in btree_map(any::<u32>(), any::<prop::sample::Index>(), 0..20),
    ) {
        let mut input_of = InputByDevice::default();
        for (device, index) in inputs {
            let input = index.index(info.inputs.len()) as u16;
            input_of.learn(&Event { device: DeviceId(device), input, ..Event::default() });
        }
        let mut restored = unknown();
        let origin = read_metadata(&write_metadata(&info, &input_of), &mut restored);
        prop_assert_eq!(origin.format.as_deref(), Some("blktrace"));
        prop_assert_eq!(origin.capabilities, Some(info.capabilities));
        prop_assert_eq!(origin.input_of, input_of);
        let expected = TraceInfo {
            format: restored.format.clone(),
            capabilities: restored.capabilities,
            ..info
        };
        prop_assert_eq!(restored, expected);
    }

    #[test]
    fn any_metadata_is_accepted(key in "[a-z_]*|inputs|capabilities|warnings", value in ".*") {
        let mut restored = unknown();
        read_metadata(&[KeyValue::new(key, value)], &mut restored);
        prop_assert!(!restored.inputs.is_empty());
    }
}

#[test]
fn control_characters_in_names_are_removed() {
    let mut restored = unknown();
    let inputs = r#"[{"name": "a\u001b[31m", "devices": [7]}]"#.to_owned();
    read_metadata(&[KeyValue::new("inputs".to_owned(), inputs)], &mut restored);
    assert_eq!(restored.inputs[0].name, "a\u{fffd}[31m");
}
