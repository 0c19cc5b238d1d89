"""Fuzz the pattern parser for a given time. tests/fuzz/led.py does the same, guided by coverage."""

import argparse
import random
import sys
import time

from tests.fuzz.patterns import check, texts


def main() -> None:
    parser = argparse.ArgumentParser(prog="tests.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(2**32))
    options = parser.parse_args()
    tried = accepted = 0
    until = time.monotonic() + options.seconds
    for text in texts(random.Random(options.seed)):
        tried += 1
        try:
            accepted += check(text)
        except Exception as error:
            error.add_note(f"seed {options.seed}, text {text!r}")
            raise
        if time.monotonic() > until:
            break
    sys.stdout.write(f"{tried} texts, {accepted} of them patterns, 0 surprises, seed {options.seed}\n")


if __name__ == "__main__":
    main()
