"""Simulates a device of the library, changed, as a user does."""

import json
from pathlib import Path
from typing import Any

from tests.conftest import Run


def simulate(run: Run, directory: Path, device: str, workload: str, runtime: str) -> Any:
    """Returns the result; `device` and `workload` are keys of their tables. A workload with a size ends with it."""
    path = directory / "e.toml"
    path.write_text(
        f'[devices]\nd = {{ {device} }}\n[stacks.s]\ndevice = "d"\n'
        f"[workloads.w]\n{workload}\ntime_based = {str('size' not in workload).lower()}\n"
        f'[settings]\nkernel = "6.1"\nruntime = "{runtime}"\n'
    )
    done = run("run", path, "--json", "--explain", "--no-store")
    assert done.status == 0, done.err
    (result,) = json.loads(done.out)
    return result
