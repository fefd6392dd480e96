"""Block traces: characterise, record, convert, and turn into fio jobs. `blklab._core` does the work per event."""
