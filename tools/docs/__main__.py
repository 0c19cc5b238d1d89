import sys
from collections.abc import Sequence

from tools.docs import PAGES, ROOT


def main(names: Sequence[str]) -> None:
    for name in names or PAGES:
        if name not in PAGES:
            sys.exit(f"{name} is not a generated page. Choose from: {', '.join(PAGES)}")
        path, made = PAGES[name]
        path.write_text(made())
        sys.stdout.write(f"wrote {path.relative_to(ROOT)}\n")


main(sys.argv[1:])
