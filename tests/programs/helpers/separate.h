/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SEPARATE_H
#define SEPARATE_H

/* Shared by the two files of `separate'. */

enum {
	PART_COUNT = 64,
	PART_TABLE = 4
};

extern __device__ int part_table[PART_TABLE];
extern __device__ int part_step(int x);
extern __device__ int part_apply(int (*f)(int), int x);
extern __device__ int called_back(int x);

/* Each file has one, and the linker keeps one of the two. */
template <int FACTOR> __device__ __noinline__ int both(int x)
{
	return x * FACTOR;
}

/* Launches the other file's kernel. */
void part_launch(int *data);

#endif
