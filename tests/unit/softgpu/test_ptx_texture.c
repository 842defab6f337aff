/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Textures and surfaces of the PTX interpreter: samples by every form of the
 * instructions, and forms that are refused.
 */

#include "ptx_harness.h"
#include "tests/softgpu/ptx/texture.h"

#define WIDTH 4
#define HEIGHT 3
#define LAYERS 2

static float texels[LAYERS][HEIGHT][WIDTH];
static struct ptx_texture texture;

static const struct ptx_texture *find(_unused_ void *user, uint64_t value, _unused_ bool is_surface)
{
	return value == 77 ? &texture : NULL;
}

/* texels[z][y][x] is 100 z + 10 y + x. */
static int reset(_unused_ void **state)
{
	device_reset();
	for (int z = 0; z < LAYERS; z++)
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++)
				texels[z][y][x] = (float)(100 * z + 10 * y + x);
	texture = (struct ptx_texture){
		.levels = {{(uint8_t *)texels, sizeof(texels[0][0]), sizeof(texels[0]),
			{WIDTH, HEIGHT, LAYERS}}},
		.n_levels = 1,
		.kind = PTX_TEXEL_FLOAT,
		.bits = 32,
		.n_channels = 1,
		.size = sizeof(float),
		.modes = {PTX_ADDRESS_CLAMP, PTX_ADDRESS_CLAMP, PTX_ADDRESS_CLAMP},
	};
	return 0;
}

#define KERNEL(text)                                                                               \
	PTX_HEAD                                                                                   \
	".visible .entry k(.param .u64 t, .param .u64 o)\n{\n"                                     \
	".reg .b64 %t; .reg .b64 %o; .reg .f32 %f<8>; .reg .b32 %r<8>; .reg .b16 %h<4>;\n"         \
	"ld.param.u64 %t, [t];\nld.param.u64 %o, [o];\n" text "\nret; }\n"
/* The results of all forms of tex. */
#define STORE "st.global.v4.f32 [%o], {%f0, %f1, %f2, %f3};"

/* Runs it on texture `value'; returns its fault. */
static enum ptx_fault_kind run_on(const char *text, uint64_t value)
{
	const uint64_t params[2] = {value, device_address(0)};
	struct ptx_module *module = load(text);
	struct ptx_fault fault = {.kind = PTX_FAULT_NONE};
	struct ptx_launch launch = {
		.grid = {1, 1, 1},
		.block = {1, 1, 1},
		.params = params,
		.lookup = device_lookup,
		.texture = find,
	};

	ptx_kernel_run(ptx_module_find(module, "k"), &launch, &fault);
	ptx_module_free(module);
	return fault.kind;
}

static float sampled(const char *text)
{
	float value;

	assert_int_equal(run_on(text, 77), PTX_FAULT_NONE);
	memcpy(&value, device.memory, sizeof(value));
	return value;
}

#define AT "mov.f32 %f4, 0f3FC00000; mov.f32 %f5, 0f40200000; mov.u32 %r1, 1; mov.u32 %r2, 2;\n"

/* 1.5 and 2.5 are the middle of texel 1 and of row 2. */
static void test_forms(_unused_ void **state)
{
	assert_true(
		sampled(KERNEL(AT "tex.1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4}];" STORE)) == 1);
	assert_true(sampled(KERNEL(AT
			    "tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4, %f5}];" STORE)) == 21);
	assert_true(sampled(KERNEL(AT "tex.3d.v4.f32.f32 {%f0,%f1,%f2,%f3}, "
				      "[%t, {%f4, %f5, %f4, %f4}];" STORE)) == 121);
	assert_true(sampled(KERNEL(AT "tex.a1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, "
				      "[%t, {%r1, %f4}];" STORE)) == 101);
	assert_true(sampled(KERNEL(AT "tex.a2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, "
				      "[%t, {%r2, %f4, %f5, %f5}];" STORE)) == 121);
	assert_true(
		sampled(KERNEL(AT "tex.1d.v4.f32.s32 {%f0,%f1,%f2,%f3}, [%t, {%r2}];" STORE)) == 2);
	assert_true(sampled(KERNEL(AT "tex.level.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, "
				      "[%t, {%f4, %f5}], %f5;" STORE)) == 21);
	assert_true(sampled(KERNEL(AT "tld4.r.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, "
				      "[%t, {%f4, %f4}];" STORE)) == 21);
	assert_true(((const float *)(const void *)device.memory)[1] == 22);
	/* Channels that the format does not have. */
	sampled(KERNEL(AT "tex.1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4}];" STORE));
	assert_true(((const float *)(const void *)device.memory)[1] == 0);
	assert_true(((const float *)(const void *)device.memory)[3] == 1);
}

static void test_filter(_unused_ void **state)
{
	/* 1.25, 2.25: a quarter before the middle of both. */
	static const char *const text =
		KERNEL("mov.f32 %f4, 0f3FA00000; mov.f32 %f5, 0f40100000;\n"
		       "tex.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4, %f5}];" STORE);

	texture.is_linear = true;
	assert_true(sampled(text) == 0.75f + 17.5f);
	texture.is_normalized = true; /* far beyond: the last texel */
	assert_true(sampled(text) == 23);
	for (unsigned i = 0; i < 3; i++)
		texture.modes[i] = PTX_ADDRESS_WRAP; /* 5.0 and 6.75, between 0 and 3 */
	assert_true(sampled(text) == 0.5f + 2.5f);
}

static void test_formats(_unused_ void **state)
{
	static const char *const text =
		KERNEL(AT "tex.1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4}];" STORE);
	static int8_t bytes[WIDTH] = {0, -128, 127, 5};

	texture.levels[0].bytes = (uint8_t *)bytes;
	texture.bits = 8;
	texture.size = 1;
	texture.kind = PTX_TEXEL_SNORM;
	assert_true(sampled(text) == -1);
	texture.kind = PTX_TEXEL_UNORM;
	assert_true(sampled(text) == 128.0f / 255);
	texture.kind = PTX_TEXEL_SINT;
	assert_int_equal(run_on(text, 77), PTX_FAULT_NONE);
	assert_int_equal(*(const int32_t *)(const void *)device.memory, -128);
}

/* A texture of integers of 32 bits may have a filter, which does nothing. */
static void test_integers(_unused_ void **state)
{
	static const int32_t numbers[WIDTH] = {7, -2000000000, 1, 5};

	texture.levels[0].bytes = (uint8_t *)numbers;
	texture.kind = PTX_TEXEL_SINT;
	texture.is_linear = true;
	assert_int_equal(run_on(KERNEL("mov.f32 %f4, 0f3FE00000;\n" /* 1.75 */
				       "tex.1d.v4.s32.f32 {%r0,%r1,%r2,%r3}, [%t, {%f4}];\n"
				       "st.global.v4.u32 [%o], {%r0, %r1, %r2, %r3};"),
				 77),
		PTX_FAULT_NONE);
	assert_int_equal(*(const int32_t *)(const void *)device.memory, -2000000000);
}

static void test_surfaces(_unused_ void **state)
{
	assert_true(sampled(KERNEL("mov.u32 %r1, 4; mov.u32 %r2, 2;\n"
				   "suld.b.2d.b32.trap {%r3}, [%t, {%r1, %r2}];\n"
				   "st.global.u32 [%o], %r3;")) == 21);
	assert_true(sampled(KERNEL("mov.u32 %r1, 400; mov.u32 %r2, 9;\n"
				   "suld.b.2d.b32.clamp {%r3}, [%t, {%r1, %r2}];\n"
				   "st.global.u32 [%o], %r3;")) == 23);
	assert_true(sampled(KERNEL("mov.u32 %r1, 400; mov.u32 %r2, 1;\n"
				   "suld.b.2d.b32.zero {%r3}, [%t, {%r1, %r2}];\n"
				   "st.global.u32 [%o], %r3;")) == 0);
	sampled(KERNEL("mov.u32 %r1, 8; mov.u32 %r2, 1; mov.b32 %r3, 0f41000000;\n"
		       "sust.b.a2d.v2.b32.trap [%t, {%r2, %r1, %r2, %r2}], {%r3, %r3};\n"));
	assert_true(texels[1][1][2] == 8 && texels[1][1][3] == 8 && texels[1][1][1] == 111);
	assert_int_equal(
		run_on(KERNEL("mov.u32 %r1, 400; suld.b.1d.b32.trap {%r3}, [%t, {%r1}];"), 77),
		PTX_FAULT_TRAP);
	assert_int_equal(
		run_on(KERNEL("mov.u32 %r1, 2; suld.b.1d.b32.trap {%r3}, [%t, {%r1}];"), 77),
		PTX_FAULT_MISALIGNED);
	sampled(KERNEL("txq.height.b32 %r1, [%t];\nsuq.width.b32 %r2, [%t];\n"
		       "st.global.v2.u32 [%o], {%r1, %r2};"));
	assert_int_equal(((const uint32_t *)(const void *)device.memory)[0], HEIGHT);
	assert_int_equal(((const uint32_t *)(const void *)device.memory)[1], WIDTH);
}

static void test_nothing_there(_unused_ void **state)
{
	assert_int_equal(run_on(KERNEL(AT "tex.1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4}];"), 78),
		PTX_FAULT_ADDRESS);
	assert_int_equal(
		run_on(KERNEL("mov.u32 %r1, 0; suld.b.1d.b32.trap {%r3}, [%t, {%r1}];"), 78),
		PTX_FAULT_ADDRESS);
}

static void refuse(const char *text, const char *name)
{
	struct ptx_module *module = NULL;
	char log[256];

	assert_int_equal(ptx_module_new(text, strlen(text), log, sizeof(log), &module), -ENOTSUP);
	if (!strstr(log, name))
		fail_msg("'%s' has no '%s'", log, name);
}

static void test_refused(_unused_ void **state)
{
	refuse(KERNEL("tex.cube.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4,%f5,%f5,%f5}];"),
		"'tex.cube.v4.f32.f32'");
	refuse(KERNEL("tex.grad.2d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4,%f5}], {%f4,%f5}, "
		      "{%f4,%f5};"),
		"'tex.grad.2d.v4.f32.f32'");
	refuse(KERNEL("sust.p.2d.b32.trap [%t, {%r1, %r2}], {%r3};"), "'sust.p.2d.b32.trap'");
	refuse(KERNEL("sured.b.add.2d.u32.trap [%t, {%r1, %r2}], %r3;"), "'sured.b.add");
	refuse(KERNEL("tld4.r.1d.v4.f32.f32 {%f0,%f1,%f2,%f3}, [%t, {%f4}];"), "'tld4.r.1d");
	refuse(KERNEL("txq.channel_order.b32 %r1, [%t];"), "'txq.channel_order.b32'");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(test_forms, reset),
		cmocka_unit_test_setup(test_filter, reset),
		cmocka_unit_test_setup(test_formats, reset),
		cmocka_unit_test_setup(test_integers, reset),
		cmocka_unit_test_setup(test_surfaces, reset),
		cmocka_unit_test_setup(test_nothing_there, reset),
		cmocka_unit_test_setup(test_refused, reset),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
