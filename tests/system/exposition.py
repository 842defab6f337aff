# SPDX-License-Identifier: Apache-2.0
"""A strict reader of Prometheus' text format (0.0.4), and of the conventions for names.

    families = exposition.read(text)
    families["mps_clients"].value()
    families["mps_user_launches_total"].value(uid="0")
"""

import re

from harness import equal

NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
SAMPLE = re.compile(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\[\\"n])*)"(,|\Z)')
VALUE = re.compile(r"[0-9]+(\.[0-9]+)?\Z")
# Units by the end of a name; others are counts.
BASE_UNITS = ("seconds", "bytes")
OTHER_UNITS = re.compile(r"_(ns|us|ms|minutes|hours|kib|mib|gib|kilobytes|megabytes|milliseconds)(_|\Z)")
ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


class Family:
    def __init__(self, name, text):
        self.name, self.help, self.type = name, text, None
        self.samples = {}  # a tuple of sorted labels -> value

    def value(self, **labels):
        """The only sample with these labels, and maybe others."""
        found = self.having(**labels)
        equal(len(found), 1, "%s with %r: %r" % (self.name, labels, sorted(self.samples)))
        return found[0][1]

    def having(self, **labels):
        """The samples with these labels: (labels, value)."""
        return [(dict(key), value) for key, value in self.samples.items()
                if labels.items() <= dict(key).items()]


def read_labels(text):
    labels, at = {}, 0
    while at < len(text):
        found = LABEL.match(text, at)
        assert found, "not a label: %r" % text[at:]
        name, value = found.group(1), found.group(2)
        assert name not in labels and not name.startswith("__"), text
        labels[name] = re.sub(r"\\.", lambda escape: ESCAPES[escape.group()], value)
        at = found.end()
        assert found.group(3) or at == len(text), text
        assert not found.group(3) or at < len(text), "a comma at the end: %r" % text
    return labels


def read_sample(family, line):
    found = SAMPLE.match(line)
    assert found, "not a sample: %r" % line
    name, labels, value = found.groups()
    equal(name, family.name, "a sample of another family")
    assert VALUE.match(value), "not a value: %r" % line
    key = tuple(sorted(read_labels(labels or "").items()))
    assert key not in family.samples, "twice: %r" % line
    family.samples[key] = float(value)


def check_conventions(family):
    assert family.name.startswith("mps_"), family.name
    assert family.type in ("counter", "gauge"), "%s is a %s" % (family.name, family.type)
    equal(family.name.endswith("_total"), family.type == "counter", family.name)
    assert not OTHER_UNITS.search(family.name), "%s is not in %s" % (family.name, BASE_UNITS)
    assert not family.name.endswith(("_count", "_sum", "_bucket", "_info_total")), family.name
    assert family.help and not family.help.endswith("."), family.help
    for key in family.samples:
        for name, _ in key:
            assert re.match(r"[a-z_]+\Z", name), name


def read(text):
    """name -> Family. HELP and TYPE come once, in this order, before the samples of their family."""
    assert text.endswith("\n") and not text.endswith("\n\n"), "the end: %r" % text[-80:]
    families, family = {}, None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            assert not family or family.type, "%s has no type" % family.name
            name, _, about = line[len("# HELP "):].partition(" ")
            assert NAME.match(name) and name not in families, line
            family = families[name] = Family(name, about)
        elif line.startswith("# TYPE "):
            name, _, kind = line[len("# TYPE "):].partition(" ")
            assert family and family.name == name and not family.type and not family.samples, line
            family.type = kind
        else:
            assert family and family.type, "outside of a family: %r" % line
            read_sample(family, line)
    for each in families.values():
        check_conventions(each)
    return families
