/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Thrust, whose kernels are in its headers: vectors with copies, transforms, reductions, scans,
 * sorts by key, and unique.
 */

#define NAME "thrust_algorithms"
#include <thrust/device_vector.h>
#include <thrust/functional.h>
#include <thrust/host_vector.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform.h>
#include <thrust/unique.h>

#include "../helpers/program.h"

enum {
	COUNT = 5000,
	KEYS = 97
};

struct square {
	__host__ __device__ int operator()(int x) const
	{
		return x * x % 1000;
	}
};

static void try_sums(const thrust::host_vector<int> &host)
{
	thrust::device_vector<int> data = host;
	int want = 0, sum;

	thrust::transform(data.begin(), data.end(), data.begin(), square());
	sum = thrust::reduce(data.begin(), data.end(), 0, thrust::plus<int>());
	thrust::inclusive_scan(data.begin(), data.end(), data.begin());
	thrust::host_vector<int> got = data;
	for (int i = 0; i < COUNT; i++) {
		want += square()(host[i]);
		if (got[i] != want)
			FAIL("scan %d is %d, not %d", i, got[i], want);
	}
	if (sum != want)
		FAIL("the sum is %d, not %d", sum, want);
}

static void try_sort(const thrust::host_vector<int> &host)
{
	thrust::device_vector<int> keys = host, values(COUNT);
	bool seen[KEYS] = {};
	size_t want = 0, n;

	thrust::sequence(values.begin(), values.end());
	thrust::stable_sort_by_key(keys.begin(), keys.end(), values.begin());
	thrust::host_vector<int> k = keys, v = values;
	for (int i = 0; i < COUNT; i++) {
		if (host[v[i]] != k[i])
			FAIL("element %d has lost its value", i);
		if (i && (k[i - 1] > k[i] || (k[i - 1] == k[i] && v[i - 1] >= v[i])))
			FAIL("elements %d and %d are in the wrong order", i - 1, i);
		want += !seen[host[i]];
		seen[host[i]] = true;
	}
	n = (size_t)(thrust::unique(keys.begin(), keys.end()) - keys.begin());
	if (n != want)
		FAIL("%zu keys are different, not %zu", n, want);
}

int main(void)
{
	thrust::host_vector<int> host(COUNT);
	unsigned state = 53;

	for (int i = 0; i < COUNT; i++)
		host[i] = (int)(next_random(&state) % KEYS);
	try_sums(host);
	try_sort(host);
	printf(NAME ": ok\n");
	return 0;
}
