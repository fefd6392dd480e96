use super::*;

/// The windows of a program that reads `wanted` pages at a time, until `count` windows are submitted.
fn windows(read_ahead: &mut ReadAhead, wanted: u64, count: usize) -> Vec<Window> {
    let (mut cached, mut mark) = (0, None);
    let mut windows = Vec::new();
    let mut page = 0;
    while windows.len() < count {
        let left = wanted - page % wanted;
        let window = if page >= cached {
            read_ahead.miss(page, left)
        } else if mark == Some(page) {
            read_ahead.reach_mark(page, left)
        } else {
            page += 1;
            read_ahead.advance(page);
            continue;
        };
        (cached, mark) = (window.start + window.pages, window.mark);
        windows.push(window);
    }
    windows
}

fn sizes(most: u64, at_once: u64, wanted: u64, count: usize) -> Vec<u64> {
    let windows = windows(&mut ReadAhead::new(most, at_once), wanted, count);
    windows.iter().map(|window| window.pages).collect()
}

#[test]
fn windows_grow_to_the_limit() {
    // 128 KiB, which is the kernel's default: 16 KiB, 32 KiB, 64 KiB, 128 KiB (the comment on `get_init_ra_size`).
    assert_eq!(sizes(32, 0, 1, 6), [4, 8, 16, 32, 32, 32]);
    assert_eq!(sizes(32, 0, 2, 4), [4, 8, 16, 32]);
    assert_eq!(sizes(32, 0, 4, 3), [8, 16, 32]);
    // `blockdev --setra 16384`: 8 MiB. Four times as much below a sixteenth of it, then twice as much.
    assert_eq!(sizes(2048, 0, 1, 9), [4, 16, 64, 256, 512, 1024, 2048, 2048, 2048]);
}

#[test]
fn windows_follow_each_other_and_are_marked_where_they_begin() {
    let windows = windows(&mut ReadAhead::new(32, 0), 1, 5);
    assert_eq!(windows[0], Window { start: 0, pages: 4, mark: Some(1) }); // All but what the program asked for
    for pair in windows.windows(2) {
        assert_eq!(pair[1].start, pair[0].start + pair[0].pages);
        assert_eq!(pair[1].mark, Some(pair[1].start));
    }
}

#[test]
fn large_calls_get_the_largest_window_at_once() {
    // 32 pages of 32: the mark is in the middle (`readit`).
    let first = windows(&mut ReadAhead::new(32, 0), 32, 2);
    assert_eq!(first[0], Window { start: 0, pages: 32, mark: Some(16) });
    assert_eq!(first[1], Window { start: 32, pages: 32, mark: Some(32) });
    // 1 MiB with a limit of 128 KiB: as much as a request can have (bdi->io_pages), 320 pages of 1280 KiB.
    assert_eq!(windows(&mut ReadAhead::new(32, 320), 256, 1)[0], Window { start: 0, pages: 256, mark: Some(128) });
    // Linux before 4.10 stays at the limit.
    assert_eq!(windows(&mut ReadAhead::new(32, 0), 256, 1)[0], Window { start: 0, pages: 32, mark: Some(16) });
}

#[test]
fn without_read_ahead_each_page_is_read_alone() {
    let windows = windows(&mut ReadAhead::new(0, 320), 16, 3);
    let pages: Vec<_> = windows.iter().map(|window| (window.start, window.pages, window.mark)).collect();
    assert_eq!(pages, [(0, 1, None), (1, 1, None), (2, 1, None)]);
}

#[test]
fn a_file_that_is_not_read_from_its_begin_is_read_ahead_from_the_second_read_on() {
    let mut read_ahead = ReadAhead::new(32, 0);
    assert_eq!(read_ahead.miss(1000, 1), Window { start: 1000, pages: 1, mark: None });
    read_ahead.advance(1001);
    assert_eq!(read_ahead.miss(1001, 1), Window { start: 1001, pages: 4, mark: Some(1002) });
}
