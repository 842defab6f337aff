# SPDX-License-Identifier: Apache-2.0
"""Reads NVIDIA's headers: prototypes by symbol, versions of cuGetProcAddress, types.

It preprocesses as much as cuda.h needs: conditions, and the macros that give a function
its versioned or per-thread name. __CUDA_API_VERSION_INTERNAL is defined, so that the
headers declare the old symbols too.
"""

import os
import re
from dataclasses import dataclass, field

PREDEFINED = {
    "__CUDA_API_VERSION_INTERNAL": "1",
    "__GNUC__": "12",
    "__LP64__": "1",
    "__STDC_VERSION__": "201710",
}

# cudaGL.h, cudaEGL.h and cudaVDPAU.h include headers that need not be installed.
HEADERS = ["cuda.h", "cudaProfiler.h", "cudaGL.h", "cudaEGL.h", "cudaVDPAU.h"]
# The headers that cuda_api.h can include: the others need types of GL, EGL and VDPAU.
DECLARED = {"cuda.h", "cudaProfiler.h"}
TYPEDEFS = ["cudaTypedefs.h", "cudaProfilerTypedefs.h", "cudaGLTypedefs.h", "cudaEGLTypedefs.h",
            "cudaVDPAUTypedefs.h"]

# The driver of a machine with a GPU card does not export these.
TEGRA_ONLY = {"cuEventCreateFromEGLSync"}


class HeaderError(Exception):
    pass


@dataclass
class Param:
    type: str
    name: str
    array: str = ""

    def declare(self):
        space = "" if self.type.endswith("*") else " "
        return f"{self.type}{space}{self.name}{self.array}"


@dataclass
class Prototype:
    symbol: str
    params: list
    chapter: str
    header: str

    def declare_params(self):
        return [param.declare() for param in self.params] or ["void"]


@dataclass
class Headers:
    prototypes: dict = field(default_factory=dict)  # symbol -> Prototype, in order
    versions: dict = field(default_factory=dict)    # base name -> ([(version, symbol)], [...])
    types: dict = field(default_factory=dict)       # typedef -> "pointer", "enum", "struct" or text
    results: list = field(default_factory=list)     # (CUresult's enumerator, value)
    version: int = 0                                # CUDA_VERSION


def without_comments(text):
    """Removes comments, except the beginnings of chapters."""
    def keep(match):
        chapter = re.search(r"\\defgroup\s+\w+\s+([^\n]*)", match.group(0))
        if chapter:
            return "\n@chapter " + chapter.group(1).strip() + "\n"
        return "\n" if "\n" in match.group(0) else " "
    text = re.sub(r"/\*.*?\*/|//[^\n]*", keep, text, flags=re.S)
    return text.replace("\\\n", " ")


def condition(expression, macros):
    def is_defined(match):
        return "1" if (match.group(1) or match.group(2)) in macros else "0"
    text = re.sub(r"\bdefined\s*(?:\(\s*(\w+)\s*\)|(\w+))", is_defined, expression)
    text = re.sub(r"\b[A-Za-z_]\w*", lambda m: macros.get(m.group(0), "0") or "0", text)
    text = re.sub(r"\b(\d+)[uUlL]+\b", r"\1", text)
    text = text.replace("&&", " and ").replace("||", " or ")
    text = re.sub(r"!(?!=)", " not ", text)
    if not re.fullmatch(r"[\d\s()<>=!+*/andortx-]*", text):
        raise HeaderError(f"cannot read the condition '{expression}'")
    return bool(eval(text, {"__builtins__": {}}))  # digits and operators alone, as checked


def name_of(word, macros):
    """The symbol to which cuda.h's macros expand a function's name."""
    for _ in range(8):
        body = macros.get(word)
        if not body:
            return word
        call = re.fullmatch(r"__CUDA_API_(PTDS|PTSZ)\(\s*(\w+)\s*\)", body)
        if call:
            inner = call.group(2) if call.group(2) == word else name_of(call.group(2), macros)
            return inner + "_" + call.group(1).lower()
        word = body
    raise HeaderError(f"the macro {word} has no end")


def lines_of(text, macros):
    """The lines that remain after preprocessing, with function names expanded."""
    stack = []
    for line in text.split("\n"):
        directive = re.match(r"\s*#\s*(\w+)\s*(.*)", line)
        if not directive:
            if all(state == "on" for state in stack):
                yield re.sub(r"\bcu[A-Z]\w*", lambda m: name_of(m.group(0), macros), line)
            continue
        word, rest = directive.groups()
        if word in ("if", "ifdef", "ifndef"):
            if word == "ifdef":
                rest = f"defined({rest.split()[0]})"
            elif word == "ifndef":
                rest = f"!defined({rest.split()[0]})"
            outer = all(state == "on" for state in stack)
            stack.append("on" if outer and condition(rest, macros) else "off" if outer else "done")
        elif word == "elif":
            if stack[-1] == "on":
                stack[-1] = "done"
            elif stack[-1] == "off" and condition(rest, macros):
                stack[-1] = "on"
        elif word == "else":
            stack[-1] = "on" if stack[-1] == "off" else "done"
        elif word == "endif":
            stack.pop()
        elif all(state == "on" for state in stack):
            if word == "define":
                name, _, body = rest.partition(" ")
                if "(" not in name:
                    macros[name] = body.strip()
            elif word == "undef":
                macros.pop(rest.strip(), None)


def statements_of(text):
    """Splits at `;' outside braces; also yields the beginnings of chapters."""
    depth, start = 0, 0
    for match in re.finditer(r"[{};]|\n@chapter [^\n]*", text):
        token = match.group(0)
        if token == "{":
            depth += 1
        elif token == "}":
            depth -= 1
        elif token == ";":
            if depth == 0:
                yield text[start:match.start()].strip()
                start = match.end()
        else:
            yield token.strip()
            if depth == 0:
                start = match.end()


def split_params(text):
    """Parameters of a prototype; NVIDIA's contain no function types."""
    params = []
    text = " ".join(text.split())
    if text in ("", "void"):
        return params
    for piece in text.split(","):
        piece = piece.replace(" CUDAAPI", "").strip()
        match = re.fullmatch(r"(.*?[\s*])(\w+)\s*((?:\[\w*\])*)", piece)
        if not match:
            raise HeaderError(f"cannot read the parameter '{piece}'")
        kind, name, array = match.groups()
        kind = re.sub(r"\s*\*\s*", "*", kind.strip())
        kind = re.sub(r"\*+$", lambda m: " " + m.group(0), kind)
        kind = re.sub(r"\*(?=\w)", "* ", kind)
        params.append(Param(kind, name, array))
    return params


def read_enum(body):
    """(name, value) of an enum's body."""
    value, items = -1, []
    for piece in body.split(","):
        match = re.fullmatch(r"\s*(\w+)\s*(?:=\s*(.+?))?\s*", piece, flags=re.S)
        if not match:
            continue
        value = int(match.group(2), 0) if match.group(2) else value + 1
        items.append((match.group(1), value))
    return items


def read_typedef(statement, headers):
    pointer = re.search(r"\(\s*(?:CUDAAPI|CUDA_CB)?\s*\*\s*(\w+)\s*\)\s*\(", statement)
    body = re.match(r"typedef\s+(enum|struct|union)\b[^{]*\{", statement)
    if pointer and not body:
        headers.types[pointer.group(1)] = "pointer"
        return
    if body:
        name = statement[statement.rindex("}") + 1:].split()
        if not name:
            return
        headers.types[name[-1]] = "enum" if body.group(1) == "enum" else "struct"
        if name[-1] == "CUresult":
            inner = statement[statement.index("{") + 1:statement.rindex("}")]
            headers.results = read_enum(inner)
        return
    match = re.fullmatch(r"typedef\s+(.*?)([\s*]+)(\w+)\s*(\[\w+\])?", statement, flags=re.S)
    if match:
        resolved = "pointer" if "*" in match.group(2) else " ".join(match.group(1).split())
        headers.types[match.group(3)] = resolved


def read_header(path, macros, headers):
    with open(path, encoding="utf-8", errors="replace") as file:
        text = "\n".join(lines_of(without_comments(file.read()), macros))
    header, chapter = os.path.basename(path), ""
    for statement in statements_of(text):
        if statement.startswith("@chapter "):
            chapter = statement[len("@chapter "):]
            continue
        if "typedef" in statement[:40]:
            read_typedef(statement[statement.index("typedef"):], headers)
            continue
        match = re.search(r"CUresult\s+CUDAAPI\s+(cu\w+)\s*\(([^()]*)\)$", statement)
        if match and match.group(1) not in TEGRA_ONLY:
            symbol = match.group(1)
            params = split_params(match.group(2))
            headers.prototypes.setdefault(symbol, Prototype(symbol, params, chapter, header))
    version = macros.get("CUDA_VERSION", "")
    if version.isdigit():
        headers.version = int(version)


def base_name(symbol):
    return re.sub(r"(_v\d+)?(_ptds|_ptsz)?$", "", symbol)


def read_versions(directory, headers):
    """The n-th version of a name in cudaTypedefs.h is its symbol with suffix n."""
    found = {}
    for name in TYPEDEFS:
        with open(os.path.join(directory, name), encoding="utf-8", errors="replace") as file:
            text = without_comments(file.read())
        for base, version, thread in re.findall(
                r"\*\s*PFN_(cu\w+?)_v(\d+)((?:_ptds|_ptsz)?)\s*\)", text):
            found.setdefault(base, set()).add((int(version), thread))
    for base, versions in found.items():
        plain, per_thread = [], []
        numbers = sorted({number for number, thread in versions if not thread})
        for n, number in enumerate(numbers):
            symbol = base if n == 0 else f"{base}_v{n + 1}"
            plain.append((number, symbol))
        for number, thread in sorted(v for v in versions if v[1]):
            symbol = [s for v, s in plain if v <= number]
            if symbol:
                per_thread.append((number, symbol[-1] + thread))
        if base in headers.prototypes:
            headers.versions[base] = (plain, per_thread)


def complete_chapters(headers):
    """An old symbol belongs to the chapter of its newest form."""
    chapters = {}
    for prototype in headers.prototypes.values():
        if prototype.chapter and "Data types" not in prototype.chapter:
            chapters.setdefault(base_name(prototype.symbol), prototype.chapter)
    for prototype in headers.prototypes.values():
        prototype.chapter = chapters.get(base_name(prototype.symbol), "Other")


def read_headers(directory):
    headers, macros = Headers(), dict(PREDEFINED)
    for name in HEADERS + TYPEDEFS:
        if not os.path.exists(os.path.join(directory, name)):
            raise HeaderError(f"{directory} has no {name}: give the include folder of CUDA 13.0")
    for name in HEADERS:
        read_header(os.path.join(directory, name), macros, headers)
    read_versions(directory, headers)
    complete_chapters(headers)
    if not headers.results or not headers.version:
        raise HeaderError(f"{directory}/cuda.h is not a cuda.h that this generator can read")
    return headers
