"""Real fio on this machine: what may be written to, what is changed for a run and put back."""
