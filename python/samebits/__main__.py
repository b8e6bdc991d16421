"""`python -m samebits ARGUMENTS`: the `samebits` program that came in the same wheel."""

import os
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Optional


def program() -> Optional[str]:
    """Where this installation put it; SAMEBITS_BIN names another."""
    name = "samebits.exe" if os.name == "nt" else "samebits"
    user = sysconfig.get_path("scripts", f"{os.name}_user")
    folders = [sysconfig.get_path("scripts"), user, str(Path(sys.executable).parent)]
    found = [Path(folder) / name for folder in folders if folder]
    named = os.environ.get("SAMEBITS_BIN")
    return named or next((str(path) for path in found if path.is_file()), None)


def main() -> int:
    """Runs it with the same arguments and hands on its exit code."""
    path = program()
    if path is None:
        print(
            "samebits: the program is not beside this Python; install the wheel (pip install samebits), or build it "
            "with `cargo install --path .` and set SAMEBITS_BIN to it",
            file=sys.stderr,
        )
        return 64
    if os.name == "posix":
        os.execv(path, [path, *sys.argv[1:]])
    return subprocess.run([path, *sys.argv[1:]], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
