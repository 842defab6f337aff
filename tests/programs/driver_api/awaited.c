/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches that the program waits for, and launches, fills and events between them, at random.
 * The results depend on the order of the launches of a stream. After each wait they must be those
 * that this program calculates itself.
 *
 *   awaited [SEED]
 */

#include <stdint.h>

#define NAME "awaited"
#include "../helpers/driver_program.h"

enum {
	STREAMS = 3,
	ROUNDS = 4000,
	FILLED = 7
};

/* *cell = *cell * 3 + v */
static const char image[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry step(.param .u64 cell, .param .u32 v)\n{\n"
	"	.reg .b32 %r<3>;\n	.reg .b64 %rd<3>;\n"
	"	ld.param.u64 %rd1, [cell];\n	ld.param.u32 %r1, [v];\n"
	"	cvta.to.global.u64 %rd2, %rd1;\n	ld.global.u32 %r2, [%rd2];\n"
	"	mad.lo.s32 %r2, %r2, 3, %r1;\n	st.global.u32 [%rd2], %r2;\n	ret;\n}\n";

/* Of each stream: its cell in pinned memory, and what the cell must be after a wait. */
static struct {
	CUstream stream;
	volatile uint32_t *cell;
	CUdeviceptr address;
	uint32_t expected;
} lines[STREAMS];

static CUfunction step;
static CUevent event;
static unsigned state;

static unsigned draw(unsigned n)
{
	state = state * 1103515245 + 12345;
	return (state >> 16) % n;
}

static void launch(int i)
{
	uint32_t v = draw(1000);
	void *params[] = {&lines[i].address, &v};

	CHECK(cuLaunchKernel(step, 1, 1, 1, 1, 1, 1, 0, lines[i].stream, params, NULL));
	lines[i].expected = lines[i].expected * 3 + v;
}

static void fill(int i)
{
	CHECK(cuMemsetD32Async(lines[i].address, FILLED, 1, lines[i].stream));
	lines[i].expected = FILLED;
}

static void check_cell(int i, int round)
{
	if (*lines[i].cell == lines[i].expected)
		return;
	printf(NAME ": round %d: stream %d has %u, not %u\n", round, i, *lines[i].cell,
		lines[i].expected);
	exit(1);
}

static void wait_for(int i, int round)
{
	switch (draw(4)) {
	case 0:
		CHECK(cuCtxSynchronize());
		for (int j = 0; j < STREAMS; j++)
			check_cell(j, round);
		return;
	case 1:
		while (cuStreamQuery(lines[i].stream) == CUDA_ERROR_NOT_READY)
			;
		break;
	default:
		CHECK(cuStreamSynchronize(lines[i].stream));
	}
	check_cell(i, round);
}

/* Work that is not a launch and its wait. */
static void interrupt(int i)
{
	int other = (int)draw(STREAMS);

	switch (draw(5)) {
	case 0:
		fill(i);
		break;
	case 1:
		launch(i);
		launch(i);
		break;
	case 2:
		launch(i);
		launch(other);
		break;
	case 3:
		launch(i);
		fill(i);
		break;
	default:
		launch(i);
		CHECK(cuEventRecord(event, lines[i].stream));
		CHECK(cuStreamWaitEvent(lines[other].stream, event, 0));
		launch(other);
		CHECK(cuStreamSynchronize(lines[other].stream));
		check_cell(i, -1);
		check_cell(other, -1);
	}
}

static void open_lines(void)
{
	for (int i = 0; i < STREAMS; i++) {
		void *cell;

		CHECK(cuMemHostAlloc(&cell, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
		CHECK(cuMemHostGetDevicePointer(&lines[i].address, cell, 0));
		lines[i].cell = cell;
		*lines[i].cell = 0;
		/* One is the NULL stream, and one takes turns with it. */
		if (i > 0)
			CHECK(cuStreamCreate(&lines[i].stream,
				i == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	}
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;
	int i = 0;

	state = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&step, module, "step"));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	open_lines();
	for (int round = 0; round < ROUNDS; round++) {
		/* Many rounds in a row are a launch and a wait for the same stream. */
		if (draw(20) == 0)
			i = (int)draw(STREAMS);
		if (draw(20) == 0)
			interrupt(i);
		launch(i);
		wait_for(i, round);
	}
	for (i = 0; i < STREAMS; i++)
		CHECK(cuMemFreeHost((void *)lines[i].cell));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
