use super::*;
use proptest::prelude::*;
use std::collections::HashMap;

proptest! {
    #[test]
    fn set_and_remove_match_a_hash_map(steps in proptest::collection::vec((0u64..200, 0u32..100, any::<bool>()), 0..400)) {
        let (mut starts, mut map) = (StartTable::default(), HashMap::new());
        for (sector, slot, put) in steps {
            if put {
                starts.set(sector * 8, slot);
                map.insert(sector * 8, slot);
            } else {
                starts.remove(sector * 8);
                map.remove(&(sector * 8));
            }
            prop_assert_eq!(starts.get(sector * 8), map.get(&(sector * 8)).copied());
        }
        prop_assert_eq!(starts.iter().collect::<HashMap<_, _>>(), map);
    }
}
