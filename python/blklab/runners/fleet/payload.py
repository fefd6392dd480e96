"""The part of blklab that measures on other hosts: these modules run on a bare Python."""

from typing import Final

MODULES: Final = (  # Of blklab; importing them imports no others
    *("child_process", "diagnostic", "errors", "outcome", "process_guard", "text", "units"),
    *("documents.cell", "documents.outcome"),
    *("fio.latency", "fio.logs", "fio.node", "fio.output"),
    *("runners.base", "runners.counter_deltas", "runners.load_ramp", "runners.fleet.host_agent"),
    *(f"runners.fio.{name}" for name in ("cell", "command", "jobfile", "process", "program", "steady_state")),
    "runners.fio.target_preparation",
    *(f"runners.host.{name}" for name in ("conditions", "device_safety", "journal", "machine_load", "observed_cell")),
    *(f"runners.host.{name}" for name in ("restore", "runner", "sampler", "scratch_directory", "settings")),
    *("runners.host.system_programs", "runners.host.target_locations"),
    *("spec.documents", "spec.fio_cell", "spec.fio_options", "store.finished_run", "store.series"),
    *(f"system.{name}" for name in ("diskstats", "environment", "identity", "layers", "mounts", "process", "roots")),
    *("system.state_directory", "system.users"),
)
