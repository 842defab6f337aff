#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# time limit: 120 s
"""mps-run --check: whether a program would be a client, and each reason why not."""

import contextlib
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile

import harness
import mps
import wire
from harness import Skip, contains, equal, need_root, wait_for

USER = 1001
CC = os.environ.get("CC", "gcc")
USES_CUDA = 'int cuInit(unsigned); const char *name = "libcuda.so.1"; int main(void) { return !name; }'
OPENS = """
#include <dlfcn.h>
int main(int n, char **words) { return n > 1 && dlopen(words[1], %s) && dlopen("libcuda.so.1", 1); }
"""


def check(*command, run=None, env=None, uid=None, status=1):
    """The output of mps-run --check, whose exit status has to be `status'."""
    become = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
    done = subprocess.run([run or mps.BUILD + "/bin/mps-run", "--check", *command],
                          env=dict(mps.clean_environment(), **(env or {})), capture_output=True,
                          text=True, stdin=subprocess.DEVNULL, timeout=60, check=False, **become)
    equal((done.returncode, done.stderr), (status, ""), done.stdout)
    for line in done.stdout.splitlines():
        assert line.startswith("mps-run: "), line
    return done.stdout


def findings(output):
    return [line[len("mps-run: "):] for line in output.splitlines()]


def finding(output, *parts):
    """The one finding of an output has these parts: what was found, and what to do."""
    lines = findings(output)
    equal(len(lines), 1, output)
    for part in parts:
        contains(lines[0], part)


@contextlib.contextmanager
def folder():
    with tempfile.TemporaryDirectory() as path:
        os.chmod(path, 0o755)
        yield path


def build(path, source, *flags):
    subprocess.run([CC, "-x", "c", "-o", path, "-", *flags], input=source, text=True, check=True)
    return path


def user_copy(where):
    """mps-run and what it needs, for every user, in a folder like an installation's."""
    for part, names in (("bin", ["mps-run"]), ("lib", ["libmpsclient.so", "mps-check"])):
        os.makedirs(os.path.join(where, part))
        for name in names:
            shutil.copy(os.path.join(mps.BUILD, part, name), os.path.join(where, part, name))
    return where + "/bin/mps-run"


def test_client():
    """The check of a program says yes, starts no server, and is no error for the daemon."""
    with mps.Service() as service:
        for command in ([], [mps.program("process1")]):
            lines = findings(check(*command, env=service.env, status=0))
            assert lines[-1].endswith(" would be a client"), lines
        equal(service.servers(), [])
        assert "malformed" not in service.control_log()
        os.kill(service.daemon_pid(), 0)
        service.run_ok("process1")


def test_script():
    """For a script, the interpreter is checked."""
    with mps.Service() as service, folder() as where:
        program = build(where + "/interpreter", USES_CUDA)
        for first in ("#!" + program, "#! %s -x" % program, "#!/usr/bin/env interpreter",
                      "#!/usr/bin/env -S X=1 interpreter -x"):
            with open(where + "/script", "w", encoding="utf-8") as file:
                file.write(first + "\n")
            os.chmod(where + "/script", 0o755)
            env = dict(service.env, PATH=where + ":" + os.environ["PATH"])
            lines = findings(check("script", env=env, status=0))
            contains(lines[0], "is a script that")
            contains(lines[0], program)


def test_library_loader():
    """A program that loads libraries at run time may use CUDA; one that cannot does not."""
    with mps.Service() as service, folder() as where:
        source = OPENS.replace("libcuda.so.1", "libm.so.6") % "RTLD_NOW"
        lines = findings(check(build(where + "/opens", source, "-ldl"), env=service.env, status=0))
        contains(lines[0], "does not use CUDA itself; libraries that it loads later")
        if not os.environ.get("MPS_SAN"):  # the sanitizers' libraries load others
            finding(check(build(where + "/plain", "int main(void) { return 0; }"), env=service.env),
                    "plain", "does not use CUDA", "check those")


def test_not_loadable():
    """Programs into which no loader of glibc loads the library."""
    with mps.Service() as service, folder() as where:
        def of(name, *flags):
            return check(build(where + "/" + name, USES_CUDA, *flags), env=service.env)

        finding(of("static", "-static"), "static", "is statically linked", "without -static")
        finding(of("static-pie", "-static-pie"), "is statically linked")
        finding(of("musl", "-Wl,--dynamic-linker=/lib/ld-musl-x86_64.so.1"),
                "is linked with musl", "build of the program for glibc")
        finding(of("other", "-Wl,--dynamic-linker=/lib/ld.so"), "needs glibc's")
        finding(of("absent", "-Wl,--dynamic-linker=/nowhere/ld-linux-x86-64.so.2"),
                "is missing or", "install glibc")
        # A loader that other users could have written does not run.
        shutil.copy("/bin/true", where + "/ld-linux-x86-64.so.2")
        os.chmod(where + "/ld-linux-x86-64.so.2", 0o777)
        finding(of("unsafe", "-Wl,--dynamic-linker=%s/ld-linux-x86-64.so.2" % where),
                "other users can change")


def test_not_a_program():
    with mps.Service() as service, folder() as where:
        program = build(where + "/program", USES_CUDA)
        with open(program, "rb") as file:
            image = file.read()

        def of(name, contents):
            with open(where + "/" + name, "wb") as file:
                file.write(contents)
            os.chmod(where + "/" + name, 0o755)
            return check(where + "/" + name, env=service.env)

        finding(of("small", image[:4] + b"\1" + image[5:]), "is a 32-bit program", "for 64 bits")
        finding(of("arm", image[:18] + struct.pack("<H", 40) + image[20:]),
                "another kind of machine", "its build for this one")
        finding(of("cut", image[:40]), "is a damaged ELF file", "install it again")
        finding(of("text", b"hello"), "neither an ELF file nor a script")
        finding(of("empty", b""), "neither an ELF file nor a script")
        finding(of("lost", b"#!/nowhere/at/all\n"), "neither an ELF file nor a script")
        finding(of("loop", b"#!%s/loop\n" % where.encode()).splitlines()[-1],
                "neither an ELF file nor a script")
        os.chmod(program, 0o644)
        finding(check(program, env=service.env), "is not a file that you may execute", "permissions")
        finding(check("/nowhere/\33[31m", env=service.env), "\\x1b", "is not a file that you may execute")
        finding(check("no-such-program", env=service.env), "folders of PATH", "give the path")


def test_more_rights():
    """The loader ignores LD_PRELOAD in a program that gets rights from its file."""
    need_root()
    with mps.Service() as service, folder() as where:
        run = user_copy(where + "/mps")
        program = build(where + "/program", USES_CUDA)

        def of(**more):
            return check(program, run=run, env=service.env, **more)

        of(uid=USER, status=0)
        for mode, what in ((0o4755, "setuid"), (0o2755, "setgid")):
            os.chmod(program, mode)
            finding(of(uid=USER), "is " + what, "the loader ignores LD_PRELOAD", "run a copy")
            of(status=0)
        os.chmod(program, 0o755)
        # Version 2 with the effective flag: CAP_NET_RAW is permitted.
        try:
            os.setxattr(program, "security.capability", struct.pack("<5I", 0x02000001, 1 << 13, 0, 0, 0))
        except OSError as error:
            raise Skip("no file capabilities here (%s)" % error) from None
        finding(of(uid=USER), "has file capabilities", "the loader ignores LD_PRELOAD")
        of(status=0)


def test_dropped_by_command():
    """A command that starts the program without LD_PRELOAD."""
    with mps.Service() as service, folder() as where:
        program = build(where + "/program", USES_CUDA)
        for name in ("sudo", "ssh", "docker"):
            os.symlink(program, where + "/" + name)
            finding(check(where + "/" + name, program, env=service.env), "without the LD_PRELOAD",
                    "put mps-run between the two")
        for words in (["-i"], ["-"], ["-u", "LD_PRELOAD"], ["--unset=LD_PRELOAD"]):
            lines = findings(check("env", *words, program, env=service.env))
            contains(lines[0], "put mps-run between the two")
        # env itself passes it on, but the check is of env.
        if not os.environ.get("MPS_SAN"):
            finding(check("env", "X=1", program, env=service.env), "does not use CUDA", "check those")


def test_dropped_by_loader():
    """A library that the loader cannot preload."""
    with mps.Service() as service, folder() as where:
        program = build(where + "/program", USES_CUDA)
        for odd in "a b", "a:b":
            lines = findings(check(program, run=user_copy(where + "/" + odd), env=service.env))
            contains(lines[0], "has a space or a colon")
            contains(lines[0], "another folder")
            contains(lines[1], "drops the LD_PRELOAD")
        run = user_copy(where + "/text")
        with open(where + "/text/lib/libmpsclient.so", "w", encoding="utf-8") as file:
            file.write(4096 * "?")
        lines = findings(check(program, run=run, env=service.env))
        contains(lines[0], "drops the LD_PRELOAD of mps-run and says: ERROR: ld.so: object")
        contains(lines[0], "libmpsclient.so")
        run = user_copy(where + "/cut")
        os.truncate(where + "/cut/lib/libmpsclient.so", 4096)
        lines = findings(check(program, run=run, env=service.env))
        contains(lines[0], "fails and says: nothing: install the library")
        if os.geteuid() == 0:
            run = user_copy(where + "/private")
            os.chmod(where + "/private/lib/libmpsclient.so", 0o600)
            lines = findings(check(run=run, env=service.env, uid=USER))
            contains(lines[0], "make the client library a file that you may read")


def test_program_does_not_start():
    """A library is missing: the finding has the loader's own words."""
    with mps.Service() as service, folder() as where:
        build(where + "/libgone.so", "int gone(void) { return 1; }", "-shared", "-fPIC")
        program = build(where + "/program", "int gone(void); int main(void) { return gone(); }",
                        "-L" + where, "-lgone")
        os.unlink(where + "/libgone.so")
        finding(check(program, env=service.env), "fails and says: ", "libgone.so",
                "install the library that is missing")


def version_hash(name):
    """The hash of a version's name in an ELF file."""
    value = 0
    for byte in name:
        value = (value << 4) + byte
        value = (value ^ (value & 0xf0000000) >> 24) & 0x0fffffff
    return struct.pack("<I", value)


def test_newer_libc():
    """The client library, or a program's library, is from a system with a newer libc."""
    with mps.Service() as service, folder() as where:
        def age(path):
            """The file needs a version of libc that does not exist."""
            with open(path, "rb") as file:
                image = file.read()
            name = max(re.findall(rb"GLIBC_[0-9.]+(?=\0)", image), key=len)
            newer = name.replace(b"GLIBC_", b"LATER_")
            assert version_hash(name) in image
            with open(path, "wb") as file:
                file.write(image.replace(name + b"\0", newer + b"\0").replace(
                    version_hash(name), version_hash(newer)))
            return "version `%s' not found (required by " % newer.decode()

        program = build(where + "/program", USES_CUDA)
        if not os.environ.get("MPS_SAN"):  # whose functions have no versions
            run = user_copy(where + "/mps")
            complaint = age(where + "/mps/lib/libmpsclient.so")
            for command in ([], [program]):
                finding(check(*command, run=run, env=service.env), complaint, "mps/lib/libmpsclient.so",
                        "builds for the libc of this system")
        build(where + "/libnew.so", '#include <stdio.h>\nint new(void) { return puts(""); }',
              "-shared", "-fPIC")
        program = build(where + "/linked", "int new(void); int main(void) { return new(); }",
                        "-L" + where, "-lnew", "-Wl,-rpath," + where)
        complaint = age(where + "/libnew.so")
        finding(check(program, env=service.env), complaint, "libnew.so")


def test_deepbind():
    """Calls of dlopen() with this constant are seen in a program and in its libraries."""
    with mps.Service() as service, folder() as where:
        for flags in ("RTLD_NOW | RTLD_DEEPBIND", "RTLD_LAZY | RTLD_DEEPBIND | RTLD_GLOBAL"):
            for options in (["-O0"], ["-O2"], ["-O2", "-fno-plt"], ["-O1", "-no-pie", "-fcf-protection"]):
                program = build(where + "/deep", OPENS % flags, *options, "-ldl")
                finding(check(program, env=service.env), "RTLD_DEEPBIND",
                        "let it open \"libcuda.so.1\"")
        for flags in ("RTLD_NOW", "RTLD_LAZY | RTLD_GLOBAL"):
            check(build(where + "/plain", OPENS % flags, "-O2", "-ldl"), env=service.env, status=0)
        build(where + "/libdeep.so", "#include <dlfcn.h>\nvoid *deep(const char *name) "
              "{ return dlopen(name, RTLD_NOW | RTLD_DEEPBIND); }", "-O2", "-shared", "-fPIC", "-ldl")
        program = build(where + "/linked", USES_CUDA.replace("main(void) {", "main(void) { deep(name);")
                        .replace("int cuInit", "void *deep(const char *); int cuInit"),
                        "-L" + where, "-ldeep", "-Wl,-rpath," + where)
        finding(check(program, env=service.env), "libdeep.so", "RTLD_DEEPBIND")


def test_own_driver():
    """A program that contains the driver API."""
    with mps.Service() as service, folder() as where:
        source = "int cuInit(unsigned n) { return (int)n; } int main(void) { return cuInit(0); }"
        finding(check(build(where + "/own", source), env=service.env), "own",
                "contains the CUDA driver API itself", "shared libcuda.so.1")


def test_no_daemon():
    with folder() as where:
        def at(pipe, **more):
            return check(env={"CUDA_MPS_PIPE_DIRECTORY": pipe}, **more)

        finding(at(where + "/none"), "no daemon listens at", where + "/none/control",
                "mps-control -d", "CUDA_MPS_PIPE_DIRECTORY")
        finding(at(where + "/" + 120 * "x"), "has %d bytes" % (len(where) + 121), "at most 99 bytes")
        for kind, parts in ((socket.SOCK_STREAM, ("has ended", "start it again")),
                            (socket.SOCK_SEQPACKET, ("socket of another service", "CUDA_MPS_PIPE_DIRECTORY"))):
            pipe = "%s/%d" % (where, kind)
            os.mkdir(pipe, 0o755)
            with socket.socket(socket.AF_UNIX, kind) as listener:
                listener.bind(pipe + "/control")
                if kind == socket.SOCK_SEQPACKET:
                    listener.listen()
                    finding(at(pipe), *parts)
            if kind == socket.SOCK_STREAM:
                finding(at(pipe), *parts)


def test_other_users():
    """The daemon's directory is closed to the user, or a stranger could take its place."""
    need_root()
    with mps.Service() as service, folder() as where:
        run = user_copy(where + "/mps")
        check(run=run, env=service.env, uid=USER, status=0)
        os.chmod(service.pipe, 0o700)
        finding(check(run=run, env=service.env, uid=USER), "you may not connect to", "chmod a+rx")
        os.chmod(service.pipe, 0o777)
        finding(check(run=run, env=service.env, uid=USER), "other users can write to", "chmod go-w")
        os.chmod(service.pipe, 0o755)
        os.chown(service.pipe, USER + 1, USER + 1)
        finding(check(run=run, env=service.env, uid=USER), "belongs to UID %d" % (USER + 1),
                "MPS_TRUST_UID=%d" % (USER + 1))
        os.chown(service.pipe, 0, 0)


def test_daemon_of_another_user():
    """With MPS_TRUST_UID, a user may trust a daemon that does not serve that user."""
    need_root()
    with mps.Service(uid=USER) as service, folder() as where:
        run = user_copy(where + "/mps")
        env = dict(service.env, MPS_TRUST_UID=str(USER))
        lines = findings(check(run=run, env=env, uid=USER + 1, status=0))
        contains(lines[0], "runs as UID %d" % USER)
        contains(lines[0], "serves that user only")


def test_silent_daemon():
    """A daemon that is stopped does not answer."""
    with mps.Service() as service:
        os.kill(service.daemon_pid(), signal.SIGSTOP)
        try:
            finding(check(env=service.env), "does not answer as a daemon does", "restart it")
        finally:
            os.kill(service.daemon_pid(), signal.SIGCONT)
        wait_for("the daemon", service.answers)


def test_quitting_daemon():
    """A daemon that waits for its clients takes no other: the check and a program say the same."""
    with mps.Service() as service:
        client = service.popen("victim")
        service.wait_for_listed(client)
        quitting = service.popen(mps.CONTROL, "quit", preload=False)
        contains(quitting.stderr.readline(), "waits for 1 client to end: %d (victim)" % client.pid)
        why = "The MPS daemon is quitting: start it again when its clients have ended (1 now)"
        finding(check(env=service.env), "refuses clients", why)
        contains(service.finish(service.popen("scan"))[2], why)


def test_other_version():
    """The library is of another build than the daemon, or is no client library."""
    with mps.Service() as service, folder() as where:
        with open(mps.LIBRARY, "rb") as file:
            image = file.read()
        at = image.index(b"mps-client\0\0") + 12
        equal(struct.unpack_from("<II", image, at), (wire.FRAME_VERSION, 0), "the note of the library")
        for place, format_, value in ((at, "<I", 1), (at + 8, "<Q", 0x123)):
            run = user_copy("%s/%d" % (where, place))
            patched = bytearray(image)
            struct.pack_into(format_, patched, place, value)
            with open("%s/%d/lib/libmpsclient.so" % (where, place), "wb") as file:
                file.write(patched)
            finding(check(run=run, env=service.env), "refuses clients",
                    "use the library of the same build")
        run = user_copy(where + "/foreign")
        shutil.copy(mps.SOFTGPU, where + "/foreign/lib/libmpsclient.so")
        finding(check(run=run, env=service.env), "is not the client library of this version",
                "from one build")


def test_damaged_programs():
    """No contents of a file make the check crash."""
    dice = harness.dice()
    with mps.Service() as service, folder() as where:
        path = build(where + "/program", OPENS % "RTLD_NOW | RTLD_DEEPBIND", "-O2", "-ldl")
        with open(path, "rb") as file:
            image = file.read()
        for _ in range(200):
            damaged = bytearray(image[:dice.choice((len(image), dice.randrange(len(image))))])
            for _ in range(dice.choice((1, 4, 64))):
                limit = dice.choice((64, 1024, len(damaged)))
                at = dice.randrange(min(limit, len(damaged)) or 1)
                damaged[at:at + 1] = bytes([dice.choice((0, 1, 127, 255, dice.randrange(256)))])
            with open(path, "wb") as file:
                file.write(damaged)
            done = subprocess.run([mps.BUILD + "/bin/mps-run", "--check", path], env=dict(
                mps.clean_environment(), **service.env), capture_output=True, timeout=60, check=False)
            assert done.returncode in (0, 1) and not done.stderr, (done, damaged[:64])


def test_usage():
    run = mps.BUILD + "/bin/mps-run"
    done = subprocess.run([run, "--help"], capture_output=True, text=True, check=True)
    contains(done.stdout, "--check")
    done = subprocess.run([run, "--chekc"], capture_output=True, text=True, check=False)
    equal(done.returncode, 2)
    contains(done.stderr, "unknown option --chekc")
    done = subprocess.run([mps.BUILD + "/lib/mps-check"], capture_output=True, text=True, check=False)
    equal(done.returncode, 2)
    contains(done.stderr, "mps-run --check")


if __name__ == "__main__":
    harness.main(globals())
