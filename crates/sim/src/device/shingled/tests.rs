use super::*;

const MB: u64 = 1_000_000;

/// Bands of 10 MB on a disk of 1 GB, and a log of 100 MB.
fn disk(extents: u64, fill: f64) -> Shingled {
    let spec = ShingledSpec {
        media_cache_bytes: 100 * MB,
        media_cache_extents: extents,
        media_cache_fill: fill,
        band_bytes: 10 * MB,
        band_clean_ns: 1_000_000_000,
    };
    Shingled::new(&spec, 1000 * MB)
}

fn segment(at: u64, bytes: u64) -> Segment {
    Segment { at, bytes }
}

#[test]
fn writes_at_random_places_follow_each_other_in_the_log() {
    let mut disk = disk(100, 0.0);
    assert_eq!(disk.write(5 * MB, 4096), [segment(0, 4096)]);
    assert_eq!(disk.write(705 * MB, 8192), [segment(4096, 8192)]);
    assert_eq!(disk.first_byte(55 * MB, true), 12_288);
    assert_eq!(disk.write(50 * MB, 4096), [segment(12_288, 4096)], "a band's beginning alone is no sequence");
}

#[test]
fn a_read_finds_the_newest_data() {
    let mut disk = disk(100, 0.0);
    disk.write(5 * MB, 12_288);
    disk.write(5 * MB + 4096, 4096);
    // 4 KiB before it, the first of the 12 KiB, the newer 4 KiB, the last of the 12 KiB, and 4 KiB behind it.
    let expected = [
        segment(5 * MB - 4096, 4096),
        segment(0, 4096),
        segment(12_288, 4096),
        segment(8192, 4096),
        segment(5 * MB + 12_288, 4096),
    ];
    assert_eq!(disk.read(5 * MB - 4096, 20_480), expected);
    assert_eq!(disk.first_byte(5 * MB + 8192, false), 8192);
    assert_eq!(disk.first_byte(4 * MB, false), 4 * MB);
}

#[test]
fn the_band_of_the_oldest_extent_is_cleaned_first() {
    let mut disk = disk(4, 0.0);
    for place in [705, 5, 707, 205] {
        assert!(!disk.must_clean(place * MB, 4096), "{place}");
        disk.write(place * MB, 4096);
    }
    assert!(disk.must_clean(305 * MB, 4096), "the map holds four extents");
    assert_eq!(disk.clean(), Some(700 * MB));
    assert_eq!(disk.extents.len(), 2, "the band had two of them");
    assert_eq!(disk.read(705 * MB, 4096), [segment(705 * MB, 4096)]);
    assert_eq!((disk.clean(), disk.clean(), disk.clean()), (Some(0), Some(200 * MB), None));
    assert_eq!(disk.bands_cleaned, 3);
}

#[test]
fn a_log_without_space_must_be_cleaned() {
    let mut disk = disk(1000, 0.0);
    (0..9).for_each(|number| drop(disk.write((number * 20 + 1) * MB, 9 * MB)));
    assert!(!disk.must_clean(505 * MB, 19 * MB), "81 of 100 MB are in use");
    assert!(disk.must_clean(505 * MB, 19 * MB + 1));
    disk.clean();
    assert!(!disk.must_clean(505 * MB, 28 * MB));
}

#[test]
fn a_sequential_write_goes_to_bands_from_the_first_one_that_it_begins() {
    let mut disk = disk(100, 0.0);
    assert_eq!(disk.write(8 * MB, MB), [segment(0, MB)]);
    // 1 MB in the log up to the band, then the band.
    assert_eq!(disk.write(9 * MB, 2 * MB), [segment(MB, MB), segment(10 * MB, MB)]);
    assert_eq!(disk.write(11 * MB, 9 * MB), [segment(11 * MB, 9 * MB)]);
    assert_eq!(disk.write(20 * MB, 10 * MB), [segment(20 * MB, 10 * MB)], "and the next band");
    assert_eq!(disk.extents.len(), 1, "two cached writes in sequence are an extent");
    assert!(!disk.must_clean(30 * MB, 200 * MB), "a sequential write does not need the log");
    assert_eq!(disk.write(105 * MB, 4096), [segment(2 * MB, 4096)]);
}

#[test]
fn a_band_that_was_not_written_to_its_end_is_cleaned() {
    let mut disk = disk(100, 0.0);
    disk.write(8 * MB, 7 * MB); // 2 MB cached, 5 MB in the band from 10 MB on
    for number in 1..=STREAMS as u64 {
        disk.write((number * 50 + 8) * MB, 2 * MB);
        disk.write((number * 50 + 10) * MB, 10 * MB);
    }
    assert_eq!(disk.clean(), Some(0));
    let cleaned: Vec<_> = std::iter::from_fn(|| disk.clean()).collect();
    assert_eq!(cleaned.last(), Some(&(10 * MB)));
}

#[test]
fn the_media_cache_can_be_in_use_at_first() {
    let disk = disk(1000, 0.5);
    // 500 pages at random places: no two are the same or neighbours, with this seed.
    assert_eq!(disk.extents.len(), 500);
    let bands: std::collections::BTreeSet<_> = disk.extents.keys().map(|byte| byte / (10 * MB)).collect();
    // Of 100 bands, 100 · (1 − 0.99^500) = 99.3 have a page.
    assert!(bands.len() >= 97, "{}", bands.len());
    assert!(!disk.must_clean(5 * MB, 4096));
}

#[test]
fn data_that_a_sequential_write_has_just_written_are_replaced_in_the_band() {
    let mut disk = disk(100, 0.0);
    disk.write(9 * MB, 6 * MB); // 1 MB cached, 5 MB in the band from 10 MB on
    // Another job writes the same file a little later: in place, and the first one continues.
    assert_eq!(disk.write(12 * MB, MB), [segment(12 * MB, MB)]);
    assert_eq!(disk.write(15 * MB, MB), [segment(15 * MB, MB)]);
    // Beyond what was written, a write is not sequential.
    assert_eq!(disk.write(18 * MB, MB), [segment(MB, MB)]);
    // One that begins behind the end and reaches beyond it moves the end.
    assert_eq!(disk.write(14 * MB, 3 * MB), [segment(14 * MB, 3 * MB)]);
    assert_eq!(disk.write(17 * MB, MB), [segment(17 * MB, MB)]);
}
