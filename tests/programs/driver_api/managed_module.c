/* SPDX-License-Identifier: Apache-2.0 */

/*
 * __managed__ variables through the driver's functions: of libraries and modules, loaded
 * and unloaded repeatedly, several at once, each with separate variables.
 *
 * With `--late', the program queries a variable after a kernel has run, and prints the result.
 */

#include <string.h>

#define NAME "managed_module"
#include "../helpers/driver_program.h"

enum {
	ROUNDS = 7,
	WORDS = 1024
};

static const char image[] = ".version 7.0\n"
			    ".target sm_75\n"
			    ".address_size 64\n"
			    ".visible .global .attribute(.managed) .align 4 .u32 word = 5;\n"
			    ".visible .global .attribute(.managed) .align 8 .b8 table[4096];\n"
			    ".visible .global .align 4 .u32 plain = 3;\n"
			    ".visible .entry step()\n"
			    "{\n"
			    "	.reg .b32 %r<5>;\n"
			    "	.reg .b64 %rd<5>;\n"
			    "	ld.global.u32 %r1, [word];\n"
			    "	ld.global.u32 %r2, [plain];\n"
			    "	add.u32 %r3, %r1, %r2;\n"
			    "	st.global.u32 [word], %r3;\n"
			    "	mov.u32 %r4, %tid.x;\n"
			    "	mul.wide.u32 %rd1, %r4, 4;\n"
			    "	mov.u64 %rd2, table;\n"
			    "	add.u64 %rd3, %rd2, %rd1;\n"
			    "	st.global.u32 [%rd3], %r3;\n"
			    "	ret;\n"
			    "}\n"
			    ".visible .entry reset()\n"
			    "{\n"
			    "	.reg .b32 %r<2>;\n"
			    "	mov.u32 %r1, 5;\n"
			    "	st.global.u32 [word], %r1;\n"
			    "	ret;\n"
			    "}\n";

/* The program's view of a library or a module. */
struct variables {
	unsigned *word, *table;
};

static void run(CUfunction function)
{
	CHECK(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
	CHECK(cuCtxSynchronize());
}

static void use(const struct variables *variables, CUfunction function)
{
	MUST(*variables->word == 5 && variables->table[0] == 0 && variables->table[WORDS - 1] == 0);
	run(function);
	MUST(*variables->word == 8 && variables->table[0] == 8);
	*variables->word = 100;
	variables->table[WORDS - 1] = 1;
	run(function);
	MUST(*variables->word == 103 && variables->table[0] == 103 &&
		variables->table[WORDS - 1] == 1);
}

static CUlibrary library_begin(struct variables *ret_variables, CUfunction *ret_function)
{
	CUdeviceptr word = 0, table = 0, again = 0;
	CUlibrary library = NULL;
	CUkernel kernel;
	size_t size = 0;

	CHECK(cuLibraryLoadData(&library, image, NULL, NULL, 0, NULL, NULL, 0));
	CHECK(cuLibraryGetManaged(&word, &size, library, "word"));
	MUST(size == sizeof(unsigned));
	CHECK(cuLibraryGetManaged(&table, NULL, library, "table"));
	CHECK(cuLibraryGetManaged(NULL, &size, library, "table"));
	MUST(size == WORDS * sizeof(unsigned));
	CHECK(cuLibraryGetManaged(&again, NULL, library, "word"));
	MUST(again == word);
	EXPECT(CUDA_ERROR_NOT_FOUND, cuLibraryGetManaged(&again, NULL, library, "nothing"));
	EXPECT(CUDA_ERROR_INVALID_VALUE, cuLibraryGetManaged(NULL, NULL, library, "word"));
	CHECK(cuLibraryGetKernel(&kernel, library, "step"));
	CHECK(cuKernelGetFunction(ret_function, kernel));
	*ret_variables = (struct variables){(unsigned *)word, (unsigned *)table};
	return library;
}

/* The functions are queried before the variables. */
static CUmodule module_begin(
	struct variables *ret_variables, CUfunction *ret_step, CUfunction *ret_reset)
{
	CUdeviceptr word = 0, table = 0;
	CUmodule module = NULL;
	size_t size = 0;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(ret_step, module, "step"));
	CHECK(cuModuleGetFunction(ret_reset, module, "reset"));
	CHECK(cuModuleGetGlobal(&word, &size, module, "word"));
	MUST(size == sizeof(unsigned));
	CHECK(cuModuleGetGlobal(&table, &size, module, "table"));
	MUST(size == WORDS * sizeof(unsigned));
	*ret_variables = (struct variables){(unsigned *)word, (unsigned *)table};
	return module;
}

static void try_round(void)
{
	struct variables of_library, of_module;
	CUfunction functions[2], reset;
	CUlibrary library = library_begin(&of_library, &functions[0]);
	CUmodule module = module_begin(&of_module, &functions[1], &reset);
	unsigned managed = 0;

	MUST(of_library.word != of_module.word);
	use(&of_library, functions[0]);
	use(&of_module, functions[1]);
	run(reset);
	MUST(*of_library.word == 103 && *of_module.word == 5);
	CHECK(cuPointerGetAttribute(
		&managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, (CUdeviceptr)of_library.word));
	MUST(managed == 1);
	CHECK(cuModuleUnload(module));
	run(functions[0]);
	MUST(*of_library.word == 106);
	CHECK(cuLibraryUnload(library));
}

static int try_late(void)
{
	CUdeviceptr word = 0;
	CUfunction function;
	const char *name = "?";
	CUmodule module;
	size_t size;

	CHECK(cuModuleLoadData(&module, image));
	CHECK(cuModuleGetFunction(&function, module, "step"));
	run(function);
	cuGetErrorName(cuModuleGetGlobal(&word, &size, module, "word"), &name);
	printf(NAME ": %s\n", name);
	return 0;
}

int main(int argc, char **argv)
{
	CUcontext context;
	CUdevice device;

	CHECK(cuInit(0));
	CHECK(cuDeviceGet(&device, 0));
	CHECK(cuDevicePrimaryCtxRetain(&context, device));
	CHECK(cuCtxSetCurrent(context));
	if (argc > 1 && !strcmp(argv[1], "--late"))
		return try_late();
	for (int i = 0; i < ROUNDS; i++)
		try_round();
	printf(NAME ": ok\n");
	return 0;
}
