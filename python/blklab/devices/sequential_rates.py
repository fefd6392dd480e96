"""How fast a model of the library reads and writes in order."""

from blklab.devices.stock_models import library_model, stock


def find_sequential_rates(name: str) -> tuple[float, float] | None:
    """Returns the slowest and the fastest rate of a model in bytes per second; None if the model does not say.

    A rotating disk: the inner and the outer track at its speed. Flash: what it programs and what its interface takes.
    The spread of a class is part of the interval.
    """
    model = library_model(name)
    table = stock(name)
    if model.kind == "hdd":
        outer, inner, rpm = (table.get(key) for key in ("outer_track_bytes", "inner_track_bytes", "rpm"))
        if not outer or not inner or not rpm:
            return None
        slowest = float(inner) * float(rpm) / 60
        fastest = float(outer) * float(rpm) / 60
    else:
        units, size, time = (table.get(key) for key in ("units", "program_bytes", "program_ns"))
        read, write = (table.get(key) for key in ("read_bandwidth", "write_bandwidth"))
        if not units or not size or not time or not read or not write:
            return None
        slowest = min(float(units) * float(size) / float(time) * 1e9, float(write))
        fastest = min(float(read), float(write))
    return slowest * (1 - model.spread), fastest * (1 + model.spread)
