"""blklab: a laboratory for Linux block storage."""

from blklab._core import DEBUG_BUILD, VERSION

__version__ = VERSION

__all__ = ["DEBUG_BUILD", "__version__"]
