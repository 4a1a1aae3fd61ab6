"""Check a commit message: a plain subject of at most 72 characters, an empty line, and a body that says why.

pre-commit calls it with the file that holds the message: ``python3 scripts/commit_message.py .git/COMMIT_EDITMSG``.
"""

import sys
from pathlib import Path

LONGEST_SUBJECT = 72
MADE_BY_GIT = ("Merge ", "Revert ", "fixup! ", "squash! ", "amend! ")  # git writes these subjects itself
SCISSORS = "# ------------------------ >8 ------------------------"


def problems(message: str) -> list[str]:
    """Return what is wrong with a message, one sentence each; comments of git are not part of it."""
    written = message.partition(SCISSORS)[0]
    lines = [line.rstrip() for line in written.splitlines() if not line.startswith("#")]
    subject, *rest = "\n".join(lines).strip().split("\n")
    if not subject:
        return ["The message is empty. Say what changes in the first line and why below."]
    if subject.startswith(MADE_BY_GIT):
        return []
    found = []
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"The subject has {len(subject)} characters. Cut it to {LONGEST_SUBJECT}; the rest goes below.")
    if subject.endswith("."):
        found.append("The subject ends with a full stop. Leave it out.")
    if rest and rest[0]:
        found.append("The second line is not empty. Leave it empty between subject and body.")
    if not any(rest):
        found.append("There is no body. Say below why the change is made.")
    return found


def main(arguments: list[str]) -> int:
    found = problems(Path(arguments[0]).read_text(encoding="utf-8"))
    for each in found:
        print(f"commit message: {each}", file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
