#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 300 s
"""The built and installed files: names, versions, dependencies, places."""

import contextlib
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile

import harness
import mps
from harness import Skip, contains, equal, wait_for
from test_docs import dead_links

STUB = "lib64/stubs/libcuda.so"
GLIBC_MAX = (2, 17)
DRIVER_NAMES = ("libcuda.so.1", "libcuda.so")


def output(*command, **more):
    return subprocess.run(command, capture_output=True, text=True, check=True, **more).stdout


def no_sanitizer():
    if os.environ.get("MPS_SAN"):
        raise Skip("a sanitized build needs more")


def names(path, which):
    """Dynamic symbols, without their versions."""
    text = output("nm", "-D", which, path)
    return {line.split()[-1].partition("@")[0] for line in text.splitlines()
            if line.split()[-2] != "A"}


def test_exports():
    """All names of the driver, and one more: that of client/transport/dlopen.c."""
    exported = names(mps.LIBRARY, "--defined-only") - {"dlopen"}
    foreign = {n for n in exported if not re.match(r"cu[A-Z]\w+$", n)}
    assert not foreign, "foreign names are exported: %s" % sorted(foreign)[:10]
    cuda = subprocess.run([harness.ROOT + "/tests/setup", "--cuda"], capture_output=True,
                          text=True, check=False).stdout.strip()
    stub = os.path.join(harness.ROOT, cuda, STUB)
    if os.path.exists(stub):
        missing = names(stub, "--defined-only") - exported
        assert not missing, "missing: %s" % sorted(missing)[:10]
    with open(os.path.join(harness.ROOT, "tests/proto/proc-addresses-580.tsv"),
              encoding="utf-8") as file:
        equal(exported, set(re.findall(r"\d+:(cu\w+)", file.read())), "what driver 580 has")


def test_software_gpu():
    """It has the client's names, those that it does not serve too, and both names of the file."""
    equal(names(mps.SOFTGPU, "--defined-only"),
          names(mps.LIBRARY, "--defined-only") - {"dlopen"})
    folder = os.path.dirname(mps.SOFTGPU)
    equal(os.readlink(os.path.join(folder, "libcuda.so")), os.path.basename(mps.SOFTGPU))
    # Python asks the compiler and the linker, which know files without a version only.
    done = output(sys.executable, "-c", "from ctypes.util import find_library as f; print(f('cuda'))",
                  env=dict(os.environ, LD_LIBRARY_PATH=folder))
    equal(done, "libcuda.so.1\n")


def test_glibc():
    no_sanitizer()
    versions = re.findall(r"GLIBC_(\d+)\.(\d+)", output("readelf", "-V", mps.LIBRARY))
    newer = {v for v in versions if (int(v[0]), int(v[1])) > GLIBC_MAX}
    assert not newer, "needs GLIBC %s" % sorted(newer)
    undefined = [line for line in output("nm", "-D", "--undefined-only", mps.LIBRARY).splitlines()
                 if "@GLIBC" not in line]
    weak = [line for line in undefined if line.split()[0] != "w"]
    equal(weak, [], "symbols that no library is asked for")


def test_newer_symbols():
    """The build fails on a library that an older system's loader would not load."""
    no_sanitizer()
    with tempfile.TemporaryDirectory() as folder:
        def check(name, source, *flags):
            path = os.path.join(folder, name)
            subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-x", "c", "-o",
                            path, "-", *flags], input=source, text=True, check=True)
            return subprocess.run([harness.ROOT + "/client/check-symbols", path], text=True,
                                  capture_output=True, check=False)

        done = check("old.so", "int getpid(void); int f(void) { return getpid(); }")
        equal((done.returncode, done.stdout, done.stderr), (0, "", ""))
        done = check("new.so", "#define _GNU_SOURCE\n#include <sys/mman.h>\n#include <sys/random.h>\n"
                     "int f(void) { return memfd_create(0, 0) + getrandom(0, 0, 0); }")
        equal(done.returncode, 1, done.stderr)
        contains(done.stderr, "new.so needs GLIBC_2.27, but older systems have GLIBC_2.17: memfd_create")
        contains(done.stderr, "new.so needs GLIBC_2.25, but older systems have GLIBC_2.17: getrandom")
    done = subprocess.run([harness.ROOT + "/client/check-symbols", "/nowhere"], capture_output=True,
                          check=False)
    equal(done.returncode, 1, "a library that is not there")


def needed(path):
    return set(re.findall(r"\(NEEDED\).*\[(.*)\]", output("readelf", "-d", path)))


def test_needs_libc_alone():
    """The daemon's program also needs libsystemd, if the machine that built it had it."""
    no_sanitizer()
    for path, *more in (mps.LIBRARY,), (mps.BUILD + "/bin/mps-top",), (mps.CONTROL, "libsystemd.so.0"):
        others = {n for n in needed(path) if not n.startswith(("libc.so.6", "ld-linux", *more))}
        assert not others, "%s needs %s" % (path, others)


def test_soname():
    contains(output("readelf", "-d", mps.LIBRARY), "Library soname: [libcuda.so.1]")
    for name in DRIVER_NAMES:
        equal(os.readlink(os.path.join(os.path.dirname(mps.LIBRARY), name)), "libmpsclient.so")


def functions_of(section):
    """The functions whose addresses are in a section of the library."""
    found = re.search(r"\] \.%s\s+\w+\s+(\w+)\s+\w+\s+(\w+)" % section,
                      output("readelf", "-SW", mps.LIBRARY))
    if not found:
        return set()
    start, size = (int(part, 16) for part in found.groups())
    names = {int(address, 16): name for address, name in re.findall(
        r": (\w+) +\d+ FUNC .* (\w+)\n", output("readelf", "-sW", mps.LIBRARY))}
    return {names[int(to, 16)] for at, to in re.findall(
        r"^(\w+) .*_RELATIVE\s+(\w+)$", output("readelf", "-rW", mps.LIBRARY), re.M)
            if start <= int(at, 16) < start + size}


def test_no_constructor():
    """
    Before the first call, the library only looks at the standard descriptors; it does nothing at the
    end of the process. The other entries are the compiler's.
    """
    no_sanitizer()
    equal(functions_of("init_array"), {"frame_dummy", "note_standard"})
    equal(functions_of("fini_array"), {"__do_global_dtors_aux"})
    symbols = output("readelf", "-sW", mps.LIBRARY)
    assert not re.search(r"_GLOBAL__sub_I", symbols)
    assert "TEXTREL" not in output("readelf", "-d", mps.LIBRARY)
    stack = re.search(r"GNU_STACK.*", output("readelf", "-lW", mps.LIBRARY)).group(0)
    assert "RWE" not in stack, stack


def compile_opener(folder, name, *flags):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    subprocess.run([os.environ.get("CC", "gcc"), "-std=gnu17", "-Wall", "-Werror", "-O1", *flags,
                    "-o", path, harness.ROOT + "/tests/system/opener.c", "-ldl"], check=True)
    return path


def build_opener(folder):
    """A machine's libraries in its folder `system', and a program that opens them and others."""
    os.chmod(folder, 0o755)
    for name in ("system/libcuda.so", "system/libcuda.so.580.1", "system/libcudax.so",
                 "mine/libmine.so"):
        compile_opener(folder, name, "-DDECOY", "-shared", "-fPIC")
    compile_opener(folder, "plugin.so", "-DPLUGIN", "-shared", "-fPIC")
    return compile_opener(folder, "opener", "-Wl,--enable-new-dtags,-rpath,$ORIGIN/mine")


def opened(service, program, *words, names, **more):
    """The result of each library's cuInit(), as the program saw it: 42 is the machine's library."""
    code, out, err = service.run(program, *words, *names, **more)
    equal(code, 0, out + err)
    return [int(line.rpartition(": ")[2]) for line in out.splitlines()]


def test_driver_by_other_names():
    """A program that opens libcuda.so, or a path, gets this library; other names stay."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        program = build_opener(folder)
        system = {"LD_LIBRARY_PATH": folder + "/system"}
        ours = ("libcuda.so", "libcuda.so.1", folder + "/system/libcuda.so.580.1")
        others = ("libcudax.so", folder + "/system/libcudax.so")
        # The sanitizers' dlopen() calls libc's, so its search starts from theirs.
        others += () if mps.sanitizer_preload() else ("libmine.so",)
        equal(opened(service, program, names=ours[::2] + others, preload=False, env=system),
              (2 + len(others)) * [42])
        equal(opened(service, program, names=ours + others, env=system), 3 * [0] + len(others) * [42])
        equal(opened(service, program, names=ours[::2], env=dict(system, MPS_DISABLE="dlopen")), 2 * [42])
        code, out, _ = service.run(program, "libnone.so", env=system)
        equal(code, 1, out)
        contains(out, "libnone.so: cannot open shared object file")


MONITOR = """
import ctypes, sys
nvml = [ctypes.CDLL(name) for name in sys.argv[1:]]
driver, version = ctypes.CDLL("libcuda.so.1"), ctypes.c_int()
print(driver.cuDriverGetVersion(ctypes.byref(version)), version.value)
input()
print(driver.cuInit(0))
"""


def test_monitor():
    """NVML asks for the driver's version only. Where every program is a client, that makes none."""
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        os.chmod(folder, 0o755)
        found = folder + "/mps/everywhere"
        os.makedirs(found)
        os.symlink(mps.for_everybody(mps.LIBRARY), found + "/libcuda.so.1")
        nvml = compile_opener(folder, "libnvidia-ml.so.1", "-DDECOY", "-shared", "-fPIC")
        env = {"LD_LIBRARY_PATH": found, "LD_PRELOAD": ":".join(mps.sanitizer_preload()),
               "MPS_CUDA_LIBRARY": mps.SOFTGPU}
        versions = set()
        for names, n_servers in ((nvml,), 0), ((), 1):
            process = service.popen(sys.executable, "-c", MONITOR, *names, preload=False, env=env,
                                    stdin=subprocess.PIPE)
            versions.add(process.stdout.readline())
            equal(len(service.servers()), n_servers, names)
            process.stdin.write("\n")
            code, out, err = service.finish(process)
            equal((code, out), (0, "0\n"), err)
            equal(len(service.servers()), 1, "a client after all")
            service.command("shutdown_server", str(service.server()), "-f")
            wait_for("the server's end", lambda: not service.servers())
        equal(len(versions), 1, versions)


def test_no_driver():
    """Without a driver, only a program that was told to use this library learns the reason."""
    with tempfile.TemporaryDirectory() as folder:
        os.makedirs(folder + "/mps/everywhere")
        os.symlink(mps.LIBRARY, folder + "/mps/everywhere/libcuda.so.1")
        program = compile_opener(folder, "opener")
        for found, wanted in ((os.path.dirname(mps.LIBRARY), True), (folder + "/mps/everywhere", False)):
            env = dict(mps.clean_environment(), LD_LIBRARY_PATH=found, MPS_DISABLE="client",
                       MPS_CUDA_LIBRARY="/nowhere", LD_PRELOAD=":".join(mps.sanitizer_preload()))
            done = subprocess.run([program, "libcuda.so.1"], env=env, capture_output=True, text=True,
                                  timeout=60, check=False)
            equal(done.stdout, "libcuda.so.1: 100\n", done.stderr)
            equal("cannot open libcuda.so.1" in done.stderr, wanted, done.stderr)
            equal(done.stderr.count("\n"), int(wanted), done.stderr)


def test_driver_by_other_names_unseen():
    """A program with dlopen() from libc itself finds this library in mps-run's folders."""
    if mps.sanitizer_preload():
        raise Skip("a sanitized library needs its runtime before it")
    with tempfile.TemporaryDirectory() as folder, mps.Service() as service:
        program = build_opener(folder)
        by = (program, "--by", folder + "/plugin.so")
        more = {"names": ("libcuda.so",), "preload": False,
                "env": {"LD_LIBRARY_PATH": folder + "/system"}}
        equal(opened(service, *by, **more), [42])
        equal(opened(service, mps.BUILD + "/bin/mps-run", *by, **more), [0])


@contextlib.contextmanager
def installed():
    """The prefix of an installation, whose daemon services use meanwhile."""
    if mps.sanitizer_preload():
        raise Skip("a sanitized library needs its runtime before it")
    with tempfile.TemporaryDirectory() as root:
        os.chmod(root, 0o755)
        install(root, "/opt/mps")
        built = mps.CONTROL
        mps.CONTROL = root + "/opt/mps/bin/mps-control"
        try:
            yield root + "/opt/mps"
        finally:
            mps.CONTROL = built


def test_preloaded_everywhere():
    """A server that has the client library preloaded too still opens the machine's driver."""
    with installed() as prefix:
        server = prefix + "/bin/mps-server"
        os.rename(server, server + "-itself")
        with open(server, "w", encoding="utf-8") as file:
            file.write('#!/bin/sh\nLD_PRELOAD=%s exec %s-itself "$@"\n' % (mps.LIBRARY, server))
        os.chmod(server, 0o755)
        with mps.Service() as service:
            service.run_ok("process1")
            with open("/proc/%d/maps" % service.server(), encoding="utf-8") as file:
                contains(file.read(), "libmpsclient.so")


def system_library(root):
    """Puts a libcuda into the root like a distribution; returns its folder."""
    folder = root + "/usr/lib/x86_64-linux-gnu"
    os.makedirs(folder)
    shutil.copy(mps.SOFTGPU, folder + "/libcuda.so.580.1")
    os.symlink("libcuda.so.580.1", folder + "/libcuda.so.1")
    os.makedirs(root + "/etc")
    with open(root + "/etc/ld.so.conf", "w", encoding="utf-8") as file:
        file.write("/usr/local/lib\n/usr/lib/x86_64-linux-gnu\n/usr/lib\n")
    return folder


def install(root, prefix, target="install", status=0, **more):
    """make install, or another target; returns its standard error."""
    build = os.path.relpath(mps.BUILD, harness.ROOT)
    variables = dict(more, BUILD=build, SAN=os.environ.get("MPS_SAN", ""), DESTDIR=root, PREFIX=prefix)
    done = subprocess.run(["make", "-s", "-C", harness.ROOT, target,
                           *("%s=%s" % pair for pair in variables.items())],
                          check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                          env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")})
    equal(done.returncode, status, done.stderr)
    return done.stderr


def test_install():
    """After ldconfig in the installed root, the system's libcuda.so.1 is found as before."""
    ldconfig = shutil.which("ldconfig", path=os.environ["PATH"] + ":/usr/sbin:/sbin")
    if not ldconfig:
        raise Skip("no ldconfig")
    for prefix in ("/usr", "/usr/local"):
        with tempfile.TemporaryDirectory() as root:
            folder = system_library(root)
            install(root, prefix)
            subprocess.run([ldconfig, "-r", root], check=True, stderr=subprocess.DEVNULL)
            equal(os.readlink(folder + "/libcuda.so.1"), "libcuda.so.580.1")
            cache = output(ldconfig, "-r", root, "-p")
            found = re.findall(r"libcuda\.so\.1 .*=> (.*)", cache)
            equal(found, ["/usr/lib/x86_64-linux-gnu/libcuda.so.1"], cache)
            check_installed(root + prefix)


def test_uninstall():
    """It removes what was installed, and nothing else."""
    with tempfile.TemporaryDirectory() as root:
        write_file(root + "/usr/lib/mps/mine")
        install(root, "/usr")
        install(root, "/usr", "uninstall")
        left = [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]
        equal(left, [root + "/usr/lib/mps/mine"])
        equal(os.path.exists(root + "/usr/share/doc/mps"), False)


def check_installed(prefix):
    for name in ("bin/mps-control", "bin/mps-server", "bin/mps-top", "bin/mps-exporter", "bin/mps-run", "lib/mps/libmpsclient.so",
                 "share/doc/mps/README.md", "share/man/man1/mps-control.1", "share/man/man1/mps-run.1",
                 "share/man/man1/mps-top.1", "share/man/man5/mps.conf.5", "share/doc/mps/mps.conf",
                 "share/man/man8/mps-server.8", "share/man/man7/libmpsclient.7", "lib/mps/mps-check",
                 "lib/mps/softgpu/libcuda.so.1",
                 "share/bash-completion/completions/mps-control",
                 "share/bash-completion/completions/mps-run", "share/bash-completion/completions/mps-top", "share/zsh/site-functions/_mps-control",
                 "share/zsh/site-functions/_mps-run", "lib/systemd/system/mps-control.service",
                 "lib/systemd/system/mps-control.socket", "lib/tmpfiles.d/mps-control.conf",
                 "lib/sysusers.d/mps-control.conf"):
        assert os.path.exists(os.path.join(prefix, name)), name + " is not installed"
    equal(dead_links(prefix + "/share/doc/mps"), [])
    for name in DRIVER_NAMES:
        equal(os.readlink(prefix + "/lib/mps/" + name), "libmpsclient.so")
    for unit in "service", "socket":
        text = read_file(prefix + "/lib/systemd/system/mps-control." + unit)
        assert "@" not in text.replace("@system-service", ""), "unreplaced words"
    contains(text, "ListenStream=%s/control\n" % output(
        "sed", "-n", 's/^.define PIPE_DIRECTORY_DEFAULT "\\(.*\\)"/\\1/p',
        mps.ROOT + "/include/bounds.h").strip())


def write_file(path, text="the driver's"):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def read_file(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def test_vendor_names():
    """They are installed unless files of the driver are in the way; installing again works."""
    with tempfile.TemporaryDirectory() as root:
        for _ in range(2):
            equal(install(root, "/usr"), "")
            for name in "control", "server":
                equal(os.readlink("%s/usr/bin/nvidia-cuda-mps-%s" % (root, name)), "mps-" + name)
        # Those in /usr/bin are this project's.
        equal(install(root, "/usr/local"), "")
        assert os.path.islink(root + "/usr/local/bin/nvidia-cuda-mps-control")


def test_vendor_names_in_the_way():
    """A file of the driver anywhere in the default PATH stays, and neither name is installed."""
    for prefix, taken in (("/usr", "/usr/bin/nvidia-cuda-mps-control"),
                          ("/usr/local", "/usr/bin/nvidia-cuda-mps-server"),
                          ("/opt/mps", "/usr/sbin/nvidia-cuda-mps-control")):
        with tempfile.TemporaryDirectory() as root:
            write_file(root + taken)
            said = install(root, prefix)
            for part in taken, "left out", "make install-compat":
                contains(said, part)
            equal(read_file(root + taken), "the driver's")
            left = set(glob.glob(root + "/**/nvidia-cuda-mps-*", recursive=True))
            equal(left, {root + taken})
            # As with Debian's alternatives: a link, which may be dangling.
            os.unlink(root + taken)
            os.symlink("/etc/alternatives/x", root + taken)
            contains(install(root, prefix), taken)
            equal(os.readlink(root + taken), "/etc/alternatives/x")
            # A separate folder does not affect the others.
            equal(install(root, prefix, "install-compat", COMPATDIR="/opt/names"), "")
            for name in "control", "server":
                link = root + "/opt/names/nvidia-cuda-mps-" + name
                equal(os.path.realpath(link), os.path.realpath("%s%s/bin/mps-%s" % (root, prefix, name)))


def test_compat_folder_of_others():
    with tempfile.TemporaryDirectory() as root:
        contains(install(root, "/usr", "install-compat", 2, COMPATDIR="/taken"), "run make install first")
        install(root, "/usr")
        write_file(root + "/taken/nvidia-cuda-mps-server")
        contains(install(root, "/usr", "install-compat", 2, COMPATDIR="/taken"), "is there and not ours")
        equal(os.listdir(root + "/taken"), ["nvidia-cuda-mps-server"])
        equal(read_file(root + "/taken/nvidia-cuda-mps-server"), "the driver's")


def test_service_by_vendor_names():
    """Scripts find the processes by NVIDIA's names; the daemon finds its server without PATH."""
    with installed() as prefix:
        names = os.path.dirname(os.path.dirname(prefix)) + "/names"
        install(prefix[:-len("/opt/mps")], "/opt/mps", "install-compat", COMPATDIR="/names")
        mps.CONTROL = names + "/nvidia-cuda-mps-control"
        with mps.Service() as service:
            service.run_ok("process1")
            daemon, server = service.daemon_pid(), service.server()
            for pid, words in ((daemon, [mps.CONTROL, "-f"]),
                               (server, [prefix + "/bin/nvidia-cuda-mps-server", "--uid"])):
                equal(mps.command_line(pid).split()[:2], words)
                equal(read_file("/proc/%d/comm" % pid), "nvidia-cuda-mps\n")
        # Copies, as in an image, without this project's names.
        copies = names + "/copies"
        os.mkdir(copies)
        for name in "control", "server":
            shutil.copy(prefix + "/bin/mps-" + name, copies + "/nvidia-cuda-mps-" + name)
        mps.CONTROL = copies + "/nvidia-cuda-mps-control"
        with mps.Service() as service:
            service.run_ok("process1")
            contains(mps.command_line(service.server()), copies + "/nvidia-cuda-mps-server --uid ")


def pc_variables(path):
    """The variables of a pkg-config file, expanded."""
    found = {"pcfiledir": os.path.dirname(path)}
    for name, value in re.findall(r"^(\w+)=(.*)$", read_file(path), re.M):
        found[name] = re.sub(r"\$\{(\w+)\}", lambda match: found[match.group(1)], value)
    return found


def test_pkg_config():
    """mps.pc says where the library is, also after the installation has moved."""
    with installed() as prefix:
        os.rename(prefix, prefix + "-moved")
        path = prefix + "-moved/share/pkgconfig/mps.pc"
        found = pc_variables(path)
        for name, file in (("library", "lib/mps/libmpsclient.so"), ("libdir", "lib/mps"), ("bindir", "bin")):
            equal(os.path.realpath(found[name]), os.path.realpath(prefix + "-moved/" + file))
        with open(harness.ROOT + "/include/bounds.h", encoding="utf-8") as file:
            contains(file.read(), '#define PIPE_DIRECTORY_DEFAULT "%s"' % found["pipe_directory"])
        assert re.search(r"^Version: \d+\.\d+", read_file(path), re.M), read_file(path)
        if shutil.which("pkg-config"):
            env = dict(os.environ, PKG_CONFIG_PATH=os.path.dirname(path))
            equal(output("pkg-config", "--variable=library", "mps", env=env).strip(), found["library"])


def make_tarball(folder):
    """Unpacks what `make tarball' has made."""
    said = subprocess.run(["make", "-s", "-C", harness.ROOT, "tarball", "VERSION=7.8", "SAN=",
                           "BUILD=" + os.path.relpath(mps.BUILD, harness.ROOT)], check=True, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")}).stdout
    path = os.path.join(harness.ROOT, said.splitlines()[-1])
    subprocess.run(["tar", "-C", folder, "-xzf", path], check=True)
    os.unlink(path)
    name, = os.listdir(folder)
    contains(name, "mps-7.8-linux-")
    return os.path.join(folder, name)


def check_service_at(prefix):
    built = mps.CONTROL
    mps.CONTROL = prefix + "/bin/mps-control"
    try:
        with mps.Service() as service:
            code, out, err = service.run(prefix + "/bin/mps-run", mps.program("process1"), preload=False)
            equal((code, out), (0, "process1: ok\n"), err)
            contains(mps.command_line(service.server()), prefix + "/bin/mps-server")
            done = subprocess.run([prefix + "/bin/mps-run", "--check", mps.program("process1")],
                                  env=service.env, capture_output=True, text=True, check=False)
            equal(done.returncode, 0, done.stdout)
    finally:
        mps.CONTROL = built


def test_tarball():
    """Its programs work where it is unpacked and where it is installed."""
    if os.environ.get("MPS_SAN"):
        raise Skip("a tarball is of a plain build")
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        os.mkdir(folder + "/unpacked")
        place = make_tarball(folder + "/unpacked")
        contains(read_file(place + "/share/pkgconfig/mps.pc"), "Version: 7.8\n")
        os.rename(place, folder + "/anywhere")
        place = folder + "/anywhere"
        check_service_at(place)
        done = subprocess.run([place + "/install", "relative"], capture_output=True, text=True, check=False)
        equal(done.returncode, 2)
        contains(done.stderr, "absolute path")
        subprocess.run([place + "/install", "/opt/mps"], check=True, stdout=subprocess.DEVNULL,
                       env=dict(os.environ, DESTDIR=folder + "/root"))
        shutil.rmtree(place)
        prefix = folder + "/root/opt/mps"
        check_installed(prefix)
        contains(read_file(prefix + "/lib/systemd/system/mps-control.service"),
                 "ExecStart=/opt/mps/bin/mps-control -f\n")
        equal(os.readlink(prefix + "/bin/nvidia-cuda-mps-control"), "mps-control")
        check_service_at(prefix)


def test_installed_service_runs():
    """Daemon, server and mps-run find each other where they are installed."""
    with installed() as prefix, mps.Service() as service:
        code, out, err = service.run(prefix + "/bin/mps-run", mps.program("process1"), preload=False)
        equal((code, out), (0, "process1: ok\n"), err)
        contains(mps.command_line(service.server()), prefix + "/bin/mps-server")


if __name__ == "__main__":
    harness.main(globals())
