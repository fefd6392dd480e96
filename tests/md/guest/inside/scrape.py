"""Prints what the exporter answers, as soon as it answers."""

import sys
import time
import urllib.request
from urllib.error import URLError

for _ in range(3000):
    try:
        with urllib.request.urlopen("http://127.0.0.1:19809/metrics") as answer:
            sys.stdout.write(answer.read().decode())
            break
    except URLError:
        time.sleep(0.1)
