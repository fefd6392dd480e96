//! Whether an array still has all its data, whatever members are lost.

use super::{Array, Layout};
use crate::md::map::Place;

impl Array {
    /// What is gone, in one line.
    pub(super) fn survives(&self) -> Result<(), String> {
        let lost = |slot: u32| {
            let slot = &self.slots[slot as usize];
            !slot.present || !slot.readable
        };
        let gone: Vec<u32> = (0..self.slots.len() as u32).filter(|&slot| lost(slot)).collect();
        match &self.layout {
            Layout::Linear(_) | Layout::Raid0(_) => match gone.first() {
                Some(slot) => Err(format!("slot {slot} is lost, and the level has no copies")),
                None => Ok(()),
            },
            Layout::Raid1 if gone.len() == self.slots.len() => Err("no slot has valid data".into()),
            Layout::Raid1 => Ok(()),
            Layout::Raid10(map) => {
                let mut copies = vec![Place { slot: 0, sector: 0 }; map.copies() as usize];
                // Which members have a chunk repeats after as many chunks as there are members.
                let chunks = (self.sectors / map.chunk()).min(u64::from(map.disks()));
                for chunk in 0..chunks {
                    map.places(chunk * map.chunk(), &mut copies);
                    if copies.iter().all(|copy| lost(copy.slot)) {
                        let slots: Vec<String> = copies.iter().map(|copy| copy.slot.to_string()).collect();
                        return Err(format!(
                            "slots {} are lost, all copies of some chunks",
                            slots.join(", ")
                        ));
                    }
                }
                Ok(())
            }
            Layout::Raid456(stripes) => {
                let (lost, parities) = (gone.len() as u32, stripes.map.disks() - stripes.map.data());
                if lost > parities {
                    return Err(format!("{lost} members are lost, {parities} can be"));
                }
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::cell::{Level, Md};
    use crate::testing::{cell, iops, job, md, play, refusal, without};

    fn refused(md: Md) -> String {
        refusal(&cell(md, &iops(0.0), &[]))
    }

    #[test]
    fn too_much_lost_is_refused() {
        let twice = without(without(md(Level::Raid5, 5), 2), 3);
        assert_eq!(refused(twice), "stack: md0: 2 members are lost, 1 can be");
        let mut thrice = without(without(md(Level::Raid6, 6), 2), 3);
        thrice.members[5].rebuilding = true;
        assert_eq!(refused(thrice), "stack: md0: 3 members are lost, 2 can be");
        let striped = without(md(Level::Raid0, 2), 1);
        assert_eq!(refused(striped), "stack: md0: slot 1 is lost, and the level has no copies");
        let mut mirror = without(md(Level::Raid1, 2), 1);
        mirror.members[0].rebuilding = true;
        assert_eq!(refused(mirror), "stack: md0: no slot has valid data");
        let pair = without(without(md(Level::Raid10, 4), 2), 3);
        assert_eq!(refused(pair), "stack: md0: slots 2, 3 are lost, all copies of some chunks");
        let far = Md { near: 1, far: 2, ..without(without(md(Level::Raid10, 4), 3), 0) };
        assert_eq!(refused(far), "stack: md0: slots 3, 0 are lost, all copies of some chunks");
    }

    #[test]
    fn what_is_left_serves() {
        let writes = |md: Md, expected: u64| {
            let outcome = play(&cell(md, &iops(0.0), &[job(64 << 20, 400)]));
            assert_eq!(
                outcome.devices.iter().map(|disk| disk.ios[1] + disk.merges[1]).sum::<u64>(),
                expected
            );
        };
        writes(without(md(Level::Raid1, 3), 0), 800);
        writes(without(without(md(Level::Raid10, 4), 0), 1 + 1), 400);
        writes(without(without(md(Level::Raid1, 3), 0), 2), 400);
    }
}
