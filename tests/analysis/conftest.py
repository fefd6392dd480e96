"""A reference directory that tests change."""

from pathlib import Path

import pytest

TABLES = {
    "targets.toml": """
[workload_common]
bs = "4k"
numjobs = 2
iodepth = 4
size = "1g"
runtime = 1

[tests]
randread = { rw = "randread" }

[targets]
ssd = { device = "ssd" }
pair = { level = 1, members = ["ssd", "ssd"], kernel = "4.19" }
""",
    "fio_runs.csv": """\
target,test,runtime_ms,read_ios,write_ios,read_iops,write_iops
ssd,randread,1000,50000,0,50000.5,0.0
pair,randread,1000,90000,0,90000,0
""",
    "fio_device_io.csv": """\
target,test,device,read_ios,write_ios
ssd,randread,sda,50000,0
pair,randread,md0,90000,0
pair,randread,sda,45000,0
pair,randread,sdb,45000,0
""",
    "randomio_runs.csv": """\
config,threads,io_bytes,read_iops,write_iops,read_lat_avg_ms,write_lat_avg_ms
md10fs,1,512,89.1,23.2,11.2,0.2
""",
}


@pytest.fixture
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Returns the directory, `ref`, of which the current one is the parent."""
    monkeypatch.chdir(tmp_path)
    path = Path("ref")
    path.mkdir()
    for name, text in TABLES.items():
        (path / name).write_text(text)
    return path
