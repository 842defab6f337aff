/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Launches that the program waits for, and launches, fills, events and copies of pageable memory
 * between them, at random. The results depend on the order of the work of a stream. After each wait
 * they must be those that this program calculates itself. The kernel of one stream could print.
 *
 *   awaited [SEED [ROUNDS]]
 */

#include <stdint.h>
#include <string.h>

#define NAME "awaited"
#include "../helpers/driver_program.h"

enum {
	STREAMS = 3,
	FILLED = 7,
	BUFFER = 8 << 20 /* bytes: some copies are large enough for several threads */
};

/* *cell = *cell * 3 + v. `say' would print if v were NEVER, which no launch has. */
#define NEVER "5000"
#define STEP                                                                                       \
	"	.reg .b32 %r<4>;\n	.reg .b64 %rd<4>;\n	.reg .pred %never;\n"                             \
	"	ld.param.u64 %rd1, [cell];\n	ld.param.u32 %r1, [v];\n"                                   \
	"	cvta.to.global.u64 %rd2, %rd1;\n	ld.global.u32 %r2, [%rd2];\n"                           \
	"	mad.lo.s32 %r2, %r2, 3, %r1;\n	st.global.u32 [%rd2], %r2;\n"
#define PARAMS "(.param .u64 cell, .param .u32 v)\n{\n"

static const char image[] = ".version 7.0\n.target sm_75\n.address_size 64\n"
			    ".visible .entry step" PARAMS STEP "	ret;\n}\n";
static const char saying_image[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".extern .func (.param .b32 n) vprintf(.param .b64 format, .param .b64 values);\n"
	".global .align 1 .b8 text[4] = {46, 10, 0, 0};\n"
	".visible .entry say" PARAMS STEP "	setp.ne.u32 %never, %r1, " NEVER
	";\n	@%never ret;\n"
	"	mov.u64 %rd3, text;\n	cvta.global.u64 %rd3, %rd3;\n"
	"	{\n	.param .b64 format;\n	.param .b64 values;\n	.param .b32 n;\n"
	"	st.param.b64 [format], %rd3;\n	st.param.b64 [values], 0;\n"
	"	call.uni (n), vprintf, (format, values);\n	ld.param.b32 %r3, [n];\n	}\n"
	"	ret;\n}\n";

/*
 * Of each stream: its cell in pinned memory, and what the cell must be after a wait; a buffer on
 * the GPU, and its contents.
 */
static struct {
	CUstream stream;
	CUfunction kernel;
	volatile uint32_t *cell;
	CUdeviceptr address;
	uint32_t expected;
	CUdeviceptr buffer;
	uint8_t *contents;
} lines[STREAMS];

static uint8_t *pageable;
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

	CHECK(cuLaunchKernel(lines[i].kernel, 1, 1, 1, 1, 1, 1, 0, lines[i].stream, params, NULL));
	lines[i].expected = lines[i].expected * 3 + v;
}

static void fill(int i)
{
	CHECK(cuMemsetD32Async(lines[i].address, FILLED, 1, lines[i].stream));
	lines[i].expected = FILLED;
}

/* Often small, up to the whole buffer. */
static size_t draw_size(void)
{
	size_t size = (1 + draw(1 << 14)) * (size_t)(1 << draw(10));

	return size < BUFFER ? size : BUFFER;
}

/* Behind a launch, so that the copies have to wait for it. */
static void copy(int i)
{
	size_t size = draw_size(), other = draw_size();
	size_t at = draw(1 << 10) * ((BUFFER - size) >> 10), from;

	for (size_t k = 0; k < size; k += 61)
		pageable[k] = (uint8_t)draw(256);
	memcpy(lines[i].contents + at, pageable, size);
	CHECK(cuMemcpyHtoDAsync(lines[i].buffer + at, pageable, size, lines[i].stream));
	pageable[draw((unsigned)(size < 4096 ? size : 4096))] ^= 0xff; /* it was copied */
	from = draw(1 << 10) * ((BUFFER - other) >> 10);
	launch(i);
	CHECK(cuMemcpyDtoHAsync(pageable, lines[i].buffer + from, other, lines[i].stream));
	CHECK(cuStreamSynchronize(lines[i].stream));
	if (memcmp(pageable, lines[i].contents + from, other) != 0) {
		printf(NAME ": stream %d: %zu bytes at %zu are not those of the program\n", i,
			other, from);
		exit(1);
	}
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

	switch (draw(6)) {
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
	case 4:
		launch(i);
		copy(i);
		check_cell(i, -1);
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

static void open_lines(CUfunction step, CUfunction say)
{
	pageable = malloc(BUFFER);
	for (int i = 0; i < STREAMS; i++) {
		void *cell;

		CHECK(cuMemHostAlloc(&cell, sizeof(uint32_t), CU_MEMHOSTALLOC_DEVICEMAP));
		CHECK(cuMemHostGetDevicePointer(&lines[i].address, cell, 0));
		lines[i].cell = cell;
		lines[i].kernel = i == 2 ? say : step;
		*lines[i].cell = 0;
		CHECK(cuMemAlloc(&lines[i].buffer, BUFFER));
		CHECK(cuMemsetD8(lines[i].buffer, 0, BUFFER));
		lines[i].contents = calloc(1, BUFFER);
		/* One is the NULL stream, and one takes turns with it. */
		if (i > 0)
			CHECK(cuStreamCreate(&lines[i].stream,
				i == 1 ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
	}
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUmodule module, saying_module;
	CUfunction step, say;
	int n_rounds = argc > 2 ? atoi(argv[2]) : 4000, i = 0;

	state = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
	CHECK(cuInit(0));
	CHECK(cuDevicePrimaryCtxRetain(&context, 0));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&step, module, "step"));
	CHECK(cuModuleLoadData(&saying_module, saying_image));
	CHECK(cuModuleGetFunction(&say, saying_module, "say"));
	CHECK(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
	open_lines(step, say);
	for (int round = 0; round < n_rounds; round++) {
		/* Many rounds in a row are a launch and a wait for the same stream. */
		if (draw(20) == 0)
			i = (int)draw(STREAMS);
		if (draw(20) == 0)
			interrupt(i);
		launch(i);
		wait_for(i, round);
	}
	for (i = 0; i < STREAMS; i++) {
		CHECK(cuMemFreeHost((void *)lines[i].cell));
		CHECK(cuMemFree(lines[i].buffer));
		free(lines[i].contents);
	}
	free(pageable);
	CHECK(cuModuleUnload(saying_module));
	CHECK(cuModuleUnload(module));
	CHECK(cuDevicePrimaryCtxRelease(0));
	printf(NAME ": ok\n");
	return 0;
}
