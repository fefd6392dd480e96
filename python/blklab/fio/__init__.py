"""Parsers of fio's output. They start no process and read nothing of this host."""
