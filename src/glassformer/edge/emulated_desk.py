"""An emulated board at the desk: `python -m glassformer.edge.emulated_desk FOLDER [TARGET]`.

Compiles desk.c of an exported folder for a target, by default the Cortex-M4F, and runs it in QEMU; the board's serial
port is this program's stdin and stdout. For `glassformer view … --device`.
"""

import signal
import subprocess
import sys
from pathlib import Path

from glassformer.edge.emulator import OUTPUT, QUIET, program
from glassformer.edge.objects import FLAGS
from glassformer.edge.targets import available, find
from glassformer.errors import GlassformerError, SettingError

MAIN = """#include "serial.h"
#define DESK_GET() serial_get()
#define DESK_PUT(byte) serial_put((char)(byte))
#define DESK_FLUSH() ((void)0)
#define main desk_main
#include "desk.c"
#undef main
int main(void)
{
    serial_begin();
    return desk_main();
}
"""


def command(folder: Path, name: str = "m4") -> list[str]:
    target = find(name)
    available(target)
    if not target.qemu:
        raise SettingError(f"{name} is not emulated; `make desk` in {folder} builds for this machine")
    if not (folder / "desk.c").is_file():
        raise SettingError(f"{folder}: there is no desk.c; expected a folder of `glassformer export --to c`")
    folders = (folder.resolve(), folder.resolve() / "src")
    path = program(target, [], MAIN, (*FLAGS, *(f"-I{one}" for one in folders)))
    quiet = ("-serial", "stdio", *QUIET[: QUIET.index("-serial")])
    return [target.qemu, *target.machine, *quiet, *OUTPUT, "-kernel", str(path)]


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what was compiled is removed
    try:
        words = command(Path(sys.argv[1]), *sys.argv[2:3])
    except (GlassformerError, IndexError) as error:
        sys.exit(f"emulated_desk: {error if isinstance(error, GlassformerError) else 'FOLDER [TARGET] expected'}")
    sys.exit(subprocess.run(words).returncode)
