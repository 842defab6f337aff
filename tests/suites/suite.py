# SPDX-License-Identifier: Apache-2.0
"""The suites of the folder `catalogue', and how each is installed.

A file there describes one suite:

    TITLE              its name in the table
    DISTRIBUTION       the package of the registry whose version is that of the suite
    PACKAGE            what Python imports
    REQUIREMENTS       what pip installs, each package with its version
    WITH_DEPENDENCIES  also what these packages ask for
    PREFER_INSTALLED   not if this machine's Python can import PACKAGE
    REQUIREMENTS_GPU   what pip installs in addition on a real GPU
    SOURCE             a package that pip then builds from its source, which stays in `src'
    ENV, FOLDERS       variables of its programs, and variables that name an empty folder of a unit
    UNIT_LIMIT_S       the longest time of a unit
    STALL_S            a test that takes longer hangs
    NEEDS              `machine code' if the suite's kernels are not PTX, so that it needs a GPU
    SHORT              the units of a short run; none: a short run leaves the suite out
    LEFT_OUT           patterns of the shell for UNIT or UNIT:TEST that do not run, with the reasons
    TOO_SLOW           the same, on the software GPU only
    configure(source)     (optional) what to do with the unpacked source before it is built
    prepare(site, real)   (optional) what to do after the installation
    units(site)           the names of the units
    command(site, unit)   the arguments of Python that run a unit and report (outcomes.py)
"""

import fnmatch
import glob
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys

CATALOGUE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "catalogue")
AUTHORITIES = "/etc/ssl/certs/ca-certificates.crt"


class CannotInstall(Exception):
    """The suite cannot be installed; the text says why."""


def name_of(path):
    return os.path.splitext(os.path.basename(path))[0]


def paths(catalogue, wanted=()):
    """The files of all suites, or of those with these names."""
    found = sorted(glob.glob(os.path.join(catalogue, "*.py")))
    unknown = set(wanted) - {name_of(path) for path in found}
    assert not unknown, "no such suite: %s" % " ".join(sorted(unknown))
    return [path for path in found if not wanted or name_of(path) in wanted]


def load(path):
    """A Python file as a module, without its folder in sys.path: it may be named as a package."""
    spec = importlib.util.spec_from_file_location("suite_" + name_of(path), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Suite:
    """One suite, and the Python with which it runs."""

    def __init__(self, path, real, out):
        self.name = name_of(path)
        self.about = load(path)
        self.real = real
        self.folder = os.path.join(out, self.name)
        self.python = self.site = self.title = None
        self.env = dict(getattr(self.about, "ENV", {}))
        self.left_out = dict(getattr(self.about, "LEFT_OUT", {}))
        if not real:
            self.left_out.update(getattr(self.about, "TOO_SLOW", {}))
        self.folders = getattr(self.about, "FOLDERS", ())
        self.unit_limit_s = getattr(self.about, "UNIT_LIMIT_S", 900)
        self.stall_s = getattr(self.about, "STALL_S", 180)

    def needs_gpu(self):
        """Whether its kernels are machine code, which the software GPU does not run."""
        return getattr(self.about, "NEEDS", None) == "machine code"

    def words(self, unit):
        """The command that runs a unit."""
        return [self.python, *self.about.command(self.site, unit)]

    def units(self, short):
        """The units to run, in order."""
        found = sorted(self.about.units(self.site))
        if short:
            assert set(self.about.SHORT) <= set(found), "%s: no such unit in SHORT" % self.name
            return list(self.about.SHORT)
        return [unit for unit in found
                if not any(fnmatch.fnmatchcase(unit, pattern) for pattern in self.left_out)]

    def left_out_tests(self, unit):
        """Patterns for the tests of a unit that do not run."""
        pairs = (pattern.partition(":") for pattern in self.left_out)
        return [test for of, colon, test in pairs if colon and fnmatch.fnmatchcase(unit, of)]

    # ---- installation

    def install(self):
        """Installs the suite into a folder of its own, unless that is done or a Python is given.

        Without a network, this machine's Python serves if it has the package.
        """
        given = os.environ.get("SUITES_PYTHON")
        if not given and getattr(self.about, "PREFER_INSTALLED", False) and self.importable():
            given = sys.executable
        if given:
            self.use(given)
            return
        try:
            self.install_wheels()
        except CannotInstall:
            if not self.importable():
                raise
            self.use(sys.executable)

    def install_wheels(self):
        """A virtual environment, with a stamp that says what is installed there."""
        wanted = self.about.REQUIREMENTS + (
            getattr(self.about, "REQUIREMENTS_GPU", []) if self.real else [])
        python = os.path.join(self.folder, "bin", "python")
        stamp = os.path.join(self.folder, "." + hashlib.sha256(
            " ".join(wanted + [getattr(self.about, "SOURCE", ""), sys.version, str(self.real)])
            .encode()).hexdigest()[:16])
        if os.path.exists(stamp):
            self.use(python)
            return
        shutil.rmtree(self.folder, ignore_errors=True)
        self.pip_install(python, wanted)
        if hasattr(self.about, "SOURCE"):
            self.build(python, self.about.SOURCE)
        self.use(python)
        if hasattr(self.about, "prepare"):
            self.prepare()
        with open(stamp, "w", encoding="ascii"):
            pass

    def prepare(self):
        """What the suite itself does after the installation."""
        try:
            self.about.prepare(self.site, self.real)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CannotInstall("cannot be prepared: %s" % error) from error

    def pip_install(self, python, wanted):
        """The environment has no pip: that of this machine installs into it."""
        extent = [] if getattr(self.about, "WITH_DEPENDENCIES", False) else ["--no-deps"]
        self.must([sys.executable, "-m", "venv", "--without-pip", self.folder])
        self.pip(["--python", python, "install", *extent, "--only-binary=:all:",
                  "--root-user-action=ignore", *wanted])

    def build(self, python, package):
        """Fetches the source of a package, and builds it with what is installed."""
        folder = os.path.join(self.folder, "src")
        self.pip(["--python", python, "download", "--no-deps", "--no-build-isolation",
                  "--no-binary=" + package.partition("==")[0], "--dest", folder, package])
        archive = glob.glob(os.path.join(folder, "*"))[0]
        shutil.unpack_archive(archive, folder)
        os.unlink(archive)
        source = glob.glob(os.path.join(folder, "*"))[0]
        if hasattr(self.about, "configure"):
            self.about.configure(source)
        self.pip(["--python", python, "install", "--no-deps", "--no-build-isolation",
                  "--root-user-action=ignore", source])

    def pip(self, words):
        """Runs pip, with the machine's own list of authorities."""
        env = dict(os.environ)
        if os.path.exists(AUTHORITIES):
            env.setdefault("PIP_CERT", AUTHORITIES)
        self.must([sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", *words],
                  env)

    @staticmethod
    def must(words, env=None):
        """Runs a command of the installation."""
        done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=1500,
                              check=False)
        if done.returncode != 0:
            raise CannotInstall("cannot be installed: " + (done.stderr or done.stdout).strip())

    def importable(self):
        """Whether this machine's Python has the package already."""
        return subprocess.run([sys.executable, "-c", "import importlib.util as u, sys; "
                               "sys.exit(not u.find_spec(%r))" % self.about.PACKAGE],
                              capture_output=True, timeout=60, check=False).returncode == 0

    def use(self, python):
        """Runs with this Python; finds the folder in which the package lies."""
        done = subprocess.run(
            [python, "-c", "import importlib.util, importlib.metadata as m\n"
             "print(importlib.util.find_spec(%r).submodule_search_locations[0])\n"
             "print(m.version(%r) if %r else '')" % (
                 self.about.PACKAGE, self.about.DISTRIBUTION, self.about.DISTRIBUTION)],
            capture_output=True, text=True, timeout=60, check=False)
        if done.returncode != 0:
            raise CannotInstall("%s has no %s" % (python, self.about.PACKAGE))
        package, version = done.stdout.split("\n")[:2]
        self.python, self.site = python, os.path.dirname(package)
        self.title = " ".join(filter(None, (self.about.TITLE, version)))
