"""The runner `lab`: cells measured on a real kernel in a QEMU guest."""
