"""The guest's image: a kernel and an initramfs, made of Debian's packages and cached."""

from blklab.runners.lab.image.build import Image, image, offered, prune
from blklab.runners.lab.image.kernels import Offered, Own, Packaged

__all__ = ["Image", "Offered", "Own", "Packaged", "image", "offered", "prune"]
