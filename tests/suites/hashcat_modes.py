# SPDX-License-Identifier: Apache-2.0
"""hashcat finds the password of the example that each of its modes brings along.

    hashcat_modes.py FOLDER GROUP

FOLDER has hashcat and what it needs. A test is a mode, with hashcat's own test of its kernels
before, or an attack on hashes of known passwords.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile

import outcomes

LIMIT_S = 280
# Small pieces of work: the software GPU would tune itself for hours.
OPTIONS = """--potfile-disable --backend-ignore-opencl --hwmon-disable --force --quiet
    --outfile-format 2 -n 1 -u 1024 -T 32""".split()
MODES = {
    "md": {"MD5": 0, "NTLM": 1000},
    "sha": {"SHA1": 100, "SHA2-256": 1400, "SHA2-512": 1700},
    "other": {"MD4": 900, "BLAKE2b": 600, "CRC32": 11500},
    "salted": {"MD5 of pass and salt": 10, "HMAC-SHA256": 1450, "NetNTLMv2": 5600},
    "slow": {"phpass": 400, "md5crypt": 500, "WPA": 22000},
}
DECOYS = ["apple", "correct horse", "zebra-stripes"]


class Hashcat:
    """hashcat in an empty folder, where it keeps its kernels."""

    def __init__(self, root):
        self.folder = tempfile.mkdtemp()
        for name in os.listdir(root):
            if name != "hashcat":
                os.symlink(os.path.join(root, name), self.path(name))
        # It looks for its files beside its program, behind any link.
        shutil.copy(os.path.join(root, "hashcat"), self.folder)
        libraries = [os.path.join(root, "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
        self.env = dict(os.environ, HOME=self.folder,
                        LD_LIBRARY_PATH=":".join(filter(None, libraries)))

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, lines):
        """A file of lines; returns its path."""
        with open(self.path(name), "w", encoding="utf-8") as file:
            file.write("".join(line + "\n" for line in lines))
        return self.path(name)

    def run(self, *words):
        """What hashcat says."""
        done = subprocess.run([self.path("hashcat"), *words], cwd=self.folder, env=self.env,
                              stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=LIMIT_S, check=False)
        print(done.stdout, done.stderr, sep="\n", flush=True)
        assert done.returncode in (0, 1), "exit code %d: %s" % (done.returncode, done.stderr)
        return done.stdout

    def find(self, mode, hashes, *attack):
        """The passwords that an attack finds."""
        found = self.path("found")
        if os.path.exists(found):
            os.unlink(found)
        self.run("-m", str(mode), *OPTIONS, "-o", found, self.write("hashes", hashes), *attack)
        if not os.path.exists(found):
            return []
        with open(found, encoding="utf-8") as file:
            return sorted(file.read().splitlines())

    def check_mode(self, mode):
        """A mode finds its own example among other words."""
        about = self.run("-m", str(mode), "--hash-info", "--machine-readable")
        about = json.loads(about[about.index("{"):])[str(mode)]
        words = self.write("words", [*DECOYS, about["example_pass"]])
        assert self.find(mode, [about["example_hash"]], words) == [about["example_pass"]]

    # ---- attacks, on MD5

    def check(self, passwords, *attack):
        hashes = [hashlib.md5(password.encode()).hexdigest() for password in passwords]
        assert self.find(0, hashes, *attack) == sorted(passwords)

    def attacks(self):
        """Functions by name."""
        words = self.write("left", ["hash", "cash", "lash"])
        right = self.write("right", ["cat", "dog"])
        rules = self.write("rules.txt", ["r", "u", "$1 $2", "c d"])
        many = ["word%d" % i for i in range(500)]
        return {
            "words": lambda: self.check(["cash"], words),
            "many words": lambda: self.check(many[::7], self.write("many", many)),
            "rules": lambda: self.check(["hsah", "CASH", "lash12"], words, "-r", rules),
            "two lists": lambda: self.check(["cashdog"], "-a", "1", words, right),
            "mask": lambda: self.check(["hz7"], "-a", "3", "h?l?d"),
            "optimized mask": lambda: self.check(["hz7"], "-a", "3", "-O", "h?l?d"),
            "growing mask": lambda: self.check(["q", "q9"], "-a", "3", "--increment", "q?d"),
            "mask and words": lambda: self.check(["9cash"], "-a", "7", "?d", words),
        }


def main(root, group):
    hashcat = Hashcat(root)
    functions = hashcat.attacks() if group == "attacks" else {
        name: lambda mode=mode: hashcat.check_mode(mode) for name, mode in MODES[group].items()}
    try:
        outcomes.run_functions(functions)
    finally:
        shutil.rmtree(hashcat.folder)


if __name__ == "__main__":
    main(*sys.argv[1:])
