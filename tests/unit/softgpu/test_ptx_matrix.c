/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Products of matrices of doubles in the PTX interpreter: every order of the elements,
 * strides, shared memory, rounding, and faults. The plain product is computed here.
 */

#include "ptx_harness.h"

#define M 8
#define N 8
#define K 4

/* What the parameter of the kernel points to. */
struct matrices {
	double a[M * K], b[K * N], c[M * N], d[M * N];
};

static struct matrices *matrices;

static int reset(_unused_ void **state)
{
	device_reset();
	matrices = (struct matrices *)(void *)device.memory;
	for (int i = 0; i < M * K; i++)
		matrices->a[i] = 7 * i % 11 - 3;
	for (int i = 0; i < K * N; i++)
		matrices->b[i] = 5 * i % 13 - 4;
	for (int i = 0; i < M * N; i++)
		matrices->c[i] = 100 * i;
	return 0;
}

/* The addresses of the matrices are in %a to %d; the values go to %x, %y and %z. */
#define KERNEL(body)                                                                               \
	PTX_HEAD ".shared .align 8 .b8 s[512];\n"                                                  \
		 ".visible .entry k(.param .u64 p)\n{\n"                                           \
		 ".reg .b64 %a; .reg .b64 %b; .reg .b64 %c; .reg .b64 %d; .reg .b32 %r<2>;\n"      \
		 ".reg .f64 %x; .reg .f64 %y; .reg .f64 %z<2>;\n"                                  \
		 "ld.param.u64 %a, [p]; add.u64 %b, %a, 256; add.u64 %c, %a, 512;\n"               \
		 "add.u64 %d, %a, 1024;\n" body "\nret; }\n"

#define LOAD_A(layout) "wmma.load.a.sync.aligned." layout ".m8n8k4.global.f64 {%x}, [%a]"
#define LOAD_B(layout) "wmma.load.b.sync.aligned." layout ".m8n8k4.f64 %y, [%b]"
#define LOAD_C(layout) "wmma.load.c.sync.aligned." layout ".m8n8k4.f64 {%z0, %z1}, [%c]"
#define MULTIPLY(how)                                                                              \
	"wmma.mma.sync.aligned." how ".f64.f64.f64.f64 {%z0, %z1}, {%x}, {%y}, {%z0, %z1};\n"
#define STORE(layout) "wmma.store.d.sync.aligned." layout ".m8n8k4.f64 [%d], {%z0, %z1}"
#define STORE_SHARED "wmma.store.d.sync.aligned.row.m8n8k4.shared.f64 [%c], {%z0, %z1}, 8;\n"
#define LOAD_SHARED "wmma.load.c.sync.aligned.col.m8n8k4.shared.f64 {%z0, %z1}, [s], 8;\n"

static enum ptx_fault_kind run_kernel(const char *text)
{
	const uint64_t param = device_address(0);
	struct ptx_module *module = load(text);
	struct ptx_fault fault = {.kind = PTX_FAULT_NONE};

	run(module, "k", 1, 32, &param, &fault);
	ptx_module_free(module);
	return fault.kind;
}

static int at(bool is_row, int row, int column, int rows, int columns)
{
	return is_row ? row * columns + column : column * rows + row;
}

static void check_product(bool a_row, bool b_row, bool c_row, bool d_row)
{
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++) {
			double sum = matrices->c[at(c_row, i, j, M, N)];

			for (int k = 0; k < K; k++)
				sum += matrices->a[at(a_row, i, k, M, K)] *
				       matrices->b[at(b_row, k, j, K, N)];
			assert_true(matrices->d[at(d_row, i, j, M, N)] == sum);
		}
}

static void test_orders(_unused_ void **state)
{
	/* The stride is that of a matrix without gaps, given or not. */
	assert_int_equal(run_kernel(KERNEL(LOAD_A("row") ";" LOAD_B("col") ";" LOAD_C(
				 "row") ";" MULTIPLY("row.col.m8n8k4") STORE("row") ";")),
		PTX_FAULT_NONE);
	check_product(true, false, true, true);
	assert_int_equal(run_kernel(KERNEL("mov.u32 %r1, 8;" LOAD_A("col") ", %r1;" LOAD_B(
				 "row") ", 8;" LOAD_C("col") ", 8;" MULTIPLY("col.row.m8n8k4.rn")
					 STORE("col") ", %r1;")),
		PTX_FAULT_NONE);
	check_product(false, true, false, false);
	assert_int_equal(run_kernel(KERNEL(LOAD_A("row") ", 4;" LOAD_B("row") ";" LOAD_C(
				 "col") ";" MULTIPLY("row.row.m8n8k4") STORE("row") ";")),
		PTX_FAULT_NONE);
	check_product(true, true, false, true);
}

/* C through shared memory, where it is transposed; then lines that overlap or have gaps. */
static void test_memory(_unused_ void **state)
{
	assert_int_equal(
		run_kernel(
			KERNEL(LOAD_C("row") ", 8; mov.u64 %c, s;\n" STORE_SHARED LOAD_SHARED STORE(
				"row") ", 8;")),
		PTX_FAULT_NONE);
	for (int i = 0; i < M; i++)
		for (int j = 0; j < N; j++)
			assert_true(matrices->d[i * N + j] == matrices->c[j * N + i]);
	assert_int_equal(run_kernel(KERNEL("wmma.load.c.sync.aligned.row.m8n8k4.global.f64 "
					   "{%z0, %z1}, [%a+8], 4;" STORE("row") ", 16;")),
		PTX_FAULT_NONE);
	assert_true(matrices->d[16 + 3] == matrices->a[1 + 4 + 3]);
}

static void test_rounding(_unused_ void **state)
{
	matrices->a[0] = matrices->b[0] = 0x1p-30;
	for (int k = 1; k < K; k++)
		matrices->a[k] = 0;
	matrices->c[0] = 1;
#define ROUNDED(mode)                                                                              \
	run_kernel(KERNEL(LOAD_A("row") ";" LOAD_B("col") ";" LOAD_C("row") ";" MULTIPLY(          \
		"row.col.m8n8k4" mode) STORE("row") ";"))
	assert_int_equal(ROUNDED(""), PTX_FAULT_NONE);
	assert_true(matrices->d[0] == 1);
	assert_int_equal(ROUNDED(".rp"), PTX_FAULT_NONE);
	assert_true(matrices->d[0] == 1 + 0x1p-52);
	matrices->a[0] = -0x1p-30;
	assert_int_equal(ROUNDED(".rz"), PTX_FAULT_NONE);
	assert_true(matrices->d[0] == 1 - 0x1p-53);
}

static void test_faults(_unused_ void **state)
{
	assert_int_equal(run_kernel(KERNEL("mov.u64 %a, 0;" LOAD_A("row") ";")), PTX_FAULT_ADDRESS);
	assert_int_equal(
		run_kernel(KERNEL("add.u64 %a, %a, 4;" LOAD_A("row") ";")), PTX_FAULT_MISALIGNED);
	assert_int_equal(run_kernel(KERNEL(LOAD_A("row") ", 65536;")), PTX_FAULT_ADDRESS);
}

static void refuse(const char *text, int error, const char *message)
{
	struct ptx_module *module = NULL;
	char log[256];

	assert_int_equal(ptx_module_new(text, strlen(text), log, sizeof(log), &module), error);
	if (!strstr(log, message))
		fail_msg("'%s' has no '%s'", log, message);
}

static void test_refused(_unused_ void **state)
{
	refuse(KERNEL("wmma.load.a.sync.aligned.row.m16n16k16.f16 {%x}, [%a];"), -ENOTSUP,
		"'wmma.load.a.sync.aligned.row.m16n16k16.f16'");
	refuse(KERNEL("wmma.load.d.sync.aligned.row.m8n8k4.f64 {%z0, %z1}, [%c];"), -ENOTSUP,
		"'wmma.load.d");
	refuse(KERNEL("wmma.load.a.sync.aligned.m8n8k4.f64 {%x}, [%a];"), -ENOTSUP, "'wmma.load.a");
	refuse(KERNEL("wmma.mma.sync.aligned.row.m8n8k4.f64.f64.f64.f64 "
		      "{%z0, %z1}, {%x}, {%y}, {%z0, %z1};"),
		-ENOTSUP, "'wmma.mma");
	refuse(KERNEL("wmma.load.a.sync.aligned.row.m8n8k4.f64 {%z0, %z1}, [%a];"), -EINVAL,
		"'wmma.load.a");
	refuse(KERNEL("wmma.load.a.sync.aligned.row.m8n8k4.f64 {%x};"), -EINVAL, "operands");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_orders, reset),
		cmocka_unit_test_setup(test_memory, reset),
		cmocka_unit_test_setup(test_rounding, reset),
		cmocka_unit_test_setup(test_faults, reset),
		cmocka_unit_test_setup(test_refused, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
