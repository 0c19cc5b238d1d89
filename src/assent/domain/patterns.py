"""The one pattern language; today its glob, which tokens use to say which gates and agents they speak for."""


def glob_matches(pattern: str, text: str) -> bool:
    """Match the whole text; `*` is any run of characters, everything else is literal. Linear time."""
    head, *rest = pattern.split("*")
    if not rest:
        return text == pattern
    *middle, tail = rest
    if len(text) < len(head) + len(tail) or not text.startswith(head) or not text.endswith(tail):
        return False
    position, end = len(head), len(text) - len(tail)
    for piece in middle:
        found = text.find(piece, position, end)
        if found < 0:
            return False
        position = found + len(piece)
    return True
