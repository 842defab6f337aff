/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A long random sequence of allocations and frees, as in a caching allocator: sizes from
 * bytes to many megabytes, plain and stream-ordered, each filled with its own values and
 * checked before its free. At the end, one allocation of half the free memory must
 * succeed: no memory was lost.
 */

#define NAME "alloc_patterns"
#include "../helpers/program.h"

enum {
	SLOTS = 96,
	STREAMS = 3,
	STEPS = 3000,
	LIVE_MIB = 192 /* at once */
};

struct slot {
	unsigned *data;
	size_t size;
	unsigned value;
	int stream; /* STREAMS: plain */
};

static struct slot slots[SLOTS];
static cudaStream_t streams[STREAMS + 1]; /* the last is NULL */
static size_t live;
static unsigned long long seed = 88172645463325252ull;
static unsigned first_seed; /* MPS_TEST_SEED, or 0 */
static int is_right;

/* The seed repeats a failed run. */
static void tell_seed(void)
{
	if (!is_right)
		fprintf(stderr, NAME ": MPS_TEST_SEED=%u\n", first_seed);
}

static void seed_read(void)
{
	const char *text = getenv("MPS_TEST_SEED");

	first_seed = text ? (unsigned)strtoul(text, NULL, 10) : 0;
	seed ^= first_seed;
	atexit(tell_seed);
}

static unsigned random_below(unsigned n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return (unsigned)(seed >> 33) % n;
}

static size_t random_size(void)
{
	switch (random_below(8)) {
	case 0:
		return ((size_t)2 << 20) * (1 + random_below(10));
	case 1:
	case 2:
		return ((size_t)1 << 20) + random_below(1 << 20) * 4;
	default:
		return 4 + (size_t)random_below(1u << (4 + random_below(16))) * 4;
	}
}

/* Checks the first, the last and some other words; the host waits only for that stream. */
static void check_slot(const struct slot *slot)
{
	size_t n = slot->size / 4, at[4] = {0, n / 3, n - 1 - n / 5, n - 1};
	unsigned words[4] = {0};

	for (int i = 0; i < 4; i++)
		CHECK(cudaMemcpyAsync(&words[i], slot->data + at[i], sizeof(words[i]),
			cudaMemcpyDeviceToHost, streams[slot->stream]));
	CHECK(cudaStreamSynchronize(streams[slot->stream]));
	for (int i = 0; i < 4; i++)
		if (words[i] != slot->value) {
			printf(NAME ": word %zu of %zu is %#x, not %#x\n", at[i], n, words[i],
				slot->value);
			exit(1);
		}
}

static void slot_free(struct slot *slot)
{
	check_slot(slot);
	if (slot->stream == STREAMS)
		CHECK(cudaFree(slot->data));
	else
		CHECK(cudaFreeAsync(slot->data, streams[slot->stream]));
	live -= slot->size;
	slot->data = NULL;
}

static void check_apart(const struct slot *slot)
{
	const char *start = (const char *)slot->data;

	if ((size_t)start % 256 != 0) {
		printf(NAME ": %p is not aligned\n", start);
		exit(1);
	}
	for (const struct slot *other = slots; other < slots + SLOTS; other++) {
		const char *begin = (const char *)other->data;

		if (other == slot || !begin || begin + other->size <= start ||
			start + slot->size <= begin)
			continue;
		printf(NAME ": %p of %zu bytes and %p of %zu overlap\n", start, slot->size, begin,
			other->size);
		exit(1);
	}
}

static void slot_alloc(struct slot *slot, unsigned value)
{
	slot->size = random_size();
	slot->stream = (int)random_below(STREAMS + 1);
	slot->value = 0x01010101u * (value % 251 + 1);
	if (live + slot->size > (size_t)LIVE_MIB << 20)
		return;
	if (slot->stream == STREAMS)
		CHECK(cudaMalloc(&slot->data, slot->size));
	else
		CHECK(cudaMallocAsync(&slot->data, slot->size, streams[slot->stream]));
	live += slot->size;
	check_apart(slot);
	CHECK(cudaMemsetAsync(
		slot->data, (int)(slot->value & 255), slot->size, streams[slot->stream]));
}

/* With everything freed, half of the free memory is one piece. */
static void check_whole(void)
{
	size_t n_free, total;
	char *half;

	CHECK(cudaDeviceSynchronize());
	CHECK(cudaMemGetInfo(&n_free, &total));
	CHECK(cudaMalloc(&half, n_free / 2));
	CHECK(cudaMemset(half + n_free / 2 - 4096, 1, 4096));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaFree(half));
}

int main(int argc, char **argv)
{
	struct options options = options_read(argc, argv);
	double until = now_s() + options.seconds;
	long round = 0;

	seed_read();
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking));
	do {
		for (unsigned step = 0; step < STEPS; step++) {
			struct slot *slot = &slots[random_below(SLOTS)];

			if (slot->data)
				slot_free(slot);
			else
				slot_alloc(slot, step);
		}
		for (int i = 0; i < SLOTS; i++)
			if (slots[i].data)
				slot_free(&slots[i]);
		check_whole();
	} while (++round < options.rounds || now_s() < until);
	for (int i = 0; i < STREAMS; i++)
		CHECK(cudaStreamDestroy(streams[i]));
	printf(NAME ": ok\n");
	is_right = 1;
	return 0;
}
