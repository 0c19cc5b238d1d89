"""`python -m tests.support.wrong_clock -3600 serve`: a machine with a wrong clock that jumps at SIGUSR1 and SIGUSR2."""

import signal
import sys
import time

JUMP = 3600
_right = time.time_ns
_ahead = [int(sys.argv.pop(1))]


def _wrong() -> int:
    return _right() + sum(_ahead) * 1_000_000_000


def _jump(signum: int, _: object) -> None:
    _ahead.append(JUMP if signum == signal.SIGUSR1 else -JUMP)


def main() -> None:
    time.time_ns = _wrong
    time.time = lambda: _wrong() / 1_000_000_000
    signal.signal(signal.SIGUSR1, _jump)
    signal.signal(signal.SIGUSR2, _jump)
    from assent.cli.main import run  # noqa: PLC0415  # imported after the clock is set

    run()


if __name__ == "__main__":
    main()
