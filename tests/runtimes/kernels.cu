/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The kernels of runtime.c. They have C names, because runtime.c registers them itself.
 */

__constant__ int factor = 1;
__device__ int counter;
__managed__ int word = 5;

extern "C" __global__ void add(const int *a, const int *b, int *sum, int count)
{
	int i = (int)(blockIdx.x * blockDim.x + threadIdx.x);

	if (i < count)
		sum[i] = a[i] + factor * b[i];
	if (threadIdx.x == 0)
		atomicAdd(&counter, 1);
}

extern "C" __global__ void look(cudaTextureObject_t texture, int *out, int width)
{
	int x = (int)threadIdx.x, y = (int)blockIdx.x;

	out[y * width + x] = tex2D<int>(texture, (float)x, (float)y);
}

extern "C" __global__ void step(int by)
{
	word += by;
}
