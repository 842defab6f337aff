/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Has memory of a GPU and looks after each word of it, for tests in which several copies have more
 * together than the GPU.
 *
 *	oversize plain|create MIB KIB
 *
 * It takes MIB in pieces of KIB, by cuMemAlloc or cuMemCreate, writes other words into each, and
 * prints "has". Then it does what the lines of its standard input say, and answers each:
 *
 *	work    a kernel adds 1 to each word of each piece, which it checks before: "worked"
 *	more    takes another piece: "took", or the name of the error
 *	free    prints the free and the total memory in MiB
 *	other   calls that use no memory of a GPU: "made"
 *
 * Runs: for a test of its own
 */

#define NAME "oversize"
#include <stdbool.h>
#include <string.h>

#include "../helpers/driver_program.h"

#define PIECES_MAX 4096

/* Each thread checks and increments words; `bad' counts those that are not `value'. */
static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .entry work(.param .u64 data, .param .u64 bad, "
			    ".param .u32 n, .param .u32 value)\n"
			    "{\n"
			    "	.reg .pred %p<3>;\n"
			    "	.reg .b32 %r<8>;\n"
			    "	.reg .b64 %d<6>;\n"
			    "	ld.param.u64 %d1, [data];\n"
			    "	ld.param.u64 %d2, [bad];\n"
			    "	ld.param.u32 %r1, [n];\n"
			    "	ld.param.u32 %r2, [value];\n"
			    "	mov.u32 %r3, %tid.x;\n"
			    "AGAIN:\n"
			    "	setp.ge.u32 %p1, %r3, %r1;\n"
			    "	@%p1 bra DONE;\n"
			    "	mul.wide.u32 %d3, %r3, 4;\n"
			    "	add.u64 %d4, %d1, %d3;\n"
			    "	ld.global.u32 %r4, [%d4];\n"
			    "	setp.eq.u32 %p2, %r4, %r2;\n"
			    "	@%p2 bra RIGHT;\n"
			    "	atom.global.add.u32 %r6, [%d2], 1;\n"
			    "RIGHT:\n"
			    "	add.u32 %r5, %r4, 1;\n"
			    "	st.global.u32 [%d4], %r5;\n"
			    "	add.u32 %r3, %r3, 256;\n"
			    "	bra AGAIN;\n"
			    "DONE:\n"
			    "	ret;\n"
			    "}\n";

static CUdevice device;
static CUdeviceptr pieces[PIECES_MAX], bad;
static CUfunction work;
static size_t n_pieces, piece;
static bool is_plain;
static unsigned n_steps;

static CUresult create(CUdeviceptr *address)
{
	CUmemAllocationProp prop = {.type = CU_MEM_ALLOCATION_TYPE_PINNED,
		.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
	CUmemAccessDesc access = {prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
	CUmemGenericAllocationHandle handle;
	CUresult result = cuMemCreate(&handle, piece, &prop, 0);

	if (result != CUDA_SUCCESS)
		return result;
	CHECK(cuMemAddressReserve(address, piece, 0, 0, 0));
	CHECK(cuMemMap(*address, piece, 0, handle, 0));
	CHECK(cuMemSetAccess(*address, piece, &access, 1));
	CHECK(cuMemRelease(handle));
	return CUDA_SUCCESS;
}

static CUresult take(void)
{
	CUresult result =
		is_plain ? cuMemAlloc(&pieces[n_pieces], piece) : create(&pieces[n_pieces]);

	if (result != CUDA_SUCCESS)
		return result;
	CHECK(cuMemsetD32(pieces[n_pieces], (unsigned)n_pieces * 77 + n_steps, piece / 4));
	n_pieces++;
	return CUDA_SUCCESS;
}

static void do_work(void)
{
	unsigned wrong = 0;

	for (size_t i = 0; i < n_pieces; i++) {
		unsigned n = (unsigned)(piece / 4), value = (unsigned)i * 77 + n_steps;
		void *params[] = {&pieces[i], &bad, &n, &value};

		CHECK(cuLaunchKernel(work, 1, 1, 1, 256, 1, 1, 0, NULL, params, NULL));
	}
	n_steps++;
	CHECK(cuMemcpyDtoH(&wrong, bad, sizeof(wrong)));
	if (wrong > 0) {
		printf(NAME ": %u words are wrong\n", wrong);
		exit(1);
	}
	puts("worked");
}

static void do_more(void)
{
	CUresult result = take();
	const char *name = "took";

	if (result != CUDA_SUCCESS)
		cuGetErrorName(result, &name);
	puts(name);
}

static void do_free(void)
{
	size_t n_free, total;

	CHECK(cuMemGetInfo(&n_free, &total));
	printf("%zu %zu\n", n_free >> 20, total >> 20);
}

static void do_other(void)
{
	CUstream stream;
	CUevent event;
	void *host;

	CHECK(cuStreamCreate(&stream, 0));
	CHECK(cuEventCreate(&event, 0));
	CHECK(cuMemAllocHost(&host, 1 << 16));
	CHECK(cuMemFreeHost(host));
	CHECK(cuEventDestroy(event));
	CHECK(cuStreamDestroy(stream));
	puts("made");
}

static void give_all(void)
{
	for (size_t i = 0; i < n_pieces; i++)
		if (is_plain)
			CHECK(cuMemFree(pieces[i]));
		else
			CHECK(cuMemUnmap(pieces[i], piece));
	CHECK(cuMemFree(bad));
}

static void start(int argc, char **argv)
{
	CUcontext context;
	CUmodule module;

	MUST(argc == 4);
	is_plain = !strcmp(argv[1], "plain");
	piece = strtoul(argv[3], NULL, 10) << 10;
	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&work, module, "work"));
	CHECK(cuMemAlloc(&bad, sizeof(unsigned)));
	CHECK(cuMemsetD32(bad, 0, 1));
	for (size_t n = (strtoul(argv[2], NULL, 10) << 20) / piece; n > 0; n--)
		CHECK(take());
	puts("has");
}

int main(int argc, char **argv)
{
	static const struct {
		const char *word;
		void (*act)(void);
	} acts[] = {{"work\n", do_work}, {"more\n", do_more}, {"free\n", do_free},
		{"other\n", do_other}};
	char line[16];

	setvbuf(stdout, NULL, _IOLBF, 0);
	start(argc, argv);
	while (fgets(line, sizeof(line), stdin))
		for (size_t i = 0; i < sizeof(acts) / sizeof(*acts); i++)
			if (!strcmp(line, acts[i].word))
				acts[i].act();
	give_all();
	puts(NAME ": ok");
	return 0;
}
