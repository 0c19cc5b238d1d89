"""Coverage-guided fuzzing with Atheris, which is not in the pinned requirements: install it with pip.

`python -m tests.fuzz.led` accepts libFuzzer's arguments, such as -max_total_time=600.
"""

import importlib
import sys
import tempfile
from pathlib import Path
from typing import Any


def main() -> None:
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["assent.core", "lark"]):
        patterns: Any = importlib.import_module("tests.fuzz.patterns")
    with tempfile.TemporaryDirectory(prefix="assent-fuzz-") as folder:
        for n, seed in enumerate(patterns.SEEDS):
            Path(folder, f"seed-{n}").write_text(seed)

        def one(given: bytes) -> None:
            patterns.check(given.decode("utf-8", errors="surrogateescape"))

        atheris.Setup([*sys.argv, "-max_len=2500", folder], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
