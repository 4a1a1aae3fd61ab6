"""What generated pages have in common."""

NOTE = "<!-- Generated from the code by `make docs`; do not edit. -->"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
