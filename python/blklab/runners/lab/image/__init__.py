"""The guest's image: a kernel and an initramfs, made of Debian's packages and cached."""

from blklab.runners.lab.image.build import GuestImage, image, list_kernels, prune
from blklab.runners.lab.image.kernels import OfferedKernel, UserKernelOption

__all__ = ["GuestImage", "OfferedKernel", "UserKernelOption", "image", "list_kernels", "prune"]
