"""What keeps a report or a plot from being drawn, in one line for the user."""


class Problem(Exception):
    def __init__(self, text: str, code: int = 2) -> None:
        super().__init__(text)
        self.code = code
