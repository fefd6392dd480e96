"""Block traces: characterise, record, turn into fio jobs. Per-record work is in `blklab._core`."""
