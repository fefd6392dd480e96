"""Lists the modules that are sent to other hosts."""

PAYLOAD = (  # Of blklab; importing them imports no others
    *("diagnostic", "errors", "grouping", "outcome", "text.printing", "units"),
    *("documents.cell", "documents.outcome"),
    *("fio.latency", "fio.logs", "fio.node", "fio.output"),
    *("runners.base", "runners.counter_deltas", "runners.load_ramp", "runners.fleet.host_agent"),
    *(f"runners.fio.{name}" for name in ("cell", "jobfile", "process")),
    "runners.fio.target_preparation",
    *(f"runners.host.{name}" for name in ("conditions", "journal", "restore", "runner")),
    *(f"runners.host.{name}" for name in ("scratch_directory", "settings", "target_locations")),
    *("experiment.documents", "fio.option_values", "store.series"),
    *("system.child_process", "system.remote_program", "system.signatures"),
    *(
        f"system.{name}"
        for name in (
            "diskstats",
            "environment",
            "file_lock",
            "identity",
            "layers",
            "mounts",
            "process",
            "roots",
            "shingled",
        )
    ),
    *("system.state_directory", "system.users"),
)
"""The modules that measure on other hosts; they run on a bare Python."""
