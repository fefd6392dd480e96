"""Reads what people paste: outputs of mdadm and of the kernel, in text with prose around them.

`blocks` finds the outputs in a text; `examine`, `detail`, `bitmap`, `firmware` and `partial` read those of mdadm,
`mdstat` reads /proc/mdstat, `listed_devices` lsblk and blkid. `versions` chooses among several outputs, and `inventory`
makes the arrays of them: the same model as that of live arrays, and the same rules judge it.
"""
