"""The statements of a random program, as they are written."""

import random


class Statements:
    """Lines so far, indented by `depth`."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines = rng, list[str]()
        self.depth, self.count = 1, 0

    def emit(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    def name(self, kind: str = "v") -> str:
        """A name that is new."""
        self.count += 1
        return f"{kind}{self.count}"

    def let(self, text: str, kind: str = "v") -> str:
        """Give a value a new name."""
        name = self.name(kind)
        self.emit(f"{name} = {text}")
        return name
