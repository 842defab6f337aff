/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Computes on memory that is a large part of the card, in stretches with pauses, or at requests,
 * and checks each sum and in the end each word.
 *
 *	working_set MIB [--every WORDS] [--stretches N] [--launches N] [--seconds N] [--pause MS]
 *	[--ahead N]
 *	working_set MIB [--every WORDS] --requests
 *
 * A launch adds 1 to one of so many WORDS (a power of 2). A stretch has so many launches, or takes
 * so many seconds; at most `--ahead' launches are queued at a time. With --requests, it answers
 * each line of its standard input. It prints milliseconds: the whole time (total), the slowest
 * launch until it has run (worst), when that was (worst_at), and the slowest first one of a stretch
 * or request (first); and how many launches took longer than 2 ms (slow).
 *
 * Runs: for a test of its own
 */

#define NAME "working_set"
#include <stdint.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../helpers/driver_program.h"

#define MIB ((size_t)1 << 20)
#define WORDS_MIB (MIB / sizeof(uint32_t))

enum {
	PARTS = 4,
	BLOCK = 128,
	BLOCKS_MAX = 4096,
	AHEAD_MAX = 64,
	SLOW_MS = 2
};

#define PARAMETERS                                                                                 \
	"	.reg .pred q;\n	.reg .b32 r<6>;\n	.reg .b64 d<9>;\n"                                     \
	"	ld.param.u64 d1, [p];\n	ld.param.u64 d2, [n];\n	ld.param.u64 d3, [every];\n"             \
	"	mov.u32 r1, %ctaid.x;\n	mov.u32 r2, %ntid.x;\n	mov.u32 r3, %tid.x;\n"                    \
	"	mov.u32 r5, %nctaid.x;\n"
/* d4: the thread's first word, d5: the step to its next one. */
#define LOOP                                                                                       \
	"	cvt.u64.u32 d4, r3;\n	mad.wide.u32 d4, r1, r2, d4;\n	mul.lo.u64 d4, d4, d3;\n"           \
	"	mul.wide.u32 d5, r5, r2;\n	mul.lo.u64 d5, d5, d3;\n"                                     \
	"AGAIN:\n	setp.ge.u64 q, d4, d2;\n	@q bra END;\n"                                          \
	"	shl.b64 d6, d4, 2;\n	add.u64 d6, d6, d1;\n	ld.global.u32 r4, [d6];\n"
#define LOOP_END "	add.u64 d4, d4, d5;\n	bra AGAIN;\nEND:\n"

/* bump adds 1 to each word i * every below n; total adds these words to the one at `sum'. */
static const char image[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry bump(.param .u64 p, .param .u64 n, .param .u64 every)\n{\n" PARAMETERS LOOP
	"	add.u32 r4, r4, 1;\n	st.global.u32 [d6], r4;\n" LOOP_END "	ret;\n}\n"
	".visible .entry total(.param .u64 p, .param .u64 n, .param .u64 every, .param .u64 sum)\n"
	"{\n" PARAMETERS "	mov.u64 d7, 0;\n" LOOP
	"	cvt.u64.u32 d8, r4;\n	add.u64 d7, d7, d8;\n" LOOP_END
	"	ld.param.u64 d1, [sum];\n	red.global.add.u64 [d1], d7;\n	ret;\n}\n";

/* A quarter of the memory, of one kind each. */
struct part {
	CUdeviceptr address;
	uint32_t n_bumps;
};

static struct {
	size_t mib, every;
	unsigned n_stretches, n_launches, seconds, pause_ms, n_ahead;
	int takes_requests;
} options = {.every = 1, .n_stretches = 1, .n_launches = 64, .n_ahead = 1};

static struct part parts[PARTS];
static size_t n_words; /* of a part */
static CUdeviceptr sum;
static CUfunction bump, total;
static CUstream stream;
static CUevent events[AHEAD_MAX];
static double begun_ms, worst_ms, worst_at_ms, first_ms;
static unsigned n_slow;

static double now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e3 + (double)ts.tv_nsec * 1e-6;
}

/* What each word of a MiB is at first: below 2^31, for all memory of a GPU. */
static uint32_t value_of(unsigned part, size_t mib)
{
	return part * 1000003u + (uint32_t)mib * 7919u;
}

static CUdeviceptr created(CUdevice device, size_t size)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, device}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUdeviceptr address;
	size_t unit;

	CHECK(cuMemGetAllocationGranularity(&unit, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
	size = (size + unit - 1) / unit * unit;
	CHECK(cuMemAddressReserve(&address, size, 0, 0, 0));
	CHECK(cuMemCreate(&handle, size, &prop, 0));
	CHECK(cuMemMap(address, size, 0, handle, 0));
	CHECK(cuMemSetAccess(address, size, &access, 1));
	CHECK(cuMemRelease(handle));
	return address;
}

static void take_memory(CUdevice device)
{
	size_t size = options.mib * MIB / PARTS;

	n_words = size / sizeof(uint32_t);
	CHECK(cuMemAlloc(&parts[0].address, size));
	CHECK(cuMemAllocAsync(&parts[1].address, size, stream));
	CHECK(cuMemAlloc(&parts[2].address, size));
	parts[3].address = created(device, size);
	CHECK(cuMemAlloc(&sum, sizeof(uint64_t)));
	for (unsigned part = 0; part < PARTS; part++)
		for (size_t mib = 0; mib * MIB < size; mib++)
			CHECK(cuMemsetD32Async(parts[part].address + mib * MIB, value_of(part, mib),
				WORDS_MIB, stream));
	CHECK(cuStreamSynchronize(stream));
}

static void launch(CUfunction function, const struct part *part)
{
	size_t n_blocks = (n_words / options.every + BLOCK - 1) / BLOCK;
	unsigned grid = n_blocks < BLOCKS_MAX ? (unsigned)n_blocks : BLOCKS_MAX;
	void *params[] = {(void *)&part->address, &n_words, &options.every, &sum};

	CHECK(cuLaunchKernel(function, grid, 1, 1, BLOCK, 1, 1, 0, stream, params, NULL));
}

/* The sum is wrong if a launch had no effect, or memory is not what it was. */
static void check_sum(void)
{
	uint64_t got = 0, wanted = 0;

	CHECK(cuMemsetD32Async(sum, 0, 2, stream));
	for (unsigned part = 0; part < PARTS; part++)
		launch(total, &parts[part]);
	CHECK(cuMemcpyDtoHAsync(&got, sum, sizeof(got), stream));
	CHECK(cuStreamSynchronize(stream));
	for (unsigned part = 0; part < PARTS; part++)
		for (size_t mib = 0; mib * WORDS_MIB < n_words; mib++)
			wanted += WORDS_MIB / options.every *
				  (value_of(part, mib) + parts[part].n_bumps);
	if (got == wanted)
		return;
	printf(NAME ": the sum is %llu, not %llu\n", (unsigned long long)got,
		(unsigned long long)wanted);
	exit(1);
}

/* A MiB begins with a word that launches have added to. Changes the words. */
static void check_words(uint32_t *words, unsigned part, size_t mib)
{
	const uint32_t wanted = value_of(part, mib);
	uint32_t differs = 0;

	for (size_t i = 0; i < WORDS_MIB; i += options.every)
		words[i] -= parts[part].n_bumps;
	for (size_t i = 0; i < WORDS_MIB; i++)
		differs |= words[i] ^ wanted;
	if (differs == 0)
		return;
	for (size_t i = 0; i < WORDS_MIB; i++)
		if (words[i] != wanted) {
			printf(NAME ": word %zu of part %u is wrong by %u\n", mib * WORDS_MIB + i,
				part, words[i] - wanted);
			exit(1);
		}
}

/* If each word was added to, the sum has shown them all. */
static void check_all(void)
{
	uint32_t *words = malloc(MIB);

	MUST(words != NULL);
	for (unsigned part = 0; part < PARTS; part++)
		for (size_t mib = 0; mib * WORDS_MIB < n_words; mib++) {
			CHECK(cuMemcpyDtoH(words, parts[part].address + mib * MIB, MIB));
			check_words(words, part, mib);
		}
	free(words);
}

/* Waits for the launch that was made so many launches ago. */
static void launch_next(unsigned n)
{
	static double begun[AHEAD_MAX];
	const unsigned i = n % options.n_ahead;
	struct part *part = &parts[n % PARTS];
	double ms;

	if (n >= options.n_ahead)
		CHECK(cuEventSynchronize(events[i]));
	begun[i] = now_ms();
	launch(bump, part);
	part->n_bumps++;
	CHECK(cuEventRecord(events[i], stream));
	if (options.n_ahead > 1)
		return;
	CHECK(cuEventSynchronize(events[i]));
	ms = now_ms() - begun[i];
	n_slow += ms > SLOW_MS;
	if (ms > worst_ms) {
		worst_ms = ms;
		worst_at_ms = begun[i] - begun_ms;
	}
}

static void first_done(double since_ms)
{
	double ms = now_ms() - since_ms;

	first_ms = ms > first_ms ? ms : first_ms;
}

static int is_over(unsigned n_done, double since_ms)
{
	return options.seconds > 0 ? now_ms() - since_ms > options.seconds * 1e3
				   : n_done >= options.n_launches;
}

static void stretch(void)
{
	static unsigned n;
	double since_ms = now_ms();

	for (unsigned i = 0; !is_over(i, since_ms); i++) {
		launch_next(n++);
		if (i > 0)
			continue;
		if (options.pause_ms > 0)
			CHECK(cuStreamSynchronize(stream));
		first_done(since_ms);
	}
	if (options.pause_ms == 0)
		return;
	check_sum();
	usleep(options.pause_ms * 1000);
}

static void answer(unsigned number)
{
	double since_ms = now_ms();

	for (unsigned part = 0; part < PARTS; part++) {
		launch(bump, &parts[part]);
		parts[part].n_bumps++;
	}
	check_sum();
	first_done(since_ms);
	printf(NAME ": answer %u after %.1f ms\n", number, now_ms() - since_ms);
	fflush(stdout);
}

static void answer_requests(void)
{
	char line[64];

	printf(NAME ": ready\n");
	fflush(stdout);
	for (unsigned number = 1; fgets(line, sizeof(line), stdin); number++)
		answer(number);
}

static void open_gpu(CUdevice *ret_device)
{
	CUcontext context;
	CUmodule module;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(ret_device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, *ret_device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&bump, module, "bump"));
	CHECK(cuModuleGetFunction(&total, module, "total"));
	CHECK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
	for (unsigned i = 0; i < options.n_ahead; i++)
		CHECK(cuEventCreate(&events[i], CU_EVENT_DISABLE_TIMING));
}

static int read_option(const char *name, const char *value)
{
	unsigned number = value ? (unsigned)strtoul(value, NULL, 10) : 0;

	if (!strcmp(name, "--requests"))
		return options.takes_requests = 1;
	if (number == 0 && strcmp(name, "--pause") != 0)
		return 0;
	if (!strcmp(name, "--every"))
		options.every = number;
	else if (!strcmp(name, "--stretches"))
		options.n_stretches = number;
	else if (!strcmp(name, "--launches"))
		options.n_launches = number;
	else if (!strcmp(name, "--seconds"))
		options.seconds = number;
	else if (!strcmp(name, "--pause"))
		options.pause_ms = number;
	else if (!strcmp(name, "--ahead"))
		options.n_ahead = number;
	else
		return 0;
	return 2;
}

static void read_options(int argc, char **argv)
{
	int i, n = 1;

	options.mib = argc > 1 ? strtoul(argv[1], NULL, 10) / PARTS * PARTS : 0;
	for (i = 2; i < argc && n > 0; i += n)
		n = read_option(argv[i], argv[i + 1]);
	if (options.mib > 0 && n > 0 && options.n_ahead <= AHEAD_MAX &&
		WORDS_MIB % options.every == 0)
		return;
	fprintf(stderr, "usage: " NAME " MIB [--every WORDS] [--stretches N] [--launches N] "
			"[--seconds N] [--pause MS] [--ahead N] [--requests]\n");
	exit(2);
}

int main(int argc, char **argv)
{
	CUdevice device;

	read_options(argc, argv);
	open_gpu(&device);
	take_memory(device);
	begun_ms = now_ms();
	if (options.takes_requests)
		answer_requests();
	else
		for (unsigned i = 0; i < options.n_stretches; i++)
			stretch();
	CHECK(cuStreamSynchronize(stream));
	printf("total_ms=%.1f\nworst_ms=%.2f\nworst_at_ms=%.0f\nslow=%u\nfirst_ms=%.2f\n",
		now_ms() - begun_ms, worst_ms, worst_at_ms, n_slow, first_ms);
	check_sum();
	if (options.every > 1)
		check_all();
	printf(NAME ": ok\n");
	return 0;
}
