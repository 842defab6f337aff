/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Loading of PTX modules: their information, their variables, and invalid text.
 */

#include <elf.h>

#include "ptx_harness.h"
#include "tests/unit/seed.h"

static void refuse_image(const void *image, size_t size, int error, const char *message)
{
	struct ptx_module *module = NULL;
	char log[256];

	assert_int_equal(ptx_module_new(image, size, log, sizeof(log), &module), error);
	if (!strstr(log, message))
		fail_msg("'%s' has no '%s'", log, message);
}

static void refuse(const char *text, int error, const char *message)
{
	refuse_image(text, strlen(text), error, message);
}

#define BODY(text)                                                                                 \
	PTX_HEAD ".visible .entry k(.param .u64 p)\n{\n.reg .b32 %r<4>; .reg .b64 %d<4>; "         \
		 ".reg .pred %q; .reg .f32 %f<4>;\n" text "\nret; }\n"

static void test_unknown(_unused_ void **state)
{
	refuse(BODY("frobnicate.u32 %r1, %r2;"), -ENOTSUP, "unknown instruction 'frobnicate.u32'");
	refuse(BODY("add.u32.sparkle %r1, %r2, %r3;"), -ENOTSUP, "'add.u32.sparkle'");
	refuse(BODY("mma.sync.aligned.m16n8k8.row.col.f32 %r1;"), -ENOTSUP, "'mma.sync.aligned");
	refuse(BODY("cvt.u32.f32 %r1, %f1;"), -ENOTSUP, "'cvt.u32.f32'");
	refuse(BODY("ld.global.b128 %r1, [%d1];"), -ENOTSUP, "'ld.global.b128'");
	refuse(BODY("mov.u32 %r1, %nosuch;"), -ENOTSUP, "'%nosuch'");
	refuse(BODY("add.u32 %r1, %r2, %r9;"), -ENOTSUP, "'%r9'");
	refuse(BODY(".frob 3;"), -ENOTSUP, "'.frob'");
	refuse(PTX_HEAD ".extern .func f();\n.visible .entry k() { call f; ret; }", -ENOTSUP,
		"unknown function 'f'");
}

static void test_malformed(_unused_ void **state)
{
	refuse("", -EINVAL, "'.version'");
	refuse("hello", -EINVAL, "'.version'");
	refuse(".version 8.0\n", -EINVAL, "'.target'");
	refuse(BODY("add.u32 %r1, %r2;"), -EINVAL, "3");
	refuse(BODY("add.u32 %r1, %r2, %d1;"), -EINVAL, "'%d1'");
	refuse(BODY("bra NOWHERE;"), -EINVAL, "'NOWHERE'");
	refuse(BODY("add.u32 5, %r2, %r3;"), -EINVAL, "can't write");
	refuse(BODY("L: L: add.u32 %r1, %r2, %r3;"), -EINVAL, "twice");
	refuse(BODY("add.u32 %r1, %r2, %r3"), -EINVAL, "';'");
	refuse(BODY("ld.param.u64 %d1, [nothing];"), -EINVAL, "'nothing'");
	refuse(BODY("{"), -EINVAL, "the text ends");
	refuse(PTX_HEAD ".global .align 3 .u32 x;", -EINVAL, "power of two");
	refuse(PTX_HEAD ".global .u32 x[2] = {1, 2, 3};", -EINVAL, "too many");
	refuse(PTX_HEAD ".global .u64 x = y;", -EINVAL, "'y'");
	refuse(PTX_HEAD ".global .b8 x[0xffffffffffffffff];", -EINVAL, "too large");
	refuse("\177ELF...", -ENOEXEC, "short cubin");
}

/* Declarations of a function, with or without a body, agree. */
static void test_declarations(_unused_ void **state)
{
	ptx_module_free(load(PTX_HEAD ".func (.param .b32 r) f(.param .b64 a);\n"
				      ".func (.param .b32 q) f(.param .b64 b) { ret; }"));
	refuse(PTX_HEAD ".func f(.param .b64 a);\n.func f(.param .b32 a) { ret; }", -EINVAL,
		"line 5: 'f' is declared with different");
	refuse(PTX_HEAD ".func f() { ret; }\n.extern .func (.param .b32 r) f();", -EINVAL,
		"line 5: 'f' is declared with different");
	refuse(PTX_HEAD ".func f();\n.func f(.param .b64 a);", -EINVAL,
		"line 5: 'f' is declared with different");
}

#define CALLS(text)                                                                                \
	PTX_HEAD ".func v(.param .b32 a) { ret; }\n"                                               \
		 ".func (.param .b32 r) w(.param .b32 a, .param .b32 b) { ret; }\n"                \
		 ".visible .entry k()\n{\n.reg .b64 %d; .param .b32 x; .param .b64 y;\n" text      \
		 "\nret; }\n"
#define TAKES_ONE "P: .callprototype _ (.param .b32 _);\n"
#define GIVES_ONE "P: .callprototype (.param .b32 _) _ (.param .b32 _, .param .b32 _);\n"

/* A call has the arguments and results of its prototype. */
static void test_prototypes(_unused_ void **state)
{
	ptx_module_free(load(CALLS("mov.u64 %d, v;\n" TAKES_ONE "call %d, (x), P;")));
	ptx_module_free(load(CALLS("mov.u64 %d, w;\n" GIVES_ONE "call (x), %d, (x, x), P;")));
	ptx_module_free(load(CALLS("mov.u64 %d, v;\nT: .calltargets v;\ncall %d, (x), T;")));
	refuse(CALLS("call (x), v, (x);"), -EINVAL, "a call of 'v'");
	refuse(CALLS("call w, (x, x);"), -EINVAL, "a call of 'w'");
	refuse(CALLS(TAKES_ONE "call (x), %d, (x), P;"), -EINVAL, "than 'P'");
	refuse(CALLS(TAKES_ONE "call %d, (y), P;"), -EINVAL, "than 'P'");
	refuse(CALLS(GIVES_ONE "call %d, (x, x), P;"), -EINVAL, "than 'P'");
	refuse(CALLS(GIVES_ONE "call (y), %d, (x, x), P;"), -EINVAL, "than 'P'");
	refuse(CALLS(GIVES_ONE "call (x), %d, (x), P;"), -EINVAL, "than 'P'");
	refuse(CALLS("call %d, (x);"), -EINVAL, "without a prototype");
	refuse(CALLS("call %d, (x), Q;"), -EINVAL, "without a prototype");
	refuse(CALLS("P: .callprototype _ (.frob);"), -EINVAL, "'.param'");
}

/* The head of a cubin for sm_75, by either version of the ABI. */
static void test_machine_code(_unused_ void **state)
{
	Elf64_Ehdr head = {.e_ident = {ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3},
		.e_machine = EM_CUDA,
		.e_flags = 0x6004b04};

	head.e_ident[EI_ABIVERSION] = 8;
	refuse_image(&head, sizeof(head), -ENOEXEC, "sm_75 machine code");
	head.e_ident[EI_ABIVERSION] = 7;
	head.e_flags = 0x4b054b;
	refuse_image(&head, sizeof(head), -ENOEXEC, "sm_75 machine code");
	refuse_image(&head, sizeof(head) - 1, -ENOEXEC, "short cubin");
	head.e_machine = EM_X86_64;
	refuse_image(&head, sizeof(head), -ENOEXEC, "no cubin");
}

/* One entry without bytes: kind, version, size of the header; then the architecture. */
static void fatbin_entry(uint32_t *entry, uint32_t kind, uint32_t arch)
{
	memset(entry, 0, 64);
	entry[0] = kind | 0x101u << 16;
	entry[1] = 64;
	entry[7] = arch;
}

static void test_fatbin_without_ptx(_unused_ void **state)
{
	uint32_t fatbin[4 + 3 * 16] = {0xba55ed50, 1 | 16u << 16, 3 * 64};

	fatbin_entry(fatbin + 4, 2, 75);
	fatbin_entry(fatbin + 20, 8, 90);
	fatbin_entry(fatbin + 36, 2, 100);
	refuse_image(fatbin, sizeof(fatbin), -ENOEXEC,
		"the fatbin has sm_75 machine code, sm_90 LTO code, sm_100 machine code; the "
		"software GPU runs PTX for sm_90 or lower only");
}

static void test_error_has_line(_unused_ void **state)
{
	refuse(PTX_HEAD "\n\n.visible .entry k()\n{\n\tbadness;\n}\n", -ENOTSUP, "line 8");
}

static void test_information(_unused_ void **state)
{
	static const char text[] = PTX_HEAD
		".extern .shared .align 16 .b8 dynamic[];\n"
		".visible .entry k(.param .u8 a, .param .align 8 .b8 b[20], .param .u64 .ptr "
		".global c,"
		" .param .f32 d)\n.maxntid 128, 2\n.minnctapersm 2\n{\n"
		".local .align 4 .b8 depot[24]; .shared .align 4 .b8 s[100]; .reg .b32 %r;\n"
		".loc 1 2 3\n.pragma \"nounroll\"; mov.u32 %r, dynamic; st.shared.u32 [%r], 1; "
		"ret;\n}\n"
		".section .debug_abbrev { .b8 1, 2; .b8 3 }\n";
	struct ptx_module *module = load(text);
	const struct ptx_kernel_info *info = ptx_kernel_info(ptx_module_find(module, "k"));

	assert_int_equal(ptx_module_n_kernels(module), 1);
	assert_null(ptx_module_find(module, "j"));
	assert_int_equal(info->n_params, 4);
	assert_int_equal(info->params[1].offset, 8);
	assert_int_equal(info->params[1].size, 20);
	assert_int_equal(info->params[2].offset, 32);
	assert_int_equal(info->params[3].offset, 40);
	assert_int_equal(info->param_size, 44);
	assert_int_equal(info->shared_static, 100);
	assert_int_equal(info->local_size, 24);
	assert_int_equal(info->max_threads, 256);
	assert_int_equal(info->ptx_version, 90);
	assert_true(info->n_regs > 0);
	ptx_module_free(module);
}

static uint64_t read_u64(uint64_t address)
{
	uint64_t value;

	memcpy(&value, (const void *)(uintptr_t)address, sizeof(value));
	return value;
}

static void test_initial_values(_unused_ void **state)
{
	static const char text[] =
		PTX_HEAD ".func f() { ret; }\n"
			 ".global .align 4 .u32 numbers[2][3] = {{1, 2}, {0x10, -1, 3}};\n"
			 ".const .align 8 .f64 real = 0d3ff8000000000000;\n"
			 ".global .align 4 .f32 single = 1.5;\n"
			 ".visible .global .align 8 .u64 to[3] = {numbers+4, generic(numbers), "
			 "generic(real)+8};\n"
			 ".global .align 1 .b8 bytes[8] = {0xFF(numbers+4), 0xFF00(numbers+4), "
			 "0xFF0000(numbers+4),"
			 " 0xFF000000(numbers+4), 0xFF00000000(numbers+4), "
			 "0xFF0000000000(numbers+4), 0, 0};\n"
			 ".global .align 8 .u64 function = f;\n"
			 ".global .align 4 .b8 zero[12];\n";
	struct ptx_module *module = load(text);
	uint64_t address[7];
	uint32_t *numbers;

	assert_int_equal(ptx_module_n_globals(module), 7);
	for (uint32_t i = 0; i < 7; i++)
		address[i] = ptx_module_global(module, i)->address;
	numbers = (uint32_t *)(uintptr_t)address[0];
	assert_int_equal(numbers[0], 1);
	assert_int_equal(numbers[1], 2);
	assert_int_equal(numbers[2], 0);
	assert_int_equal(numbers[3], 0x10);
	assert_int_equal(numbers[4], UINT32_MAX);
	assert_int_equal(numbers[5], 3);
	assert_true(ptx_module_global(module, 1)->is_constant);
	assert_int_equal(read_u64(address[1]), 0x3ff8000000000000);
	assert_int_equal((uint32_t)read_u64(address[2]), 0x3fc00000);
	assert_int_equal(read_u64(address[3]), address[0] + 4);
	assert_int_equal(read_u64(address[3] + 8), address[0]);
	assert_int_equal(read_u64(address[3] + 16), address[1] + 8);
	assert_int_equal(read_u64(address[4]), address[0] + 4);
	assert_true(read_u64(address[5]) != 0);
	assert_int_equal(ptx_module_global(module, 6)->size, 12);
	ptx_module_free(module);
}

static void test_unbound(_unused_ void **state)
{
	static const char text[] = PTX_HEAD ".global .u32 x;";
	struct ptx_module *module;

	assert_int_equal(ptx_module_new(text, sizeof(text), NULL, 0, &module), 0);
	assert_int_equal(ptx_module_init(module), -EINVAL);
	ptx_module_free(module);
}

/* Shared variables of the module count for the kernels that use them. */
static void test_shared_layout(_unused_ void **state)
{
	static const char text[] =
		PTX_HEAD ".shared .align 4 .b8 common[256];\n"
			 ".func f() { .reg .b32 %r; mov.u32 %r, common; ret; }\n"
			 ".visible .entry with() { .shared .b8 own[10]; call f; ret; }\n"
			 ".visible .entry without() { .shared .b8 own[10]; ret; }\n";
	struct ptx_module *module = load(text);

	assert_int_equal(ptx_kernel_info(ptx_module_find(module, "with"))->shared_static, 266);
	assert_int_equal(ptx_kernel_info(ptx_module_find(module, "without"))->shared_static, 10);
	ptx_module_free(module);
}

static const char sample[] = PTX_HEAD
	".extern .func (.param .b32 r) vprintf(.param .b64 a, .param .b64 b);\n"
	".global .align 4 .u32 table[4] = {1, 2, 3, 4};\n"
	".func (.param .b32 r) f(.param .b32 x)\n"
	"{ .reg .b32 %r<3>; ld.param.u32 %r1, [x]; add.u32 %r2, %r1, 1; st.param.b32 [r], %r2; "
	"ret; }\n"
	".visible .entry k(.param .u64 p, .param .u32 n)\n{\n"
	".reg .b32 %r<9>; .reg .b64 %d<9>; .reg .pred %q<3>; .reg .f32 %f<4>; .reg .f64 %g<3>;\n"
	".shared .align 4 .b8 s[256]; .local .align 8 .b8 l[16];\n"
	"ld.param.u64 %d1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %tid.x;\n"
	"setp.lt.u32 %q1|%q2, %r2, %r1; @%q1 bra A; bra.uni B;\n"
	"A: mul.wide.u32 %d2, %r2, 4; add.u64 %d3, %d1, %d2; ld.global.u32 %r3, [%d3+-4];\n"
	"{ .param .b32 a; st.param.b32 [a], %r3; .param .b32 b; call (b), f, (a);\n"
	"ld.param.b32 %r4, [b]; }\n"
	"cvt.rn.f32.u32 %f1, %r4; fma.rn.f32 %f2, %f1, 0f3F800000, %f1; cvt.f64.f32 %g1, %f2;\n"
	"st.global.v2.u32 [%d3], {%r3, %r4}; atom.shared.add.u32 %r5, [s+4], 1;\n"
	"shfl.sync.idx.b32 %r6, %r5, 0, 31, -1; vote.sync.ballot.b32 %r7, %q1, -1;\n"
	"mov.u64 %d4, table; ld.global.u32 %r8, [%d4+8]; st.local.u32 [l], %r8;\n"
	"T: .branchtargets A, B; brx.idx %r1, T;\n"
	"B: bar.sync 0; @%q2 exit; ret;\n}\n";

static uint64_t random_state = 0x2545f4914f6cdd1dull;

static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* A small change of a text: of a character, a cut, or a replaced word. */
static void mutate(char *text)
{
	size_t len = strlen(text), at = next_random() % len, from = next_random() % len;
	size_t n = next_random() % 8 + 1;

	switch (next_random() % 5) {
	case 0:
		text[at] = (char)next_random();
		break;
	case 1:
		text[at] = "0123456789.%[]{}();,@!_-"[next_random() % 24];
		break;
	case 2:
		memmove(text + at, text + MIN(at + n, len), len - MIN(at + n, len) + 1);
		break;
	case 3:
		memmove(text + at, text + from, MIN(n, len - MAX(at, from)));
		break;
	default:
		text[at] = '\0';
		break;
	}
}

/* Any text gives a module that runs or faults, or a message. */
static void test_mutations(_unused_ void **state)
{
	uint8_t params[16] = {0};
	uint64_t address = device_address(256);

	random_state ^= seed_read(0);
	memcpy(params, &address, sizeof(address));
	params[8] = 16;
	for (unsigned i = 0; i < 4000; i++) {
		char text[sizeof(sample)], log[128];
		struct ptx_module *module = NULL;
		atomic_bool cancelled = true;
		struct ptx_launch launch = {.grid = {1, 1, 1},
			.block = {40, 1, 1},
			.params = params,
			.lookup = device_lookup,
			.cancelled = &cancelled};
		struct ptx_fault fault;

		memcpy(text, sample, sizeof(sample));
		mutate(text);
		if (ptx_module_new(text, sizeof(text), log, sizeof(log), &module) < 0) {
			assert_true(log[0] != '\0');
			continue;
		}
		for (uint32_t g = 0; g < ptx_module_n_globals(module); g++)
			ptx_module_bind(module, g, device_address(DEVICE_SIZE / 2));
		if (ptx_module_n_globals(module) &&
			ptx_module_global(module, 0)->size <= DEVICE_SIZE / 2)
			assert_int_equal(ptx_module_init(module), 0);
		if (ptx_module_n_kernels(module) &&
			ptx_kernel_info(ptx_module_kernel(module, 0))->param_size <= sizeof(params))
			(void)ptx_kernel_run(ptx_module_kernel(module, 0), &launch, &fault);
		ptx_module_free(module);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_unknown),
		cmocka_unit_test(test_malformed),
		cmocka_unit_test(test_declarations),
		cmocka_unit_test(test_prototypes),
		cmocka_unit_test(test_machine_code),
		cmocka_unit_test(test_fatbin_without_ptx),
		cmocka_unit_test(test_error_has_line),
		cmocka_unit_test(test_information),
		cmocka_unit_test(test_initial_values),
		cmocka_unit_test(test_unbound),
		cmocka_unit_test(test_shared_layout),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
