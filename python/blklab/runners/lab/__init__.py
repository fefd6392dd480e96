"""Real kernels in QEMU: real md, lvm, bcache and fio on virtual disks, without root."""
