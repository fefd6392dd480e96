//! Where the data of files lie on a volume.

/// Bytes of a file that lie together. It is a multiple of the stripes of arrays with 1 to 10 and with 12 data disks
/// whose chunks are 512 KiB or less, except of 8: a job that writes whole stripes writes whole stripes everywhere.
/// An assumption: filesystems keep large parts of a file together, so that streams seek rarely.
const EXTENT: u64 = 1_260 << 20;

/// Places of files that are spread over a volume, in sectors: their parts lie in the order of the files, at equal
/// distances.
#[derive(Clone, Copy, Debug)]
pub struct Placement {
    extent: u64,
    parts: u64,  // Of the files
    places: u64, // On the volume
}

impl Placement {
    /// Files of `span` sectors on a volume of `sectors`; none if they fill it.
    pub fn spread(span: u64, sectors: u64) -> Option<Self> {
        let extent = EXTENT / 512;
        let (parts, places) = (span.div_ceil(extent), sectors / extent);
        (parts > 0 && places > parts).then_some(Self { extent, parts, places })
    }

    /// Returns where the `count` sectors of the files from `sector` on lie. They are moved into a part if they would
    /// be in two of them.
    pub fn locate(&self, sector: u64, count: u64) -> u64 {
        let part = (sector / self.extent).min(self.parts - 1);
        let place = (2 * part + 1) * self.places / (2 * self.parts);
        let within = (sector - part * self.extent).min(self.extent.saturating_sub(count));
        place * self.extent + within
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: u64 = 4_000_000_000_000 / 512;

    #[test]
    fn files_are_spread_evenly_over_the_volume_in_their_order() {
        let file = (100 << 30) / 512;
        let placement = Placement::spread(file, DISK).unwrap();
        let places: Vec<u64> = (0..100).map(|gib| placement.locate(gib << 21, 8)).collect();
        assert!(places.is_sorted_by(|before, after| before < after));
        assert!(places[0] < DISK / 40 && places[99] > DISK - DISK / 40, "{} {}", places[0], places[99]);
        let middle = places.iter().filter(|place| **place < DISK / 2).count();
        assert!((45..=55).contains(&middle), "{middle}");
    }

    #[test]
    fn neighbours_stay_neighbours() {
        let placement = Placement::spread((100 << 30) / 512, DISK).unwrap();
        assert_eq!(placement.locate(8, 8), placement.locate(0, 8) + 8);
    }

    #[test]
    fn an_io_never_leaves_the_volume() {
        let extent = EXTENT / 512;
        for sectors in [extent * 3, extent * 3 + 1, extent * 7 - 1, DISK] {
            for span in (1..=sectors).step_by((sectors / 97) as usize) {
                let Some(placement) = Placement::spread(span, sectors) else { continue };
                for count in [1, 8, 2048] {
                    let last = span.saturating_sub(count);
                    assert!(placement.locate(last, count) + count <= sectors, "{span} of {sectors}");
                }
            }
        }
        assert!(Placement::spread(DISK, DISK).is_none());
    }
}
