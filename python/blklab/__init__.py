"""blklab: a laboratory for Linux block storage."""

__version__: str
DEBUG_BUILD: bool

__all__ = ["DEBUG_BUILD", "__version__"]


def __getattr__(name: str) -> object:
    # Looked up when asked for: the console script must import nothing before it can be interrupted.
    if name not in __all__:
        raise AttributeError(f"module 'blklab' has no attribute {name!r}")
    from blklab._core import DEBUG_BUILD, VERSION

    return VERSION if name == "__version__" else DEBUG_BUILD
