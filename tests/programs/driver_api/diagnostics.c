/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Queries of a program to the driver: settings of core dumps, for the process and for
 * a context; the driver's log; attached contexts; notifications; execution affinity.
 * Builds with: -Wno-deprecated-declarations
 */

#include <cuda.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME "diagnostics"
#include "../helpers/driver_program.h"

static bool ask(CUcoredumpSettings which, bool is_global)
{
	size_t size = sizeof(bool);
	bool value = false;

	CHECK(is_global ? cuCoredumpGetAttributeGlobal(which, &value, &size)
			: cuCoredumpGetAttribute(which, &value, &size));
	return value;
}

/* Settings that a context does not have, and the newer flags with the older settings. */
static void core_dumps_of_context(void)
{
	const CUcoredumpSettings process_only[] = {
		CU_COREDUMP_ENABLE_USER_TRIGGER, CU_COREDUMP_PIPE};
	unsigned flags = CU_COREDUMP_LIGHTWEIGHT_FLAGS | CU_COREDUMP_SKIP_ABORT;
	size_t size = sizeof(flags);
	char bytes[2048] = "";

	for (size_t i = 0; i < 2; i++) {
		size_t wanted = i ? 1024 : sizeof(bool);

		expect(cuCoredumpGetAttribute(process_only[i], NULL, &wanted) ==
				CUDA_ERROR_INVALID_VALUE,
			"its size is not told");
		expect(cuCoredumpGetAttribute(process_only[i], bytes, &wanted) ==
				CUDA_ERROR_INVALID_VALUE,
			"nor what it is");
		expect(cuCoredumpSetAttribute(process_only[i], bytes, &wanted) ==
				CUDA_ERROR_INVALID_VALUE,
			"and it is not set");
	}
	CHECK(cuCoredumpSetAttribute(CU_COREDUMP_GENERATION_FLAGS, &flags, &size));
	expect(ask(CU_COREDUMP_LIGHTWEIGHT, false), "its flags are those of a light dump");
	expect(!ask(CU_COREDUMP_TRIGGER_HOST, false), "and the host goes on");
	size = sizeof(bytes);
	CHECK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, bytes, &size));
	expect(bytes[0] == '\0', "no file is named until one is");
	CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_PIPE, bytes, &size));
	expect(bytes[0] == '\0' && size == sizeof(bytes), "nor a pipe");
	size = 0;
	CHECK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, bytes, &size));
	expect(size == 0, "a text may have no room");
	size = sizeof(bytes);
	expect(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, bytes, &size) ==
			CUDA_ERROR_INVALID_VALUE,
		"a bool is asked for by its size");
}

static void core_dumps(void)
{
	char file[1024] = "", wanted[] = "/tmp/diagnostics.core";
	size_t size = 0, one = sizeof(bool);
	bool no = false;

	core_dumps_of_context();
	CHECK(cuCoredumpGetAttributeGlobal(CU_COREDUMP_ENABLE_ON_EXCEPTION, NULL, &size));
	expect(size == sizeof(bool), "a bool has its size");
	expect(!ask(CU_COREDUMP_ENABLE_ON_EXCEPTION, true), "nothing is dumped by default");
	expect(!ask(CU_COREDUMP_ENABLE_ON_EXCEPTION, false), "nor of a context");
	expect(ask(CU_COREDUMP_TRIGGER_HOST, true), "the host would be");
	CHECK(cuCoredumpSetAttribute(CU_COREDUMP_TRIGGER_HOST, &no, &one));
	expect(!ask(CU_COREDUMP_TRIGGER_HOST, false), "a context has its own");
	expect(ask(CU_COREDUMP_TRIGGER_HOST, true), "and the process has not changed");
	size = sizeof(wanted);
	CHECK(cuCoredumpSetAttribute(CU_COREDUMP_FILE, wanted, &size));
	size = sizeof(file);
	CHECK(cuCoredumpGetAttribute(CU_COREDUMP_FILE, file, &size));
	expect(!strcmp(file, wanted), "a file's name is kept");
	expect(cuCoredumpGetAttribute((CUcoredumpSettings)99, &no, &one) ==
			CUDA_ERROR_INVALID_VALUE,
		"an attribute is known");
	expect(cuCoredumpGetAttribute(CU_COREDUMP_LIGHTWEIGHT, &no, NULL) ==
			CUDA_ERROR_INVALID_VALUE,
		"a size is needed");
}

#define FREED "Returning 1 (CUDA_ERROR_INVALID_VALUE) from cuMemFree_v2"

/* Counts the messages about a free that was refused. */
static void CUDA_CB on_log(void *data, CUlogLevel level, char *message, size_t length)
{
	if (level == CU_LOG_LEVEL_ERROR && length == strlen(FREED) &&
		!memcmp(message, FREED, length))
		++*(unsigned *)data;
}

static void logs(void)
{
	CUlogsCallbackHandle handle = NULL;
	CUlogIterator iterator = 0;
	unsigned heard = 0;
	size_t size;
	char text[4096];

	CHECK(cuLogsRegisterCallback(on_log, &heard, &handle));
	CHECK(cuLogsCurrent(&iterator, 0));
	size = sizeof(text);
	text[0] = 'x';
	CHECK(cuLogsDumpToMemory(&iterator, text, &size, 0));
	expect(size == 0 && text[0] == 'x', "nothing was logged since just now");
	expect(cuMemFree(16) == CUDA_ERROR_INVALID_VALUE, "nothing is freed there");
	expect(heard == 1, "the callback has been called");
	size = sizeof(text);
	CHECK(cuLogsDumpToMemory(&iterator, text, &size, 0));
	expect(size == strlen(text) && text[0] == '[', "lines begin with the time");
	expect(strstr(text, "][CUDA][E] " FREED "\n") != NULL, "and end with what was refused");
	size = sizeof(text);
	CHECK(cuLogsDumpToMemory(&iterator, text, &size, 0));
	expect(size == 0 && text[0] == '[', "each line is told once");
	CHECK(cuLogsUnregisterCallback(handle));
	CHECK(cuLogsCurrent(&iterator, 1));
	expect(cuLogsCurrent(NULL, 0) == CUDA_ERROR_INVALID_VALUE, "an iterator is needed");
	expect(cuLogsRegisterCallback(NULL, NULL, &handle) == CUDA_ERROR_INVALID_VALUE,
		"a callback is needed");
}

static void attached(CUdevice device)
{
	CUcontext context = NULL, again = NULL, current = NULL;

	CHECK(cuCtxCreate(&context, NULL, 0, device));
	CHECK(cuCtxAttach(&again, 0));
	expect(again == context, "it is the current context");
	expect(cuCtxAttach(&again, 1) == CUDA_ERROR_INVALID_VALUE, "there are no flags");
	CHECK(cuCtxDetach(context));
	CHECK(cuCtxSynchronize());
	CHECK(cuCtxDetach(context));
	CHECK(cuCtxGetCurrent(&current));
	expect(current != context, "the last one ends it");
}

/* A primary context is detached more often than it was attached, and stays. */
static void attached_primary(CUcontext context, CUdevice device)
{
	CUcontext again = NULL;
	CUdeviceptr memory = 0;

	CHECK(cuDevicePrimaryCtxRetain(&again, device));
	CHECK(cuCtxAttach(&again, 0));
	expect(again == context, "the primary context is the current one");
	CHECK(cuCtxDetach(context));
	CHECK(cuCtxDetach(context));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuMemAlloc(&memory, 64));
	CHECK(cuMemFree(memory));
}

static void affinity(CUdevice device)
{
	CUexecAffinityParam param;
	int sms = 0, is_supported = 7;

	CHECK(cuDeviceGetAttribute(&sms, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device));
	CHECK(cuCtxGetExecAffinity(&param, CU_EXEC_AFFINITY_TYPE_SM_COUNT));
	expect(param.param.smCount.val == (unsigned)sms, "a context has all SMs");
	expect(cuCtxGetExecAffinity(&param, (CUexecAffinityType)9) ==
			CUDA_ERROR_UNSUPPORTED_EXEC_AFFINITY,
		"of another kind it has none");
	expect(cuCtxGetExecAffinity(NULL, CU_EXEC_AFFINITY_TYPE_SM_COUNT) ==
			CUDA_ERROR_INVALID_VALUE,
		"there is room for the answer");
	CHECK(cuDeviceGetExecAffinitySupport(&is_supported, (CUexecAffinityType)9, device));
	expect(is_supported == 0, "another kind is not supported");
}

int main(void)
{
	CUdevice device = 0;
	CUcontext context = NULL;

	expect(!ask(CU_COREDUMP_ENABLE_ON_EXCEPTION, true), "settings are told before cuInit");
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	core_dumps();
	logs();
	attached(device);
	affinity(device);
	attached_primary(context, device);
	CHECK(cuDevicePrimaryCtxRelease(device));
	printf(NAME ": ok\n");
	return 0;
}
