# SPDX-License-Identifier: Apache-2.0
"""Files of the build for programs of every user, even if the build lies in a closed folder.

    path = open_build.for_everybody(path)

A clone below /root, for example, is closed to other users: they get a copy. The copy lies in
a temporary folder, is made once per test process, and is removed when that process ends.
"""

import atexit
import functools
import glob
import os
import shutil
import tempfile

from harness import BUILD

# These belong together: programs search for each other and for the library by name.
PARTS = ("bin/mps-*", "lib/*", "softgpu/*.so*")


def is_open(path):
    """Whether every user can read and execute the file, under its name and its links."""
    for name in {os.path.abspath(path), os.path.realpath(path)}:
        if os.stat(name).st_mode & 0o005 != 0o005:
            return False
        while name != "/":
            name = os.path.dirname(name)
            if not os.stat(name).st_mode & 0o001:
                return False
    return True


def copy(path, root):
    """A copy with the same path below another root, which every user can read and execute."""
    made = os.path.join(root, os.path.relpath(path, BUILD))
    os.makedirs(os.path.dirname(made), mode=0o755, exist_ok=True)
    if not os.path.lexists(made):
        shutil.copy(path, made, follow_symlinks=False)
    if not os.path.islink(made):
        os.chmod(made, 0o755)
    return made


@functools.lru_cache(maxsize=None)
def root_of_copies():
    root = tempfile.mkdtemp(prefix="mps-build-")
    # A forked child ends with os._exit() or a signal, and so removes nothing.
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    os.chmod(root, 0o755)
    for part in PARTS:
        for path in glob.glob(os.path.join(BUILD, part)):
            copy(path, root)
    return root


@functools.lru_cache(maxsize=None)
def for_everybody(path):
    """The path; if some user cannot read a file of the build, the path of a copy."""
    is_built = path.startswith(BUILD + "/") and os.path.isfile(path)
    # Only root runs programs as another user.
    if os.geteuid() != 0 or not is_built or is_open(path):
        return path
    return copy(path, root_of_copies())
