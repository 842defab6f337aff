#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes context_calls.c: for each driver call that the spec serves, how to make its arguments and call it.

    python3 tests/contexts/generate.py --spec proto/cuda.spec --headers /usr/local/cuda/include --out build/gen/context_calls.c

The value of a parameter is the first of: CALLS (call and parameter), NAMED (type and name), TYPES
(type). Other pointers point to zeroed memory, and other values are zero. The values are C of
fixture.h.
"""

import argparse
import os
import re
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../proto"))

from gen import stubs                       # noqa: E402
from gen.headers import base_name, read_headers  # noqa: E402
from gen.spec import read_spec              # noqa: E402
from gen.text import wrapped, write         # noqa: E402

# Whatever the spec says of them, these calls are never made: they act on the whole machine or on
# other processes.
NEVER = re.compile(r"^(cuMulticast|cuCheckpoint)")

# Calls that end the primary context: the others come first.
LAST = re.compile(r"^cuDevicePrimaryCtx(Release|Reset)")

TYPES = {
    "CUstream": "make_stream()",
    "CUevent": "make_event()",
    "CUdeviceptr": "make_memory()",
    "CUcontext": "owner",
    "CUmodule": "make_module()",
    "CUfunction": "make_function()",
    "CUlibrary": "make_library()",
    "CUkernel": "make_kernel()",
    "CUarray": "make_array()",
    "CUmipmappedArray": "make_mipmap()",
    "CUtexObject": "make_texture()",
    "CUsurfObject": "make_surface()",
    "CUgraph": "graph_of(KIND)->graph",
    "CUgraphNode": "graph_of(KIND)->node",
    "CUgraphExec": "graph_exec(graph_of(KIND))",
    "CUmemoryPool": "make_pool()",
    "CUmemGenericAllocationHandle": "make_allocation()",
    "CUuserObject": "make_user_object()",
    "CUgreenCtx": "make_green()",
    "CUdevResourceDesc": "make_resource_desc()",
    "CUlinkState": "make_linker()",
    "CUhostFn": "do_nothing",
    "CUstreamCallback": "do_nothing_in_stream",
    "CUasyncCallback": "do_nothing_async",
    "CUasyncCallbackHandle": "make_async_callback()",
    "CUlogsCallback": "do_nothing_with_log",
    "CUlogsCallbackHandle": "make_log_callback()",
    "CUarray_format": "CU_AD_FORMAT_FLOAT",
    "CUdevice_attribute": "CU_DEVICE_ATTRIBUTE_WARP_SIZE",
    "CUdevice_P2PAttribute": "CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED",
    "CUdevResourceType": "CU_DEV_RESOURCE_TYPE_SM",
    "CUfunction_attribute": "CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES",
    "CUpointer_attribute": "CU_POINTER_ATTRIBUTE_MEMORY_TYPE",
    "CUmem_range_attribute": "CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY",
    "CUmem_advise": "CU_MEM_ADVISE_SET_READ_MOSTLY",
    "CUmemPool_attribute": "CU_MEMPOOL_ATTR_RELEASE_THRESHOLD",
    "CUgraphMem_attribute": "CU_GRAPH_MEM_ATTR_USED_MEM_HIGH",
    "CUmemAllocationType": "CU_MEM_ALLOCATION_TYPE_PINNED",
    "CUmemAllocationHandleType": "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR",
    "CUmemRangeHandleType": "CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD",
    "CUcoredumpSettings": "CU_COREDUMP_LIGHTWEIGHT",
    "CUstreamAttrID": "CU_LAUNCH_ATTRIBUTE_PRIORITY",
    "CUkernelNodeAttrID": "CU_LAUNCH_ATTRIBUTE_PRIORITY",
    "CUstreamCaptureMode": "CU_STREAM_CAPTURE_MODE_RELAXED",
    "CUjitInputType": "CU_JIT_INPUT_PTX",
    "CUmemLocation": "*make_location()",
    "CUmemLocation *": "make_location()",
    "const CUmemLocation *": "make_location()",
    "const CUmemAccessDesc *": "make_access()",
    "const CUmemAllocationProp *": "make_allocation_prop(0)",
    "const CUmemPoolProps *": "make_pool_props(0)",
    "CUmemcpyAttributes *": "make_copy_attributes()",
    "CUDA_MEMCPY3D_BATCH_OP *": "make_batch_box()",
    "CUstreamBatchMemOpParams *": "make_memory_op()",
    "CUgraphNodeParams *": "make_node_params()",
    "const CUDA_KERNEL_NODE_PARAMS_v1 *": "make_kernel_params()",
    "const CUDA_KERNEL_NODE_PARAMS *": "make_kernel_params()",
    "const CUDA_MEMCPY3D *": "make_box()",
    "const CUDA_MEMCPY2D *": "make_rectangle()",
    "const CUDA_MEMCPY3D_PEER *": "make_peer_box()",
    "const CUDA_MEMSET_NODE_PARAMS *": "make_fill_params()",
    "const CUDA_HOST_NODE_PARAMS *": "make_host_params()",
    "const CUDA_BATCH_MEM_OP_NODE_PARAMS *": "make_batch_params()",
    "const CUDA_RESOURCE_DESC *": "make_resource_of_array()",
    "const CUDA_ARRAY_DESCRIPTOR *": "make_array_desc()",
    "const CUDA_ARRAY3D_DESCRIPTOR *": "make_array3d_desc(0)",
    "const CUDA_RESOURCE_VIEW_DESC *": "NULL",
    "const CUgraphEdgeData *": "NULL",
    "const CUlaunchConfig *": "make_launch_config()",
    "CUjit_option *": "NULL",
    "CUlibraryOption *": "NULL",
    "CUexecAffinityParam *": "make_zeros()",
    "CUmem_range_attribute *": "make_list(CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY)",
    "CUpointer_attribute *": "make_list(CU_POINTER_ATTRIBUTE_MEMORY_TYPE)",
    "CUipcMemHandle": "*make_memory_handle()",
    "CUipcEventHandle": "*make_event_handle()",
    "CUlogIterator *": "make_zeros()",
}

NAMED = {
    "CUarray": {"dstArray": "make_line()", "srcArray": "make_line()"},
    "CUdeviceptr": {"devPtr": "make_managed()"},
    "CUdeviceptr *": {"dsts": "make_list(make_memory())", "srcs": "make_list(make_memory())",
                      "dptrs": "make_list(make_managed())"},
    "CUdevResource *": {"resources": "make_resource()"},
    "const CUdevResource *": {"input": "make_resource()"},
    "CUgraph": {"childGraph": "graph_of(KIND)->child", "hClonedGraph": "graph_clone(graph_of(KIND))"},
    "const CUgraphNode *": {"from": "&graph_of(KIND)->node", "to": "&graph_of(KIND)->second",
                            "dependencies": "&graph_of(KIND)->before"},
    "CUgraphNode *": {"dependencies": "make_zeros()"},
    "const char *": {"fname": "path_of_image()", "fileName": "path_of_image()",
                     "path": '"/dev/null"', "pathToFile": '"/dev/null"', "name": '"k"',
                     "symbol": '"cuInit"', "pciBusId": "make_bus_id()"},
    "const void *": {"image": "image", "code": "image", "fatCubin": "image",
                     "srcHost": "make_pinned()", "value": "make_zeros()"},
    "void *": {"dstHost": "make_pinned()", "p": "make_pinned()",
               "globalAddress": "(void *)(uintptr_t)make_memory()"},
    "void **": {"kernelParams": "make_kernel_arguments()", "extra": "NULL", "optionValues": "NULL",
                "jitOptionsValues": "NULL", "libraryOptionValues": "NULL",
                "data": "make_list((uintptr_t)make_zeros())"},
    "int": {"len": "64", "x": "1", "y": "1", "z": "1", "grid_width": "1", "grid_height": "1",
            "blockSize": "32", "numBlocks": "1", "cudaVersion": "12000"},
    "unsigned int": {"count": "1", "gridDimX": "1", "gridDimY": "1", "gridDimZ": "1",
                     "blockDimX": "1", "blockDimY": "1", "blockDimZ": "1", "numbytes": "8",
                     "numFunctions": "1", "numKernels": "1", "ElementSizeBytes": "4",
                     "numMipmapLevels": "2", "numAttributes": "1", "initialRefcount": "1",
                     "minCount": "8", "nbResources": "1", "isEnabled": "1"},
    "unsigned": {"numChannels": "1"},
    "unsigned int *": {"nbGroups": "make_list(1)"},
    "size_t": {"ByteCount": "64", "N": "16", "Width": "8", "Height": "2", "WidthInBytes": "64",
               "dstPitch": "64", "bytesize": "4096", "size": "CHUNK", "count": "1",
               "numAttrs": "1", "numOps": "1", "numPrefetchLocs": "1", "dataSize": "4",
               "numAttributes": "1"},
    "size_t *": {"sizes": "make_list(64)", "dataSizes": "make_list(4)", "size": "make_list(4)"},
    "cuuint32_t": {"tensorRank": "3", "channelsPerPixel": "4", "pixelsPerColumn": "4"},
    "const cuuint64_t *": {"globalDim": "tensor_dims", "globalStrides": "tensor_strides"},
    "const cuuint32_t *": {"boxDim": "tensor_box", "elementStrides": "tensor_steps"},
    "const int *": {"pixelBoxLowerCorner": "tensor_corner", "pixelBoxUpperCorner": "tensor_corner"},
}

CAPTURING = {"hStream": "make_capture()"}
SHAPED = {"f": "make_shaped_function()"}
GLOBAL = {"name": '"g"'}
FLAG = {"size": "make_list(1)"}
LINKED = {"data": "(void *)image", "size": "image_size", "path": "path_of_image()"}

# By name without version.
CALLS = {
    "cuArrayGetSparseProperties": {"array": "make_array()"},
    "cuCoredumpGetAttribute": FLAG,
    "cuCoredumpGetAttributeGlobal": FLAG,
    "cuCoredumpSetAttribute": FLAG,
    "cuCoredumpSetAttributeGlobal": FLAG,
    "cuCtxCreate": {"paramsArray": "NULL"},
    "cuCtxDestroy": {"ctx": "make_context()"},
    "cuCtxDetach": {"ctx": "make_context()"},
    "cuCtxSetLimit": {"value": "1024"},
    "cuEventElapsedTime": {"hStart": "make_event()", "hEnd": "make_event()"},
    "cuGraphAddMemFreeNode": {"dptr": "graph_of(GRAPH_MEM_ALLOC)->address",
                              "hGraph": "graph_of(GRAPH_MEM_ALLOC)->graph",
                              "dependencies": "&graph_of(GRAPH_MEM_ALLOC)->node",
                              "numDependencies": "1"},
    "cuGraphAddMemAllocNode": {"nodeParams": "make_alloc_params()"},
    "cuGraphAddDependencies": {"numDependencies": "1"},
    "cuGraphRemoveDependencies": {"numDependencies": "1"},
    "cuGraphReleaseUserObject": {"object": "graph_user_object(graph_of(KIND))"},
    "cuGreenCtxCreate": {"flags": "CU_GREEN_CTX_DEFAULT_STREAM"},
    "cuGreenCtxStreamCreate": {"flags": "CU_STREAM_NON_BLOCKING"},
    "cuIpcGetEventHandle": {"event": "make_shared_event()"},
    "cuLaunch": SHAPED,
    "cuLaunchGrid": SHAPED,
    "cuLaunchGridAsync": SHAPED,
    "cuLibraryGetGlobal": GLOBAL,
    "cuLibraryGetManaged": {"name": '"m"', "library": "make_managed_library()"},
    "cuLinkAddData": LINKED,
    "cuLinkAddFile": LINKED,
    "cuLinkComplete": {"state": "make_filled_linker()"},
    "cuLogsDumpToMemory": {"size": "make_list(1024)"},
    "cuMemAddressReserve": {"addr": "0"},
    "cuMemAddressFree": {"ptr": "make_reservation()"},
    "cuMemAdvise": {"count": "4096"},
    "cuMemAllocManaged": {"flags": "CU_MEM_ATTACH_GLOBAL"},
    "cuMemDiscardAndPrefetchBatchAsync": {"sizes": "make_list(4096)"},
    "cuMemDiscardBatchAsync": {"sizes": "make_list(4096)"},
    "cuMemExportToShareableHandle": {"handle": "make_shared_allocation()"},
    "cuMemFreeAsync": {"dptr": "make_pool_memory(0)"},
    "cuMemGetHandleForAddressRange": {"dptr": "make_mapping()"},
    "cuMemGetAccess": {"ptr": "make_mapping()"},
    "cuMemHostRegister": {"p": "make_pages()"},
    "cuMemHostUnregister": {"p": "make_registered()"},
    "cuMemImportFromShareableHandle": {"osHandle": "make_descriptor_of_allocation()"},
    "cuMemMap": {"ptr": "make_reservation()"},
    "cuMemPoolExportPointer": {"ptr": "make_exported_memory()"},
    "cuMemPoolExportToShareableHandle": {"pool": "make_shared_pool()"},
    "cuMemPoolImportFromShareableHandle": {"handle": "make_descriptor_of_pool()"},
    "cuMemPoolImportPointer": {"shareData": "make_export_of_pool()"},
    "cuMemPrefetchAsync": {"count": "4096"},
    "cuMemPrefetchBatchAsync": {"sizes": "make_list(4096)"},
    "cuMemRangeGetAttribute": {"count": "4096"},
    "cuMemRangeGetAttributes": {"count": "4096"},
    "cuMemRetainAllocationHandle": {"addr": "(void *)(uintptr_t)make_mapping()"},
    "cuMemSetAccess": {"ptr": "make_mapping()"},
    "cuMemUnmap": {"ptr": "make_mapping()"},
    "cuModuleGetGlobal": GLOBAL,
    "cuPointerSetAttribute": {"attribute": "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS"},
    "cuStreamAttachMemAsync": {"dptr": "make_managed()", "flags": "CU_MEM_ATTACH_GLOBAL"},
    "cuStreamEndCapture": CAPTURING,
    "cuStreamGetCaptureInfo": CAPTURING,
    "cuStreamIsCapturing": CAPTURING,
    "cuStreamUpdateCaptureDependencies": CAPTURING,
    "cuSurfObjectCreate": {"pResDesc": "make_resource_of_surface()"},
    "cuTensorMapReplaceAddress": {"tensorMap": "make_tensor_map()"},
    "cuUserObjectCreate": {"flags": "CU_USER_OBJECT_NO_DESTRUCTOR_SYNC"},
}

NODE = re.compile(r"(Kernel|Memcpy|Memset|Host|ChildGraph|Empty|EventRecord|EventWait|BatchMemOp"
                  r"|MemAlloc|MemFree)Node")
KINDS = {"Memcpy": "COPY", "Memset": "FILL", "ChildGraph": "CHILD", "EventRecord": "EVENT_RECORD",
         "EventWait": "EVENT_WAIT", "BatchMemOp": "BATCH", "MemAlloc": "MEM_ALLOC",
         "MemFree": "MEM_FREE"}


def graph_kind(name):
    """Which graph a call of graphs gets: one with a node of its type."""
    if name == "cuGraphRemoveDependencies":
        return "GRAPH_EDGE"
    match = NODE.search(name)
    if not match or name.startswith("cuGraphAdd") and "Child" not in name:
        return "GRAPH_KERNEL"
    return "GRAPH_" + KINDS.get(match.group(1), match.group(1).upper())


def value_of(name, param):
    value = CALLS.get(name, {}).get(param.name)
    value = value or NAMED.get(param.type, {}).get(param.name) or TYPES.get(param.type)
    if not value and (param.type.endswith("*") or param.array):
        value = "make_zeros()"
    return value and value.replace("KIND", graph_kind(name))


def served(spec, headers):
    found = [stub.prototype for stub in stubs.stubs_of(spec, headers)
             if stub.target and not NEVER.search(stub.symbol)]
    return sorted(found, key=lambda prototype: bool(LAST.search(prototype.symbol)))


def gen_call(prototype):
    symbol, params = prototype.symbol, prototype.params
    name, out = base_name(symbol), []
    if params:
        out += [f"struct {symbol} {{"] + [f"\t{param.declare()};" for param in params] + ["};\n"]
    out += [f"static void prepare_{symbol}(void *memory)", "{"]
    values = [(param, value_of(name, param)) for param in params]
    if any(value for _, value in values):
        out.append(f"\tstruct {symbol} *args = memory;\n")
        for param, value in values:
            if value:
                out.append(f"\targs->{param.name} = {value};")
    else:
        out.append("\t(void)memory;")
    out.append("}\n")
    if not params:
        return "\n".join(out + [f"MAKE_PLAIN({symbol})\n"])
    return "\n".join(out + [wrapped("MAKE(", [symbol] + [f"args->{p.name}" for p in params], ")\n")])


def gen_checks(stub):
    """The checks that the spec states of a call's arguments, each with an argument that breaks it."""
    rows = []
    for word, kind, places, _ in stub.checks:
        for at in places:
            bad, result = "0", "CUDA_ERROR_INVALID_VALUE"
            if word == "handle":
                bad, result = BAD_HANDLE, stubs.HANDLES[kind][2]
            param = stub.prototype.params[at]
            rows.append(f"\tCHECK({stub.symbol}, {param.name}, {bad}, {result}),")
        if word == "needs" and kind == "context" and not stubs.owner_of(stub):
            rows.append(f"\tCHECK_CONTEXT({stub.symbol}),")
    return rows


def gen_calls(spec, headers):
    prototypes = served(spec, headers)
    symbols = {prototype.symbol for prototype in prototypes}
    out = ["/* SPDX-License-Identifier: Apache-2.0 */", "",
           "/* The calls of the matrix. Made by tests/contexts/generate.py. */", "",
           '#include "tests/contexts/fixture.h"', ""]
    out += [gen_call(prototype) for prototype in prototypes]
    out += [ROW, "const struct call calls[] = {"]
    out += [f"\tCALL({prototype.symbol})," for prototype in prototypes]
    out += ["};\n", "const size_t n_calls = sizeof(calls) / sizeof(calls[0]);\n"]
    out.append("const struct check checks[] = {")
    for stub in stubs.stubs_of(spec, headers):
        if stub.symbol in symbols:
            out += gen_checks(stub)
    out += ["};\n", "const size_t n_checks = sizeof(checks) / sizeof(checks[0]);"]
    return "\n".join(out) + "\n"


# No handle of an object, and the number of no device.
BAD_HANDLE = "0xbad0"

ROW = "#define CALL(s) {#s, offsetof(struct cuda_api, s), prepare_##s, call_##s}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--spec", required=True)
    parser.add_argument("--headers", required=True)
    parser.add_argument("--out", required=True)
    arguments = parser.parse_args()
    spec = read_spec(arguments.spec, os.path.basename(arguments.spec))
    write(arguments.out, gen_calls(spec, read_headers(arguments.headers)))


if __name__ == "__main__":
    main()
