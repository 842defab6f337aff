/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Atomic operations of every kind and width, on global and shared memory and through generic
 * pointers; some made of compare-and-swap loops; and those of libcu++, with memory orders
 * and scopes.
 * Builds with: -arch=sm_90
 */

#define NAME "atomics"
#include <cuda/atomic>

#include "../helpers/program.h"

enum {
	BLOCKS = 8,
	THREADS = 64,
	TOTAL = BLOCKS * THREADS
};

/* One word per operation; main() has the expected results. */
struct words {
	int add, sub, min, max;
	unsigned inc, dec, exch, cas, all, any, odd;
	unsigned long long add64, min64, max64, and64, or64, xor64, cas64;
	long long smin64, smax64;
	float addf;
	double addd, product;
	float2 addf2;
	unsigned short cas16;
	unsigned short spare[3];
	int fetched, ordered;
};

static __device__ void multiply(double *p, double by)
{
	unsigned long long *bits = (unsigned long long *)p, seen = *bits, before;

	do {
		before = seen;
		seen = atomicCAS(bits, before,
			(unsigned long long)__double_as_longlong(
				__longlong_as_double((long long)before) * by));
	} while (seen != before);
}

static __device__ void add16(unsigned short *p, unsigned short by)
{
	unsigned short seen = *(volatile unsigned short *)p, before;

	do {
		before = seen;
		seen = atomicCAS(p, before, (unsigned short)(before + by));
	} while (seen != before);
}

static __device__ void work(struct words *w, unsigned me)
{
	atomicAdd(&w->add, (int)me - 100);
	atomicSub(&w->sub, (int)me);
	atomicMin(&w->min, 50 - (int)me);
	atomicMax(&w->max, (int)me * 3);
	atomicInc(&w->inc, 99);
	atomicDec(&w->dec, 99);
	atomicExch(&w->exch, 7u);
	atomicCAS(&w->cas, 0u, me + 1);
	atomicAnd(&w->all, ~(1u << me % 31));
	atomicOr(&w->any, 1u << me % 32);
	atomicXor(&w->odd, me);
	atomicAdd(&w->add64, (unsigned long long)me << 32);
	atomicMin(&w->min64, (1ull << 40) - me);
	atomicMax(&w->max64, (1ull << 40) + me);
	atomicAnd(&w->and64, ~(1ull << me % 63));
	atomicOr(&w->or64, 1ull << me % 64);
	atomicXor(&w->xor64, (unsigned long long)me << 20);
	atomicCAS(&w->cas64, 0ull, 1ull << 50);
	atomicMin(&w->smin64, -(long long)me);
	atomicMax(&w->smax64, -(long long)me - 5);
	atomicAdd(&w->addf, 0.5f);
	atomicAdd(&w->addd, 0.25);
	if (me % 64 == 0)
		multiply(&w->product, 2);
	add16(&w->cas16, 3);
}

static __global__ void in_global(struct words *words)
{
	unsigned me = blockIdx.x * THREADS + threadIdx.x;

	work(words, me);
	atomicAdd(&words->addf2, make_float2(1, 2));
	cuda::atomic_ref<int, cuda::thread_scope_device> fetched(words->fetched);
	fetched.fetch_add(2, cuda::std::memory_order_relaxed);
	cuda::atomic_ref<int, cuda::thread_scope_device> ordered(words->ordered);
	int seen = ordered.load(cuda::std::memory_order_acquire);
	while (!ordered.compare_exchange_weak(seen, seen + 1, cuda::std::memory_order_acq_rel))
		;
}

/* Each block does the work of all threads, so the results are the same. */
static __global__ void in_shared(const struct words *first, struct words *words)
{
	__shared__ struct words mine;

	if (threadIdx.x == 0)
		mine = *first;
	__syncthreads();
	for (unsigned me = threadIdx.x; me < TOTAL; me += THREADS)
		work(&mine, me);
	__syncthreads();
	if (threadIdx.x == 0)
		words[blockIdx.x] = mine;
}

/* A generic pointer that is one or the other, by thread. */
static __global__ void in_either(unsigned *global, unsigned *out)
{
	__shared__ unsigned shared;
	unsigned *where = threadIdx.x % 2 ? global : &shared;

	if (threadIdx.x == 0)
		shared = 0;
	__syncthreads();
	atomicAdd_block(where, threadIdx.x);
	atomicAdd_system(where, 1u);
	__syncthreads();
	if (threadIdx.x == 0)
		*out = shared;
}

#define WANT(member, value)                                                                        \
	do {                                                                                       \
		if (got->member != (value))                                                        \
			FAIL("%s: " #member " is %g", where, (double)got->member);                 \
	} while (0)

static void verify(const struct words *got, const char *where)
{
	unsigned odd = 0;

	for (unsigned i = 0; i < TOTAL; i++)
		odd ^= i;
	WANT(add, TOTAL * (TOTAL - 1) / 2 - 100 * TOTAL);
	WANT(sub, -TOTAL * (TOTAL - 1) / 2);
	WANT(min, 50 - (TOTAL - 1));
	WANT(max, (TOTAL - 1) * 3);
	WANT(inc, TOTAL % 100);
	WANT(dec, (100 - TOTAL % 100) % 100);
	WANT(exch, 7);
	if (got->cas < 1 || got->cas > TOTAL)
		FAIL("%s: cas is %u", where, got->cas);
	WANT(all, 1u << 31);
	WANT(any, ~0u);
	WANT(odd, odd);
	WANT(add64, (TOTAL * (TOTAL - 1ull) / 2) << 32);
	WANT(min64, (1ull << 40) - (TOTAL - 1));
	WANT(max64, (1ull << 40) + (TOTAL - 1));
	WANT(and64, 1ull << 63);
	WANT(or64, ~0ull);
	WANT(xor64, (unsigned long long)odd << 20);
	WANT(cas64, 1ull << 50);
	WANT(smin64, -(TOTAL - 1));
	WANT(smax64, -5);
	WANT(addf, TOTAL * 0.5f);
	WANT(addd, TOTAL * 0.25);
	WANT(product, (double)(1 << TOTAL / 64));
	WANT(cas16, (unsigned short)(TOTAL * 3));
	WANT(spare[0], 0xabcd);
}

static void try_either(void)
{
	unsigned got[2] = {0, 0}, *words = NULL;

	CHECK(cudaMalloc(&words, sizeof(got)));
	CHECK(cudaMemset(words, 0, sizeof(got)));
	in_either<<<1, THREADS>>>(words, words + 1);
	CHECK(cudaMemcpy(got, words, sizeof(got), cudaMemcpyDeviceToHost));
	if (got[0] != THREADS * THREADS / 4 + THREADS / 2 ||
		got[1] != THREADS * (THREADS - 2) / 4 + THREADS / 2)
		FAIL("by pointers: %u and %u", got[0], got[1]);
	CHECK(cudaFree(words));
}

int main(void)
{
	static struct words first, got[BLOCKS];
	struct words *words = NULL;

	first.min64 = ~0ull;
	first.all = ~0u;
	first.and64 = ~0ull;
	first.smax64 = -1000000;
	first.product = 1;
	first.spare[0] = 0xabcd;
	CHECK(cudaMalloc(&words, (BLOCKS + 1) * sizeof(*words)));
	CHECK(cudaMemcpy(words, &first, sizeof(first), cudaMemcpyHostToDevice));
	in_global<<<BLOCKS, THREADS>>>(words);
	CHECK(cudaMemcpy(got, words, sizeof(*got), cudaMemcpyDeviceToHost));
	verify(got, "global");
	if (got->fetched != 2 * TOTAL || got->ordered != TOTAL || got->addf2.x != TOTAL ||
		got->addf2.y != 2 * TOTAL)
		FAIL("fetched %d, ordered %d, pair %g, %g", got->fetched, got->ordered,
			got->addf2.x, got->addf2.y);
	CHECK(cudaMemcpy(words, &first, sizeof(first), cudaMemcpyHostToDevice));
	in_shared<<<BLOCKS, THREADS>>>(words, words + 1);
	CHECK(cudaMemcpy(got, words + 1, sizeof(got), cudaMemcpyDeviceToHost));
	for (int i = 0; i < BLOCKS; i++)
		verify(&got[i], "shared");
	try_either();
	CHECK(cudaFree(words));
	printf(NAME ": ok\n");
	return 0;
}
