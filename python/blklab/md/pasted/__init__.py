"""Reads what people paste: outputs of mdadm and of the kernel, in text with prose around them.

`blocks` finds the outputs in a text, `examine` and `detail` read those of mdadm, `mdstat` reads /proc/mdstat, and
`inventory` makes the arrays of them: the same model as that of live arrays, and the same rules judge it.
"""
