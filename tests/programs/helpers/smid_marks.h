/* SPDX-License-Identifier: Apache-2.0 */
#ifndef SMID_MARKS_H
#define SMID_MARKS_H

/* A kernel that records the SMs on which it runs, and the record as text. */

#include <stdio.h>

enum {
	SMS_MAX = 1024,
	NSMID = SMS_MAX, /* where the kernel writes the number of SMs */
	WORDS = SMS_MAX + 1,
};

/* Each block sets the entry of its SM, after a delay in which others can begin. */
static const char smid_image[] = ".version 7.0\n"
				 ".target sm_75\n"
				 ".address_size 64\n"
				 ".visible .entry mark(.param .u64 seen, .param .u32 spins)\n"
				 "{\n"
				 "	.reg .pred %p<2>;\n"
				 "	.reg .b32 %r<7>;\n"
				 "	.reg .b64 %rd<5>;\n"
				 "	ld.param.u64 %rd1, [seen];\n"
				 "	cvta.to.global.u64 %rd2, %rd1;\n"
				 "	ld.param.u32 %r1, [spins];\n"
				 "	mov.u32 %r2, 0;\n"
				 "AGAIN:\n"
				 "	add.u32 %r2, %r2, 1;\n"
				 "	mov.u32 %r3, %clock;\n"
				 "	setp.lt.u32 %p1, %r2, %r1;\n"
				 "	@%p1 bra AGAIN;\n"
				 "	mov.u32 %r4, %smid;\n"
				 "	min.u32 %r4, %r4, 1023;\n"
				 "	mul.wide.u32 %rd3, %r4, 4;\n"
				 "	add.u64 %rd4, %rd2, %rd3;\n"
				 "	mov.u32 %r5, 1;\n"
				 "	st.global.u32 [%rd4], %r5;\n"
				 "	mov.u32 %r6, %nsmid;\n"
				 "	st.global.u32 [%rd2+4096], %r6;\n"
				 "	ret;\n"
				 "}\n";

/* "WAY: 0-7,16-23" */
static inline void print_marks(const char *way, const unsigned *marks)
{
	const char *before = ": ";

	printf("%s", way);
	for (unsigned sm = 0; sm < SMS_MAX; sm++) {
		unsigned first = sm;

		if (!marks[sm])
			continue;
		while (sm + 1 < SMS_MAX && marks[sm + 1])
			sm++;
		printf(sm > first ? "%s%u-%u" : "%s%u", before, first, sm);
		before = ",";
	}
	printf("\n");
}

#endif
