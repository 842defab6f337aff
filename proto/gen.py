#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Generates build/gen from proto/cuda.spec and NVIDIA's headers. docs/protocol.md has the grammar.

    python3 proto/gen.py --spec proto/cuda.spec --headers /usr/local/cuda/include --out build/gen
"""

import argparse
import os
import sys

sys.dont_write_bytecode = True

from gen import api, dispatch, docs, procs, record, rules, send, stubs, wire  # noqa: E402
from gen.headers import HeaderError, read_headers           # noqa: E402
from gen.moved import moved_text, read_sources             # noqa: E402
from gen.spec import SpecError, read_spec                   # noqa: E402
from gen.text import write                                  # noqa: E402


def outputs(spec, headers):
    """Text of each generated file by its name."""
    return {
        **{f"calls_{room}.h": stubs.gen_calls_room_h(spec, headers, room) for room in spec.call_rooms()},
        **{f"send_{room}.h": send.gen_send_room_h(spec, room) for room in spec.rooms()},
        **{f"do_{room}.h": dispatch.gen_do_room_h(spec, room) for room in spec.server_rooms()},
        "spec_hash.h": wire.gen_spec_hash(spec),
        "wire.h": wire.gen_wire_h(spec),
        "messages.h": wire.gen_messages_h(spec),
        "wire.c": wire.gen_wire_c(spec, headers),
        "send.h": send.gen_send_h(spec),
        "send.c": send.gen_send_c(spec),
        "dispatch.h": dispatch.gen_dispatch_h(spec),
        "dispatch.c": dispatch.gen_dispatch_c(spec),
        "record_rules.h": record.gen_record_rules_h(spec),
        "record_rules.c": record.gen_record_rules_c(spec),
        "cuda_api.h": api.gen_cuda_api_h(headers),
        "cuda_api.c": api.gen_cuda_api_c(headers),
        "stubs.c": stubs.gen_stubs_c(spec, headers),
        "client.syms": stubs.gen_client_syms(headers),
        "symbols.h": stubs.gen_symbols_h(headers),
        "test_rules.c": rules.gen_test_rules(spec),
        "procs.h": procs.gen_procs_h(),
        "procs.c": procs.gen_procs_c(headers),
        "calls.md": docs.gen_calls(spec),
        "coverage.md": docs.gen_coverage(spec, headers),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", required=True)
    parser.add_argument("--headers", required=True, help="the include folder of CUDA 13.0")
    parser.add_argument("--out", required=True)
    parser.add_argument("--wire", action="append", default=[],
                        help="a header that must be the same in both builds: part of the hash")
    parser.add_argument("--server", help="its folder, with the format of what it sends to its successor")
    arguments = parser.parse_args()
    try:
        spec = read_spec(arguments.spec, os.path.basename(arguments.spec))
        for path in arguments.wire:
            with open(path, encoding="utf-8") as file:
                spec.wire_text.append(file.read())
        if arguments.server:
            spec.moved_text = moved_text(read_sources(arguments.server))
        made = outputs(spec, read_headers(arguments.headers))
    except (SpecError, HeaderError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    os.makedirs(arguments.out, exist_ok=True)
    for name, text in made.items():
        write(os.path.join(arguments.out, name), text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
